"""`graph.schema`: the schema of a graph and its changes."""

from __future__ import annotations

import os
from collections.abc import Iterable

from omnigraph.api.arguments import checked
from omnigraph.api.target import Target
from omnigraph.handles.queries import text_of
from omnigraph.schema.mermaid import mermaid
from omnigraph.versioning.contracts import load_source
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.write.schema_apply import SchemaChange, SchemaRequest, apply_schema, plan_schema


@checked
class Schema:
    """`graph.schema`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def show(self, at: Target = None) -> str:
        """The schema text as of a target."""
        state = self._repository.resolve(at)
        return load_source(self._repository.store.objects, state.schema_hash)

    def mermaid(self, at: Target = None) -> str:
        """The schema as of a target as a Mermaid class diagram."""
        state = self._repository.resolve(at)
        return mermaid(self._repository.store.catalog(state.schema_hash))

    def plan(
        self, text: str | os.PathLike[str], allow_data_loss: bool = False, branch: str = MAIN, *,
        drop: Iterable[str] = (), fresh: Iterable[str] = (), path: str | None = None,
    ) -> SchemaChange:  # fmt: skip
        """The steps that would bring a branch to a schema, text or `.pg` file, and their digest. Nothing is changed."""
        text, path = _text(text, path)
        request = SchemaRequest.of(text, path, allow_data_loss=allow_data_loss, drop=drop, fresh=fresh)
        return plan_schema(self._repository, request, branch=branch)

    def apply(
        self, text: str | os.PathLike[str], allow_data_loss: bool = False, branch: str = MAIN,
        actor: str | None = None, *, plan: str | None = None, drop: Iterable[str] = (), allow_drops: bool = False,
        fresh: Iterable[str] = (), message: str | None = None, path: str | None = None,
    ) -> SchemaChange:  # fmt: skip
        """Bring a branch to a schema, which is the path of a `.pg` file or schema text, in one commit.

        `plan` is the digest of a plan: with it, exactly those steps are taken or none. What is dropped has to be named
        in `drop`, as `Person` or `Person.age`, unless `allow_drops`; it is only hidden, unless `allow_data_loss`. What
        was dropped before and is declared again comes back with its rows, unless it is named in `fresh`.
        """
        text, path = _text(text, path)
        request = SchemaRequest.of(
            text, path, allow_data_loss=allow_data_loss, drop=drop, fresh=fresh, allow_drops=allow_drops, plan=plan
        )
        return apply_schema(self._repository, request, branch=branch, actor=actor, message=message)


def _text(schema: str | os.PathLike[str], path: str | None) -> tuple[str, str | None]:
    """A schema and the path that errors name. Words that end in no `.pg` are a text, if a wrong one."""
    if isinstance(schema, str) and " " in schema and not schema.endswith(".pg"):
        return schema, path
    text, found = text_of(schema, "schema", ".pg")
    return text, path or found
