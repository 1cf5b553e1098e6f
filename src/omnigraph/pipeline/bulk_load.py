"""A load of any size as one commit: tasks stage, the driver checks and publishes.

    splits -> tasks: read, check rows, write data files -> tasks: rules between rows -> driver: one plan -> one commit

The driver sees only the columns that rules between rows need, and of a large load only the rows that may break one.
When the branch moves meanwhile, the rules are applied again to the new state and the data files stay as they are. A
load that fails, or is stopped, leaves unreferenced files, and an intent that it withdraws or whose lease expires.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.api.results import LoadResult
from omnigraph.api.run_summary import SourceSummary
from omnigraph.errors import ConflictError, DataError, OmnigraphError
from omnigraph.execution.spark.job_scope import job_scope
from omnigraph.execution.spark.task_errors import reason_in, refusal_in
from omnigraph.execution.spark.versions import arrow_schema
from omnigraph.pipeline import screening_driver
from omnigraph.pipeline.edge_dedup import drop_repeated_edges
from omnigraph.pipeline.lease import renewed_lease
from omnigraph.pipeline.load_commit import LoadCommit, LoadTerms, begin_load, stage_job
from omnigraph.pipeline.phases import Phases
from omnigraph.pipeline.restaging import Excluded, Exclusion, Restaged, RowData, exclude
from omnigraph.pipeline.screening_driver import Screener
from omnigraph.pipeline.source_checks import MAX_PARTITIONS, CheckedRows, CheckReport, CheckScratch
from omnigraph.pipeline.sources import Split
from omnigraph.pipeline.spark_maintenance import spark_pool
from omnigraph.pipeline.staging import (
    StagedSplit,
    StageJob,
    answer,
    frame_place,
    message,
    stage_frame,
    stage_split,
)
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.storage.layout import STAGING
from omnigraph.versioning.load_lists import load_list_path
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore
from omnigraph.write.inputs.expectations import DROP, WARN
from omnigraph.write.load import OVERWRITE, counts_of
from omnigraph.write.transaction import WriteTxn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.pipeline.cdc_rows import ChangeRows
    from omnigraph.pipeline.row_selection import Selection

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A DataFrame whose columns are properties of a type. `first` is the number of its first partition.

    `name` distinguishes it from other frames of the load. With a `selection` its rows are those of files, and
    `failed_place` finds the one on which its condition fails. With `changes` its rows are events.
    """

    type_name: str
    frame: DataFrame
    first: int
    name: str
    selection: Selection | None = None
    failed_place: Callable[[], str | None] | None = None
    changes: ChangeRows | None = None

    def holds(self, number: int) -> bool:
        """Return whether a number is that of one of its partitions."""
        return 0 <= number - self.first < MAX_PARTITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkLoad:
    """One load: splits of files and DataFrames, and how to write them.

    `checked` are sources and steps whose tasks leave rows out, and report them in `scratch`. `added` are new
    properties, `sniffed` is the detected format of files.
    """

    splits: tuple[Split, ...]
    frames: tuple[FrameSource, ...]
    terms: LoadTerms
    table_keys: tuple[str, ...]
    checked: tuple[CheckedRows, ...] = ()
    scratch: CheckScratch | None = None
    added: Mapping[str, str] = field(default_factory=dict)
    sniffed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def run_load(
    spark: SparkSession, repository: Repository, request: BulkLoad, phases: Phases | None = None
) -> LoadResult:
    """Stage, check and publish. Raises the errors of a load in one process, with the invalid rows."""
    driver = _Driver(spark, repository, request, phases or Phases())
    try:
        return driver.run()
    finally:
        driver.clean_up()


