"""Fixtures that every kind of test shares."""

from __future__ import annotations

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


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Side by side run files, not tests: what a file prepares is prepared once. All of Spark shares one session."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if file.startswith("tests/spark/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


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
