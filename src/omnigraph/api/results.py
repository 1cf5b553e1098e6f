"""Results of writes, of schema changes and of blobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.api.commits import GraphCommit
from omnigraph.schema.steps import Step, dropped_names


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation did. `commit` is None when nothing matched.

    `replayed`: the same idempotency key was seen before; this is its commit, and nothing was done again.
    """

    query_name: str
    branch: str
    affected_nodes: int
    affected_edges: int
    commit: GraphCommit | None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What a delete removed. `commit` is None when nothing matched."""

    affected_nodes: int
    affected_edges: int
    commit: GraphCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What going back did, or would do: rows written and removed, by type. `commit` is None when nothing differed."""

    target: str
    outcome: str
    written: Mapping[str, int]
    removed: Mapping[str, int]
    commit: GraphCommit | None = None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The steps to a schema, and whether they were taken. Without steps there is nothing to apply.

    `digest` names the plan: apply it with `plan=digest`, and nothing but these steps is taken.
    """

    steps: tuple[Step, ...]
    applied: bool = False
    commit: GraphCommit | None = None
    graph_manifest_version: int | None = None
    digest: str = ""

    @property
    def supported(self) -> bool:
        """True when every step can be taken."""
        return all(step.is_supported for step in self.steps)

    @property
    def drops(self) -> tuple[str, ...]:
        """What the steps drop, by the names that an apply has to be given: `Person`, `Person.age`."""
        return dropped_names(self.steps)


@dataclass(frozen=True, slots=True)
class HistoryExport:
    """What was written. `reclaimed` counts the commits whose changes cannot be told any more."""

    path: str
    commits: int
    changes: int
    reclaimed: int


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A blob without its bytes. `etag` is equal for equal bytes."""

    kind: str
    size: int
    etag: str
    graph_commit_id: str
