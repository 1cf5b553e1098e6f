"""The metadata of our Spark jobs: a description, a tag to cancel them by, and their progress.

Everything here is Spark's own: job descriptions, job tags, the status tracker, and the progress handler of Spark
Connect. A job group of the caller stays in force, so cancelling that group cancels these jobs as well.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from omnigraph.execution.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TaskProgress = Callable[[int, int], None]
"""Receives the numbers of finished and of all tasks; they are equal only after the jobs succeeded."""

_DESCRIPTION = "spark.job.description"
_POLL_SECONDS = 0.2


@contextlib.contextmanager
def job_scope(spark: SparkSession, description: str, progress: TaskProgress | None = None) -> Iterator[None]:
    """Describe, tag and watch the Spark jobs that this thread starts in the block.

    When the block ends with an exception, an interrupt included, its running jobs are cancelled.
    """
    tag = f"omnigraph-{secrets.token_hex(8)}"
    scope = _connect_scope if is_connect(spark) else _classic_scope
    with scope(spark, description, tag, progress):
        yield


@contextlib.contextmanager
def _classic_scope(spark: SparkSession, description: str, tag: str, progress: TaskProgress | None) -> Iterator[None]:
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, description)
    context.addJobTag(tag)
    is_done = False
    try:
        with _polling(context, tag, progress):
            yield
        is_done = True
    finally:
        with contextlib.suppress(Py4JError, PySparkException, OSError, AttributeError):  # a session that was stopped
            if not is_done:
                context.cancelJobsWithTag(tag)
            context.removeJobTag(tag)
            context.setLocalProperty(_DESCRIPTION, before)


@contextlib.contextmanager
def _polling(context: Any, tag: str, progress: TaskProgress | None) -> Iterator[None]:
    """Report the tasks of the tagged jobs from a thread. The last report of successful jobs is their end."""
    if progress is None:
        yield
        return
    tracker, over = context.statusTracker(), threading.Event()

    def count() -> tuple[int, int]:
        stages = [s for s in map(tracker.getStageInfo, _stages_of(context, tag)) if s is not None]
        return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)

    def poll() -> None:
        while not over.wait(_POLL_SECONDS):
            with contextlib.suppress(Py4JError, OSError, AttributeError):
                done, total = count()
                if total:  # a job may have stages that are not started yet
                    progress(min(done, total - 1), total)

    thread = threading.Thread(target=poll, name="omnigraph-progress", daemon=True)
    thread.start()
    is_done = False
    try:
        yield
        is_done = True
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(Py4JError, OSError, AttributeError):
            total = count()[1] if is_done else 0
            if total:
                progress(total, total)


def _stages_of(context: Any, tag: str) -> list[int]:
    """Return stages of the tagged jobs. Python's tracker finds jobs by group only, and the group is the caller's."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in context._jsc.sc().statusTracker().getJobIdsForTag(tag)]
    return [stage for job in jobs if job is not None for stage in job.stageIds]


@contextlib.contextmanager
def _connect_scope(spark: SparkSession, description: str, tag: str, progress: TaskProgress | None) -> Iterator[None]:
    """Describe jobs on Spark Connect, where the server shows only the tag, so the tag begins with the description."""
    label = f"{description.replace(',', ' ')} {tag}"
    spark.addTag(label)

    seen = 0

    def report(stages: Any, **_: Any) -> None:
        nonlocal seen
        assert progress is not None
        known = list(stages or ())
        seen = sum(s.num_tasks for s in known)
        if seen:
            progress(min(sum(s.num_completed_tasks for s in known), seen - 1), seen)

    if progress is not None:
        spark.registerProgressHandler(report)
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            with contextlib.suppress(PySparkException):
                spark.interruptTag(label)
        if progress is not None:
            spark.removeProgressHandler(report)
            if is_done and seen:
                progress(seen, seen)
        spark.removeTag(label)
