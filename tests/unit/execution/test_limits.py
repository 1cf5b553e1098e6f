"""A runaway query stops at a limit that its error names, and an interrupt stops it in the middle of an operation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, LimitExceeded
from omnigraph.versioning.store import Settings
from tests.conftest import SCHEMA
from tests.support.rows import knows, person

PRODUCT = "query q() { match { $a: Person  $b: Person  $c: Person  $d: Person } return { $a.name, $b.name, $c.name } }"
WALKS = "query q() { match { $a: Person  $a knows{1,} $b  $b knows{1,} $c } return { $a.name, $b.name, $c.name } }"
NAMES = [f"p{i:03}" for i in range(120)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    ring = [knows(a, b) for a, b in zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True)]
    graph.load([*map(person, NAMES), *ring])
    return graph.uri


def limited(uri: str, **settings: float) -> Graph:
    return Graph.open(uri, settings=Settings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("query", [PRODUCT, WALKS])
@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("query_max_rows", 10_000, "OMNIGRAPH_QUERY_MAX_ROWS"),
        ("query_max_memory", 100_000, "OMNIGRAPH_QUERY_MAX_MEMORY"),
        ("query_max_seconds", 1e-9, "OMNIGRAPH_QUERY_TIMEOUT"),
    ],
)
def test_a_runaway_query_stops(uri: str, query: str, setting: str, value: float, named: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        limited(uri, **{setting: value}).query(query)
    assert named in (caught.value.hint or "")
    assert caught.value.code == "limit_exceeded"


def test_the_default_refuses_a_product_of_everything(uri: str) -> None:
    with pytest.raises(LimitExceeded, match="rows of bindings"):
        Graph.open(uri).query(PRODUCT)


def test_the_environment_sets_limits(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_MAX_ROWS", "5")
    with pytest.raises(LimitExceeded, match="the limit is 5"):
        Graph.open(uri).query("query q() { match { $a: Person } return { $a.name } }")
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT", "0")
    assert Settings.from_env().query_max_seconds is None
    monkeypatch.setenv("OMNIGRAPH_QUERY_MAX_MEMORY", "lots")
    with pytest.raises(InvalidArgument, match="OMNIGRAPH_QUERY_MAX_MEMORY='lots' is not a limit"):
        Graph.open(uri)


def test_a_limited_query_makes_no_more_rows_than_it_takes(uri: str) -> None:
    graph = limited(uri, query_max_rows=2_000)
    rows = graph.query("query q() { match { $a: Person  $a knows $b } return { $a.name } limit 3 }")
    assert rows.row_count == 3


@pytest.mark.processes
def test_an_interrupt_stops_at_once_and_leaves_nothing(uri: str) -> None:
    before = sorted(p for p in Path(uri).rglob("*") if p.is_file())
    cross = (
        "query q() { match { $a: Person  $b: Person  $c: Person  $d: Person } return { count(distinct $d.name) as n } }"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli.main", "query", "-e", cross, "--store", uri],
        env={**os.environ, "OMNIGRAPH_QUERY_MAX_ROWS": str(10**12), "OMNIGRAPH_QUERY_MAX_MEMORY": str(9 * 2**30)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in out + err
    assert sorted(p for p in Path(uri).rglob("*") if p.is_file()) == before
