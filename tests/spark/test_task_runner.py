"""Tasks that stay and take steps: answers in order, whoever gives them, and nothing left when they have gone."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from omnigraph.pipeline.standing import StandingTasks

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, StorageError
from omnigraph.pipeline import standing
from omnigraph.pipeline.spark_session import frame_of


def counting() -> Callable[[str, int], tuple[int, int]]:
    """Says how often this task has had the item."""
    seen: list[int] = []

    def serve(step: str, item: int) -> tuple[int, int]:
        seen.append(item)
        return item * 10, seen.count(item)

    return serve


def failing(folder: str, how: str) -> Callable[[str, int], int]:
    """In the step `bad` something happens to the first task that has the item 1, or to all."""

    def serve(step: str, item: int) -> int:
        if step == "bad" and item == 1:
            if how == "refused":
                raise InvalidArgument("this step is wrong")
            if how == "store":
                raise StorageError("the store is away")
            if how == "always" or not os.path.exists(f"{folder}/died"):
                Path(folder, "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return item

    return serve


@pytest.fixture
def start(spark: Any) -> Iterator[Callable[..., StandingTasks]]:
    made: list[StandingTasks] = []

    def make(begin: Callable[[], Any]) -> StandingTasks:
        made.append(StandingTasks(spark, begin, "count"))
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("omnigraph-standing")]
    deadline = time.monotonic() + 60
    while spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_one_job_takes_many_steps(spark: Any, start: Callable[..., StandingTasks]) -> None:
    tasks = start(counting)
    assert [each for each, _ in tasks.do("first", range(5))] == [0, 10, 20, 30, 40]
    [job] = spark.sparkContext.statusTracker().getActiveJobsIds()
    for _ in range(20):
        assert [each for each, _ in tasks.do("again", range(5))] == [0, 10, 20, 30, 40]
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == [job]
    assert tasks.do("fewer", []) == []


def test_a_task_gets_what_it_had_before(start: Callable[..., StandingTasks]) -> None:
    tasks = start(counting)
    tasks.do("first", [0])
    time.sleep(1.0)  # the other task has arrived by now, mostly
    counts = [tasks.do("again", [0])[0][1] for _ in range(10)]
    assert counts == list(range(2, 12))


def test_a_task_that_dies_is_replaced(start: Callable[..., StandingTasks], tmp_path: Path) -> None:
    tasks = start(partial(failing, str(tmp_path), "once"))
    assert tasks.do("good", range(4)) == [0, 1, 2, 3]
    assert tasks.do("bad", range(4)) == [0, 1, 2, 3]
    assert (tmp_path / "died").exists()
    assert tasks.do("good", range(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ("always", StorageError, "the tasks that count failed"),
        ("store", StorageError, "the store is away"),
        ("refused", InvalidArgument, "this step is wrong"),
    ],
)
def test_tasks_that_cannot_do_it(
    start: Callable[..., StandingTasks], tmp_path: Path, how: str, error: type[Exception], said: str
) -> None:
    tasks = start(partial(failing, str(tmp_path), how))
    assert tasks.do("good", range(3)) == [0, 1, 2]
    with pytest.raises(error, match=said):
        tasks.do("bad", range(3))


def test_fewer_slots_than_tasks(
    spark: Any, start: Callable[..., StandingTasks], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else holds one of two slots: the task that has the other does everything, and closing waits for none."""
    monkeypatch.setattr(standing, "_LEAVE_SECONDS", 0.5)
    held, over = str(tmp_path / "held"), str(tmp_path / "over")

    def hold(_: int) -> None:
        Path(held).touch()
        while not os.path.exists(over):
            time.sleep(0.05)

    other = threading.Thread(target=lambda: spark.sparkContext.parallelize([0], 1).foreach(hold))
    other.start()
    try:
        while not os.path.exists(held):
            time.sleep(0.05)
        tasks = start(counting)
        assert [each for each, _ in tasks.do("first", range(5))] == [0, 10, 20, 30, 40]
        assert tasks.do("second", [7]) == [(70, 1)]
        tasks.close()
        assert other.is_alive()
    finally:
        Path(over).touch()
        other.join()


def test_strangers_are_not_let_in(start: Callable[..., StandingTasks], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_GREET_SECONDS", 1)
    tasks = start(counting)
    tasks.do("first", range(2))
    assert tasks._door is not None
    address = tasks._door.getsockname()
    with socket.create_connection(address) as loud, socket.create_connection(address):
        loud.sendall(secrets.token_bytes(64))
        for _ in range(3):
            assert [each for each, _ in tasks.do("again", range(2))] == [0, 10]
        assert len(tasks._idle) <= 2


DRIVER = """
import json, sys, warnings
warnings.simplefilter("ignore")
from omnigraph import Graph, pipeline

# Tasks are told an address that the driver does not listen on, as behind a wall that lets only Spark's ports through.
places = {"spark.driver.host": sys.argv[3], "spark.driver.bindAddress": "127.0.0.1"}
spark = pipeline.session(sys.argv[2], config=places)
graph = Graph.open(sys.argv[1])
print(json.dumps(pipeline.analytics(spark, graph).pagerank("Knows").toArrow().to_pylist()))
"""


@pytest.mark.processes
@pytest.mark.parametrize(("master", "host"), [("local[2]", "127.0.0.2"), ("local[1]", "127.0.0.1")])
def test_where_tasks_cannot_reach_the_driver_and_where_there_is_one(tmp_path: Path, master: str, host: str) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key }\nedge Knows: Person -> Person")
    people = [{"type": "Person", "data": {"name": f"p{i}"}} for i in range(40)]
    graph.load([*people, *({"edge": "Knows", "from": f"p{i}", "to": f"p{i * i % 40}"} for i in range(40))])
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, graph.uri, master, host],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == graph.analytics.pagerank("Knows").to_pylist()
    assert not [path for path in (tmp_path / "g" / "__staging").rglob("*") if path.is_file()]


def test_a_large_table_stays_arrow_until_tasks_read_it(spark: Any) -> None:
    names = ("localRelationThreshold", "maxRecordsPerBatch")
    settings = [spark.conf.get(f"spark.sql.execution.arrow.{name}") for name in names]
    numbers = pa.chunked_array([range(100_000), range(100_000, 200_000)], pa.int64())
    table = pa.table({"number": numbers, "text": numbers.cast(pa.string())})
    frame = frame_of(spark, table)
    assert frame.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism
    assert "LocalTableScan" not in frame._jdf.queryExecution().toString()
    assert frame.toArrow().equals(table)
    assert [spark.conf.get(f"spark.sql.execution.arrow.{name}") for name in names] == settings
    assert frame_of(spark, table.slice(0, 3)).toArrow().equals(table.slice(0, 3))
