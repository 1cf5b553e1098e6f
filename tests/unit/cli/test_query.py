"""`query`, `lint` and `explain`: formats, parameters, targets, and errors that point."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.json_values import json_value
from tests.unit.cli.conftest import Cli

FRIENDS = (
    "query friends($n: String) { match { $p: Person { name: $n } $p $k:knows $f } return { $f.name, $k.since, $f } }"
)
ALL = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"


def test_a_table(cli: Cli, graph: Graph) -> None:
    done = cli("query", "-e", FRIENDS, "--params", '{"n": "Ada"}', "--store", graph.uri)
    assert done.code == 0
    assert done.out.splitlines() == [
        "1 row from branch main via friends",
        "f.name | k.since    | f",
        "-------+------------+------------------------------",
        'Bob    | 1843-01-01 | {"@id": "Bob", "name": "Bob"}',
    ]


def test_no_rows(cli: Cli, graph: Graph) -> None:
    done = cli("query", "-e", FRIENDS, "--params", '{"n": "Bob"}', "--store", graph.uri)
    assert done.out.splitlines()[-1] == "(no rows)"


def test_every_format_carries_the_same_rows(cli: Cli, graph: Graph) -> None:
    def ask(format: str) -> str:
        done = cli("query", "-e", ALL, "--store", graph.uri, "--format", format)
        assert done.code == 0
        return done.out

    assert list(csv.reader(io.StringIO(ask("csv")))) == [["p.name", "p.age"], ["Ada", "36"], ["Bob", "null"]]
    head, *rows = map(json.loads, ask("jsonl").splitlines())
    assert (head["kind"], head["row_count"], head["query_name"]) == ("metadata", 2, "all")
    assert rows == [{"p.name": "Ada", "p.age": 36}, {"p.name": "Bob", "p.age": None}]
    whole = json.loads(ask("json"))
    assert (whole["rows"], whole["columns"], whole["row_count"]) == (rows, ["p.name", "p.age"], 2)
    assert whole["graph_commit_id"] == graph.commits.head().graph_commit_id
    assert ask("kv").splitlines() == [
        "row 1",
        "  p.name: Ada",
        "  p.age: 36",
        "row 2",
        "  p.name: Bob",
        "  p.age: null",
    ]


def test_json_is_short_for_the_format(cli: Cli, graph: Graph) -> None:
    assert cli("query", "-e", ALL, "--store", graph.uri, "--json").json["row_count"] == 2


def test_a_file_with_several_queries(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "people.gq"
    file.write_text(f"{ALL}\n{FRIENDS}\n")
    (tmp_path / "params.json").write_text('{"n": "Ada"}')
    named = cli(
        "query", "friends", "--query", file, "--params-file", tmp_path / "params.json", "--store", graph.uri, "--json"
    )
    assert named.json["rows"][0]["f.name"] == "Bob"
    unnamed = cli("query", "--query", file, "--store", graph.uri)
    assert unnamed.code == 1
    assert "all" in unnamed.err
    assert "friends" in unnamed.err


def test_branches_and_old_states(cli: Cli, graph: Graph) -> None:
    graph.branches.create("exp")
    graph.load([{"type": "Person", "data": {"name": "Cyd"}}], branch="exp")
    count = "query n() { match { $p: Person } return { count(*) as n } }"

    def ask(*where: str) -> int:
        return int(cli("query", "-e", count, "--store", graph.uri, "--json", *where).json["rows"][0]["n"])

    assert (ask(), ask("--branch", "exp"), ask("--at", "exp@1"), ask("--at", "1")) == (2, 3, 2, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["-e", "query q() { match { $p: Person $p.agee > 1 } return { $p } }"], 1, "did you mean `age`?"),
        (["-e", "query q() { match { $p: Person }"], 1, "^"),
        (["-e", FRIENDS], 1, "n"),
        (["-e", FRIENDS, "--params", "{"], 1, "not JSON"),
        (["-e", FRIENDS, "--params", "[]"], 1, "one JSON object"),
        (["-e", FRIENDS, "--params", '{"n": 5}'], 1, "n"),
        (["-e", "query q() { insert Person { name: 'x' } }"], 1, "double quotes"),
        (["-e", 'query q() { insert Person { name: "x" } }'], 1, "mutation"),
        (["--query", "missing.gq"], 1, "missing.gq"),
        ([], 2, "--query FILE"),
        (["-e", ALL, "--query", "x.gq"], 2, "--query FILE"),
        (["-e", ALL, "--format", "xml"], 2, "xml"),
        (["-e", ALL, "--branch", "nope"], 1, "nope"),
    ],
)
def test_what_goes_wrong_is_said(cli: Cli, graph: Graph, arguments: list[str], code: int, text: str) -> None:
    done = cli("query", *arguments, "--store", graph.uri)
    assert done.code == code
    assert text in done.err


def test_lint_offline_and_against_a_graph(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    good, bad, schema = tmp_path / "good.gq", tmp_path / "bad.gq", tmp_path / "s.pg"
    good.write_text(ALL)
    bad.write_text(ALL + "\nquery broken() { match { $p: Persn } return { $p } }")
    schema.write_text(graph.schema.show())
    assert cli("lint", "--query", good, "--schema", schema).code == 0
    against_graph = cli("lint", graph.uri, "--query", bad)
    assert against_graph.code == 1
    assert "OK    read all" in against_graph.out
    assert "T1" in against_graph.out
    report = cli("lint", "--query", bad, "--schema", schema, "--json").json
    assert (report["status"], report["errors"], report["queries_processed"]) == ("error", 1, 2)
    assert report["schema_source"] == {"kind": "file", "path": str(schema)}
    assert cli("lint", graph.uri, "--query", good, "--schema", schema).code == 2


def test_explain(cli: Cli, graph: Graph) -> None:
    done = cli("explain", "-e", FRIENDS, "--store", graph.uri)
    assert "edge $p -> $f: Knows as $k" in done.out
    assert cli("explain", "-e", FRIENDS, "--store", graph.uri, "--json").json["query_name"] == "friends"


def test_values_that_json_cannot_carry() -> None:
    moment = dt.datetime(2024, 2, 29, 12, 34, 56, 789_000, tzinfo=dt.UTC)
    assert json_value(moment) == "2024-02-29T12:34:56.789Z"
    assert json_value([dt.date(2024, 1, 2), float("nan"), float("-inf"), 2**63, 2**53 - 1, True]) == [
        "2024-01-02", "NaN", "-Infinity", str(2**63), 2**53 - 1, True,
    ]  # fmt: skip


def test_arrow_is_a_stream(graph: Graph, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    command = [
        sys.executable,
        "-m",
        "omnigraph.cli.main",
        "query",
        "-e",
        ALL,
        "--store",
        graph.uri,
        "--format",
        "arrow",
    ]
    done = subprocess.run(command, capture_output=True, check=True, env=os.environ.copy())
    table = pa.ipc.open_stream(done.stdout).read_all()
    assert table.to_pylist() == [{"p.name": "Ada", "p.age": 36}, {"p.name": "Bob", "p.age": None}]


@pytest.mark.parametrize("command", ["query", "mutate", "explain"])
def test_a_text_is_never_a_file_name(
    cli: Cli, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.gq").write_text("query all() { match { $p: Person } return { $p.name } }")
    (tmp_path / "folder").mkdir()
    for text in ("all.gq", "folder", str(tmp_path / "all.gq"), "nowhere.gq"):
        done = cli(command, "-e", text, "--store", graph.uri, "--json")
        assert (done.code, done.json["code"]) == (1, "parse_error"), text
    assert "holds no query" in cli(command, "-e", "", "--store", graph.uri).err
