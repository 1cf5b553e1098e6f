"""A load of any size as one commit: tasks stage, the driver checks and publishes.

    splits -> tasks: read, check rows, write data files -> driver: rules over all rows -> one plan -> one commit

The driver sees only the columns that rules between rows need. When the branch moves meanwhile, the rules are applied
again to the new state and the data files stay as they are. A load that fails, or is stopped, leaves files that nothing
names, and an intent that it withdraws or whose lease runs out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import ConflictError, OmnigraphError, Violation
from omnigraph.pipeline.sources import Split
from omnigraph.pipeline.staging import (
    Place,
    StagedPart,
    StagedSplit,
    StageJob,
    answer,
    message,
    stage_frame,
    stage_split,
)
from omnigraph.storage.effects import AppendRows, Effect, OverwriteRows, ReplaceRows, WrittenFragment
from omnigraph.storage.layout import STAGING
from omnigraph.versioning.commits import GraphCommit
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore
from omnigraph.write.load import MERGE, MODES, OVERWRITE, LoadResult
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import NOWHERE, TableDelta, Verdict, needed_columns, no_ids, raise_first, validate
from omnigraph.write.validation.findings import DEFAULT_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MANY = 100_000
_ATTEMPTS = 8
Progress = Callable[[int, int], None]
"""Hears how many of how many tasks are done."""


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A DataFrame whose columns are properties of a type."""

    type_name: str
    frame: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkLoad:
    """One load: splits of files and DataFrames, and how to write them."""

    splits: tuple[Split, ...]
    frames: tuple[FrameSource, ...]
    mode: str
    branch: str
    table_keys: tuple[str, ...]
    actor: str | None = None
    message: str | None = None
    max_errors: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        assert self.mode in MODES


def run_load(
    spark: SparkSession, repository: Repository, request: BulkLoad, on_progress: Progress | None = None
) -> LoadResult:
    """Stage, check and publish. Raises what a load in one process would raise, with the rows that are wrong."""
    driver = _Driver(spark, repository, request, on_progress)
    try:
        return driver.run()
    finally:
        driver.clean_up()


