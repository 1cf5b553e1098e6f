"""Fixtures that every kind of test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from omnigraph import Graph
from tests.support.s3 import S3Server, s3_server

SCHEMA = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


OWN_PROCESSES = (
    "tests/spark/test_streams",
    "tests/spark/test_cluster",
    "tests/spark/test_connect",
    "tests/spark/test_worker",
)
"""Tests of Spark that start processes of their own, or take long: they run beside the others."""
LONGEST_FIRST = ("tests/spark/", "tests/docs/", "tests/s3/", "tests/cost/", "tests/maintenance/", "tests/recovery/")

# Most code of a JVM runs for seconds here: what the optimising compiler would save is less than what it takes.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Side by side run files, not tests: what a file prepares is prepared once. Most of Spark shares one session."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if file.startswith("tests/spark/") and not file.startswith(OWN_PROCESSES) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False  # the order of collection counts
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no process is left alone with it at the end."""

    def place(item: pytest.Item) -> tuple[int, bool]:
        found = (n for n, prefix in enumerate(LONGEST_FIRST) if item.nodeid.startswith(prefix))
        return next(found, len(LONGEST_FIRST)), item.nodeid.startswith(OWN_PROCESSES)

    items.sort(key=place)


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the whole session; each test has its own prefix."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        server.create_bucket("graphs")
        yield server


@pytest.fixture
def s3(s3_process: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with this process's environment pointing at it."""
    for name, value in s3_process.environment().items():
        monkeypatch.setenv(name, value)
    return s3_process


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a graph, on disk and on S3: tests that take it prove the same of both."""
    if request.param == "local":
        return str(tmp_path / "graph.omni")
    request.getfixturevalue("s3")
    return f"s3://graphs/{tmp_path.name}-{abs(hash(tmp_path))}"


@pytest.fixture
def graph(root: str) -> Graph:
    """An empty graph of persons and companies."""
    return Graph.init(root, SCHEMA)


@pytest.fixture
def local_graph(tmp_path: Path) -> Graph:
    """The same on disk only, for tests that look at files."""
    return Graph.init(tmp_path / "graph.omni", SCHEMA)
