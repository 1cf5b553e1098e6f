"""Merge a branch with the row work in Spark tasks: same outcome, same conflicts, one commit.

    driver: where rows differ -> tasks: cut them by id -> tasks: compare buckets -> driver: check, decide
    -> tasks: write rows -> driver: one plan -> one commit

The driver reads the columns that rules between rows need, rows that were joined property by property, and conflicts.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.api.conflicts import Strategy
from omnigraph.api.progress import Phase
from omnigraph.api.results import MergeResult
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.pipeline.buckets import BUCKETS, CutFile, Stream
from omnigraph.pipeline.lease import renewed_lease
from omnigraph.pipeline.merging import (
    OURS,
    THEIRS,
    ComparedBuckets,
    CompareWork,
    CutDelta,
    MergeJob,
    SideSplit,
    WriteWork,
    compare_buckets,
    cut_side,
    image,
    write_taken,
)
from omnigraph.pipeline.phases import task_progress
from omnigraph.pipeline.spark_maintenance import spark_pool
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import ReplaceRows, WrittenFragment
from omnigraph.storage.layout import STAGING
from omnigraph.storage.row_difference import differing_places
from omnigraph.storage.tables import Table
from omnigraph.versioning.diff import Pinned, is_one_family
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.staging import open_table
from omnigraph.write.merge import delete_merged, merge_branch
from omnigraph.write.merge_compare import Compared, Comparing, Comparison, TableSides, Terms
from omnigraph.write.merge_rows import TableMerge
from omnigraph.write.transaction import WriteTxn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_TASK = 1 << 19
"""The number of changed rows that one task reads, or compares."""

How = Callable[[Callable[[Any], Any], Any], Any]
"""Executes one piece of a task's work."""


def merge(
    spark: SparkSession, graph: Graph, source: str, into: str = MAIN, strategy: Strategy = None,
    dry_run: bool = False, delete_branch: bool = False, property_level: bool = False, actor: str | None = None,
    message: str | None = None,
) -> MergeResult:  # fmt: skip
    """`graph.branches.merge` with changed rows compared and written by tasks."""
    result = merge_branch(
        graph.repository, source, into, strategy=strategy, dry_run=dry_run, property_level=property_level,
        actor=actor, message=message, comparing=spark_comparing(spark),
    )  # fmt: skip
    return delete_merged(graph.repository, result) if delete_branch and not dry_run else result


def _as_it_is(work: Callable[[Any], Any], item: Any) -> Any:
    return work(item)


def spark_comparing(spark: SparkSession, how: How = _as_it_is) -> Comparing:
    """Return the row work of merges by tasks of a session."""

    @contextlib.contextmanager
    def begin(txn: WriteTxn, terms: Terms) -> Iterator[Comparison]:
        comparison = SparkComparison(spark, txn, terms, how)
        txn.announce(txn.base.tables)
        try:
            with renewed_lease(lambda: txn):
                yield comparison
        finally:
            if not txn.is_published:  # an error, a conflict, or a dry run
                txn.withdraw()
            with contextlib.suppress(OmnigraphError):
                txn.store.objects.delete_prefix(f"{STAGING}/{txn.commit_id}/")

    return begin


@dataclass(frozen=True, slots=True)
class _Taken:
    """Rows that one task wrote to scratch space, and their ids."""

    rows: str
    ids: Sequence[str]


