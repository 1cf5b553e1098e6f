"""Commits as a store holds them: parsing and kinds."""

from __future__ import annotations

from typing import Any

from omnigraph.api.commits import LOGICAL, MAINTENANCE, GraphCommit
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

RECOVERY_ACTOR = "omnigraph:recovery"


def parse_commit(value: dict[str, Any]) -> GraphCommit:
    """The commit that `GraphCommit.to_json` described; fields of a newer writer are ignored."""
    value = as_object(value, "a commit")
    op_class = value.get("op_class", LOGICAL)
    if op_class not in (LOGICAL, MAINTENANCE):
        raise Malformed(f"{op_class!r} is no class of commits")
    return GraphCommit(
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


def parse_commit_text(text: str) -> GraphCommit:
    """From the metadata column of a `graph_commit` row."""
    return parse_commit(parse_json(text))
