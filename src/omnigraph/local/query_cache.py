"""Cache of compiled queries, by text, name and schema."""

from __future__ import annotations

from omnigraph import query as language
from omnigraph.query.ir import MutationIR, QueryIR
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.bounded_cache import BoundedCache

_MAX_QUERIES = 512


class CompiledQueries:
    """Compiled queries of one graph."""

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[str, str, str | None], QueryIR | MutationIR] = BoundedCache(_MAX_QUERIES)

    def get(
        self, text: str, catalog: Catalog, schema_hash: str, name: str | None, path: str | None
    ) -> QueryIR | MutationIR:
        """Return the query `name` of a text, compiled once for each schema."""
        key = (text, schema_hash, name)
        return self._known.get_or_make(key, lambda: language.compile_query(text, catalog, name=name, path=path))
