"""What a terminal shows: tables that fit it, the first rows, a pager. Pipes and files get everything."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.cli.command_table import ENTRIES, PAGED
from omnigraph.cli.layout import LEAST_WIDTH, Table, display_width, fit_columns
from tests.unit.cli.terminal import PROGRAM, Terminal

LONG = "a long text " * 30
ALL = "query all() { match { $n: Note } return { $n.name, $n.text } }"
PEOPLE = "query people() { match { $p: Person } return { $p.name } order { $p.name } }"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    schema = "node Note { name: String @key  text: String }\nnode Person { name: String @key }"
    graph = Graph.init(tmp_path_factory.mktemp("terminal") / "g", schema)
    people = [{"type": "Person", "data": {"name": f"n{i:03}"}} for i in range(120)]
    graph.load([{"type": "Note", "data": {"name": "long", "text": LONG}}, *people], message=LONG)
    return graph.uri


def piped(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": "40", "PAGER": "false"}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True, env=environment).stdout


def test_columns_share_a_width_and_ids_are_narrowed_last() -> None:
    wide, key = "x" * 300, "k" * 26
    table = Table(["n.id", "text", "more", "n"], [[key, wide, "y" * 50, "1"]], gap=" | ")
    assert table.widths(None) == [26, 300, 50, 1]
    widths = table.widths(80)
    assert (widths[0], widths[3], sum(widths) + 9) == (26, 1, 80)
    assert abs(widths[1] - widths[2]) <= 1
    assert display_width(table.line(table.rows[0], widths)) == 80
    assert key in table.line(table.rows[0], widths)
    assert table.widths(40)[1:3] == [LEAST_WIDTH, LEAST_WIDTH]
    assert sum(table.widths(40)) + 9 == 40
    assert set(table.widths(5)) == {LEAST_WIDTH, 1}


def test_wide_characters_take_two_cells() -> None:
    assert fit_columns("日本語", 8) == "日本語  "
    assert display_width(fit_columns("日本語日本語", 8)) == 8
    assert fit_columns("日本語日本語", 8).endswith("…")


@pytest.mark.processes
def test_a_terminal_cuts_cells_and_a_pipe_does_not(uri: str) -> None:
    with Terminal("query", "-e", ALL, "--store", uri, columns=70) as terminal:
        shown = terminal.rest()
    *_, row = shown.splitlines()
    assert (len(row), row[-1]) == (70, "…")
    (note,) = json.loads(piped("query", "-e", ALL, "--store", uri, "--json"))["rows"]
    assert row.startswith("long   | a long text ")
    assert note["n.text"] == LONG
    assert LONG.strip() in piped("query", "-e", ALL, "--store", uri)
    assert LONG.strip() in piped("commit", "list", uri)
    with Terminal("commit", "list", uri, columns=90) as terminal:
        lines = terminal.rest().splitlines()
    assert [line[:26] for line in lines[1:]] == [line[:26] for line in piped("commit", "list", uri).splitlines()[1:]]
    assert max(len(line) for line in lines) == 90


@pytest.mark.processes
def test_a_terminal_shows_the_first_rows_and_says_so(uri: str) -> None:
    arguments = ("--no-pager", "query", "-e", PEOPLE, "--store", uri)
    with Terminal(*arguments) as terminal:
        shown = terminal.rest()
    assert shown.splitlines()[0] == "120 rows from branch main via people"
    assert shown.splitlines()[-2:] == ["n049", "... 70 more rows: --all shows them, --limit N the first N"]
    with Terminal(*arguments, "--all") as terminal:
        assert terminal.rest().splitlines()[-1] == "n119"
    with Terminal(*arguments, "--format", "csv") as terminal:
        assert terminal.rest().count("\n") == 121
    with Terminal(*arguments, "--json") as terminal:
        assert len(json.loads(terminal.rest())["rows"]) == 120
    assert piped(*arguments).splitlines()[-1] == "n119"
    assert piped(*arguments, "--limit", "2").splitlines()[-2:] == [
        "n001", "... 118 more rows: --all shows them, --limit N the first N",
    ]  # fmt: skip
    for wrong in (("--limit", "2", "--all"), ("--limit", "2", "--format", "csv"), ("--limit", "2", "--json")):
        ran = subprocess.run([PROGRAM, *arguments, *wrong], capture_output=True, check=False)
        assert ran.returncode == 2


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that marks what it shows."""
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\nsed 's/^/PAGED /'\n")
    program.chmod(0o755)
    return program


@pytest.mark.processes
def test_long_output_goes_through_the_pager_of_the_user(uri: str, pager: Path) -> None:
    arguments = ("query", "-e", PEOPLE, "--store", uri, "--all")
    with Terminal(*arguments, PAGER=str(pager)) as terminal:
        lines = terminal.rest().splitlines()
        assert terminal.process.returncode == 0
    assert (len(lines), lines[-1]) == (123, "PAGED n119")
    assert all(line.startswith("PAGED ") for line in lines)
    with Terminal(*arguments, PAGER="false", OMNIGRAPH_PAGER=f"{pager} -x") as terminal:
        assert "PAGED n119" in terminal.rest()
    with Terminal(*arguments, PAGER=str(pager), lines=200) as terminal:  # all of it fits
        assert "PAGED" not in terminal.rest()
    with Terminal("--no-pager", *arguments, PAGER=str(pager)) as terminal:
        assert "PAGED" not in terminal.rest()
    for off in ("", "cat", "there-is-no-such-pager"):
        with Terminal(*arguments, OMNIGRAPH_PAGER=off, PAGER=str(pager)) as terminal:
            assert terminal.rest().splitlines()[-1] == "n119"
    environment = {**os.environ, "PAGER": str(pager)}
    assert b"PAGED" not in subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, env=environment).stdout


@pytest.mark.processes
def test_a_pager_that_is_left_ends_the_command(uri: str, tmp_path: Path) -> None:
    program = tmp_path / "impatient"
    program.write_text("#!/bin/sh\nhead -n 1\n")
    program.chmod(0o755)
    arguments = ("query", "-e", PEOPLE, "--store", uri, "--format", "csv")
    with Terminal(*arguments, PAGER=str(program)) as terminal:
        assert terminal.rest() == "p.name\n"
        assert terminal.process.returncode == 0


def test_paged_commands_exist() -> None:
    assert set(ENTRIES) >= PAGED
