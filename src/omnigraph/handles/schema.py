"""`graph.schema`: the schema of a graph and its changes."""

from __future__ import annotations

from omnigraph.versioning.contracts import load_source
from omnigraph.versioning.repository import Repository, Target


class Schema:
    """`graph.schema`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def show(self, at: Target = None) -> str:
        """The schema text as of a target."""
        state = self._repository.resolve(at)
        return load_source(self._repository.store.objects, state.schema_hash)
