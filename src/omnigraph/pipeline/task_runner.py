"""Runs pieces of work as ordinary Spark jobs: a DataFrame of item numbers, `mapInArrow`, one answer per item.

    items -> one job: tasks apply a function to their items -> answers, in the order of the items

Scheduling, retries, speculation and cancellation are Spark's. It works alike on a classic session and on Spark Connect.
Arrays and rows never travel this way: they lie in the graph's scratch space, and items and answers name them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.execution.spark.job_scope import TaskProgress, job_scope
from omnigraph.execution.spark.task_errors import refusal_in, require_answers, run_work
from omnigraph.execution.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_PER_SLOT = 4
"""The most tasks per slot of a job, where the slots are known.

A task costs some 20 ms at least, and with several per slot the others make up for a slow one.
"""

_TASKS_ON_A_CLUSTER = 256
"""A cluster may grow while tasks wait, so a job has at least this many, where there are as many items."""

_SCHEMA = "number long, answer binary"
_ANY_ROWS = 1 << 16
_SLOTS: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
"""The detected parallelism of sessions of Spark Connect."""


class TaskRunner:
    """Applies functions to items in tasks of a session. `purpose` completes "the tasks that ..." in errors."""

    def __init__(self, spark: SparkSession, purpose: str) -> None:
        self._spark = spark
        self._purpose = purpose

    @cached_property
    def parallelism(self) -> int:
        """Return the number of tasks that the cluster is expected to run at a time."""
        return parallelism_of(self._spark)

    @cached_property
    def _most_tasks(self) -> int:
        known = _TASKS_PER_SLOT * self.parallelism
        is_local = str(self._spark.conf.get("spark.master", "")).partition("[")[0] == "local"
        return known if is_local else max(known, _TASKS_ON_A_CLUSTER)

    def map(
        self, function: Callable[[Any], Any], items: Sequence[Any], step: str, progress: TaskProgress | None = None
    ) -> list[Any]:
        """Apply a function to every item and return the answers in order. `step` names the job in Spark's UI.

        A typed error of one item is raised as itself, that of the first such item. A failure of storage or of the task
        is left to Spark's retries first.
        """
        if not items:
            return []
        bodies = [pickle.dumps(item) for item in items]  # a task decodes only its own items
        tasks = min(len(items), self._most_tasks)
        try:
            with job_scope(self._spark, f"omnigraph: {self._purpose}: {step}", progress):
                numbers = self._spark.range(0, len(bodies), 1, tasks)
                rows = numbers.mapInArrow(_task(function, bodies), _SCHEMA).collect()
        except spark_failures() as error:
            raise as_omnigraph_error(error, self._purpose) from error
        found = {row["number"]: pickle.loads(bytes(row["answer"])) for row in rows}
        return require_answers([found[number] for number in range(len(bodies))])


def _task(
    function: Callable[[Any], Any], bodies: Sequence[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Execute one task: the numbers of its items come in, their answers go out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pickle.dumps(run_work(partial(_apply, function, bodies[number])))
                columns = [pa.array([number], pa.int64()), pa.array([answer], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["number", "answer"])

    return run


def _apply(function: Callable[[Any], Any], body: bytes) -> Any:
    return function(pickle.loads(body))


def parallelism_of(spark: SparkSession) -> int:
    """Return the slots of the cluster, as far as Spark reports them.

    Spark Connect has no `SparkContext` that says it: there it is how many tasks Spark cuts a range into by itself.
    """
    if not is_connect(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    from pyspark.sql import functions as F

    if spark not in _SLOTS:
        with job_scope(spark, "omnigraph: count the slots of the cluster"):
            numbers = spark.range(_ANY_ROWS).select(F.spark_partition_id().alias("partition"))
            _SLOTS[spark] = int(numbers.agg(F.max("partition")).collect()[0][0]) + 1
    return _SLOTS[spark]


def spark_failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of Spark for a task that failed too often, and for a stopped session.

    A stopped classic session lacks the attributes of a live one.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, OSError, AttributeError


def as_omnigraph_error(error: Exception, purpose: str) -> OmnigraphError:
    """Return a failure of Spark as the error of its tasks, or as one with their purpose and the reason."""
    text = str(error).strip() or type(error).__name__
    return refusal_in(text) or StorageError(f"the tasks that {purpose} failed: {root_cause(text)}")


def root_cause(text: str) -> str:
    """Return the reason from the text of a failure: Spark's first line, and the error of the worker."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    first = lines[0].strip() if lines else text
    raised = _python_error(lines)
    return first if raised is None or raised in first else f"{first} ({raised})"


def _python_error(lines: Sequence[str]) -> str | None:
    """Return the last line of the first Python traceback: the class and the message of the error."""
    begun = False
    for line in lines:
        if line.endswith("Traceback (most recent call last):"):
            begun = True
        elif begun and not line[0].isspace():
            return line.strip()
    return None
