"""Bad files of every format: a clear report, nothing written, and the next load works."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import DataError, InvalidArgument, InvalidValue, KeyConflict, OmnigraphError

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  score: F64?  ok: Bool?  size: enum(s, m)?  v: Vector(2)?
  tags: [String]?  photo: Blob?  seen: DateTime?  n: U64?  f: F32?  @range(age, 0..150)  @check(name, "^[a-z]") }
edge Knows: Person -> Person { since: I32? }
"""
HEAD = "name,age,born,score,ok,size,v,tags,photo,seen,n,f\n"
GOOD_LINE = b'{"type":"Person","data":{"name":"good"}}\n'


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "graph", SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "ann"}}, {"type": "Person", "data": {"name": "bob"}}])
    return graph


def csv(field: str, value: str) -> bytes:
    return f"name,{field}\na,\nb,{value}\n".encode()


CSV: dict[str, tuple[bytes, str]] = {
    "text in a number": (csv("age", "old"), "x.csv:3: Person.age expects an integer"),
    "a fraction in a number": (csv("age", "1.5"), "x.csv:3: Person.age expects an integer"),
    "a number too large": (csv("age", "2147483648"), "x.csv:3: Person.age"),
    "out of @range": (csv("age", "151"), "x.csv:3: @range violation"),
    "negative unsigned": (csv("n", "-1"), "x.csv:3: Person.n"),
    "a bad date": (csv("born", "2024-02-30"), "x.csv:3: Person.born"),
    "a bad moment": (csv("seen", "noon"), "x.csv:3: Person.seen"),
    "not a number": (csv("score", "nan"), "x.csv:3: Person.score expects a finite number"),
    "infinity": (csv("score", "inf"), "x.csv:3: Person.score expects a finite number"),
    "a float too large": (csv("f", "1e39"), "x.csv:3: Person.f"),
    "a bad bool": (csv("ok", "maybe"), "x.csv:3: Person.ok expects a Bool"),
    "a bad enum": (csv("size", "xl"), "x.csv:3: Person.size invalid enum value 'xl'"),
    "a vector that is no list": (csv("v", "1"), "x.csv:3: Person.v expects a vector"),
    "a vector of the wrong length": (csv("v", '"[1]"'), "x.csv:3: Person.v expects 2 dimensions, got 1"),
    "a list that is no JSON": (csv("tags", "[a"), "x.csv:3: Person.tags expects a JSON list"),
    "a list with a number": (csv("tags", '"[1]"'), "x.csv:3: Person.tags"),
    "a blob that is a URI": (csv("photo", "http://x/y"), "x.csv:3: Person.photo names an external URI"),
    "a blob that is no base64": (csv("photo", "base64:?"), "x.csv:3: Person.photo is not valid base64"),
    "a missing key": (b"name,age\na,1\n,2\n", "x.csv:3: Person.name is required"),
    "a key twice": (b"name\na\na\n", "x.csv:3: @unique violation on Person.name: 'a' is also in line 2"),
    "a key that exists": (b"name\nx\nann\n", "x.csv:3: node:Person already has an entity"),
    "an unknown column": (b"name,agee\na,1\n", "Person has no property `agee`"),
    "a failed @check": (b"name\na\nA\n", "x.csv:3: @check violation"),
    "too few fields": (b"name,age\na,1\nb\n", "x.csv"),
    "too many fields": (b"name,age\na,1,2\n", "x.csv"),
    "not UTF-8": (b"name\n\xff\xfe\n", "x.csv"),
    "an open quote": (b'name,age\n"a,1\n', "x.csv"),
    "an id against the key": (b"id,name\nq,a\n", "x.csv:2: Person id 'q' does not match @key"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "message"), CSV.values(), ids=CSV)
