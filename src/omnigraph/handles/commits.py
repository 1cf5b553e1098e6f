"""`graph.commits`: the history of branches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from omnigraph.api.arguments import Count, checked
from omnigraph.api.changes import ChangeFilter, EntityChange, Kind, Op
from omnigraph.api.commits import GraphCommit
from omnigraph.api.results import HistoryExport
from omnigraph.versioning.changes import changes_of, require_types
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import CommitFilter, Repository
from omnigraph.write.export_history import export_history


@checked
class Commits:
    """`graph.commits`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def list(self, branch: str = MAIN, actor: str | None = None, limit: Count | None = None) -> list[GraphCommit]:
        """Commits of a branch, newest first."""
        return list(self._repository.commits(branch, CommitFilter(actor, limit)))

    def walk(self, branch: str = MAIN) -> Iterator[GraphCommit]:
        """Commits of a branch, newest first, read as far as you go."""
        return self._repository.commits(branch)

    def get(self, commit_id: str) -> GraphCommit:
        """One commit by id, on whatever branch it is."""
        return self._repository.commit(commit_id)

    def head(self, branch: str = MAIN) -> GraphCommit:
        """The newest commit of a branch."""
        state = self._repository.head(branch)
        return state.commits[state.head]

    def export(self, target: str | os.PathLike[str], branch: str = MAIN) -> HistoryExport:
        """Write every commit of a branch with what it changed, oldest first, as JSON lines."""
        return export_history(self._repository, target, branch)

    def changes(
        self, commit_id: str, kinds: Sequence[Kind] = (), types: Sequence[str] = (), ops: Sequence[Op] = ()
    ) -> tuple[EntityChange, ...]:
        """What a commit changed against its first parent: nodes before edges, then by type and id."""
        commit = self._repository.commit(commit_id)
        if types:
            require_types(self._repository.store, self._repository.head(MAIN), types)
        wanted = ChangeFilter(tuple(kinds), tuple(types), tuple(ops))
        return tuple(changes_of(self._repository, commit, wanted))
