"""Options of files in `Graph.load` and on the command line: dialects, dates, what is sniffed, what is refused."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import FileOptions, Graph
from omnigraph.errors import ArgumentRefused, DataError, InvalidArgument, InvalidValue
from tests.unit.cli.conftest import Cli

SCHEMA = """
node Person { name: String @key  age: I64?  born: Date?  seen: DateTime? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def rows(graph: Graph) -> list[dict[str, Any]]:
    found = graph.rows("node:Person").select(["name", "age", "born", "seen"]).sort_by("name").to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_keywords_and_the_object(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes("'åd;a';NULL;01.02.1990;3.4.2024 05:06\nb;-;;\n".encode("latin-1"))
    given: dict[str, Any] = {
        "columns": {"name": "_c0", "age": "_c1", "born": "_c2", "seen": "_c3"}, "delimiter": ";", "quote": "'",
        "header": False, "null_values": ["NULL", "-"], "encoding": "latin-1", "date_format": "%d.%m.%Y",
        "datetime_format": "%d.%m.%Y %H:%M",
    }  # fmt: skip
    expected = [
        {
            "name": "åd;a",
            "born": dt.date(1990, 2, 1),
            "seen": dt.datetime(2024, 4, 3, 5, 6, tzinfo=dt.UTC),
        },
        {"name": "b"},
    ]
    result = graph.load({"Person": path}, **given)
    assert [(each["name"], each.get("born")) for each in rows(graph)] == [("b", None), ("åd;a", dt.date(1990, 2, 1))]
    assert result.sniffed == {}
    options = FileOptions(**{**given, "null_values": ("NULL", "-")})
    graph.load({"Person": [path]}, "overwrite", options=options)
    found = {each["name"]: each for each in rows(graph)}
    assert found["åd;a"]["seen"].replace(tzinfo=dt.UTC) == expected[0]["seen"]
    with pytest.raises(InvalidArgument, match="`options` and `quote` are given"):
        graph.load({"Person": path}, options=options, quote="|")
    with pytest.raises(ArgumentRefused, match="delimiter"):
        graph.load({"Person": path}, delimiter=7)  # type: ignore[arg-type]


def test_dates_that_are_written_otherwise_are_rejects(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("name,born\na,31.12.1999\nb,1999-12-31\nc,30.02.2000\n")
    result = graph.load({"Person": path}, date_format="%d.%m.%Y", max_errors=2)
    assert [(each.row, each.field, each.value) for each in result.rejected] == [
        (3, "born", "1999-12-31"), (4, "born", "30.02.2000"),
    ]  # fmt: skip
    assert "expects a Date written as %d.%m.%Y" in result.rejected[0].message
    assert rows(graph) == [{"name": "a", "born": dt.date(1999, 12, 31)}]


def test_what_is_sniffed_is_said(graph: Graph, tmp_path: Path) -> None:
    files = {
        "semicolons.csv": b"name;age\na;1\n", "utf16.csv": "name,age\nb,2\n".encode("utf-16"),
        "tabs.tsv": b"name\tage\nc\t3\n", "tabs.tsv.gz": gzip.compress(b"name\tage\nd\t4\n"),
        "array.json": b' [{"name": "e", "age": 5},\n{"name": "f"}]', "spread.json": b'{\n "name": "g"\n}',
        "lines.json": b'{"name": "h"}\n{"name": "i"}\n', "marked.csv": b"\xef\xbb\xbfname,age\nj,10\n",
        "packed.csv.zst": pa.compress(b"name;age\nk;11\n", "zstd", asbytes=True),
    }  # fmt: skip
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    result = graph.load({"Person": [tmp_path / name for name in files]})
    assert "".join(row["name"] for row in rows(graph)) == "abcdefghijk"
    assert {Path(path).name: dict(found) for path, found in result.sniffed.items()} == {
        "semicolons.csv": {"delimiter": ";"}, "utf16.csv": {"encoding": "utf-16"}, "array.json": {"format": "json"},
        "spread.json": {"format": "json"}, "packed.csv.zst": {"delimiter": ";"},
    }  # fmt: skip
    (tmp_path / "all.json").write_text(
        json.dumps([{"type": "Person", "data": {"name": "x"}}, {"edge": "Knows", "from": "x", "to": "a"}, 7])
    )
    result = graph.load(tmp_path / "all.json", max_errors=1)
    assert (result.total_entities, [each.row for each in result.rejected]) == (2, [3])


def test_what_is_refused(graph: Graph, tmp_path: Path) -> None:
    def refused(name: str, body: bytes, words: str, kind: type[Exception] = InvalidArgument, **more: Any) -> None:
        (tmp_path / name).write_bytes(body)
        with pytest.raises(kind, match=words):
            graph.load({"Person": tmp_path / name}, **more)

    refused("p.xlsx", b"PK", "is a spreadsheet, which cannot be loaded")
    refused("p.zip", b"PK", "is an archive")
    refused("p.jsonl", b"", "delimiter is for CSV, .*p.jsonl is jsonl", delimiter=";")
    refused("twice.csv", b"name,age,age\na,1,2\n", "column 'age' appears twice", InvalidValue)
    refused("none.csv", b"name,age\na,1\n", "column 'years' is missing", DataError, columns={"age": "years"})
    graph.load({"Person": tmp_path / "twice.csv"}, columns={"name": "name"})
    assert rows(graph) == [{"name": "a"}]
    with pytest.raises(InvalidArgument, match="`columns` maps the properties of one type"):
        graph.load({"Person": "p.csv", "Knows": "k.csv"}, columns={"name": "who"})
    with pytest.raises(InvalidArgument, match="delimiter is for CSV"):
        graph.load(tmp_path / "all.jsonl", delimiter=";")


def test_the_command_line(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("ada\tN/A\t31.12.1815\nbob\t7\t\n")
    load = ("load", graph.uri, "--mode", "append")
    written = ("--delimiter", "tab", "--names", "who,years,day", "--null", "N/A", "--date-format", "%d.%m.%Y")
    mapped = ("--column", "name=who", "--column", "age=years", "--column", "born=day", "--encoding", "utf-8")
    assert cli(*load, "--node", f"Person={tmp_path / 'p.csv'}", *written, *mapped).code == 0
    assert rows(graph) == [{"name": "ada", "born": dt.date(1815, 12, 31)}, {"name": "bob", "age": 7}]
    (tmp_path / "k.csv").write_text("a;b\nada;bob\n")
    edges = (*load, "--edge", f"Knows={tmp_path / 'k.csv'}", "--column", "from=a", "--column", "to=b")
    body = cli(*edges, "--dry-run", "--json").json
    assert body["sniffed"] == {str(tmp_path / "k.csv"): {"delimiter": ";"}}
    done = cli(*edges)
    assert (done.code, "read with delimiter ';', which was sniffed" in done.err) == (0, True)
    (tmp_path / "x.csv").write_text("'q\"r'|5|\n")
    plain = (*load, "--node", f"Person={tmp_path / 'x.csv'}", "--delimiter", "|")
    signs = ("--no-header", "--column", "name=_c0", "--column", "age=_c1")
    assert cli(*plain, "--quote", "'", "--escape", "/", "--datetime-format", "%d.%m.%Y %H", *signs).code == 0
    assert rows(graph)[-1] == {"name": 'q"r', "age": 5}
    assert cli(*plain, "--column", "name").code == 2
    assert cli(*plain, "--column", "a=b", "--column", "a=c").code == 2
    assert "encoding 'x' is unknown" in cli(*plain, "--encoding", "x").err
