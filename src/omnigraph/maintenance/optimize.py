"""`optimize`: merge small fragments, drop deleted rows, bring indexes up to date; one maintenance commit.

It runs beside writers on every branch and never makes one of them fail or wait. The work is done once; when a table
moves before it is published, the result follows the table as long as the merged fragments are untouched. A table whose
merged rows keep changing is planned again, and left for the next run after some attempts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from omnigraph import logs
from omnigraph.api.commits import GraphCommit
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.api.reports import OptimizeReport, PendingIndex, TableOptimizeStats
from omnigraph.errors import ExpectedVersionMismatch, InvalidArgument, SchemaMoved
from omnigraph.maintenance.indices import TEXT, index_status, suitable_indexes
from omnigraph.maintenance.thresholds import ANYTHING, WORTHWHILE, Thresholds, reasons
from omnigraph.storage.compaction import TARGET_ROWS, prepare
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, TaskPool
from omnigraph.storage.options import whole_number
from omnigraph.versioning.maintenance_plan import maintenance_plan
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import Pin, PublishPlan, TableChange
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.staging import open_table, stage_change
from omnigraph.write.index_fold import key_columns

CONCURRENCY_VARIABLE = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"
CONTENDED = "Contended"
_ATTEMPTS = 5
_REST = 4.0
"""After a run that met writers, an immediately following run waits this many times the length of the first."""
_LONGEST_REST = 2.0


class Pace:
    """Rests between runs that met writers, so that continuous maintenance leaves most of the machine to them.

    A handle that runs once never rests: only a run that follows one that met writers does.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.clock = clock
        self._sleep = sleep
        self._until: float | None = None

    def rest(self) -> None:
        """Wait until the next run may begin: not at all, unless the last one met writers."""
        left = 0.0 if self._until is None else self._until - self.clock()
        if left > 0:
            self._sleep(left)

    def ran(self, seconds: float, *, beside_writers: bool) -> None:
        """Record the duration of a run that has just ended."""
        self._until = self.clock() + min(_REST * seconds, _LONGEST_REST) if beside_writers else None


def optimize(
    repository: Repository, branch: str = MAIN, *, actor: str | None = None, target_rows: int = TARGET_ROWS,
    auto: bool = False, dry_run: bool = False, pace: Pace | None = None, pool: TaskPool = LOCAL_POOL,
    progress: Listener | None = None,
) -> OptimizeReport:  # fmt: skip
    """Optimize every table of a branch; with `auto` only those that are worth it."""
    if not dry_run:
        repository.store.require_writable()
    if target_rows < 1:
        raise InvalidArgument("target_rows must be at least 1")
    due: dict[str, tuple[str, ...]] = {}
    if auto or dry_run:
        due = _due(repository, branch, WORTHWHILE if auto else ANYTHING, target_rows)
        if dry_run or not any(due.values()):
            return OptimizeReport(branch, tuple(TableOptimizeStats(k, due=why) for k, why in due.items()), None)
    pace = pace or Pace()
    pace.rest()
    begun = pace.clock()
    repository.store.wait_for_background_work(progress)
    repository.recovery.sweep_if_due()
    state = repository.head(branch)
    chosen = [key for key in due if due[key]] if auto else None
    done = _Optimizer(repository, branch, actor, target_rows, pool, progress).run(state, chosen)
    pending: dict[str, list[PendingIndex]] = {}
    for status in index_status(repository, branch):
        if status.covered_rows < status.rows and status.kind != TEXT:
            pending.setdefault(status.table_key, []).append(PendingIndex(status.property, status.reason or ""))
    others = repository.recent_head(branch).version - state.version - (done.commit is not None)
    seconds = pace.clock() - begun
    pace.ran(seconds, beside_writers=others > 0)
    _log_commit(repository, done, seconds)
    tables = tuple(
        replace(t, pending_indexes=tuple(pending.get(t.table_key, ())), due=due.get(t.table_key, ()))
        for t in done.tables
    )
    return replace(done, tables=tables)


def _log_commit(repository: Repository, done: OptimizeReport, seconds: float) -> None:
    logs.event(
        "optimize", graph=repository.store.root.uri, branch=done.branch, seconds=round(seconds, 3),
        commit=done.commit.graph_commit_id if done.commit is not None else None,
        tables=",".join(t.table_key for t in done.tables if t.committed),
        skipped=",".join(t.table_key for t in done.tables if t.skipped) or None,
    )  # fmt: skip


