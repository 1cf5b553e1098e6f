"""What every driver of tasks does: send work out, raise what went wrong as what it was, hold its intent meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.execution.spark.tasks import accepted, answered, refusal_in
from omnigraph.write.transaction import WriteTxn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def done_by_tasks(spark: SparkSession, work: Callable[[Any], Any], items: Sequence[Any], purpose: str) -> list[Any]:
    """Apply a function to every item, a task each, and give the answers in order.

    `purpose` says in an error what the tasks were for.
    """
    if not items:
        return []
    try:
        tasks = spark.sparkContext.parallelize(items, len(items))
        return accepted(tasks.map(lambda item: answered(lambda: work(item))).collect())
    except failures() as error:
        raise as_refusal(error, purpose) from error


def failures() -> tuple[type[Exception], ...]:
    """What Spark raises when a task failed too often, or when the session was stopped.

    A stopped one lacks the attributes of a live one.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, OSError, AttributeError


def as_refusal(error: Exception, purpose: str) -> OmnigraphError:
    """A failure of Spark's as the error that its tasks met, or as one that says what they were for."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return refusal_in(str(error)) or StorageError(f"the tasks that {purpose} failed: {reason}")


@contextlib.contextmanager
def holding(current: Callable[[], WriteTxn]) -> Iterator[None]:
    """Renew the lease of an announced write while work goes on."""

    def renew() -> None:
        with contextlib.suppress(OmnigraphError):
            current().renew()

    with repeating(renew, current().store.settings.lease / 4, "omnigraph-lease"):
        yield


@contextlib.contextmanager
def repeating(action: Callable[[], None], pause: float, name: str) -> Iterator[None]:
    """Do something again and again, on a thread of its own, while work goes on."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause):
            action()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
