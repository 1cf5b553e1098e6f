"""Rounds of tasks as ordinary Spark jobs: answers in order, typed errors, retries, names, progress and cancellation."""

from __future__ import annotations

import ast
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidArgument, OmnigraphError, StorageError
from omnigraph.execution.spark.job_scope import is_connect
from omnigraph.pipeline.spark_session import frame_of
from omnigraph.pipeline.task_runner import TaskRunner, parallelism_of, root_cause

SOURCE = Path(__file__).parents[2] / "src" / "omnigraph"


def ten_times(item: int) -> int:
    return item * 10


def fail_at_one(folder: str, how: str, item: int) -> int:
    """Something happens to the task that has the item 1: once, or whenever it is tried."""
    if item == 1:
        if how == "refused":
            raise InvalidArgument("this step is wrong")
        if how == "store":
            raise StorageError("the store is away")
        if how == "bare":
            raise ZeroDivisionError("division by nothing")
        if how == "always" or not os.path.exists(f"{folder}/died"):
            Path(folder, "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return item


@pytest.fixture
def runner(spark: Any) -> TaskRunner:
    return TaskRunner(spark, "count")


def jobs(spark: Any) -> list[tuple[str, str]]:
    """Description and status of every job that the session has run."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = store.jobsList(spark._jvm.java.util.ArrayList())
    texts = []
    for number in range(found.size()):
        job = found.apply(number)
        texts.append((job.description().get() if job.description().isDefined() else "", job.status().toString()))
    return texts


@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_answers_come_in_the_order_of_the_items(runner: TaskRunner, count: int) -> None:
    assert runner.map(ten_times, range(count), "count") == [item * 10 for item in range(count)]


def test_a_task_that_dies_is_tried_again(runner: TaskRunner, tmp_path: Path) -> None:
    assert runner.map(partial(fail_at_one, str(tmp_path), "once"), range(4), "die") == [0, 1, 2, 3]
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("always", StorageError, "the tasks that count failed"),
        ("store", StorageError, "the store is away"),
        ("refused", InvalidArgument, "this step is wrong"),
        ("bare", StorageError, "ZeroDivisionError: division by nothing"),
    ],
)
def test_items_that_cannot_be_done(
    runner: TaskRunner, tmp_path: Path, how: str, error: type[OmnigraphError], text: str
) -> None:
    with pytest.raises(error, match=text):
        runner.map(partial(fail_at_one, str(tmp_path), how), range(3), "fail")


def test_the_cause_is_the_error_of_the_worker() -> None:
    text = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "a.py", line 3, in f
    g()
ValueError: there it is

Driver stacktrace:
  at org.apache.spark
"""
    first = "An exception was thrown from the Python worker. Please see the stack trace below."
    assert root_cause(text) == f"{first} (ValueError: there it is)"
    assert root_cause("Job aborted") == "Job aborted"


def test_every_job_of_a_load_has_a_name_and_none_is_failed(spark: Any, tmp_path: Path) -> None:
    if is_connect(spark):
        pytest.skip("a Connect client cannot ask the server for its jobs")
    before = len(jobs(spark))
    spark.sparkContext.setJobDescription("mine")
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key }\nedge Knows: Person -> Person")
    (tmp_path / "p.csv").write_text("name\n" + "\n".join(f"p{i}" for i in range(50)))
    frame = spark.createDataFrame([("p1", "p2")], "`from` string, `to` string")
    pipeline.load(spark, graph, {"Person": str(tmp_path / "p.csv")}, {"Knows": frame})
    pipeline.analytics(spark, graph).components("Knows").toArrow()
    mine = jobs(spark)[: len(jobs(spark)) - before]
    assert len(mine) >= 4
    ours = [text for text, _ in mine if text != "mine"]
    assert ours
    assert all(text.startswith("omnigraph: ") and graph.uri in text for text in ours)
    assert {status for _, status in mine} == {"SUCCEEDED"}
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext.setLocalProperty("spark.job.description", None)


