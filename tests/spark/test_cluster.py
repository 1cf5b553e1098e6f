"""Loads on a real cluster: what works in one process works there, and processes that die leave one commit or none."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.staging import open_table
from tests.spark.cluster import ROOT, Cluster, Driver, children, cluster, descendants, kill_all
from tests.spark.driver import EXECUTORS
from tests.support.graphs import EXPIRED

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
FEW = [
    "test_load.py::test_parquet_of_every_type_in_one_commit",
    "test_load.py::test_merge_and_overwrite",
    "test_task_runner.py::test_answers_come_in_the_order_of_the_items",
    "test_datasource.py::test_analytics_are_those_of_one_process",
]
MORE = [
    "test_load.py::test_what_one_process_refuses_spark_refuses",
    "test_load.py::test_rejected_rows_are_left_out_and_listed",
    "test_load.py::test_dataframes_with_joins_and_casts",
    "test_queries.py::test_old_states_are_asked_like_new_ones",
    "test_queries.py::test_a_sample_of_the_corpus",
    "test_datasource.py::test_what_is_exported_can_be_loaded[parquet]",
    "test_datasource.py::test_writing_is_one_commit",
    "test_failures.py::test_tasks_that_fail_at_first_leave_no_duplicates",
]
pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


@pytest.fixture
def inputs(tmp_path: Path) -> str:
    """Six files of people and two of edges: eight tasks."""
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(6):
        names = [f"p{i}" for i in range(part * 50, part * 50 + 50)]
        pq.write_table(pa.table({"name": names}), folder / f"p{part}.parquet")
    for part in range(2):
        ends = range(part * 140, part * 140 + 140)
        edges = {"from": [f"p{i}" for i in ends], "to": [f"p{i + 1}" for i in ends]}
        pq.write_table(pa.table(edges), folder / f"k{part}.parquet")
    return str(folder)


LOADED = {"node:Person": [300, 300], "edge:Knows": [280, 280]}


def is_whole(graph: Graph) -> None:
    """One load and nothing else; what failed attempts wrote is collectible."""
    opened = Graph.open(graph.uri, settings=EXPIRED)
    assert [c.kind for c in opened.commits.list()] == ["load", "init"]
    assert opened.recovery.list() == []
    nothing_is_left_over(opened)


def nothing_is_left_over(graph: Graph) -> None:
    """After a cleanup every data file is named by the head, and the graph is sound."""
    graph.maintenance.cleanup(keep=3, grace=0, confirm=True, force=True)
    for entry in graph.snapshot().tables.values():
        folder = Path(graph.uri) / entry.location
        kept = {folder / name for name in open_table(graph.repository.store, entry).data_files()}
        assert set((folder / "data").glob("*.lance")) <= kept
    assert not list((Path(graph.uri) / "__staging").rglob("*.arrow"))
    assert graph.maintenance.fsck().problems == ()


def wait_for(what: Any, driver: Driver | None = None) -> Any:
    """The first true value of something. A driver that does not get there would hold the cluster: it is ended."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    if driver is not None:
        driver.kill()
    raise AssertionError("it did not happen")


def data_files(graph: Graph) -> list[Path]:
    location = graph.snapshot().table("node:Person").location
    return list((Path(graph.uri) / location / "data").glob("*.lance"))


@pytest.mark.parametrize("names", [FEW, pytest.param(MORE, marks=pytest.mark.slow)], ids=["few", "more"])
def test_the_core_of_the_suite_on_a_cluster(running: Cluster, names: list[str]) -> None:
    tests = [str(ROOT / "tests" / "spark" / name) for name in names]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT, text=True,
        env=running.environment(SPARK_MASTER=running.master), capture_output=True, timeout=400, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout
    assert len(running.state()["completedapps"]) >= 1, "the tests ran on the cluster, not beside it"


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["kill", "error"])
def test_tasks_that_fail_after_writing(running: Cluster, graph: Graph, inputs: str, fate: str) -> None:
    """Every worker process dies, or its store fails, in its second task, when its data files are written."""
    driver = Driver(running, "files", graph.uri, inputs, **{EXECUTORS: f"{Point.ROWS_WRITTEN}:{fate}:2"})
    assert driver.result() == LOADED
    assert len(data_files(graph)) > 6, "some were written in vain"
    is_whole(graph)


@pytest.mark.slow
def test_an_executor_that_is_killed_in_the_middle_of_a_load(running: Cluster, graph: Graph, inputs: str) -> None:
    driver = Driver(running, "files", graph.uri, inputs, **{EXECUTORS: f"{Point.ROWS_WRITTEN}:pause:6"})
    wait_for(lambda: data_files(graph), driver)
    victim = next(pid for pid in running.executors() if children(pid))
    kill_all([victim, *descendants(victim)])
    assert driver.result() == LOADED
    is_whole(graph)


@pytest.mark.slow
def test_a_store_that_always_fails_is_the_error_of_the_load(running: Cluster, graph: Graph, inputs: str) -> None:
    driver = Driver(running, "refused", graph.uri, inputs, **{EXECUTORS: f"{Point.ROWS_WRITTEN}:error"})
    assert driver.result() == {"error": "StorageError", "message": f"failpoint {Point.ROWS_WRITTEN}"}
    opened = Graph.open(graph.uri)
    assert [c.kind for c in opened.commits.list()] == ["init"]
    assert opened.recovery.list() == []


@pytest.mark.slow
def test_a_task_and_its_double_count_once(running: Cluster, graph: Graph, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    driver = Driver(running, "speculate", graph.uri, str(marks))
    assert driver.result() == {"node:Person": [400, 400], "edge:Knows": [0, 0]}
    assert (marks / "3-1").exists(), "the double ran"
    is_whole(graph)


@pytest.mark.slow
def test_a_driver_that_is_killed_in_the_middle_of_a_load(running: Cluster, graph: Graph, inputs: str) -> None:
    driver = Driver(running, "files", graph.uri, inputs, **{EXECUTORS: f"{Point.ROWS_WRITTEN}:pause:4"})
    wait_for(lambda: data_files(graph), driver)
    driver.kill()
    wait_for(lambda: not running.executors())
    recovered = Graph.open(graph.uri, settings=EXPIRED)
    assert [c.kind for c in recovered.commits.list()] == ["init"]
    assert recovered.recovery.list() == []
    assert Driver(running, "files", graph.uri, inputs).result() == LOADED
    is_whole(graph)
