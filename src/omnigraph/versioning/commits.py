"""One published change of a branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.storage.decode import (
    Malformed,
    as_commit_id,
    as_integer,
    as_name,
    as_native_branch,
    as_object,
    as_optional_commit_id,
    as_optional_text,
    as_text,
    parse_json,
)

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
        value = as_object(value, "a commit")
        op_class = value.get("op_class", LOGICAL)
        if op_class not in (LOGICAL, MAINTENANCE):
            raise Malformed(f"{op_class!r} is no class of commits")
        return cls(
            graph_commit_id=as_commit_id(value["graph_commit_id"]),
            manifest_branch=as_name(value["manifest_branch"]),
            manifest_version=as_integer(value["manifest_version"], "a manifest version"),
            parent_commit_id=as_optional_commit_id(value.get("parent_commit_id")),
            merged_parent_commit_id=as_optional_commit_id(value.get("merged_parent_commit_id")),
            actor_id=as_optional_text(value.get("actor_id"), "an actor"),
            created_at=as_integer(value.get("created_at", 0), "a time"),
            kind=as_text(value.get("kind", "load"), "a kind of commit"),
            op_class=op_class,
            message=as_optional_text(value.get("message"), "a message"),
            native_branch=as_native_branch(value.get("native_branch")),
            recovery_for_actor=as_optional_text(value.get("recovery_for_actor"), "an actor"),
            idempotency_key=as_optional_text(value.get("idempotency_key"), "an idempotency key"),
        )

    @classmethod
    def from_text(cls, text: str) -> GraphCommit:
        """From the metadata column of a `graph_commit` row."""
        return cls.from_json(parse_json(text))
