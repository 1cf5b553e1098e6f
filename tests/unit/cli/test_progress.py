"""Progress on a terminal and without one: real processes, of which stderr is a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.api.progress import Progress
from omnigraph.cli.progress import amount_text, percent_text, shown_progress
from omnigraph.errors import InvalidArgument

PROGRAM = Path(sys.executable).with_name("omnigraph")
HIDES_CURSOR = "\x1b[?25l"
CROSS = "query q() { match { $a: Person  $b: Person  $c: Person } return { count(distinct $c.name) as n } }"


def on_terminal(*arguments: object, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit code of a command, its stdout, and what its terminal shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs, text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "140", **(env or {})},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                data = os.read(ours, 65_536)
            except OSError:  # the other side is closed
                break
            shown += data
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out, shown.decode()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("name,age\n" + "".join(f"p{i},{i % 90}\n" for i in range(80_000)))
    return path


@pytest.mark.processes
def test_a_load_on_a_terminal(graph: Graph, csv: Path) -> None:
    code, out, screen = on_terminal("load", graph.uri, "--node", f"Person={csv}", "--mode", "append")
    assert (code, out[:7]) == (0, "loaded ")
    assert "reading" not in out
    text = plain(screen)
    size = f"{csv.stat().st_size / 1000:.1f} kB" if csv.stat().st_size < 1_000_000 else "1.0 MB"
    assert re.search(rf"reading ━+ 100% {size} of {size}, 80,000 rows", text)
    for phase in ("checking", "writing", "publishing"):
        assert re.search(rf"{phase} +━+ 100%", text), phase
    for share, done, total in re.findall(r"reading ━*[╸╺]?━* +(\d+)% (\S+ \w+) of (\S+ \w+)", text):
        assert (share == "100") <= (done == total)
    assert HIDES_CURSOR not in screen


@pytest.mark.processes
def test_the_seconds_after_a_load_are_shown(graph: Graph, csv: Path) -> None:
    """The result is printed first; then the process waits for indexes, as a phase."""
    slow = {"OMNIGRAPH_FAILPOINT": "fold.after_index:pause:2"}
    code, _, screen = on_terminal("load", graph.uri, "--node", f"Person={csv}", "--mode", "append", env=slow)
    assert code == 0
    assert re.search(r"indexing +━+.* 0% 0 of 1 tables", plain(screen))


@pytest.mark.processes
def test_a_query_over_a_second_has_a_spinner(graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{i}"}} for i in range(260)])
    ask = ("query", "-e", CROSS, "--store", graph.uri)
    roomy = {"OMNIGRAPH_QUERY_MAX_ROWS": str(10**12), "OMNIGRAPH_QUERY_MAX_MEMORY": str(9 * 2**30)}
    code, out, screen = on_terminal(*ask, "--format", "csv", env=roomy)
    assert (code, out.splitlines()[0]) == (0, "n")
    assert "running" in screen
    assert HIDES_CURSOR not in screen
    code, out, screen = on_terminal(*ask, "--json", env=roomy)
    assert (code, screen) == (0, "")


@pytest.mark.processes
def test_a_short_query_and_a_quiet_load_show_nothing(graph: Graph, csv: Path) -> None:
    ask = "query q() { match { $a: Person } return { $a.name } }"
    assert on_terminal("query", "-e", ask, "--store", graph.uri)[2] == ""
    load = ("load", graph.uri, "--node", f"Person={csv}", "--mode", "append", "--quiet")
    assert on_terminal(*load)[::2] == (0, "")


@pytest.mark.processes
def test_a_merge_over_a_second_has_a_spinner(graph: Graph) -> None:
    graph.branches.create("dev")
    graph.load([{"type": "Person", "data": {"name": "Eve"}}], branch="dev")
    slow = {"OMNIGRAPH_FAILPOINT": "publish.before_swap:pause:2"}
    code, out, screen = on_terminal("branch", "merge", "dev", "--store", graph.uri, env=slow)
    assert (code, out) == (0, "merged dev into main: fast_forward\n")
    assert "merging" in screen
    assert "publishing" in screen


@pytest.mark.processes
def test_without_a_terminal_there_are_no_bars(graph: Graph, csv: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "load", graph.uri, "--node", f"Person={csv}", "--mode", "append"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == f"omnigraph load -> {graph.uri} (local)\n"


def test_lines_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with shown_progress() as progress:
        assert progress is not None
        progress(Progress("start", 0, 1, "steps"))
        for at in range(0, 100, 10):
            clock[0] = float(at)
            progress(Progress("read", at, 100, "tasks"))
    assert capsys.readouterr().err.splitlines() == [
        "starting Spark ...", "reading: 30 of 100 tasks, 30 s", "reading: 60 of 100 tasks, 60 s",
        "reading: 90 of 100 tasks, 90 s",
    ]  # fmt: skip
    monkeypatch.setenv("OMNIGRAPH_PROGRESS_SECONDS", "0")
    for show in (True, False):
        with shown_progress(show=show) as progress:
            assert progress is None
    monkeypatch.setenv("OMNIGRAPH_PROGRESS_SECONDS", "often")
    with pytest.raises(InvalidArgument, match="OMNIGRAPH_PROGRESS_SECONDS is 'often'"), shown_progress():
        pass


def test_amounts() -> None:
    assert amount_text(Progress("read", 500_000, 1_000_000, "bytes", 10)) == "500.0 kB of 1.0 MB, 10 rows"
    assert amount_text(Progress("write", 5, 10, "rows", 5)) == "5 of 10 rows"
    assert amount_text(Progress("read", 1_005, None, "rows", 1_005)) == "1,005 rows"
    assert percent_text(Progress("read", 999, 1000)) == "99%"
    assert percent_text(Progress("read", 1000, 1000)) == "100%"
    assert percent_text(Progress("read", 1, None)) == ""