def test_csv(people: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(body)
    _refused(people, {"Person": "x.csv"}, message)


def parquet(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path)


PARQUET: dict[str, tuple[Callable[[Path], None], str]] = {
    "no key column": (parquet(age=[1]), "Person.name is required"),
    "a null key": (parquet(name=["a", None]), "x.parquet:2: Person.name is required"),
    "a number as text": (parquet(name=["a"], age=["1"]), "Person.age expects I32"),
    "a key that is a number": (parquet(name=[1]), "Person.name expects String"),
    "a list for a scalar": (parquet(name=["a"], age=[[1]]), "Person.age expects I32"),
    "an overflow": (parquet(name=["a", "b"], age=[1, 2**31]), "x.parquet:2: Person.age"),
    "not a number": (parquet(name=["a"], score=[float("nan")]), "x.parquet:1: Person.score expects a finite number"),
    "a short vector": (parquet(name=["a", "b"], v=[[1.0, 2.0], [1.0]]), "x.parquet:2: Person.v expects 2 dimensions"),
    "a vector with infinity": (parquet(name=["a"], v=[[1.0, float("inf")]]), "x.parquet:1: Person.v"),
    "a vector with null": (parquet(name=["a"], v=[[1.0, None]]), "x.parquet:1: Person.v"),
    "a list with null": (parquet(name=["a"], tags=[["x", None]]), "x.parquet:1: Person.tags list items cannot be null"),
    "a bad enum": (parquet(name=["a"], size=["xl"]), "x.parquet:1: Person.size invalid enum value"),
    "a date as a moment": (
        parquet(name=["a"], born=[dt.datetime(2020, 1, 1, 1)]),
        "x.parquet:1: Person.born expects a Date, and 2020-01-01 01:00:00.000000 is not midnight",
    ),
    "a date in a zone": (
        parquet(name=["a"], born=pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ms", "Europe/Oslo"))),
        "Person.born expects Date?, the column is timestamp",
    ),
    "cut off": (lambda path: path.write_bytes(_cut(path)), "x.parquet: the file is damaged"),
    "not a parquet file": (lambda path: _put(path, b"PAR1 nothing"), "x.parquet: the file is damaged"),
    "empty": (lambda path: _put(path, b""), "x.parquet: the file is damaged"),
    "a directory": (lambda path: path.mkdir(), "x.parquet is a directory without files"),
}  # fmt: skip


def _put(path: Path, body: bytes) -> None:
    path.write_bytes(body)


def _cut(path: Path) -> bytes:
    pq.write_table(pa.table({"name": [f"p{i}" for i in range(1000)]}), path)
    return path.read_bytes()[:-100]


@pytest.mark.parametrize(("write", "message"), PARQUET.values(), ids=PARQUET)
def test_parquet(
    people: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("x.parquet"))
    _refused(people, {"Person": "x.parquet"}, message)


MANY = b"".join(b'{"type":"Person","data":{"name":"p%d","age":%d}}\n' % (i, i % 99) for i in range(200))
LINES: dict[str, tuple[str, bytes, str]] = {
    "a gzip that ends early": ("x.jsonl.gz", gzip.compress(MANY)[:-20], "x.jsonl.gz: the file is damaged"),
    "a gzip that is none": ("x.jsonl.gz", MANY, "x.jsonl.gz: the file is damaged"),
    "a zstd that is none": ("x.jsonl.zst", MANY, "x.jsonl.zst: the file is damaged"),
    "a bzip2 that ends early": ("x.jsonl.bz2", bz2.compress(MANY)[:-30], "x.jsonl.bz2"),
    "one bad line among many": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","age":"x"}}\n',
        ":201: Person.age",
    ),
    "one bad type among many": ("x.jsonl", MANY + b'{"type":"Nobody"}\n', ":201: there is no node type"),
    "a member twice among many": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","name":"r"}}\n',
        ":201: the member",
    ),
    "two objects among many": ("x.jsonl", MANY + MANY.splitlines()[0].replace(b"p0", b"q") * 2, ":201:"),
    "an unknown member among many": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","x":1}}\n',
        ":201: Person has",
    ),
    "an id that is null": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","id":null}}\n',
        ":201: Person.id cannot",
    ),
    "data that is null": ("x.jsonl", MANY + b'{"type":"Person","data":null}\n', ":201: 'data' must be an object"),
    "a float for an integer": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","age":1.0}}\n',
        ":201: Person.age",
    ),
    "a huge float": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","score":1e999}}\n',
        ":201: the number 1e999",
    ),
    "a bool for text": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":true}}\n',
        ":201: Person.name expects a String",
    ),
    "bad UTF-8 among many": ("x.jsonl", MANY + b'{"type":"Person","data":{"name":"\xff"}}\n', ":201:"),
    "a lone surrogate": ("x.jsonl", MANY + b'{"type":"Person","data":{"name":"q\\ud800"}}\n', ":201: Person.name"),
    "an endpoint that is missing": (
        "x.jsonl",
        MANY + b'{"edge":"Knows","from":"p1","to":"zed"}\n',
        ":201: Knows dst 'zed'",
    ),
    "an edge without an end": ("x.jsonl", MANY + b'{"edge":"Knows","from":"p1"}\n', ":201: Knows.to is required"),
    "a key twice among many": ("x.jsonl", MANY + MANY.splitlines()[0], ":201: @unique violation"),
    "a date that is none": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"name":"q","born":"soon"}}\n',
        ":201: Person.born",
    ),
    "no end of the last line": (
        "x.jsonl",
        MANY + b'{"type":"Person","data":{"na',
        ":201:26: the text that begins here",
    ),
}


