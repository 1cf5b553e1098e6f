"""Check named sources and steps: tasks leave bad rows out before any other step reads them.

Rows computed from these rows do not record their origin, so each task reports the rows that it left out in an object of
the load's scratch space, and the driver reads the objects when everything is staged. The name of an object contains the
number of its task: of several attempts the last one counts.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import CorruptGraph, OmnigraphError, StorageError
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.execution.spark.workers import store_of
from omnigraph.pipeline.row_selection import Selection
from omnigraph.pipeline.staging import Checks, StagedSplit
from omnigraph.storage.layout import STAGING
from omnigraph.storage.objects import ObjectStore
from omnigraph.versioning.store import mint
from omnigraph.write.inputs.expectations import DROP
from omnigraph.write.validation import Findings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_PARTITIONS = 1 << 20
_ENDING = ".report"
_SIGNATURE_BYTES = 32


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows that are checked before others read them: a source or a step. `first` is the number of its first task."""

    name: str
    first: int
    table_key: str | None = field(default=None, init=False)

    def holds(self, number: int) -> bool:
        """Return whether a number is that of one of its tasks."""
        return 0 <= number - self.first < MAX_PARTITIONS


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The report of one task: rows read and passed on, and in `found` the violations of the others."""

    read: int
    passed: int
    found: StagedSplit


@dataclass(frozen=True, slots=True)
class CheckScratch:
    """The location of the reports of one load.

    Reports are signed with a key that only the driver and its tasks hold: other objects there are never unpickled.
    """

    uri: str
    load_id: str
    limit: int
    key: bytes = field(default_factory=lambda: secrets.token_bytes(_SIGNATURE_BYTES), repr=False)

    @property
    def prefix(self) -> str:
        """Return the prefix of all objects of the load."""
        return f"{STAGING}/{self.load_id}/"

    def write(self, report: CheckReport) -> None:
        """Write the report of a task."""
        path = f"{self.prefix}{report.found.number}-{mint()}{_ENDING}"
        body = pickle.dumps(report)
        store_of(self.uri).objects.put_new(path, self._signature(body) + body, flush=False)

    def reports(self, objects: ObjectStore) -> list[CheckReport]:
        """Return the last report of each task, in the order of the tasks."""
        last: dict[int, str] = {}
        for info in objects.list(self.prefix):
            name = info.path.removeprefix(self.prefix).removesuffix(_ENDING)
            number, _, attempt = name.partition("-")
            last[int(number)] = max(last.get(int(number), ""), attempt)
        bodies = (objects.get(f"{self.prefix}{number}-{last[number]}{_ENDING}") for number in sorted(last))
        return [self._opened(body) for body in bodies if body is not None]

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self.key, body, "sha256")

    def _opened(self, signed: bytes) -> CheckReport:
        signature, body = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(body)):
            raise CorruptGraph(
                f"a report below {self.prefix} is not one of this load", hint="run it again: nothing was published"
            )
        report: CheckReport = pickle.loads(body)
        return report


@dataclass(frozen=True, slots=True)
class RowChecks:
    """The checks of rows in a task: leave out rows that could not be read or cast, and those that a rule drops."""

    rows: CheckedRows
    scratch: CheckScratch
    selection: Selection
    names: tuple[str, ...]

    def of(self, frame: DataFrame) -> DataFrame:
        """Return the rows that pass, without their places. The frame has the columns of `computed`."""
        from pyspark.sql.types import StructType

        kept = StructType([frame.schema[name] for name in self.names])
        return frame.mapInArrow(self.task, kept)

    def task(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition that pass."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        found, checks = Findings(self.scratch.limit), Checks()
        passed, error = 0, None
        for batch in batches:
            table = pa.Table.from_batches([batch])
            try:
                table = self.selection.readable(table, self.rows, found)
                table = self.selection.expected(table, self.rows, checks)
            except StorageError as failure:
                raise TaskRefusal(failure) from failure
            except OmnigraphError as failure:
                error = failure  # the load is refused, so reading can stop
                break
            passed += table.num_rows
            yield from table.select(list(self.names)).combine_chunks().to_batches()
            if found.full:
                break
        wrong = len({(each.path, each.row) for each in found})
        dropped = sum(count for (_, on_fail), count in checks.counts.items() if on_fail == DROP)
        split = StagedSplit(
            self.rows.first + partition, (), tuple(found), error, checks=dict(checks.counts),
            quarantined=tuple(checks.dropped),
        )  # fmt: skip
        self.scratch.write(CheckReport(passed + wrong + dropped, passed, split))
