"""One published change of a branch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

LOGICAL = "logical"
MAINTENANCE = "maintenance"
RECOVERY_ACTOR = "omnigraph:recovery"


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
        """Every field, absent ones left out."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GraphCommit:
        """The inverse of `to_json`; fields of a newer writer are ignored."""
        known = {name: value[name] for name in cls.__slots__ if name in value}
        return cls(**({"parent_commit_id": None} | known))

    @classmethod
    def from_text(cls, text: str) -> GraphCommit:
        """From the metadata column of a `graph_commit` row."""
        return cls.from_json(json.loads(text))
