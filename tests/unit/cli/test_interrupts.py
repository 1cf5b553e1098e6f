"""Ctrl-C: real processes that get a real SIGINT, at a named place of the write or from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.support.graphs import while_armed

PROGRAM = Path(sys.executable).with_name("omnigraph")
NOTHING = "interrupted: nothing was published; staged files are removed by `omnigraph cleanup`"
TWO_TABLES = (
    '{"type": "Person", "data": {"name": "Eve"}}\n{"type": "Person", "data": {"name": "Dan"}}\n'
    '{"edge": "Knows", "from": "Eve", "to": "Dan"}\n'
)
pytestmark = pytest.mark.processes


def interrupted(point: str, *arguments: object) -> str:
    """The last line on stderr of a command that gets a SIGINT at a failpoint. It exits with 130 and prints nothing."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], env={**os.environ, "OMNIGRAPH_FAILPOINT": f"{point}:interrupt"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 130, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("interrupted: ")]
    assert len(told) == 1, done.stderr
    return told[0]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(TWO_TABLES)
    return path


def state_of(graph: Graph) -> tuple[list[str], list[str], int]:
    """Branches, commits of main, and unfinished writes."""
    fresh = Graph.open(graph.uri, mode="ro")
    commits = [each.graph_commit_id for each in fresh.commits.list()]
    return [each.name for each in fresh.branches.list()], commits, len(fresh.recovery.list())


@pytest.mark.parametrize(
    "point",
    ["intent.after_begin", "stage.after_table", "intent.before_complete", "intent.after_complete",
     "publish.after_manifest_data", "publish.before_swap"],
)  # fmt: skip
def test_a_load_that_is_stopped_before_it_is_published(graph: Graph, rows: Path, point: str) -> None:
    before = state_of(graph)
    assert interrupted(point, "load", graph.uri, "--data", rows, "--mode", "append") == NOTHING
    assert state_of(graph) == before, "nothing of it is left to be published by somebody else"


@pytest.mark.parametrize("point", ["publish.after_swap", "intent.before_remove"])
def test_a_load_that_is_stopped_after_it_was_published(graph: Graph, rows: Path, point: str) -> None:
    told = interrupted(point, "load", graph.uri, "--data", rows, "--mode", "append")
    found = re.fullmatch(
        r"interrupted: commit (\w+) was published on main; what the command does after that was not finished", told
    )
    assert found is not None, told
    assert Graph.open(graph.uri, mode="ro").commits.head().graph_commit_id == found[1]
    assert len(Graph.open(graph.uri, mode="ro").rows("Person")) == 4


@pytest.mark.parametrize(
    ("point", "is_there"),
    [("branch_create.after_manifest", False), ("branch_create.after_claim", False), ("stage.after_table", False),
     ("publish.before_swap", False), ("publish.after_swap", True)],
)  # fmt: skip
def test_a_branch_that_the_load_would_have_begun(graph: Graph, rows: Path, point: str, is_there: bool) -> None:
    load = ("load", graph.uri, "--data", rows, "--mode", "append", "--branch", "dev", "--from", "main")
    told = interrupted(point, *load)
    assert (NOTHING in told) != is_there
    assert told.endswith("; there is no branch dev") != is_there
    names = [each.name for each in Graph.open(graph.uri, mode="ro").branches.list()]
    assert names == (["main", "dev"] if is_there else ["main"])


def test_a_branch_that_was_there_stays(graph: Graph, rows: Path) -> None:
    graph.branches.create("dev")
    load = ("load", graph.uri, "--data", rows, "--mode", "append", "--branch", "dev", "--from", "main")
    assert interrupted("publish.before_swap", *load) == NOTHING
    assert [each.name for each in graph.branches.list()] == ["main", "dev"]


def test_a_load_that_is_stopped_while_indexes_are_built(graph: Graph, tmp_path: Path) -> None:
    """The result is there already: the process need not wait for what another writer can do."""
    path = tmp_path / "Person.csv"
    path.write_text("name\n" + "".join(f"p{i}\n" for i in range(70_000)))
    told = interrupted("fold.after_index", "load", graph.uri, "--data", path, "--mode", "append", "--quiet")
    assert "was published on main" in told
    assert len(Graph.open(graph.uri, mode="ro").rows("Person")) == 70_002