def _due(repository: Repository, branch: str, wanted: Thresholds, target_rows: int) -> dict[str, tuple[str, ...]]:
    """Why each table should be optimized. Tables that did not change since they were last opened cost nothing."""
    state = repository.head(branch)
    catalog = repository.store.catalog(state.schema_hash)
    return {
        key: reasons(
            repository.store.tables, open_table(repository.store, entry), catalog.type_of(key), wanted, target_rows
        )
        for key, entry in sorted(state.tables.items())
    }


def concurrency() -> int:
    """How many tables are optimized in parallel."""
    return whole_number(CONCURRENCY_VARIABLE, 8)


class _Optimizer:
    """One run on one branch."""

    def __init__(
        self, repository: Repository, branch: str, actor: str | None, target_rows: int, pool: TaskPool,
        progress: Listener | None,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._progress = progress
        self._repository = repository
        self._store = repository.store
        self._branch = branch
        self._actor = actor
        self._target_rows = target_rows
        self._stats: dict[str, TableOptimizeStats] = {}

    def run(self, state: ManifestState, keys: Sequence[str] | None = None) -> OptimizeReport:
        """Optimize these tables, or all, beginning with a state of the branch."""
        self._stats = {key: TableOptimizeStats(key) for key in sorted(state.tables)}
        changes = self._prepared(state, sorted(state.tables) if keys is None else keys)
        commit: GraphCommit | None = None
        for attempt in range(_ATTEMPTS):
            if not changes:
                break
            try:
                with PhaseProgress(self._progress, "publish", 1, "steps"):
                    commit = self._repository.publisher.publish(self._plan(state, changes))
                break
            except ExpectedVersionMismatch as error:
                state = self._repository.head(self._branch)
                del changes[error.table_key]
                if attempt + 2 < _ATTEMPTS:
                    changes |= self._prepared(state, [error.table_key])
                else:
                    self._skip(error.table_key)
            except SchemaMoved:
                state = self._repository.head(self._branch)
                changes = self._prepared(state, sorted(state.tables))
        if commit is None:
            for key in changes:
                self._skip(key)
        else:
            self._stats |= {key: replace(self._stats[key], committed=True) for key in changes}
        return OptimizeReport(self._branch, tuple(self._stats.values()), commit)

    def _skip(self, key: str) -> None:
        self._stats[key] = TableOptimizeStats(key, skipped=CONTENDED)

    def _prepared(self, state: ManifestState, keys: Sequence[str]) -> dict[str, TableChange]:
        """The changes of the tables that have something to optimize, several at a time."""
        catalog = self._store.catalog(state.schema_hash)

        def work(key: str) -> TableChange | None:
            entry = state.tables[key]
            table, entity = open_table(self._store, entry), catalog.type_of(key)
            asked = [index for _, index in suitable_indexes(self._store.tables, table, entity) if index is not None]
            columns = dict.fromkeys((*key_columns(entity), *(i.column for i in asked if i.kind == "btree")))
            found = prepare(
                self._store.tables, table, tuple(columns), entry.high_water, target_rows=self._target_rows,
                pool=self._pool, vectors=[index for index in asked if index.kind == "vector"],
            )  # fmt: skip
            if found is None:
                return None
            effect, stats = found
            self._stats[key] = TableOptimizeStats(key, stats.removed, stats.added)
            change = stage_change(self._store, entry, effect, "")
            hit(Point.OPTIMIZE_STAGED)
            return change

        rows = {key: state.tables[key].row_count for key in keys if key in state.tables}
        changes: list[TableChange | None] = []
        with (
            PhaseProgress(self._progress, "compact", sum(rows.values()), "rows") as phase,
            ThreadPoolExecutor(min(concurrency(), max(1, len(keys)))) as pool,
        ):
            for key, change in zip(rows, pool.map(work, rows), strict=True):
                changes.append(change)
                phase.advance(rows[key], rows[key])
        return {change.table_key: change for change in changes if change is not None}

    def _plan(self, state: ManifestState, changes: dict[str, TableChange]) -> PublishPlan:
        pins = {k: replace(Pin.of(state.tables[k]), staged_version=c.base_version) for k, c in changes.items()}
        message = f"optimize {len(changes)} table{'' if len(changes) == 1 else 's'}"
        return maintenance_plan(
            state, list(changes.values()), kind="optimize", message=message, actor=self._actor, pins=pins
        )
