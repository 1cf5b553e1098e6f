"""`graph.schema`: the schema of a graph and its changes."""

from __future__ import annotations

import os
from collections.abc import Iterable

from omnigraph.api.arguments import checked
from omnigraph.api.requests import MAIN, PlanSchema, ReadCatalog, ShowSchema
from omnigraph.api.results import SchemaChange
from omnigraph.api.service import GraphService
from omnigraph.api.target import Target
from omnigraph.api.write_requests import ApplySchema
from omnigraph.handles.texts import text_of
from omnigraph.schema.mermaid import mermaid


@checked
class Schema:
    """`graph.schema`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def show(self, at: Target = None) -> str:
        """The schema text as of a target."""
        return self._service.call(ShowSchema(at=at))

    def mermaid(self, at: Target = None) -> str:
        """The schema as of a target as a Mermaid class diagram."""
        return mermaid(self._service.call(ReadCatalog(at=at)))

    def plan(
        self, text: str | os.PathLike[str], allow_data_loss: bool = False, branch: str = MAIN, *,
        drop: Iterable[str] = (), fresh: Iterable[str] = (), path: str | None = None,
    ) -> SchemaChange:  # fmt: skip
        """The steps that would bring a branch to a schema, text or `.pg` file, and their digest. Nothing is changed."""
        text, path = _text(text, path)
        return self._service.call(
            PlanSchema(
                text=text, path=path, branch=branch, allow_data_loss=allow_data_loss, drop=tuple(drop),
                fresh=tuple(fresh),
            )
        )  # fmt: skip

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
        return self._service.call(
            ApplySchema(
                text=text, path=path, branch=branch, allow_data_loss=allow_data_loss, drop=tuple(drop),
                allow_drops=allow_drops, fresh=tuple(fresh), plan=plan, actor=actor, message=message,
            )
        )  # fmt: skip


def _text(schema: str | os.PathLike[str], path: str | None) -> tuple[str, str | None]:
    """Return a schema text and the path for errors. A string that does not end in `.pg` is a text."""
    if isinstance(schema, str) and " " in schema and not schema.endswith(".pg"):
        return schema, path
    text, found = text_of(schema, "schema", ".pg")
    return text, path or found
