"""`graph.schema`: the schema of a graph and its changes."""

from __future__ import annotations

from omnigraph.schema.mermaid import mermaid
from omnigraph.versioning.contracts import load_source
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository, Target
from omnigraph.write.schema_apply import SchemaChange, apply_schema, plan_schema


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
        self, text: str, allow_data_loss: bool = False, branch: str = MAIN, *, path: str | None = None
    ) -> SchemaChange:
        """The steps that would bring a branch to a schema text. Nothing is changed, and data is not looked at."""
        return plan_schema(self._repository, text, branch=branch, allow_data_loss=allow_data_loss, path=path)

    def apply(
        self, text: str, allow_data_loss: bool = False, branch: str = MAIN, actor: str | None = None, *,
        message: str | None = None, path: str | None = None,
    ) -> SchemaChange:  # fmt: skip
        """Bring a branch to a schema text, in one commit. What is dropped is only hidden, unless `allow_data_loss`."""
        return apply_schema(
            self._repository, text, branch=branch, allow_data_loss=allow_data_loss, actor=actor, message=message,
            path=path,
        )  # fmt: skip
