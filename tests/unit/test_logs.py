"""Events on the logger `omnigraph`: nothing without a listener, lines on stderr when the environment asks."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph, logs
from omnigraph.errors import InvalidArgument, KeyConflict
from omnigraph.storage.failpoints import Point
from tests.support.graphs import EXPIRED, SMALL, crash_at, knows, people

WORK = """
from omnigraph import Graph
g = Graph.init({uri!r}, "node Person {{ name: String @key }}")
g.load({{"Person": [{{"name": "ann bell"}}]}}, actor="ada")
"""


@pytest.fixture(autouse=True)
def _quiet_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    yield
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    logs.configure()


def run(tmp_path: Path, **environment: str) -> list[str]:
    env = {**os.environ, **environment}
    code = WORK.format(uri=str(tmp_path / "g"))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    return [line for line in done.stderr.splitlines() if "lance::" not in line]


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [(r.event, r.fields) for r in caplog.records if r.name == "omnigraph"]  # type: ignore[attr-defined]


def test_nothing_is_said_and_nothing_is_configured_by_default(tmp_path: Path) -> None:
    assert run(tmp_path) == []
    before = list(logging.getLogger().handlers)
    Graph.init(tmp_path / "other", SMALL)
    assert logging.getLogger().handlers == before
    assert [type(h) for h in logging.getLogger("omnigraph").handlers] == [logging.NullHandler]


def test_json_lines_hold_the_fields(tmp_path: Path) -> None:
    [line] = [json.loads(text) for text in run(tmp_path, OMNIGRAPH_LOG="json")]
    assert (line["event"], line["level"], line["branch"], line["kind"]) == ("commit.published", "info", "main", "load")
    assert (line["actor"], line["tables"], line["version"]) == ("ada", "node:Person", 2)
    assert {"time", "process", "commit", "ms", "graph"} <= line.keys()


def test_text_lines_and_levels(tmp_path: Path) -> None:
    [line] = run(tmp_path, OMNIGRAPH_LOG="info,text")
    assert " INFO commit.published " in line
    assert " branch=main " in line
    assert run(tmp_path / "again", OMNIGRAPH_LOG="error") == []


def test_an_unknown_word_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.VARIABLE, "loud")
    with pytest.raises(InvalidArgument, match="OMNIGRAPH_LOG"):
        Graph.init(tmp_path / "g", SMALL)


def test_every_event_reaches_an_application_that_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "omnigraph")
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob")})
    with pytest.raises(KeyConflict), Conflicting(graph):
        graph.load({"Person": people("cyd")})
    with crash_at(Point.INTENT_COMPLETED):
        graph.load({"Person": people("dan"), "Knows": knows(("dan", "ann"))})
    graph = Graph.open(graph.uri, settings=EXPIRED)
    for number in range(66):
        graph.load({"Person": people(f"p{number}")})
    graph.maintenance.optimize()
    graph.branches.create("gone")
    graph.branches.delete("gone")
    graph.maintenance.cleanup(3, confirm=True, grace=0, force=True)
    told = events(caplog)
    names = {name for name, _ in told}
    assert {
        "commit.published",
        "commit.conflict",
        "recovery",
        "fold",
        "optimize",
        "cleanup",
        "branch.reclaimed",
    } <= names
    fields = dict(told)
    assert fields["recovery"]["outcome"] == "RolledForward"
    assert fields["commit.conflict"]["code"] == "key_conflict"
    assert fields["cleanup"]["objects"] > 0
    assert fields["optimize"]["tables"]
    assert fields["branch.reclaimed"]["branch"] == "gone"
    insert = next(fields for name, fields in told if name == "commit.published")
    assert "manifest_swap:1" in insert["calls"]
    assert insert["storage_calls"] == sum(int(each.rpartition(":")[2]) for each in insert["calls"].split(","))


class Conflicting:
    """While a write is being published, somebody else takes its key."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __enter__(self) -> None:
        from omnigraph.storage import failpoints

        def rival() -> None:
            failpoints.arm(None)
            Graph.open(self._graph.uri).load({"Person": people("cyd")})

        failpoints.arm({Point.ROWS_WRITTEN: rival})

    def __exit__(self, *_: object) -> None:
        from omnigraph.storage import failpoints

        failpoints.arm(None)