def test_a_load_of_small_files_is_one_job(spark: Any, tmp_path: Path) -> None:
    """Whatever the number of files: each round of tasks costs a tenth of a second, the first of a session a second."""
    if is_connect(spark):
        pytest.skip("a Connect client cannot ask the server for its jobs")
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key }\nedge Knows: Person -> Person")
    for number in range(6):
        (tmp_path / f"p{number}.csv").write_text(f"name\np{number}\n")
    (tmp_path / "knows.jsonl").write_text('{"from": "p1", "to": "p2"}\n')
    before = len(jobs(spark))
    pipeline.load(spark, graph, {"Person": str(tmp_path / "p*.csv")}, {"Knows": str(tmp_path / "knows.jsonl")})
    assert len(jobs(spark)) - before == 1


def wait_for(folder: str, item: int) -> int:
    Path(folder, f"begun-{item}").touch()
    deadline = time.monotonic() + 60
    while not os.path.exists(f"{folder}/over") and time.monotonic() < deadline:
        time.sleep(0.05)
    return item


def test_progress_counts_tasks(spark: Any, runner: TaskRunner, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def watch(done: int, total: int) -> None:
        seen.append((done, total))
        (tmp_path / "over").touch()

    assert runner.map(partial(wait_for, str(tmp_path)), range(2), "wait", watch) == [0, 1]
    assert seen[0][1] >= 1
    assert all(0 <= done <= total for done, total in seen)


class Interrupted(BaseException):
    """What a signal raises in the main thread."""


@pytest.mark.slow
def test_an_interrupted_round_is_cancelled(spark: Any, runner: TaskRunner, tmp_path: Path) -> None:
    def interrupt(_number: int, _frame: Any) -> None:
        raise Interrupted

    def press() -> None:
        while not (tmp_path / "begun-0").exists():
            time.sleep(0.05)
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(Interrupted):
            runner.map(partial(wait_for, str(tmp_path)), range(1), "wait")
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    if not is_connect(spark):
        tracker, deadline = spark.sparkContext.statusTracker(), time.monotonic() + 60
        while tracker.getActiveJobsIds() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not tracker.getActiveJobsIds()
    (tmp_path / "over").touch()
    assert runner.map(ten_times, range(2), "after") == [0, 10]  # what comes after is not cancelled


def test_there_is_no_channel_beside_sparks_own() -> None:
    """No socket and no connection of ours; pickles only in the columns of Spark's rows."""
    pickled = set()
    for path in [*(SOURCE / "pipeline").rglob("*.py"), *(SOURCE / "execution" / "spark").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.partition(".")[0] not in {"socket", "multiprocessing", "socketserver", "asyncio"}, path
                if name == "pickle":
                    pickled.add(path.name)
    assert pickled == {"task_runner.py", "staging.py", "row_selection.py", "source_checks.py"}


def test_slots_are_counted_without_a_context(spark: Any) -> None:
    assert parallelism_of(spark) >= 1
    if not is_connect(spark):
        assert parallelism_of(spark) == spark.sparkContext.defaultParallelism


def test_a_large_table_stays_arrow_until_tasks_read_it(spark: Any) -> None:
    names = ("localRelationThreshold", "maxRecordsPerBatch")
    settings = [spark.conf.get(f"spark.sql.execution.arrow.{name}") for name in names]
    numbers = pa.chunked_array([range(100_000), range(100_000, 200_000)], pa.int64())
    table = pa.table({"number": numbers, "text": numbers.cast(pa.string())})
    frame = frame_of(spark, table)
    if not is_connect(spark):
        assert frame.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism
        assert "LocalTableScan" not in frame._jdf.queryExecution().toString()
    assert frame.toArrow().equals(table)
    assert [spark.conf.get(f"spark.sql.execution.arrow.{name}") for name in names] == settings
    assert frame_of(spark, table.slice(0, 3)).toArrow().equals(table.slice(0, 3))