@pytest.mark.parametrize(("point", "is_merged"), [("publish.before_swap", False), ("publish.after_swap", True)])
def test_a_merge(graph: Graph, point: str, is_merged: bool) -> None:
    graph.branches.create("dev")
    graph.load([{"type": "Person", "data": {"name": "Eve"}}], branch="dev")
    graph.load([{"type": "Person", "data": {"name": "Dan"}}])
    told = interrupted(point, "branch", "merge", "dev", "--store", graph.uri)
    assert ("was published on main" in told) == is_merged
    assert (told == NOTHING) != is_merged
    assert len(Graph.open(graph.uri, mode="ro").rows("Person")) == (4 if is_merged else 3)
    assert state_of(graph)[2] == 0


@pytest.mark.parametrize(("point", "is_done"), [("optimize.after_stage", False), ("publish.after_swap", True)])
def test_optimize(graph: Graph, point: str, is_done: bool) -> None:
    for number in range(3):
        graph.load([{"type": "Person", "data": {"name": f"n{number}"}}])
    told = interrupted(point, "optimize", graph.uri)
    assert ("was published on main" in told) == is_done
    head = Graph.open(graph.uri, mode="ro").commits.head()
    assert (head.kind == "optimize") == is_done


def test_cleanup(graph: Graph) -> None:
    for number in range(3):
        graph.load([{"type": "Person", "data": {"name": f"n{number}"}}])
    clean = ("cleanup", graph.uri, "--keep", 1, "--grace", "0s", "--force", "--confirm")
    told = interrupted("cleanup.after_batch", *clean)
    assert told == "interrupted: what was deleted is gone, and the next cleanup goes on with the rest"
    assert graph.maintenance.fsck().problems == ()


@contextlib.contextmanager
def paused(*arguments: object, signal_after: str, failpoint: str) -> Iterator[subprocess.Popen[str]]:
    """A process that writes a file when it is under way, which it gets a SIGINT from outside for."""
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)], env={**os.environ, "OMNIGRAPH_FAILPOINT": failpoint},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any(Path(signal_after).parent.glob(Path(signal_after).name)):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    yield process


def test_an_interrupt_from_outside_does_not_wait_for_threads(graph: Graph, rows: Path) -> None:
    """A thread that stages a table goes on for a minute: the process ends all the same."""
    load = ("load", graph.uri, "--data", rows, "--mode", "append")
    begun = time.monotonic()
    with paused(
        *load, signal_after=f"{graph.uri}/__recovery/*.json", failpoint="stage.after_table:pause:60"
    ) as process:
        out, err = process.communicate(timeout=50)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == NOTHING
    assert "Traceback" not in err
    assert time.monotonic() - begun < 50
    assert state_of(graph)[2] == 0


def test_an_export_leaves_no_half_of_a_file(graph: Graph, tmp_path: Path) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{i}"}} for i in range(200_000)])
    out = tmp_path / "all.jsonl"
    export = ("export", graph.uri, "--out", out)
    with paused(*export, signal_after=f"{out}.part", failpoint="") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == f"interrupted: {out} was not written"
    assert not out.exists()
    assert not Path(f"{out}.part").exists()


def test_a_copy_is_gone_on_with(graph: Graph, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    graph.load([{"type": "Person", "data": {"name": f"p{i}"}} for i in range(2_000)])
    for number in range(30):
        graph.load([{"type": "Person", "data": {"name": f"n{number}"}}])
    with paused("backup", copy, "--store", graph.uri, signal_after=f"{copy}/*", failpoint="") as process:
        _, err = process.communicate(timeout=60)
    if process.returncode:  # it may have been done
        assert process.returncode == 130
        assert f"interrupted: the copy at {copy} is not complete, or was not checked" in err
    done = subprocess.run([PROGRAM, "backup", copy, "--store", graph.uri, "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)["clean"]


def test_a_branch_whose_creation_is_stopped_is_not_there(graph: Graph) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    for point in (Point.BRANCH_MANIFEST, Point.BRANCH_CLAIMED):
        with while_armed({point: stop}), pytest.raises(KeyboardInterrupt):
            graph.branches.create("dev")
        assert [each.name for each in Graph.open(graph.uri).branches.list()] == ["main"]
    graph.branches.create("dev")


def test_the_failpoint_that_interrupts() -> None:
    with while_armed(failpoints.parse("publish.before_swap:interrupt:2")):
        failpoints.hit(Point.BEFORE_SWAP)
        with pytest.raises(KeyboardInterrupt):
            failpoints.hit(Point.BEFORE_SWAP)


def test_an_interrupt_after_the_command_does_not_change_its_exit_code(graph: Graph) -> None:
    """The interpreter is ending, and prints what it was asked for at its end."""
    code = (
        "import atexit, os, signal, sys\n"
        "from omnigraph.cli.main import run\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        f"sys.argv = ['omnigraph', 'branch', 'list', '--store', {graph.uri!r}]\n"
        "sys.exit(run())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "main" in done.stdout
