"""Reports of maintenance and of recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.api.commits import GraphCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingIntent:
    """An unresolved intent. `state`: staging, publishable, published, aborted or invalid."""

    operation_id: str
    state: str
    writer_kind: str | None = None
    actor: str | None = None
    branch: str | None = None
    tables: tuple[str, ...] = ()
    lease_expired: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRecord:
    """One row of the audit table: the action of recovery on one intent."""

    operation_id: str
    recovery_kind: str
    recovery_for_actor: str | None
    writer_kind: str
    branch: str | None
    graph_commit_id: str | None
    reason: str
    created_at: int
    tables: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class LostName:
    """A record of a branch or tag that is missing or damaged.

    `is_provable`: its contents follow from the store. Otherwise it needs `--force`, or cannot be restored (`problem`).
    """

    kind: str
    name: str
    path: str
    message: str
    is_provable: bool = False
    problem: str | None = None
    native_branch: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One inconsistency. `check` is the kind of check, `where` the branch, version or table."""

    check: str
    where: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class FsckReport:
    """The problems found and the amount checked. `unrecorded` files have no recorded checksum to compare with."""

    problems: tuple[Problem, ...]
    branches: int
    versions: int
    pins: int
    files: int
    rows: int
    pending_intents: int
    deep: bool = False
    bytes_read: int = 0
    unrecorded: int = 0

    @property
    def is_clean(self) -> bool:
        """Return whether there is no problem."""
        return not self.problems


NO_DRIFT = "no_drift"


@dataclass(frozen=True, slots=True)
class TableDrift:
    """One table of main: its linear HEAD against the version it was created with, and whether its pin can be read."""

    table_key: str
    classification: str
    head_version: int | None


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The damage found and the repairs made."""

    tables: tuple[TableDrift, ...]
    damaged_manifests: tuple[str, ...]
    quarantined: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    lost_names: tuple[LostName, ...] = ()
    restored: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether nothing needs repair. A manifest that may be of a branch in creation needs none."""
        has_drift = any(t.classification != NO_DRIFT for t in self.tables)
        is_lost = any(lost.is_provable or lost.problem is not None for lost in self.lost_names)
        return not (has_drift or is_lost or self.damaged_manifests or self.problems)


@dataclass(frozen=True, slots=True)
class TableStats:
    """One table at the head of a branch. `live_bytes` belong to this version, `bytes` to all versions."""

    table_key: str
    rows: int
    deleted_rows: int
    fragments: int
    uncovered_fragments: int
    index_coverage: float
    versions: int
    live_bytes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GraphStats:
    """A graph. `history_depth` counts the commits of the branch, `history_files` those archived out of the manifest.

    `garbage_bytes` is None unless requested.
    """

    branch: str
    tables: tuple[TableStats, ...]
    branches: int
    tags: int
    history_depth: int
    history_files: int
    manifest_versions: int
    manifest_bytes: int
    live_bytes: int
    bytes: int
    garbage_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """One wanted index: its kind, the rows it covers of all rows, and the reason if it cannot be built."""

    table_key: str
    property: str
    kind: str
    state: str
    covered_rows: int
    rows: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The indexes after a build, and the commit that added to them; None when nothing was lacking."""

    indexes: tuple[IndexStatus, ...]
    commit: GraphCommit | None


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """An index that does not cover all rows of its table after a run, and the reason. Query answers stay right."""

    property: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableOptimizeStats:
    """The work done on one table. `skipped` is the reason why worthwhile work was not done.

    `due` are the reasons for the work; only `auto` and dry runs fill it.
    """

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    skipped: str | None = None
    pending_indexes: tuple[PendingIndex, ...] = ()
    due: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """The outcome; `commit` is None when there was nothing to do, or in a dry run."""

    branch: str
    tables: tuple[TableOptimizeStats, ...]
    commit: GraphCommit | None


@dataclass(frozen=True, slots=True)
class TableCleanupStats:
    """The data removed, or to be removed, of one table. `table_key` is `__manifest` or `control` for the rest."""

    table_key: str
    bytes_removed: int = 0
    old_versions_removed: int = 0
    objects_removed: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The outcome of a cleanup. Not `confirmed`: a preview, nothing was deleted."""

    confirmed: bool
    tables: tuple[TableCleanupStats, ...]
    manifest_versions_removed: int

    @property
    def bytes_removed(self) -> int:
        """Return the total of all tables."""
        return sum(table.bytes_removed for table in self.tables)

    @property
    def objects_removed(self) -> int:
        """Return the total of all tables."""
        return sum(table.objects_removed for table in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """The outcome of a copy. `skipped` objects were present already, `removed` names no longer exist at the source."""

    source: str
    target: str
    objects_copied: int
    bytes_copied: int
    objects_skipped: int
    objects_removed: int
    problems: tuple[Problem, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether the copy was checked without a problem."""
        return not self.problems
