"""Queries that were compiled before: by text, name and schema."""

from __future__ import annotations

from omnigraph.query import compile_query
from omnigraph.query.ir import MutationIR, QueryIR
from omnigraph.schema.catalog import Catalog

_MAX_QUERIES = 512


class CompiledQueries:
    """A bounded cache. The entry that was compiled first goes first."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str | None], QueryIR | MutationIR] = {}

    def get(
        self, text: str, catalog: Catalog, schema_hash: str, name: str | None, path: str | None
    ) -> QueryIR | MutationIR:
        """The query `name` of a text, compiled once for each schema it is asked under."""
        key = (text, schema_hash, name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = compile_query(text, catalog, name=name, path=path)
            while len(self._known) > _MAX_QUERIES:
                self._known.pop(next(iter(self._known)), None)
        return found