@contextlib.contextmanager
def _as_itself(source: FrameSource) -> Iterator[None]:
    """Re-raise an error that every attempt of a task met as the original error."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        refusal = refusal_in(str(error))
        if refusal is None and isinstance(error, PySparkException) and error.getCondition() is not None:
            # The DataFrame itself cannot be computed: a cast, a division, a file that Spark cannot read.
            found = None if source.failed_place is None else source.failed_place()
            what = found or ("a DataFrame" if source.selection is None else source.name)
            refusal = DataError(f"{what} cannot be computed: {reason_in(str(error))}")
        if refusal is None:
            raise
        raise refusal from error


def _rows_read(staged: StagedSplit) -> int:
    wrong = {(v.path, v.row) for v in staged.violations}
    dropped = sum(count for (_, on_fail), count in staged.checks.items() if on_fail == DROP)
    return staged.rows + len(wrong) + dropped


def _summary(name: str, type_name: str | None, splits: Sequence[StagedSplit], read: Mapping[int, int]) -> SourceSummary:
    rows, loaded = sum(read[split.number] for split in splits), sum(split.rows for split in splits)
    return _counted(name, type_name, rows, loaded, splits)


def _checked_summary(name: str, reports: Sequence[CheckReport]) -> SourceSummary:
    rows, passed = sum(report.read for report in reports), sum(report.passed for report in reports)
    return _counted(name, None, rows, passed, [report.found for report in reports])


def _counted(
    name: str, type_name: str | None, rows: int, loaded: int, splits: Sequence[StagedSplit]
) -> SourceSummary:  # fmt: skip
    counts: dict[str, Counter[str]] = {DROP: Counter(), WARN: Counter()}
    for split in splits:
        for (rule, on_fail), count in split.checks.items():
            counts[on_fail][rule] += count
    rejected = rows - loaded - counts[DROP].total()
    return SourceSummary(name, type_name, rows, loaded, rejected, dict(counts[DROP]), dict(counts[WARN]))


def _stage_changes(changes: ChangeRows) -> Callable[..., StagedSplit]:
    return lambda job, number, _type_name, batches, _place: changes.stage(job, number, batches)


class _Driver:
    """The driver's side of one load."""

    def __init__(self, spark: SparkSession, repository: Repository, request: BulkLoad, phases: Phases) -> None:
        self._spark = spark
        self._repository = repository
        self._store: GraphStore = repository.store
        self._request = request
        self._phases = phases
        self._txn = self._begin()
        self._job = self._told()
        self._scratch = [self._txn.commit_id]
        self._staged: dict[int, StagedSplit] = {}
        self._read: dict[int, int] = {}
        self._reports: list[CheckReport] = []
        self._duplicates: Counter[str] = Counter()
        self._runner = TaskRunner(spark, f"load into {self._store.root.uri}")
        self._load_commit = LoadCommit(
            self._store, request.terms, self._staged, [],
            Screener(self._tasks, lambda: self._runner.parallelism),
            spark_pool(spark, self._store.root.uri),
            changed={f.changes.entity.table_key for f in request.frames if f.changes is not None},
        )  # fmt: skip

    def _begin(self) -> WriteTxn:
        return begin_load(self._repository, self._request.terms, self._phases.listener)

    def _told(self) -> StageJob:
        return replace(stage_job(self._store, self._txn, self._request.terms), cut_rows=screening_driver.CUT_ROWS)

    def run(self) -> LoadResult:
        """Run the whole load."""
        self._txn.announce(self._request.table_keys)
        result: LoadResult | None = None
        try:
            with renewed_lease(lambda: self._txn):
                self._stage()
                with self._phases.phase("check and publish", "check"):
                    result = self._commit_staged()
                result = self._described(result)
        finally:
            if result is None:  # whatever the cause, errors of Spark included
                self._txn.withdraw()
        return result

    def _described(self, result: LoadResult) -> LoadResult:
        """Return the result with the counts of the rows of each source."""
        numbered = {s.number: (s.source, s.type_name) for s in self._request.splits}
        sources: dict[tuple[str, str | None], list[StagedSplit]] = {}
        reported = {report.found.number for report in self._reports}
        for number in sorted(self._staged.keys() - reported):
            frame = next((f for f in self._request.frames if f.holds(number)), None)
            name = numbered[number] if frame is None else (frame.name, frame.type_name)
            sources.setdefault(name, []).append(self._staged[number])
        checked = [
            _checked_summary(rows.name, [each for each in self._reports if rows.holds(each.found.number)])
            for rows in self._request.checked
        ]
        found = (*checked, *(_summary(*name, splits, self._read) for name, splits in sources.items()))
        quarantined = tuple(v for number in sorted(self._staged) for v in self._staged[number].quarantined)
        size: Counter[str] = Counter()
        for part in (part for split in self._staged.values() for part in split.parts):
            size[part.table_key] += sum(fragment.bytes for fragment in part.fragments)
        return replace(
            result, sources=found, quarantined=quarantined, added=self._request.added, bytes=dict(size),
            phases=dict(self._phases.seconds),
        )  # fmt: skip

    def _finish(self) -> LoadResult:
        terms = self._request.terms
        done = self._txn.earlier_commit()  # the same request may have been published since this one began
        if done is not None:
            self._txn.withdraw()
            return LoadResult(terms.branch, terms.mode, {}, {}, done)
        if terms.load_list is not None and not terms.dry_run:
            path = load_list_path(self._txn.commit_id)
            self._store.objects.put_new_json(path, terms.load_list.to_json())
        if not terms.dedupe_edges:
            return self._load_commit.finish(self._txn, self._leave_out)
        found = drop_repeated_edges(self._txn, self._job, terms.mode, self._staged, self._tasks)
        self._duplicates.update(found)
        result = self._load_commit.finish(self._txn, self._leave_out)
        return replace(result, duplicates=counts_of(self._duplicates, "edge"))

    def _commit_staged(self) -> LoadResult:
        for _ in range(_ATTEMPTS if self._request.terms.mode != OVERWRITE else 0):
            try:
                return self._finish()
            except ConflictError as error:
                if not error.retryable:
                    raise
                self._follow(error)
        return self._finish()

    def _follow(self, error: ConflictError) -> None:
        """Follow a branch that moved under the load: continue on its new state with the staged data files."""
        before = self._txn
        self._txn = self._begin()
        if self._txn.base.schema_hash != before.base.schema_hash:
            raise error
        self._txn.announce(self._request.table_keys)
        self._job = self._told()
        self._scratch.append(self._txn.commit_id)
        if self._load_commit.has_changes:  # the effect of events depends on the existing rows
            self._staged.clear()
            self._load_commit.restart()
            self._stage()

    # --- staging --------------------------------------------------------------------------------------------------

    def _stage(self) -> None:
        """Read every input, once."""
        if self._request.splits:
            with self._phases.phase("load files", "read"):
                stage = partial(stage_split, self._job)
                answers = self._tasks(stage, self._request.splits, "read, check and write files")
            self._staged.update((each.number, each) for each in answers)
        for source in self._request.frames:
            step = f"omnigraph: load into {self._store.root.uri}: compute, check and write {source.name}"
            scope = job_scope(source.frame.sparkSession, step, self._phases.progress)
            with self._phases.phase(f"load {source.name}", "read"), _as_itself(source), scope:
                self._stage_frame(source)
        if self._request.scratch is not None:  # rows left out by sources and steps are reported like rows left out here
            self._reports = self._request.scratch.reports(self._store.objects)
            self._staged.update((report.found.number, report.found) for report in self._reports)
        for number in sorted(self._staged):
            error = self._staged[number].error
            if error is not None:
                raise error
        self._read = {number: _rows_read(staged) for number, staged in self._staged.items()}

    def _stage_frame(self, source: FrameSource) -> None:
        job, type_name, first, name = self._job, source.type_name, source.first, source.name
        selection = source.selection
        # A frame may have no partition at all. Its columns are checked, and an overwrite empties its type.
        none = pa.RecordBatch.from_pylist([], schema=arrow_schema(source.frame.schema))
        stage = partial(stage_frame, selection=selection) if source.changes is None else _stage_changes(source.changes)
        empty = stage(job, first, type_name, [none], frame_place(name, 0))
        if empty.error is not None:
            raise empty.error
        self._staged.setdefault(first, empty)

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            partition = context.partitionId() if context is not None else 0
            place = frame_place(name, partition)
            staged = stage(job, first + partition, type_name, batches, place)
            yield pa.RecordBatch.from_pydict({"answer": pa.array([message(staged)], pa.binary())})

        for row in source.frame.mapInArrow(task, "answer binary").collect():
            staged = answer(bytes(row["answer"]))
            self._staged[staged.number] = staged

    def _tasks(self, function: Callable[[Any], Any], items: Sequence[Any], step: str) -> list[Any]:
        return self._runner.map(function, items, step, self._phases.progress)

    def _leave_out(self, excluded: Excluded) -> RowData:
        """Leave rows out of the splits that hold them; return those of DataFrames."""

        def by_tasks(work: Callable[[StageJob, Exclusion], Restaged], items: Sequence[Exclusion]) -> list[Restaged]:
            return self._tasks(partial(work, self._job), items, "leave rows out")

        return exclude(self._staged, excluded, by_tasks, lambda n: any(f.holds(n) for f in self._request.frames))

    def clean_up(self) -> None:
        """Remove the scratch of the load. The collector removes what a failure leaves behind."""
        with contextlib.suppress(OmnigraphError):
            for commit_id in self._scratch:
                self._store.objects.delete_prefix(f"{STAGING}/{commit_id}/")
            if self._request.scratch is not None:
                self._store.objects.delete_prefix(self._request.scratch.prefix)
