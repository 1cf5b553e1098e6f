"""Rows that another omnigraph has exported load here: its envelope, its order, its numbers for dates."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from omnigraph import Graph

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    born: Date?
    seen: DateTime?
    big: U64?
    mood: enum(calm, wild)?
    tags: [String]?
    face: Vector(2)?
    photo: Blob?
}
node Slot { tenant: String  number: I32  @key(tenant, number) }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Holds: Person -> Slot
"""

# Edges first, then nodes by type and id; every declared property is there, nulls too; dates and times are numbers.
LINES: list[dict[str, Any]] = [
    {"edge": "Holds", "from": "Alice", "to": '["7","acme"]', "data": {"id": "01J9ZZZZZZZZZZZZZZZZZZZZZ0"}},
    {"edge": "Knows", "from": "Alice", "to": "Bob", "data": {"id": "01J9ZZZZZZZZZZZZZZZZZZZZZ1", "since": 18262}},
    {"edge": "Knows", "from": "Bob", "to": "Alice", "data": {"id": "01J9ZZZZZZZZZZZZZZZZZZZZZ2", "since": None}},
    {"type": "Note", "data": {"id": "01J9ZZZZZZZZZZZZZZZZZZZZZ3", "text": "h\u00e9llo"}},
    {"type": "Person", "data": {
        "id": "Alice", "name": "Alice", "age": 30, "born": -1, "seen": 1577836800123, "big": 2**64 - 1, "mood": "calm",
        "tags": ["a", "b"], "face": [0.5, 1.0], "photo": "base64:AAEC"}},
    {"type": "Person", "data": {
        "id": "Bob", "name": "Bob", "age": None, "born": None, "seen": None, "big": None, "mood": None, "tags": None,
        "face": None, "photo": None}},
    {"type": "Slot", "data": {"id": '["7","acme"]', "tenant": "acme", "number": 7}},
]  # fmt: skip


def test_an_export_of_another_omnigraph_loads(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in LINES), encoding="utf-8")
    graph = Graph.init(tmp_path / "new", SCHEMA)
    assert graph.load(file).total_entities == len(LINES)
    alice = graph.entity_at("node:Person", "Alice")
    assert (alice["born"], alice["seen"]) == (
        dt.date(1969, 12, 31), dt.datetime(2020, 1, 1, 0, 0, 0, 123000, alice["seen"].tzinfo)
    )  # fmt: skip
    assert (alice["big"], alice["mood"], alice["tags"], alice["face"]) == (2**64 - 1, "calm", ["a", "b"], [0.5, 1.0])
    assert graph.blobs.get("node:Person", "Alice", "photo") == b"\x00\x01\x02"
    assert set(graph.entity_at("node:Person", "Bob").values()) == {"Bob", None}
    ids = {key: sorted(graph.rows(key)["id"].to_pylist()) for key in graph.snapshot().tables}
    named = {f"{'edge' if 'edge' in line else 'node'}:{line.get('edge') or line['type']}" for line in LINES}
    for key in named:
        own = [line["data"]["id"] for line in LINES if key.partition(":")[2] in (line.get("edge"), line.get("type"))]
        assert ids[key] == sorted(own)
    since = {row["id"]: row["since"] for row in graph.rows("edge:Knows").to_pylist()}
    assert since[LINES[1]["data"]["id"]] == dt.date(2020, 1, 1)
    assert since[LINES[2]["data"]["id"]] is None
