"""`shell`, fed from a pipe and from a terminal; stored queries; times as targets; plans."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.cli.statements import as_query, depth_of, statements
from omnigraph.errors import InvalidArgument, NotFound
from tests.unit.cli.conftest import Cli

FRIENDS = "query friends($n: String) { match { $p: Person { name: $n }  $p knows $f } return { $f.name } }"
ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"


def ask(cli: Cli, graph: Graph, text: str, *options: str) -> list[str]:
    done = cli("shell", graph.uri, *options, stdin=text.encode())
    assert done.code == 0, done.err
    return done.out.splitlines()


def test_statements_end_where_they_must() -> None:
    lines = ["match { $p: Person", "} return { $p }", "", "\\help", "query a() {", "match {} }", "x; ", "y {", "}"]
    assert list(statements(iter(lines))) == [
        "match { $p: Person\n} return { $p }", "\\help", "query a() {\nmatch {} }", "x", "y {\n}",
    ]  # fmt: skip
    assert depth_of('{ "}" // }\n "\\"}" {') == 2
    assert as_query("match { }") == "query it() {\nmatch { }\n}"
    assert as_query(ALL) == f"{ALL}\n"


def test_questions_and_commands(cli: Cli, graph: Graph) -> None:
    script = f'\\format csv\n{ALL}\n\\params {{"n": "Ada", "unused": 1}}\n{FRIENDS}\n\\types\n\\branches\n'
    lines = ask(cli, graph, script)
    assert lines[:5] == ["p.name", "Ada", "Bob", "f.name", "Bob"]
    assert "node  Person  2" in [" ".join(line.split()).replace(" ", "  ") for line in lines]
    assert lines[-1] == "main"


def test_an_error_is_shown_and_the_session_goes_on(cli: Cli, graph: Graph) -> None:
    done = cli("shell", graph.uri, stdin=b"match { $p: Persn } return { $p };\n\\nope\n\\format csv\n" + ALL.encode())
    assert done.code == 0
    assert "Persn" in done.err
    assert "the shell has no command \\nope" in done.err
    assert done.out.splitlines() == ["p.name", "Ada", "Bob"]
    assert cli("shell", graph.uri, stdin=b"\\nope\n").code == 1


def test_branches_times_and_plans(cli: Cli, graph: Graph) -> None:
    graph.branches.create("exp")
    graph.load([{"type": "Person", "data": {"name": "Eve"}}], branch="exp")
    lines = ask(cli, graph, f"\\format csv\n\\branch exp\n{ALL}\n\\at main\n{ALL}\n\\explain\n{ALL}\n\\quit\n{ALL}\n")
    assert lines[:7] == ["p.name", "Ada", "Bob", "Eve", "p.name", "Ada", "Bob"]
    assert "plan" in lines
    assert lines[-1].split() == ["2", "sort", "$p.name", "asc"]


def test_stored_queries(cli: Cli, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = tmp_path / "stored"
    (stored / "deep").mkdir(parents=True)
    (stored / "a.gq").write_text(ALL)
    (stored / "deep" / "b.gq").write_text(FRIENDS)
    assert graph.query(stored, "friends", {"n": "Ada"}).to_pylist() == [{"f.name": "Bob"}]
    assert cli("query", "all", "--query", stored, "--store", graph.uri, "--format", "csv").out == "p.name\nAda\nBob\n"
    monkeypatch.setenv("OMNIGRAPH_QUERIES", str(stored))
    assert cli("query", "all", "--store", graph.uri, "--format", "csv").out == "p.name\nAda\nBob\n"
    assert ask(cli, graph, f"\\format csv\n\\use {stored}\n\\run all\n") == ["p.name", "Ada", "Bob"]
    with pytest.raises(InvalidArgument, match="holds no query `frends`") as caught:
        graph.query(stored, "frends")
    assert "friends" in (caught.value.hint or "")
    with pytest.raises(InvalidArgument, match="holds stored queries: all, friends"):
        graph.query(stored)
    (stored / "c.gq").write_text(ALL)
    with pytest.raises(InvalidArgument, match="`all` is stored twice"):
        graph.query(stored, "all")
    monkeypatch.delenv("OMNIGRAPH_QUERIES")
    assert cli("query", "all", "--store", graph.uri).code == 2


def test_a_time_is_a_target(cli: Cli, graph: Graph) -> None:
    then = dt.datetime.now(dt.UTC)
    time.sleep(0.002)
    graph.load([{"type": "Person", "data": {"name": "Eve"}}])
    text = then.isoformat()
    assert cli("query", "-e", ALL, "--store", graph.uri, "--format", "csv", "--at", text).out.count("\n") == 3
    assert cli("query", "-e", ALL, "--store", graph.uri, "--format", "csv", "--at", f"main@{text}").out.count("\n") == 3
    assert cli("snapshot", graph.uri, "--at", text, "--json").code == 0
    assert graph.query(ALL, at=then).row_count == graph.query(ALL, snapshot=then).row_count == 2
    assert graph.query(ALL, at=then.replace(tzinfo=None)).branch is None
    assert graph.query(ALL).row_count == 3
    with pytest.raises(NotFound, match="did not exist at 1999"):
        graph.query(ALL, at=dt.datetime(1999, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(InvalidArgument, match="several are named"):
        graph.query(ALL, snapshot="main", at=then)
    assert cli("query", "-e", ALL, "--store", graph.uri, "--at", "2024-13-01").code == 1


def test_explain_and_analyze(cli: Cli, graph: Graph) -> None:
    arguments = ("explain", "-e", FRIENDS, "--store", graph.uri)
    assert "seek $p: Person by ($p.name = $n:String)" in cli(*arguments).out
    found = cli(*arguments, "--analyze", "--params", '{"n": "Ada"}', "--json").json
    assert [each["operator"] for each in found["plan"]] == ["seek", "expand", "project"]
    assert [each["rows"] for each in found["plan"]] == [1, 1, 1]
    assert all(each["ms"] >= 0 for each in found["plan"])
    assert found["row_count"] == 1
    assert cli(*arguments, "--analyze").code == 1
    assert cli("explain", "-e", FRIENDS, "--schema", "x.pg", "--analyze").code == 2


def test_batches_and_streams(graph: Graph) -> None:
    result = graph.query(ALL)
    assert [batch.num_rows for batch in result.to_batches(1)] == [1, 1]
    assert result.to_reader().read_all().equals(result.to_arrow())


def test_formats_are_written_while_rows_are_read(cli: Cli, graph: Graph) -> None:
    """A row that cannot be computed ends the output where it is, and says so."""
    people = [{"type": "Person", "data": {"name": f"n{i:04}", "age": 2000 - i}} for i in range(2100)]
    graph.load(people, branch="many", from_branch="main")
    text = "query q() { match { $p: Person  $p.age is not null } return { $p.name, 1000 / $p.age as x } }"
    done = cli("query", "-e", text, "--store", graph.uri, "--branch", "many", "--format", "jsonl")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1
    assert "division by zero" in done.err
    assert lines[0]["kind"] == "metadata"
    assert 0 < len(lines) - 1 < lines[0]["row_count"]
    assert all(set(line) == {"p.name", "x"} for line in lines[1:])


@pytest.mark.parametrize("format", ["csv", "jsonl", "arrow"])
def test_streamed_formats_have_the_rows_of_the_whole_answer(cli: Cli, graph: Graph, format: str) -> None:
    command = [sys.executable, "-m", "omnigraph.cli.main", "query", "-e", ALL, "--store", graph.uri, "--format", format]
    out = subprocess.run(command, capture_output=True, check=True).stdout
    names = [row["p.name"] for row in graph.query(ALL).to_pylist()]
    if format == "csv":
        assert out.decode() == "\n".join(["p.name", *names]) + "\n"
    elif format == "jsonl":
        head, *rows = [json.loads(line) for line in out.splitlines()]
        assert head["row_count"] == len(names)
        assert rows == [{"p.name": name} for name in names]
    else:
        assert pa.ipc.open_stream(out).read_all()["p.name"].to_pylist() == names
