"""`graph.branches`: create, list, merge and delete branches."""

from __future__ import annotations

import os
from collections.abc import Sequence

from omnigraph.api.arguments import checked
from omnigraph.api.commits import Branch
from omnigraph.api.conflicts import Conflict, Strategy
from omnigraph.api.options import Engine
from omnigraph.api.progress import Listener
from omnigraph.api.requests import MAIN, GetBranch, ListBranches
from omnigraph.api.results import MergeResult, RestoreResult
from omnigraph.api.service import GraphService
from omnigraph.api.target import Target
from omnigraph.api.write_requests import CreateBranch, DeleteBranch, MergeBranch, RestoreTarget
from omnigraph.write.merge_files import write_conflicts


@checked
class Branches:
    """`graph.branches`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def create(self, name: str, at: Target = None, *, from_: Target = None) -> Branch:
        """A new branch that begins with a target: a branch, tag, commit, version or moment; main's head without one."""
        return self._service.call(CreateBranch(name=name, at=from_ if at is None else at))

    def list(self) -> list[Branch]:
        """All branches, main first."""
        return self._service.call(ListBranches())

    def get(self, name: str) -> Branch:
        """One branch."""
        return self._service.call(GetBranch(name=name))

    def delete(self, name: str) -> None:
        """Delete a branch. Refused for main and while tags or descendants need it."""
        self._service.call(DeleteBranch(name=name))

    def reset(
        self, name: str, at: Target = MAIN, *, dry_run: bool = False, actor: str | None = None,
        message: str | None = None,
    ) -> RestoreResult:  # fmt: skip
        """Make a branch what a target is, as a new commit. Its own commits stay in its history."""
        return self._service.call(
            RestoreTarget(
                at=at, branch=name, dry_run=dry_run, actor=actor, message=message or f"reset {name} to {at}"
            )
        )  # fmt: skip

    def merge(
        self, source: str, into: str = MAIN, strategy: Strategy = None, dry_run: bool = False,
        delete_branch: bool = False, property_level: bool = False, actor: str | None = None,
        message: str | None = None, *, engine: Engine = "arrow",
        resolutions: str | os.PathLike[str] | Sequence[Conflict] | None = None,
        progress: Listener | None = None,
    ) -> MergeResult:  # fmt: skip
        """Bring the changes of `source` into `into` in one commit with two parents.

        Conflicts raise `MergeConflict` with all of them, and nothing is published. `strategy` resolves them: `ours`
        (what `into` has) or `theirs`, for everything or as `{"DivergentUpdate": "theirs", "Person": "ours"}`.
        `resolutions` decides single ones: a file that `write_conflicts` wrote, with the sides filled in, or conflicts
        with their `resolution`; one that was made about other values than the present ones decides nothing.
        `property_level` joins edits of one entity that touch different properties. `dry_run` only reports. With
        `engine="spark"` changed rows are compared and written by Spark tasks; the outcome is the same. `progress` is
        called with `omnigraph.Progress`.
        """
        return self._service.call(
            MergeBranch(
                source=source, into=into, strategy=strategy, dry_run=dry_run, delete_branch=delete_branch,
                property_level=property_level, actor=actor, message=message, engine=engine, resolutions=resolutions,
            ),
            progress,
        )  # fmt: skip

    def write_conflicts(self, path: str | os.PathLike[str], conflicts: Sequence[Conflict]) -> int:
        """Write the conflicts of a merge as JSON lines, to be merged with once their `resolution` is filled in."""
        return write_conflicts(path, conflicts)
