"""Schemas proposed from files: what they say and why, and that the files can be loaded into them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import DataError, InvalidArgument
from tests.unit.cli.conftest import Cli

PEOPLE = "id,Full Name,age,zip,joined,seen,ok,mood,score\n" + "".join(
    f"{n},Ann {n % 7},{30 if n else ''},00{n % 9},2020-01-01,2020-01-01T10:00:00Z,true,{'abc'[n % 3]},{n / 4}\n"
    for n in range(80)
)


def write(folder: Path) -> None:
    (folder / "people.csv").write_text(PEOPLE)
    pq.write_table(
        pa.table({"code": ["x", "y"], "size": pa.array([1, None], pa.int32()), "at": [dt.date(2020, 1, 1)] * 2,
                  "vec": [[1.0, 2.0, 3.0]] * 2, "deep": [{"a": 1}] * 2, "tags": [["a"], None]}),
        folder / "Place.parquet",
    )  # fmt: skip
    (folder / "knows.csv").write_text("source;target;since\n1;2;\n2;79;2020-01-01\n")
    (folder / "visits.jsonl").write_text('{"from": 1, "to": "x", "n": 1}\n{"from": 99, "to": "y", "n": 2}\n')
    (folder / "odd.json").write_text('[{"from": "q", "to": "x", "n": 1},\n{"from": "r", "to": "y", "n": "two"}]')


def test_what_is_proposed(tmp_path: Path) -> None:
    write(tmp_path)
    text = Graph.infer(
        [tmp_path / name for name in ("people.csv", "Place.parquet", "knows.csv", "visits.jsonl", "odd.json")]
    )
    lines = [line.strip() for line in text.splitlines()]
    for expected in (
        "people_id: I64 @key  // every value is a whole number; all 80 rows have a value; "
        "load with column people_id=id; no value appears twice",
        "full_name: String  // text; only 7 different values, an enum may fit: "
        "Ann 0, Ann 1, Ann 2, Ann 3, Ann 4, Ann 5, Ann 6; all 80 rows have a value; "
        "load with column full_name=Full Name",
        "age: I64?  // every value is a whole number; 1 of 80 rows have no value",
        "zip: String  // numbers with leading zeros, which a number would lose; only 9 different values, "
        "an enum may fit: 000, 001, 002, 003, 004, 005, 006, 007, 008; all 80 rows have a value",
        "joined: Date  // every value is written as a Date; all 80 rows have a value",
        "seen: DateTime  // every value is written as a DateTime; all 80 rows have a value",
        "ok: Bool  // every value is true or false; all 80 rows have a value",
        "score: F64  // every value is a number; all 80 rows have a value",
        "node Place {",
        "code: String @key  // text; all 2 rows have a value; no value appears twice",
        "size: I32?  // the column is int32; 1 of 2 rows have no value",
        "vec: Vector(3)  // every list has 3 numbers; [F64] if they are no vectors; all 2 rows have a value",
        "// deep is left out: the column is struct<a: int64>, which no property can hold",
        "tags: [String]?  // lists; 1 of 2 rows have no value",
        "// delimiter ';' was sniffed",
        "// Load with columns from=source, to=target, or rename them.",
        "// 'source': all 2 different values are keys of People",
        "edge Knows: People -> People {",
        "since: Date?  // every value is written as a Date; 1 of 2 rows have no value",
        "// 'from': 1 of 2 different values are keys of People; it has no others",
        "edge Visits: People -> Place {",
        "// 'from': its values are keys of no node type of these files",
        "// edge Odd: TODO -> Place {",
    ):
        assert expected in lines, expected
    graph = Graph.init(tmp_path / "g", text)
    names = {"people_id": "id", "full_name": "Full Name"} | {
        n: n for n in ("age", "zip", "joined", "seen", "ok", "mood", "score")
    }
    graph.load({"People": tmp_path / "people.csv"}, columns=names)
    ends = {"from": "source", "to": "target", "since": "since"}
    assert graph.load({"Knows": tmp_path / "knows.csv"}, columns=ends).total_entities == 2
    graph.load({"Place": tmp_path / "Place.parquet"}, ignore_unknown=True)


def test_envelopes_and_what_cannot_be_known(tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text(
        '{"type": "Person", "data": {"name": "a", "age": 1}}\n{"type": "Person", "data": {"name": "b"}}\nbroken\n'
        '{"edge": "Knows", "from": "a", "to": "b", "data": {"since": "2020-01-01"}}\n'
    )
    text = Graph.infer(tmp_path / "all.jsonl")
    assert "1 rows cannot be read and were left out" in text
    assert "edge Knows: Person -> Person {" in text
    Graph.init(tmp_path / "g", text).load(tmp_path / "all.jsonl", max_errors=1)
    (tmp_path / "same.csv").write_text("a,b\n1,\n1,\n")
    text = Graph.infer(tmp_path / "same.csv")
    assert "No @key: no column has a different value in every row" in text
    assert "b: String?  // no row has a value: the type is a guess" in text
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    for name, words in (("twice.csv", "column 'a' appears twice"), ("empty.csv", "the file is empty")):
        with pytest.raises(DataError, match=words):
            Graph.infer(tmp_path / name)
    with pytest.raises(InvalidArgument, match="two files are of the type Same"):
        Graph.infer([tmp_path / "same.csv", tmp_path / "same.csv"])


def test_the_command_line(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path)
    files = ("init", "--infer", tmp_path / "people.csv", "--infer", tmp_path / "knows.csv")
    target = tmp_path / "people.pg"
    shown, body = cli(*files), cli(*files, "--json").json
    assert (shown.code, shown.out) == (0, body["schema"].rstrip("\n") + "\n")
    assert cli(*files, "--schema-out", target).out.startswith(f"wrote {target}")
    assert target.read_text() == body["schema"]
    assert cli(*files, "--schema-out", target).code == 1
    assert cli("init", tmp_path / "g", "--schema", target, "--quiet").code == 0
    for wrong in (("init",), ("init", "--schema-out", target), (*files, "--schema", target), (*files, tmp_path / "h")):
        assert cli(*wrong).code == 2
    (tmp_path / "p.xlsx").write_bytes(b"PK")
    assert "is a spreadsheet" in cli("init", "--infer", tmp_path / "p.xlsx").err
    assert json.loads(cli("init", "--infer", tmp_path / "no.csv", "--json").out)["error"]
