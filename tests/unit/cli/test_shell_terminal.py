"""`shell` on a real terminal: prompts, questions, errors and history; and mutations from a script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.cli.prompts import prompt_text
from tests.unit.cli.conftest import Cli
from tests.unit.cli.terminal import Terminal

ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"
EVE = 'insert Person { name: "Eve" };'


def shell(graph: Graph, tmp_path: Path, *options: str, **variables: str) -> Terminal:
    history = ("--history", str(tmp_path / "history"))
    return Terminal("shell", graph.uri, "--format", "csv", *history, *options, columns=100, **variables)


def names(graph: Graph, branch: str = "main") -> list[str]:
    return [row["p.name"] for row in graph.query(ALL, branch=branch).to_pylist()]


def test_the_prompt_of_an_unfinished_statement_stands_below_that_of_its_first_line() -> None:
    assert prompt_text("people.omni:main", unfinished=False) == "people.omni:main> "
    assert prompt_text("people.omni:main", unfinished=True) == "             ...> "


@pytest.mark.processes
def test_prompts_name_the_graph_and_the_state(graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("exp")
    graph.tags.create("v1")
    with shell(graph, tmp_path) as terminal:
        terminal.until("graph:main>")
        terminal.enter("match { $p: Person }")
        terminal.until(r"\.\.\.>")
        terminal.enter("return { $p.name } order { $p.name };")
        assert "Ada\nBob\n" in terminal.until("graph:main>")
        terminal.enter("match {")
        terminal.until(r"\.\.\.>")
        terminal.type("\x03")  # Ctrl-C
        terminal.until("graph:main>")
        terminal.enter("\\branch exp")
        terminal.until("graph:exp>")
        terminal.enter("\\at v1")
        terminal.until("graph@v1>")
        terminal.enter("\\tags")
        terminal.until(r"v1\r?\n.*graph@v1>")
        terminal.enter("\\help")
        assert "\\queries" in terminal.until("leave.*graph@v1>")
        terminal.enter(EVE)
        terminal.until("nothing there can change.*graph@v1>")
        terminal.type("\x04")  # Ctrl-D
        terminal.rest()
    assert names(graph) == ["Ada", "Bob"]


@pytest.mark.processes
def test_mutations_are_confirmed(graph: Graph, tmp_path: Path) -> None:
    with shell(graph, tmp_path, "--as", "ada") as terminal:
        terminal.until("graph:main>")
        for answer in ("n", ""):
            terminal.enter(EVE)
            terminal.until(r"insert Person on graph:main\? \[y/N\] ")
            terminal.enter(answer)
            terminal.until("nothing was changed.*graph:main>")
        assert names(graph) == ["Ada", "Bob"]
        terminal.enter(EVE)
        terminal.until(r"\[y/N\] ")
        terminal.enter("y")
        terminal.until("changed main via it: 1 node, 0 edges as ada.*graph:main>")
        terminal.enter(ALL)
        assert "Eve" in terminal.until("Eve.*graph:main>")
        terminal.enter("\\confirm")
        terminal.until("asking before mutations off.*graph:main>")
        terminal.enter('delete Person where name = "Eve";')
        terminal.until("changed main via it: 1 node, 0 edges as ada.*graph:main>")
        terminal.enter("\\quit")
        terminal.rest()
    assert names(graph) == ["Ada", "Bob"]
    assert graph.commits.head().actor_id == "ada"
    with shell(graph, tmp_path, "--yes") as terminal:
        terminal.until("graph:main>")
        terminal.enter(EVE)
        assert "[y/N]" not in terminal.until("changed main via it.*graph:main>")


@pytest.mark.processes
def test_errors_have_a_caret_under_the_place_that_was_typed(graph: Graph, tmp_path: Path) -> None:
    with shell(graph, tmp_path) as terminal:
        terminal.until("graph:main>")
        terminal.enter("match { $p: Persn } return { $p };")
        shown = terminal.until("hint.*graph:main>")
    lines = [line.rstrip() for line in shown.splitlines()]
    at = next(number for number, line in enumerate(lines) if set(line.strip()) == {"^"})
    column = int(re.search(r"<text>:1:(\d+):", shown)[1])  # type: ignore[index]
    assert lines[at - 1][2:] == "match { $p: Persn } return { $p }"
    assert lines[at].index("^") == lines[at - 1].index("Persn") == column + 1


@pytest.mark.processes
def test_history_is_kept_between_sessions(graph: Graph, tmp_path: Path) -> None:
    with shell(graph, tmp_path) as terminal:
        terminal.until("graph:main>")
        terminal.enter(ALL)
        terminal.until("Bob.*graph:main>")
        terminal.type("\x04")
        terminal.rest()
    assert "query all()" in (tmp_path / "history").read_text()
    with shell(graph, tmp_path) as terminal:
        terminal.until("graph:main>")
        terminal.type("\x1b[A")  # the key for the line before
        terminal.until("query all")
        terminal.enter("")
        terminal.until("Ada.*Bob.*graph:main>")


@pytest.mark.processes
def test_long_answers_are_paged(graph: Graph, tmp_path: Path) -> None:
    graph.load([{"type": "Person", "data": {"name": f"n{i:03}"}} for i in range(60)])
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/PAGED /'\n")
    pager.chmod(0o755)
    with shell(graph, tmp_path, PAGER=str(pager)) as terminal:
        terminal.until("graph:main>")
        terminal.enter(ALL)
        terminal.until("PAGED n059.*graph:main>")
        for limit, last in (
            ("\\format table", r"\.\.\. 12 more rows: .limit N shows N"),
            ("\\limit 2", r"\.\.\. 60 more rows"),
            ("\\limit", "PAGED n059"),
        ):
            terminal.enter(limit)
            terminal.until("graph:main>")
            terminal.enter(ALL)
            terminal.until(f"{last}.*graph:main>")


def test_a_script_changes_a_branch_without_a_question(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("exp")
    (tmp_path / "stored.gq").write_text(f"{ALL}\nquery add($n: String) {{ insert Person {{ name: $n }} }}")
    lines = ("\\branch exp", EVE, '\\params {"n": "Zoe"}', f"\\use {tmp_path / 'stored.gq'}", "\\queries", "\\run add")
    script = "\n".join((*lines, "\\run all\n"))
    done = cli("shell", graph.uri, "--format", "csv", stdin=script.encode())
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "changed exp via it: 1 node, 0 edges", "add", "all", "changed exp via add: 1 node, 0 edges",
        "p.name", "Ada", "Bob", "Eve", "Zoe",
    ]  # fmt: skip
    assert (names(graph), names(graph, "exp")) == (["Ada", "Bob"], ["Ada", "Bob", "Eve", "Zoe"])


def test_a_statement_is_never_a_file_name(
    cli: Cli, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "query.gq").write_text(ALL)
    done = cli("shell", graph.uri, stdin=b"query.gq\n")
    assert (done.code, done.out) == (1, "")
    assert "<text>:1:" in done.err
