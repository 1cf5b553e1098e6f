"""Errors of names that do not exist, or not any more."""

from __future__ import annotations

from typing import Any

from omnigraph.errors.base import OmnigraphError


class NotFound(OmnigraphError):
    """The named object does not exist."""

    code = "not_found"


class GraphNotFound(NotFound):
    """There is no graph at that URI."""

    code = "graph_not_found"


class BranchNotFound(NotFound):
    """There is no branch of that name."""

    code = "branch_not_found"


class CommitNotFound(NotFound):
    """No commit has that id."""

    code = "commit_not_found"


class TagNotFound(NotFound):
    """There is no tag of that name."""

    code = "tag_not_found"


class TypeNotFound(NotFound):
    """The schema has no such node or edge type."""

    code = "type_not_found"


class VersionNotFound(NotFound):
    """The branch never had that manifest version."""

    code = "version_not_found"


class HistoricalVersionReclaimed(NotFound):
    """The version existed and cleanup has reclaimed it."""

    code = "historical_version_reclaimed"


class ChangeFeedGap(NotFound):
    """The feed cannot compute the changes of a commit: its version, or the one before it, has been reclaimed."""

    code = "change_feed_gap"

    def __init__(self, commit_id: str) -> None:
        super().__init__(
            f"the changes of commit {commit_id} cannot be told any more: cleanup has reclaimed them",
            hint="take a baseline (`omnigraph changes baseline`) and go on with its cursor",
        )
        self.commit_id = commit_id

    def details(self) -> dict[str, Any]:
        """The first commit that the feed cannot read."""
        return {"graph_commit_id": self.commit_id}