class _Driver:
    """The driver's side of one load."""

    def __init__(
        self, spark: SparkSession, repository: Repository, request: BulkLoad, on_progress: Progress | None
    ) -> None:
        self._spark = spark
        self._repository = repository
        self._store: GraphStore = repository.store
        self._request = request
        self._on_progress = on_progress
        self._txn = self._begin()
        self._limit = DEFAULT_LIMIT if request.max_errors is None else request.max_errors + 1
        self._job = self._stage_job(self._txn)
        self._staged: dict[int, StagedSplit] = {}
        self._skipped: set[Place] = set()
        self._refused: list[Violation] = []

    def _begin(self) -> WriteTxn:
        request = self._request
        return WriteTxn(
            self._repository, request.branch, kind="load", actor=request.actor, message=request.message, fresh=True
        )

    def _stage_job(self, txn: WriteTxn) -> StageJob:
        pins = {key: (e.location, e.staged_version) for key, e in txn.base.tables.items()}
        return StageJob(self._store.root.uri, txn.commit_id, txn.base.schema_hash, pins, self._limit)

    def run(self) -> LoadResult:
        """The whole load."""
        self._txn.announce(self._request.table_keys)
        try:
            with self._holding():
                self._stage(range(len(self._tasks())))
                for _ in range(_ATTEMPTS):
                    try:
                        return self._finish()
                    except ConflictError as error:
                        if not error.retryable:
                            raise
                        self._follow(error)
                return self._finish()
        except (OmnigraphError, KeyboardInterrupt):
            self._txn.withdraw()
            raise

    @contextlib.contextmanager
    def _holding(self) -> Iterator[None]:
        """Renew the lease of the intent while work goes on."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(self._store.settings.lease / 4):
                with contextlib.suppress(OmnigraphError):
                    self._txn.renew()

        thread = threading.Thread(target=renew, name="omnigraph-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _follow(self, error: ConflictError) -> None:
        """The branch moved under the load: begin again on its new state with the data files that are there."""
        before = self._txn
        self._txn = self._begin()
        if self._txn.base.schema_hash != before.base.schema_hash:
            raise error
        self._txn.announce(self._request.table_keys)
        self._job = self._stage_job(self._txn)

    # --- staging --------------------------------------------------------------------------------------------------

    def _tasks(self) -> list[Split | FrameSource]:
        return [*self._request.splits, *self._request.frames]

    def _stage(self, numbers: Sequence[int]) -> None:
        """Run the tasks of some splits; frames have a number for each of their partitions, after all splits."""
        splits = [s for s in self._request.splits if s.number in set(numbers)]
        job, skipped = self._job, frozenset(self._skipped)
        with self._watching():
            if splits:
                context = self._spark.sparkContext
                bodies = (
                    context.parallelize(splits, len(splits))
                    .map(lambda split: message(stage_split(job, split, skipped)))
                    .collect()
                )
                self._staged.update((a.number, a) for a in map(answer, bodies))
            for source, first in self._frame_numbers():
                if any(n >= first for n in numbers):
                    self._stage_frame(source, first, skipped)
        for number in sorted(self._staged):
            error = self._staged[number].error
            if error is not None:
                raise error

    def _frame_numbers(self) -> Iterator[tuple[FrameSource, int]]:
        first = len(self._request.splits)
        for source in self._request.frames:
            yield source, first
            first += 1 << 20

    def _stage_frame(self, source: FrameSource, first: int, skipped: frozenset[Place]) -> None:
        job, type_name = self._job, source.type_name

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            number = first + (context.partitionId() if context is not None else 0)
            staged = stage_frame(job, number, type_name, batches, skipped)
            yield pa.RecordBatch.from_pydict({"answer": pa.array([message(staged)], pa.binary())})

        for row in source.frame.mapInArrow(task, "answer binary").collect():
            staged = answer(bytes(row["answer"]))
            self._staged[staged.number] = staged

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Report finished tasks to whoever watches."""
        if self._on_progress is None:
            yield
            return
        over = threading.Event()
        tracker = self._spark.sparkContext.statusTracker()
        report = self._on_progress

        def watch() -> None:
            while not over.wait(0.2):
                for stage in tracker.getActiveStageIds():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        report(info.numCompletedTasks, info.numTasks)

        thread = threading.Thread(target=watch, name="omnigraph-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    # --- checking and publishing ----------------------------------------------------------------------------------

    def _finish(self) -> LoadResult:
        verdict = self._admitted()
        gathered = self._gathered()
        rejected = (*self._row_violations(), *self._refused)
        counts = {key: sum(part.rows for part in parts) for key, parts in gathered.items()}
        if self._request.mode != OVERWRITE:
            gathered = {key: parts for key, parts in gathered.items() if counts[key]}
        commit: GraphCommit | None = None
        if gathered and not self._request.dry_run:
            effects = {key: self._effect(parts) for key, parts in gathered.items()}
            requirements = [_bounded(each) for each in verdict.requirements]
            commit = self._txn.commit(effects, requirements, rebase_updates=self._request.mode == MERGE)
        else:
            self._txn.withdraw()
        return LoadResult(
            self._request.branch, self._request.mode, _counts(counts, "node"), _counts(counts, "edge"), commit,
            dry_run=self._request.dry_run, rejected=rejected,
        )  # fmt: skip

    def _admitted(self) -> Verdict:
        """Apply the rules between rows; leave refused rows out and apply them again, as often as it takes."""
        while True:
            self._require_few([*self._row_violations(), *self._refused])
            gathered = self._gathered()
            replaced = self._replaced(gathered) if self._request.mode == MERGE else set()
            if replaced:
                self._skip(replaced)
                continue
            deltas = {key: self._delta(key, parts) for key, parts in gathered.items()}
            verdict = validate(self._txn, deltas, limit=self._limit)
            if not verdict.violations:
                return verdict
            self._refused.extend(verdict.violations)
            self._require_few(self._refused)
            if any(each.row is None for each in verdict.violations):
                raise_first(verdict.violations)
            self._skip({(each.path, each.row) for each in verdict.violations})

    def _require_few(self, violations: Sequence[Violation]) -> None:
        if self._request.max_errors is None or len(violations) > self._request.max_errors:
            raise_first(violations)

    def _skip(self, places: set[Place]) -> None:
        """Stage the splits that hold some rows again, without them."""
        self._skipped |= places
        paths = {path for path, _ in places}
        self._stage([n for n, staged in self._staged.items() if any(p in paths for p in staged.paths)])

    def _row_violations(self) -> list[Violation]:
        return [v for number in sorted(self._staged) for v in self._staged[number].violations]

    def _gathered(self) -> dict[str, list[StagedPart]]:
        found: dict[str, list[StagedPart]] = {}
        for number in sorted(self._staged):
            for part in self._staged[number].parts:
                found.setdefault(part.table_key, []).append(part)
        return found

    def _delta(self, key: str, parts: Sequence[StagedPart]) -> TableDelta:
        entity = self._txn.catalog.type_of(key)
        columns = needed_columns(entity)
        none = entity.arrow_schema.empty_table().select(columns)
        tables = [self._keys(part, columns) for part in parts if part.rows]
        rows = pa.concat_tables(tables) if tables else none
        fresh = all(part.fresh_ids for part in parts)
        upserts = self._request.mode == MERGE and not fresh
        places = NOWHERE
        for part in parts:
            places += part.places
        return TableDelta(
            entity=entity, inserted=none if upserts else rows, updated=rows if upserts else none, removed=no_ids(),
            places=places, fresh_ids=fresh, overwrites=self._request.mode == OVERWRITE, fields_checked=True,
        )  # fmt: skip

    def _keys(self, part: StagedPart, columns: Sequence[str]) -> pa.Table:
        """The columns that rules need, mapped from disk where they lie on one."""
        table = pa.table({})
        if part.keys is not None:
            root = self._store.root
            if root.is_local:
                table = ipc.open_file(pa.memory_map(str(Path(root.uri) / part.keys))).read_all()
            else:
                table = ipc.open_file(pa.BufferReader(self._store.objects.get(part.keys) or b"")).read_all()
        if "id" in columns and "id" not in table.column_names:  # fresh ids: no rule asks for them
            table = pa.table({"id": pa.nulls(part.rows, pa.string()), **{n: table[n] for n in table.column_names}})
        return table.select(columns)

    def _replaced(self, gathered: Mapping[str, Sequence[StagedPart]]) -> set[Place]:
        """Places of rows that a later row of the same id replaces, for edge types without a key."""
        replaced: set[Place] = set()
        for key, parts in gathered.items():
            entity = self._txn.catalog.type_of(key)
            if entity.key or entity.kind != "edge" or all(part.fresh_ids for part in parts):
                continue
            delta = self._delta(key, parts)
            last: dict[str, int] = {}
            for index, entity_id in enumerate(delta.written["id"].to_pylist()):
                if entity_id in last:
                    replaced.add(delta.places.at(last[entity_id]))
                last[entity_id] = index
        return replaced

    def _effect(self, parts: Sequence[StagedPart]) -> Effect:
        fragments: tuple[WrittenFragment, ...] = tuple(f for part in parts for f in part.fragments)
        if self._request.mode == OVERWRITE:
            return OverwriteRows(fragments)
        if self._request.mode == MERGE and not all(part.fresh_ids for part in parts):
            ids = [i for part in parts if part.rows for i in self._keys(part, ["id"])["id"].to_pylist()]
            return ReplaceRows(tuple(ids), fragments)
        return AppendRows(fragments)

    def clean_up(self) -> None:
        """Remove the scratch of the load. What a failure leaves behind is the collector's."""
        with contextlib.suppress(OmnigraphError):
            self._store.objects.delete_prefix(f"{STAGING}/{self._job.commit_id}/")


def _bounded(requirement: Requirement) -> Requirement:
    """A demand over very many ids as the stricter one that their table has not moved."""
    ids = getattr(requirement, "ids", None) or getattr(requirement, "values", None) or ()
    return Unmoved(requirement.table_key) if len(ids) > _MANY else requirement


def _counts(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    return {key.partition(":")[2]: n for key, n in sorted(counts.items()) if key.startswith(f"{kind}:")}
