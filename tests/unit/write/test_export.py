"""Export, and the round trip: what was exported and loaded again is exported to the same bytes."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, InvalidValue, NotFound, TypeNotFound
from omnigraph.write.export import PIECE_ROWS

ALL_TYPES = """
node Thing {
  key: U64 @key
  s: String?  b: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  d: Date?  t: DateTime?  v: Vector(3)?  blob: Blob?  e: enum(red, green)?
  ls: [String]?  li: [I64]?  ld: [Date]?  lt: [DateTime]?  lf: [F64]?  lb: [Bool]?  n: I32 @default(7)
}
node Slot { tenant: String  day: Date  @key(tenant, day) }
node Free { note: String? }
edge Link: Thing -> Thing { weight: F64?  @key(src, dst) }
edge Ref: Free -> Thing { text: String? }
"""

EXTREMES: list[dict[str, Any]] = [
    {
        "key": 2**64 - 1, "s": "\u2028 \"quoted\", 'single'\nline\tü 日本 \U0001f600", "b": False, "i32": -(2**31),
        "i64": -(2**63), "u32": 2**32 - 1, "u64": 2**64 - 1, "f32": 0.1, "f64": 5e-324, "d": "0001-01-01",
        "t": "9999-12-31T23:59:59.999Z", "v": [1, -2.5, 3e38], "blob": "base64:AAH/", "e": "green",
        "ls": ["a,b", "", "\n"], "li": [2**63 - 1], "ld": ["1969-12-31"], "lt": ["2020-01-01T00:00:00.001Z"],
        "lf": [1.5, -0.0], "lb": [True, False], "n": -1,
    },
    {"key": 0, "s": "", "blob": "base64:", "ls": [], "li": [], "ld": [], "f64": -0.0, "f32": 0.0},
    {"key": 1, "f64": 1.7976931348623157e308, "d": "1970-01-01", "t": 0},
    {"key": 2},
]  # fmt: skip


@pytest.fixture
def things(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "things", ALL_TYPES)
    rows: list[dict[str, Any]] = [{"type": "Thing", "data": each} for each in EXTREMES]
    rows += [{"type": "Slot", "data": {"tenant": 'a"b\\', "day": "2024-02-29"}}]
    rows += [{"type": "Free", "data": {"id": "mine", "note": "null"}}, {"type": "Free", "data": {}}]
    rows += [{"edge": "Link", "from": str(2**64 - 1), "to": "0", "data": {"weight": 0.5}}]
    rows += [{"edge": "Ref", "from": "mine", "to": "2", "data": {"id": "r1", "text": " "}}]
    rows += [{"edge": "Ref", "from": "mine", "to": "1"}]
    graph.load(rows)
    return graph


def lines_of(graph: Graph, **options: Any) -> bytes:
    stream = io.BytesIO()
    graph.export(stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "jsonl.zst", "parquet", "csv"])
def test_round_trip(things: Graph, tmp_path: Path, form: str) -> None:
    kind = form.partition(".")[0]
    out = tmp_path / (f"out.{form}" if kind == "jsonl" else "out")
    before = lines_of(things)
    result = things.export(out, format=kind)
    assert sum(result.rows.values()) == 10
    copy = Graph.init(tmp_path / "copy", ALL_TYPES)
    copy.load(out, mode="append")
    assert lines_of(copy) == before, "byte for byte"
    copy.load(out, mode="merge")
    assert lines_of(copy) == before
    assert copy.commits.list()[-1].graph_commit_id != things.commits.list()[-1].graph_commit_id


def test_the_form_of_a_line(things: Graph) -> None:
    rows = [json.loads(line) for line in lines_of(things).splitlines()]
    assert [row.get("edge") or row["type"] for row in rows] == [
        "Link", "Ref", "Ref", "Free", "Free", "Slot", "Thing", "Thing", "Thing", "Thing",
    ]  # fmt: skip
    thing = next(r["data"] for r in rows if r.get("type") == "Thing" and r["data"]["key"] == 1)
    assert (thing["id"], thing["d"], thing["t"], thing["s"], thing["blob"]) == ("1", 0, 0, None, None)
    empty = next(r["data"] for r in rows if r.get("type") == "Thing" and r["data"]["key"] == 0)
    assert (empty["s"], empty["blob"], empty["ls"]) == ("", "base64:", [])
    largest = next(r["data"] for r in rows if r.get("type") == "Thing" and r["data"]["key"] == 2**64 - 1)
    assert largest["u64"] == 2**64 - 1
    assert rows[0] == {
        "edge": "Link", "from": str(2**64 - 1), "to": "0",
        "data": {"id": f'["{2**64 - 1}","0"]', "weight": 0.5},
    }  # fmt: skip


def test_an_altered_id_is_refused(things: Graph) -> None:
    row = json.loads(lines_of(things, types=["Thing"]).splitlines()[0])
    row["data"]["id"] = "7"
    with pytest.raises(InvalidValue, match="does not match @key"):
        things.load([row], mode="merge")


def test_types_branches_and_snapshots(things: Graph, tmp_path: Path) -> None:
    things.branches.create("feature")
    things.load([{"type": "Free", "data": {"id": "new"}}], branch="feature")
    assert b'"new"' in lines_of(things, branch="feature", types=["Free"])
    assert b'"new"' not in lines_of(things, types=["Free"])
    assert lines_of(things, snapshot=1) == b""
    with pytest.raises(TypeNotFound, match="Nope"):
        lines_of(things, types=["Nope"])
    with pytest.raises(InvalidArgument, match="format"):
        lines_of(things, format="xml")
    with pytest.raises(InvalidArgument, match="not a stream"):
        lines_of(things, format="csv")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        things.export(tmp_path / "no" / "dir" / "x.jsonl")
    assert not list(tmp_path.glob("**/*.part"))
    things.export(tmp_path / "x.jsonl.gz")
    assert gzip.decompress((tmp_path / "x.jsonl.gz").read_bytes()) == lines_of(things)
    things.export(tmp_path / "p", format="parquet", types=["edge:Link"])
    assert pq.read_table(tmp_path / "p/edges/Link.parquet").column_names == ["id", "from", "to", "weight"]


@pytest.mark.slow
def test_large_tables_come_in_pieces_in_the_same_order(things: Graph) -> None:
    count = PIECE_ROWS + PIECE_ROWS // 2 + 1
    notes = {f"n{i * 7919 % count:06}": str(i) for i in range(count)}
    ids = list(notes)
    for part in (ids[:300], ids[300:]):
        things.load({"Free": pa.table({"id": part, "note": [notes[i] for i in part]})})
    gone = {f"n{i:06}" for i in range(0, 5_000, 7)}
    things.delete("Free", sorted(gone))
    found = [json.loads(line)["data"] for line in lines_of(things, types=["node:Free"]).splitlines()]
    there = [(each["id"], each["note"]) for each in found if each["id"] in notes]
    assert there == [(i, notes[i]) for i in sorted(notes) if i not in gone]


def test_blobs(things: Graph) -> None:
    largest = str(2**64 - 1)
    assert things.blobs.get("node:Thing", largest, "blob") == b"\x00\x01\xff"
    assert things.blobs.get("node:Thing", largest, "blob", offset=1, length=1) == b"\x01"
    assert things.blobs.get("node:Thing", largest, "blob", offset=3) == b""
    assert things.blobs.get("node:Thing", "0", "blob") == b""
    assert things.blobs.get("node:Thing", "2", "blob") is None
    info = things.blobs.stat("node:Thing", largest, "blob")
    assert info is not None
    assert (info.kind, info.size) == ("managed", 3)
    assert things.blobs.stat("node:Thing", "2", "blob") is None
    with pytest.raises(NotFound):
        things.blobs.get("node:Thing", "99", "blob")
    with pytest.raises(InvalidArgument, match="not a Blob"):
        things.blobs.get("node:Thing", "0", "s")
    for options in ({"length": 0}, {"offset": -1}, {"offset": 4}):
        with pytest.raises(InvalidArgument):
            things.blobs.get("node:Thing", largest, "blob", **options)
    with pytest.raises(InvalidValue, match="external URI"):
        things.load([{"type": "Thing", "data": {"key": 9, "blob": "file:///etc/passwd"}}])


def test_history_is_exported_with_what_each_commit_changed(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node P { name: String @key  born: Date? }")
    graph.load([{"type": "P", "data": {"name": "a", "born": "2020-02-29"}}], actor="ann", message="first")
    graph.load([{"type": "P", "data": {"name": "a", "born": None}}], "merge")
    graph.delete("P", ["a"])
    graph.maintenance.optimize()
    done = graph.commits.export(tmp_path / "history.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [line["commit"]["graph_commit_id"] for line in lines] == [
        commit.graph_commit_id for commit in reversed(graph.commits.list())
    ]
    assert (done.commits, done.changes, done.reclaimed) == (len(lines), 3, 0)
    assert [[(c["op"], c["before"], c["after"]) for c in line["changes"]] for line in lines[1:4]] == [
        [("insert", None, {"id": "a", "name": "a", "born": "2020-02-29"})],
        [("update", {"id": "a", "name": "a", "born": "2020-02-29"}, {"id": "a", "name": "a", "born": None})],
        [("delete", {"id": "a", "name": "a", "born": None}, None)],
    ]
    assert (lines[1]["commit"]["actor_id"], lines[1]["commit"]["message"]) == ("ann", "first")
    graph.maintenance.cleanup(3, grace=0, force=True, confirm=True)
    assert graph.commits.export(tmp_path / "later.jsonl").reclaimed > 0
    assert not list(tmp_path.glob("*.part"))