@pytest.mark.parametrize(("name", "body", "message"), LINES.values(), ids=LINES)
def test_lines(
    people: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(body)
    _refused(people, name, message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("none.jsonl", "none.jsonl cannot be read: No such file"),
        ({"Person": "none.parquet"}, "none.parquet cannot be read: No such file"),
        ({"Person": "none.csv"}, "none.csv cannot be read: No such file"),
        ({"Nobody": []}, "there is no node type and no edge type `Nobody`"),
        ({"Person": 5}, "Person: cannot load int"),
        (5, "cannot load int"),
        ({"Knows": pa.table({"from": ["ann"]})}, "Knows: column 'to' is missing"),
        ({"Knows": pa.table({"from": ["ann"], "to": [1.5]})}, "Knows.to must be text"),
        ({"Person": [5]}, "row is not an object"),
    ],
)  # fmt: skip
def test_calls(people: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    _refused(people, data, message)


def _refused(graph: Graph, data: Any, message: str) -> None:
    before = graph.snapshot().version
    with pytest.raises(OmnigraphError) as caught:
        graph.load(data)
    assert message in str(caught.value)
    assert isinstance(caught.value, (DataError, InvalidArgument, KeyConflict)) or "type" in caught.value.code
    assert graph.snapshot().version == before
    assert graph.load([{"type": "Person", "data": {"name": "next"}}]).commit is not None


def test_nothing_to_load_is_no_commit(people: Graph, tmp_path: Path) -> None:
    before = people.snapshot().version
    (tmp_path / "empty.jsonl").write_bytes(b"\n\n")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "head.csv").write_bytes(HEAD.encode())
    pq.write_table(pa.table({"name": pa.array([], pa.string())}), tmp_path / "none.parquet")
    for data in (tmp_path / "empty.jsonl", {"Person": [tmp_path / "empty.csv", tmp_path / "head.csv"]}):
        assert people.load(data).commit is None
    assert people.load({"Person": tmp_path / "none.parquet"}).commit is None
    assert people.snapshot().version == before


# --- going on without bad rows --------------------------------------------------------------------------------------

MIXED = (
    GOOD_LINE + b'{"type":"Person","data":{"name":"Bad"}}\nnope\n{"type":"Person","data":{"name":"ann"}}\n'
    b'{"edge":"Knows","from":"good","to":"ann"}\n{"edge":"Knows","from":"good","to":"gone"}\n'
    b'{"edge":"Knows","from":"Bad","to":"ann"}\n'
)


def test_bad_rows_are_left_out_on_request(people: Graph, tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(MIXED)
    with pytest.raises(DataError):
        people.load(file)
    with pytest.raises(OmnigraphError):
        people.load(file, max_errors=3)
    assert people.snapshot().version == 2
    result = people.load(file, max_errors=10)
    assert (result.nodes, result.edges) == ({"Person": 1}, {"Knows": 1})
    assert sorted((v.row or 0, v.rule) for v in result.rejected) == [
        (2, "check"), (3, "syntax"), (4, "taken"), (6, "endpoint"), (7, "endpoint"),
    ]  # fmt: skip
    assert people.rows("edge:Knows")["dst"].to_pylist() == ["ann"]


def test_a_dry_run_writes_nothing(people: Graph) -> None:
    before = people.snapshot().version
    result = people.load([{"type": "Person", "data": {"name": "x"}}], dry_run=True, branch="b", from_branch="main")
    assert (result.commit, result.dry_run, result.nodes) == (None, True, {"Person": 1})
    assert people.snapshot().version == before
    assert [b.name for b in people.branches.list()] == ["main"]
    with pytest.raises(InvalidValue):
        people.load([{"type": "Person", "data": {"name": "x", "age": -1}}], dry_run=True)
