"""A process that was forked while a graph was open cannot use storage, and says so instead of waiting for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.conftest import SCHEMA
from tests.support.rows import person

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, sys
from omnigraph import Graph
from omnigraph.errors import ForkUnsupported

path, case = sys.argv[1:]
graph = None if case == "fresh" else Graph.open(path)
if graph is not None:
    graph.rows("node:Person")
child = os.fork()
if child == 0:
    code = 9
    try:
        if case == "open":
            Graph.open(path)
        elif case == "read":
            graph.rows("node:Person")
        elif case == "write":
            graph.load([{"type": "Person", "data": {"name": "child"}}])
        elif case == "grandchild":
            inner = os.fork()
            if inner:
                os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
            Graph.open(path)
        else:
            Graph.open(path).load([{"type": "Person", "data": {"name": "child"}}])
        code = 0
    except ForkUnsupported as error:
        code = 3 if "spawn" in str(error) else 4
    finally:
        os._exit(code)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if graph is not None:
    graph.load([{"type": "Person", "data": {"name": "parent"}}])
sys.exit(code)
"""


def run(path: Path, case: str) -> int:
    """The exit code of the child; a child that hangs is ended by the watchdog, and the test fails."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path), case], cwd=ROOT, timeout=60, check=False)
    return done.returncode


@pytest.mark.processes
@pytest.mark.parametrize("case", ["open", "read", "write", "grandchild"])
def test_a_forked_process_is_refused_and_its_parent_goes_on(tmp_path: Path, case: str) -> None:
    Graph.init(tmp_path / "g", SCHEMA).load([person("a")])
    assert run(tmp_path / "g", case) == 3
    assert sorted(Graph.open(tmp_path / "g").rows("node:Person")["name"].to_pylist()) == ["a", "parent"]


@pytest.mark.processes
def test_a_process_that_opened_nothing_may_fork(tmp_path: Path) -> None:
    Graph.init(tmp_path / "g", SCHEMA)
    assert run(tmp_path / "g", "fresh") == 0
    assert Graph.open(tmp_path / "g").rows("node:Person")["name"].to_pylist() == ["child"]
