"""What a user sees and hears of Spark: that it starts, how far its tasks are, and what an interrupt has left."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, Progress, pipeline

PROGRAM = Path(sys.executable).with_name("omnigraph")
SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


@pytest.fixture
def job(tmp_path: Path, graph: Graph) -> Path:
    pq.write_table(pa.table({"name": [f"p{i}" for i in range(1_000)]}), tmp_path / "people.parquet")
    path = tmp_path / "job.yaml"
    path.write_text(f"graph: {graph.uri}\nnodes: {{Person: people.parquet}}\n")
    return path


def test_phases_of_a_load(spark: Any, graph: Graph, job: Path) -> None:
    seen: list[Progress] = []
    people = str(job.parent / "people.parquet")
    frame = spark.createDataFrame([("p1", "p2")], ["from", "to"])
    pipeline.load(spark, graph, {"Person": people}, {"Knows": frame}, progress=seen.append)
    ended = list(dict.fromkeys(each.phase for each in seen if each.is_over))
    assert ended == ["read", "check", "publish"]
    for each in seen:
        assert each.total is not None
        assert each.unit == ("tasks" if each.phase == "read" else "steps")
    rounds = [each for each in seen if each.phase == "read" and each.is_over]
    assert len(rounds) == 2, "one for the files and one for the frame"


def test_phases_of_a_merge(spark: Any, graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": "a"}}])
    graph.branches.create("dev")
    graph.load([{"type": "Person", "data": {"name": "b"}}])
    graph.load([{"type": "Person", "data": {"name": "c"}}], branch="dev")
    seen: list[Progress] = []
    assert graph.branches.merge("dev", engine="spark", progress=seen.append).outcome == "merged"
    ended = list(dict.fromkeys(each.phase for each in seen if each.is_over))
    assert ended == ["read", "compare", "check", "write", "publish"]


@pytest.mark.processes
def test_a_terminal_is_told_that_spark_starts(job: Path, graph: Graph) -> None:
    """While the launcher's words go nowhere, the terminal gets ours."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "pipeline", "run", job, "--master", "local[1]"], stdout=subprocess.PIPE, stderr=theirs, text=True,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    pieces: list[tuple[float, bytes]] = []
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                pieces.append((time.monotonic(), os.read(ours, 65_536)))
            except OSError:
                break
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "starting" not in out
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(piece for _, piece in pieces).decode())
    for phase in ("starting Spark", "reading", "publishing"):
        assert phase in text
    during = [at for at, piece in pieces if b"starting Spark" in piece and b"reading" not in piece]
    assert during[-1] - during[0] > 0.5, "it moves while Spark starts"
    assert len(Graph.open(graph.uri).rows("Person")) == 1_000


@pytest.mark.processes
@pytest.mark.parametrize(
    ("failpoint", "is_published"), [("publish.before_swap:interrupt", False), ("publish.after_swap:interrupt", True)]
)
def test_an_interrupted_run_says_what_it_has_written(
    job: Path, graph: Graph, failpoint: str, is_published: bool
) -> None:
    job.write_text(f"{job.read_text()}branch: dev\nfrom: main\n")
    done = subprocess.run(
        [PROGRAM, "pipeline", "run", job, "--master", "local[1]"], capture_output=True, text=True, check=False,
        env={**os.environ, "OMNIGRAPH_FAILPOINT": failpoint}, timeout=180,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr
    assert "starting Spark ..." in done.stderr.splitlines()
    last = done.stderr.splitlines()[-1]
    assert last.startswith("interrupted: ")
    assert ("was published on dev" in last) == is_published
    assert last.endswith("; there is no branch dev") != is_published
    fresh = Graph.open(graph.uri)
    assert [each.name for each in fresh.branches.list()] == (["main", "dev"] if is_published else ["main"])
    assert fresh.recovery.list() == []


@pytest.mark.processes
def test_an_interrupt_from_outside(job: Path, graph: Graph) -> None:
    process = subprocess.Popen(
        [PROGRAM, "pipeline", "run", job, "--master", "local[1]"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "OMNIGRAPH_FAILPOINT": "publish.before_swap:pause:120"},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(Path(graph.uri).glob("__recovery/*.staged")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "interrupted: nothing was published" in err.splitlines()[-1]
    assert Graph.open(graph.uri).recovery.list() == []
