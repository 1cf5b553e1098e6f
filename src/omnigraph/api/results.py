"""Results of writes, of schema changes and of blobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.api.commits import GraphCommit
from omnigraph.api.conflicts import Conflict
from omnigraph.api.run_summary import RunSummary, SourceSummary
from omnigraph.errors import Violation
from omnigraph.schema.steps import Step, dropped_names


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The outcome of a mutation. `commit` is None when nothing matched.

    `replayed`: a commit with the same idempotency key exists; this is that commit, and nothing was applied again.
    """

    query_name: str
    branch: str
    affected_nodes: int
    affected_edges: int
    commit: GraphCommit | None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The outcome of a delete. `commit` is None when nothing matched."""

    affected_nodes: int
    affected_edges: int
    commit: GraphCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The rows that a restore wrote and removed, or would, by type. `commit` is None when nothing differed."""

    target: str
    outcome: str
    written: Mapping[str, int]
    removed: Mapping[str, int]
    commit: GraphCommit | None = None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The steps to a schema, and whether they were applied. An empty list means that there is nothing to apply.

    `digest` names the plan: apply it with `plan=digest`, and exactly these steps are applied.
    """

    steps: tuple[Step, ...]
    applied: bool = False
    commit: GraphCommit | None = None
    graph_manifest_version: int | None = None
    digest: str = ""

    @property
    def supported(self) -> bool:
        """Return whether every step can be applied."""
        return all(step.is_supported for step in self.steps)

    @property
    def drops(self) -> tuple[str, ...]:
        """Return the names that an apply must be given for the steps that drop: `Person`, `Person.age`."""
        return dropped_names(self.steps)


@dataclass(frozen=True, slots=True)
class HistoryExport:
    """The outcome of an export of history. `reclaimed` counts the commits whose changes cannot be read any more."""

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


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The outcome of a load. `commit` is None when nothing was loaded. `rejected` rows were left out on request.

    `duplicates` are edges that were skipped because equal ones are there, by type; only `dedupe_edges` counts them.
    `deleted` are rows that change events removed, edges of deleted nodes included; `late` are events that were ignored
    because the graph has a later state of their row; both by type. `quarantined` are rows that expectations dropped.
    `sources` counts the rows of each source by outcome, `added` are properties that the load added to the schema, with
    their types, `bytes` the sizes of the data files by table, `phases` the seconds of each phase; only loads on Spark
    fill them. `summary` has the numbers of the run of a job. `sniffed` has, by path, the `delimiter`, `encoding` or
    `format` detected from the first bytes of a file.
    """

    branch: str
    mode: str
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    commit: GraphCommit | None
    base_branch: str | None = None
    branch_created: bool = False
    dry_run: bool = False
    rejected: tuple[Violation, ...] = ()
    duplicates: Mapping[str, int] = field(default_factory=dict)
    deleted: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    quarantined: tuple[Violation, ...] = ()
    sources: tuple[SourceSummary, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    summary: RunSummary | None = None
    sniffed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def total_entities(self) -> int:
        """Return the number of nodes and edges together."""
        return sum(self.nodes.values()) + sum(self.edges.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """The outcome of a merge or its dry run. `conflicts` are those that a strategy decided; in a dry run all."""

    source: str
    target: str
    outcome: str
    conflicts: tuple[Conflict, ...] = ()
    commit: GraphCommit | None = None
    base_commit_id: str | None = None
    branch_deleted: bool = False
    branch_delete_error: str | None = None

    @property
    def open_conflicts(self) -> tuple[Conflict, ...]:
        """Return the conflicts without a resolution."""
        return tuple(c for c in self.conflicts if c.resolution is None)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The outcome of an export: rows by table key, and the files."""

    rows: Mapping[str, int]
    files: tuple[str, ...]
    graph_commit_id: str