class SparkComparison:
    """The row work of one merge, by tasks."""

    def __init__(self, spark: SparkSession, txn: WriteTxn, terms: Terms, how: How) -> None:
        self.pool = spark_pool(spark, txn.store.root.uri)
        self._runner = TaskRunner(spark, f"merge rows of {txn.store.root.uri}")
        self._store = txn.store
        self._job = MergeJob(txn.store.root.uri, txn.commit_id, txn.base.schema_hash, terms)
        self._how = how
        self._progress = txn.progress
        self._taken: dict[str, list[_Taken]] = {}

    def compare(self, tables: Sequence[TableSides]) -> list[Compared]:
        """Compare the changed rows of some tables in two rounds of tasks."""
        splits = [split for table in tables for split in self._splits(table)]
        files: dict[str, list[CutFile]] = {table.entity.table_key: [] for table in tables}
        for split, file in zip(splits, self._tasks(cut_side, splits, "read changed rows", "read"), strict=True):
            files[split.stream.table_key].append(file)
        works = [work for table in tables for work in _compare_works(table, splits, files[table.entity.table_key])]
        answers = self._tasks(compare_buckets, works, "compare changed rows", "compare")
        found: dict[str, list[ComparedBuckets]] = {table.entity.table_key: [] for table in tables}
        for work, answer in zip(works, answers, strict=True):
            found[work.table_key].append(answer)
        return [self._joined(t.entity, files[t.entity.table_key], found[t.entity.table_key]) for t in tables]

    def _splits(self, table: TableSides) -> Iterator[SideSplit]:
        for side, head in ((OURS, table.ours), (THEIRS, table.theirs)):
            if head is None:
                continue
            pins: tuple[Pinned | None, Pinned] = (table.base, head)
            before, after = (open_table(self._store, pin.entry) if pin else None for pin in pins)
            places = differing_places(before, after, by_row_id=is_one_family(*pins))
            for is_after, opened, where in zip((False, True), (before, after), places, strict=True):
                if opened is None:
                    continue
                stream = Stream(image(side, after=is_after), table.entity.table_key)
                for part in where.split(opened, ROWS_PER_TASK):
                    yield SideSplit(stream, opened.path, opened.version, part, part.count(opened))

    def _joined(self, entity: EntityType, files: Sequence[CutFile], found: Sequence[ComparedBuckets]) -> Compared:
        """Return the answers of all buckets of a table as one."""
        objects = self._store.objects

        def delta(side: str, parts: Sequence[tuple[pa.Table, pa.Table]]) -> CutDelta:
            before, after = (pa.concat_tables([part[at] for part in parts]) for at in (0, 1))
            return CutDelta(entity, before, after, side, files, objects)

        ours, theirs = delta(OURS, [a.ours for a in found]), delta(THEIRS, [a.theirs for a in found])
        self._taken[entity.table_key] = [_Taken(a.rows, a.taken) for a in found if a.rows is not None]
        merge = TableMerge(
            entity, theirs, frozenset(i for a in found for i in a.taken),
            {i: row for a in found for i, row in a.composed.items()}, frozenset(i for a in found for i in a.dropped),
        )  # fmt: skip
        conflicts = sorted((c for a in found for c in a.conflicts), key=lambda c: str(c.entity_id))
        return Compared(ours, theirs, merge, conflicts)

    def effects(self, merges: Mapping[str, tuple[TableMerge, Table]]) -> dict[str, ReplaceRows]:
        """Write the rows that are still taken after all checks."""
        works = [
            WriteWork(key, target.path, target.version, part.rows, frozenset(part.ids) - merge.taken)
            for key, (merge, target) in merges.items()
            for part in self._taken[key]
            if not merge.taken.isdisjoint(part.ids)
        ]
        written: dict[str, list[WrittenFragment]] = {key: [] for key in merges}
        for work, fragments in zip(works, self._tasks(write_taken, works, "write merged rows", "write"), strict=True):
            written[work.table_key].extend(fragments)
        for key, (merge, target) in merges.items():
            if merge.composed:
                rows = [merge.composed[i] for i in sorted(merge.composed)]
                table = pa.Table.from_pylist(rows, schema=merge.entity.arrow_schema)
                written[key].extend(write_rows(self._store.tables, target, table))
        return {key: ReplaceRows(merge.replaced, tuple(written[key])) for key, (merge, _) in merges.items()}

    def _tasks(self, work: Callable[[MergeJob, Any], Any], items: Sequence[Any], step: str, phase: Phase) -> list[Any]:
        progress = task_progress(self._progress, phase)
        return self._runner.map(partial(self._how, partial(work, self._job)), items, step, progress)


def _compare_works(table: TableSides, splits: Sequence[SideSplit], files: Sequence[CutFile]) -> Iterator[CompareWork]:
    """Return adjacent buckets of one table for a task each."""
    key = table.entity.table_key
    mine = [split for split in splits if split.stream.table_key == key]
    count = min(BUCKETS, max(1, -(-sum(split.rows for split in mine) // ROWS_PER_TASK)))
    bounds = [BUCKETS * number // count for number in range(count + 1)]
    names = {split.stream.what for split in mine}
    for begin, end in itertools.pairwise(bounds):
        pieces = {
            name: [p for file in files if (p := file.piece(Stream(name, key), begin, end)) is not None]
            for name in sorted(names)
        }
        yield CompareWork(key, table.ours is not None, pieces)
