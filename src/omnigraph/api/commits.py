"""Commits, and the branches and tags that name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOGICAL = "logical"
MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCommit:
    """A commit of the whole graph. `created_at` is in microseconds since the epoch."""

    graph_commit_id: str
    manifest_branch: str
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None
    created_at: int = 0
    kind: str = "load"
    op_class: str = LOGICAL
    message: str | None = None
    native_branch: str | None = None
    recovery_for_actor: str | None = None
    idempotency_key: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every field that is present."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as its claim describes it. `native_branch` is the incarnation; None for main."""

    name: str
    native_branch: str | None = None
    parent: str | None = None
    parent_native: str | None = None
    base_commit: str | None = None
    created_at: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for the state of one commit. `tag_id` distinguishes two successive tags of one name."""

    name: str
    graph_commit_id: str
    branch: str
    native_branch: str | None
    manifest_version: int
    created_at: int
    tag_id: str = ""
