"""Many real processes on one S3 store, where no file lock helps: the conditional put alone decides."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.versioning.store import Settings
from tests.conftest import SCHEMA
from tests.support.invariants import check_every_version
from tests.support.rows import company, person
from tests.support.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.processes]
ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import json, sys
from omnigraph import Graph
from omnigraph.errors import OmnigraphError
uri, mine, count, shape = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
graph = Graph.open(uri)
print("ready", flush=True)
sys.stdin.readline()
for i in range(count):
    name = f"{mine}-{i}"
    if shape == "same-key":
        rows = [{"type": "Person", "data": {"name": f"contested-{i}", "age": int(mine)}}]
    elif shape == "own-table" and int(mine) % 2:
        rows = [{"type": "Company", "data": {"name": name}}]
    elif shape == "two-tables":
        rows = [{"type": "Person", "data": {"name": name}}, {"edge": "Knows", "from": name, "to": "root"}]
    else:
        rows = [{"type": "Person", "data": {"name": name}}]
    try:
        commit = graph.load(rows).commit
        print(json.dumps({"commit": commit.graph_commit_id, "name": name, "round": i}), flush=True)
    except OmnigraphError as error:
        print(json.dumps({"error": error.code, "round": i}), flush=True)
"""


def start(uri: str, number: int, count: int, shape: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, uri, str(number), str(count), shape],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ.copy(),
    )  # fmt: skip


def run(uri: str, writers: int, count: int, shape: str) -> list[list[dict[str, object]]]:
    processes = [start(uri, n, count, shape) for n in range(writers)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
    results = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        results.append([json.loads(line) for line in out.splitlines()])
    return results


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param("one-table", marks=pytest.mark.slow),
        pytest.param("own-table", marks=pytest.mark.slow),
        "two-tables",
    ],
)
def test_every_commit_of_many_processes_is_there(s3: S3Server, shape: str) -> None:
    uri = f"s3://graphs/processes-{shape}"
    graph = Graph.init(uri, SCHEMA)
    graph.load([person("root")])
    results = run(uri, writers=5, count=6, shape=shape)
    acknowledged = [r for rows in results for r in rows]
    assert not [r for r in acknowledged if "error" in r]
    assert len({r["commit"] for r in acknowledged}) == 30
    listed = [c.graph_commit_id for c in graph.commits.list() if c.kind == "load"]
    assert len(listed) == 31
    rows = graph.rows("node:Person")["name"].to_pylist() + graph.rows("node:Company")["name"].to_pylist()
    assert sorted(rows) == sorted([*(str(r["name"]) for r in acknowledged), "root"])
    check_every_version(uri)


def test_one_winner_for_each_key(s3: S3Server) -> None:
    uri = "s3://graphs/processes-same-key"
    graph = Graph.init(uri, SCHEMA)
    results = run(uri, writers=5, count=4, shape="same-key")
    for i in range(4):
        outcomes = [r for rows in results for r in rows if r["round"] == i]
        assert [r.get("error") for r in outcomes].count("key_conflict") == 4, outcomes
    assert graph.rows("node:Person").num_rows == 4
    check_every_version(uri)


def test_killed_writers_leave_all_or_nothing(s3: S3Server) -> None:
    uri = "s3://graphs/processes-killed"
    graph = Graph.init(uri, SCHEMA)
    graph.load([person("root")])
    dice = random.Random(7)
    acknowledged: list[str] = []
    for generation in range(4):
        processes = [start(uri, generation * 10 + n, 1000, "two-tables") for n in range(2)]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        time.sleep(2.5 + dice.random())
        for process in processes:
            process.send_signal(signal.SIGKILL)
            out, _ = process.communicate()
            lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
            acknowledged += [json.loads(line)["commit"] for line in lines]
    assert graph.load([company("at once")]).commit is not None, "a crashed writer blocks nobody"
    impatient = Graph.open(uri, settings=Settings(lease=0.0, lease_margin=0.0))
    time.sleep(1.1)  # the clock of the store counts whole seconds: an intent of this second is not older than it
    impatient.recovery.run()
    assert impatient.recovery.run() == []
    listed = [c.graph_commit_id for c in graph.commits.list()]
    assert set(acknowledged) <= set(listed)
    assert len(listed) == len(set(listed))
    people, edges = graph.rows("node:Person"), graph.rows("edge:Knows")
    assert people.num_rows == edges.num_rows + 1, "a node and its edge come together"
    check_every_version(uri)
