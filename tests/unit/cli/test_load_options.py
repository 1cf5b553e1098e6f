"""`load` and its relatives on the command line: rejects, dry runs, files by type, mutate, export, blob."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.unit.cli.conftest import Cli
from tests.unit.write.test_bad_files import MIXED, SCHEMA


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "people", SCHEMA)
    graph.load(
        [
            {"type": "Person", "data": {"name": "ann", "photo": "base64:AAEC"}},
            {"type": "Person", "data": {"name": "bob"}},
        ]
    )
    return graph


def test_the_command_line(cli: Cli, people: Graph, tmp_path: Path) -> None:
    file, rejects = tmp_path / "mixed.jsonl", tmp_path / "rejects.jsonl"
    file.write_bytes(MIXED)
    load = ("load", people.uri, "--data", file, "--mode", "append")
    assert cli(*load, "--rejects", rejects, "--max-errors", "2").code == 1
    body = cli(*load, "--rejects", rejects, "--json").json
    assert body["total_entities"] == 2
    assert [json.loads(line)["line"] for line in rejects.read_text().splitlines()] == [
        each["line"] for each in body["rejected"]
    ]
    (tmp_path / "p.csv").write_text("name,age,extra\nz,1,2\n")
    (tmp_path / "k.csv").write_text("from,to\nz,ann\n")
    frames = ("--node", f"Person={tmp_path / 'p.csv'}", "--edge", f"Knows={tmp_path / 'k.csv'}")
    assert cli("load", people.uri, *frames, "--mode", "append").code == 1
    dry = cli("load", people.uri, *frames, "--mode", "append", "--ignore-unknown", "--dry-run")
    assert "checked 2 entities" in dry.out
    assert cli("load", people.uri, *frames, "--mode", "append", "--ignore-unknown").code == 0
    (tmp_path / "ends.csv").write_text("a,b,since\nann,bob,7\n")
    assert cli("load", people.uri, "--edge", f"Knows={tmp_path / 'ends.csv'}:a,b", "--mode", "append").code == 0
    assert 7 in people.rows("edge:Knows")["since"].to_pylist()
    assert cli("load", people.uri, "--mode", "append").code == 2
    assert cli("load", people.uri, "--node", "Person", "--mode", "append").code == 2
    assert cli("load", people.uri, "--data", file, "--mode", "append", "--max-errors", "2").code == 2


def test_mutate(cli: Cli, people: Graph, tmp_path: Path) -> None:
    text = "query age($n: String, $a: I64) { update Person set { age: $a } where name = $n }"
    ran = cli("mutate", "--store", people.uri, "-e", text, "--params", '{"n": "ann", "a": 7}', "--as", "me")
    assert (ran.code, ran.out) == (0, "changed main via age: 1 node, 0 edges as me\n")
    file = tmp_path / "q.gq"
    file.write_text('query add() { insert Person { name: "new" } }')
    add = ("mutate", "add", "--store", people.uri, "--query", file, "--idempotency-key", "k", "--message", "why")
    body = cli(*add, "--json").json
    assert (body["query_name"], body["affected_nodes"], body["commit"]["message"]) == ("add", 1, "why")
    assert cli(*add).out == f"done before, as commit {body['commit']['graph_commit_id']}\n"
    none = cli("mutate", "--store", people.uri, "-e", 'query q() { delete Person where name = "no" }', "--json").json
    assert none["commit"] is None
    stale = cli("mutate", "--store", people.uri, "--query", file, "--if-commit", "01M7FZ43PPCJ6SYNHWDVGQFYDG", "--json")
    assert (stale.code, stale.json["code"]) == (4, "precondition_failed")
    assert cli("mutate", "--store", people.uri, "-e", "query q() { delete Person where }").code == 1
    assert cli("mutate", "--store", people.uri).code == 2


def test_export_and_blob(cli: Cli, people: Graph, tmp_path: Path) -> None:
    lines = cli("export", people.uri, "--type", "Person").out.splitlines()
    assert [json.loads(line)["data"]["id"] for line in lines] == ["ann", "bob"]
    assert cli("export", people.uri, "--format", "csv").code == 2
    body = cli("export", people.uri, "--format", "parquet", "--out", tmp_path / "out", "--json").json
    assert {each["type_key"]: each["rows"] for each in body["types"]} == {"edge:Knows": 0, "node:Person": 2}
    copy = Graph.init(tmp_path / "copy", SCHEMA)
    copy.load(tmp_path / "out")
    assert copy.rows("node:Person").num_rows == 2
    blob = ("node", "Person", "ann", "photo", "--store", people.uri)
    out = tmp_path / "photo"
    assert cli("blob", "get", *blob, "--offset", "1", "--length", "1", "--out", out).code == 0
    assert out.read_bytes() == b"\x01"
    assert cli("blob", "stat", *blob, "--json").json["size"] == 3
    assert "kind: managed\nsize: 3\n" in cli("blob", "stat", *blob).out
    missing = cli("blob", "get", "node", "Person", "bob", "photo", "--store", people.uri)
    assert missing.code == 1
    assert "is null" in missing.err
    assert cli("blob", "get", *blob, "--length", "0").code == 2


def test_the_command_lists_as_many_as_asked_for(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text("name,age\n" + "".join(f"n{i},old\n" for i in range(30)) + "Ada,1\n")
    load = ("load", graph.uri, "--node", f"Person={data}", "--mode", "append", "--quiet")
    lines = cli(*load).err.splitlines()
    assert lines[0].startswith(f"error: {data}:2: ")
    assert lines[0].endswith("(and 30 more)")
    assert [line.split(":")[1] for line in lines[2:-1]] == [str(number) for number in range(3, 22)]
    assert lines[-1] == "  ... 11 more problems"
    everything = cli(*load, "--max-shown", "100").err.splitlines()
    assert len(everything) == 32
    assert everything[-1] == f"  {data}:32: node:Person already has an entity with id 'Ada'"
    few = cli(*load, "--max-shown", "1")
    assert (few.code, few.err.splitlines()[2:]) == (1, ["  ... 30 more problems"])
    assert len(cli(*load, "--max-shown", "1", "--json").json["violations"]) == 31
    assert cli(*load, "--max-shown", "0").code == 2
