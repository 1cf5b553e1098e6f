"""`graph.commits`: the history of branches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from omnigraph.api.arguments import Count, checked
from omnigraph.api.changes import EntityChange, Kind, Op
from omnigraph.api.commits import GraphCommit
from omnigraph.api.requests import MAIN, CommitChanges, GetCommit, GetHead, ListCommits
from omnigraph.api.results import HistoryExport
from omnigraph.api.service import GraphService
from omnigraph.api.write_requests import ExportHistory


@checked
class Commits:
    """`graph.commits`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def list(self, branch: str = MAIN, actor: str | None = None, limit: Count | None = None) -> list[GraphCommit]:
        """Commits of a branch, newest first."""
        found = self._service.call(ListCommits(branch=branch, actor=actor, limit=limit))
        return [*found]

    def walk(self, branch: str = MAIN) -> Iterator[GraphCommit]:
        """Commits of a branch, newest first, read as far as you go."""
        return self._service.call(ListCommits(branch=branch))

    def get(self, commit_id: str) -> GraphCommit:
        """One commit by id, on whatever branch it is."""
        return self._service.call(GetCommit(commit_id=commit_id))

    def head(self, branch: str = MAIN) -> GraphCommit:
        """The newest commit of a branch."""
        return self._service.call(GetHead(branch=branch))

    def export(self, target: str | os.PathLike[str], branch: str = MAIN) -> HistoryExport:
        """Write every commit of a branch with what it changed, oldest first, as JSON lines."""
        return self._service.call(ExportHistory(target=target, branch=branch))

    def changes(
        self, commit_id: str, kinds: Sequence[Kind] = (), types: Sequence[str] = (), ops: Sequence[Op] = ()
    ) -> tuple[EntityChange, ...]:
        """What a commit changed against its first parent: nodes before edges, then by type and id."""
        return self._service.call(CommitChanges(commit_id=commit_id, kinds=kinds, types=types, ops=ops))
