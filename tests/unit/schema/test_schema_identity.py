"""Ids from keys: one canonical text per value, and rows and columns agree."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import InvalidArgument, InvalidValue, MissingValue, UnknownField
from omnigraph.schema import Catalog
from omnigraph.schema.identity import edge_key_id, edge_key_ids, node_id, node_ids

Compiled = Callable[[str], Catalog]


@pytest.mark.parametrize(
    ("type_", "arrow", "value", "text"),
    [
        ("String", pa.string(), 'a "b" \\ é', 'a "b" \\ é'),
        ("I32", pa.int32(), -7, "-7"),
        ("U64", pa.uint64(), 2**64 - 1, "18446744073709551615"),
        ("Bool", pa.bool_(), True, "true"),
        ("Date", pa.date32(), dt.date(1970, 1, 11), "10"),
        ("F64", pa.float64(), -0.0, "0"),
        ("F64", pa.float64(), 0.1, "0.1"),
        ("F32", pa.float32(), 0.1, "0.1"),
        ("DateTime", pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, 500000, dt.UTC), "1500"),
        ("enum(a, b)", pa.string(), "b", "b"),
    ],
)
def test_single_key(compiled: Compiled, type_: str, arrow: pa.DataType, value: Any, text: str) -> None:
    node = compiled(f"node A {{ k: {type_} @key }}").node("A")
    assert node_id(node, {"k": value}) == text
    assert node_ids(node, pa.table({"k": pa.array([value], arrow)})).to_pylist() == [text]


def test_date64_keeps_its_milliseconds(compiled: Compiled) -> None:
    node = compiled("node A { k: DateTime @key }").node("A")
    column = pa.array([1_500], pa.int64()).cast(pa.date64())
    assert node_ids(node, pa.table({"k": column})).to_pylist() == ["1500"]


def test_composite_key_in_property_id_order(compiled: Compiled) -> None:
    node = compiled("node Seat { tenant: String slot: I32 @key(tenant, slot) }").node("Seat")
    assert node_id(node, {"tenant": "acme", "slot": 7}) == '["7","acme"]'
    table = pa.table({"tenant": ["acme", "ümlaut"], "slot": pa.array([7, 8], pa.int32())})
    assert node_ids(node, table).to_pylist() == ['["7","acme"]', '["8","ümlaut"]']


def test_composite_texts_are_escaped_as_json(compiled: Compiled) -> None:
    node = compiled("node A { a: String b: String @key(a, b) }").node("A")
    rows = [{"a": 'x"', "b": "y\\"}, {"a": "tab\t", "b": "\x00"}, {"a": "plain", "b": "\x7f"}]
    assert node_ids(node, pa.Table.from_pylist(rows)).to_pylist() == [node_id(node, row) for row in rows]
    assert node_id(node, rows[0]) == '["x\\"","y\\\\"]'


def test_edge_key(compiled: Compiled) -> None:
    edge = compiled("node A { x: I32 } edge R: A -> A { w: I32 at: Date @key(src, dst, w, at) }").edge("R")
    row = {"w": 3, "at": dt.date(1970, 1, 2)}
    assert edge_key_id(edge, "a", "b", row) == '["a","b","1","3"]'
    table = pa.table({"src": ["a"], "dst": ["b"], "w": [3], "at": [dt.date(1970, 1, 2)]})
    assert edge_key_ids(edge, table).to_pylist() == ['["a","b","1","3"]']


def test_chunks_and_empty_tables(compiled: Compiled) -> None:
    node = compiled("node A { a: String b: I64 @key(a, b) }").node("A")
    one = pa.table({"a": ["x"], "b": [1]})
    assert node_ids(node, pa.concat_tables([one, one])).to_pylist() == ['["x","1"]', '["x","1"]']
    found = node_ids(node, one.slice(0, 0))
    assert (len(found), found.type) == (0, pa.string())


def test_bad_keys(compiled: Compiled) -> None:
    catalog = compiled("node A { k: F64 @key } node B { x: I32 } node C { a: I32 b: I32 @key(a, b) }")
    with pytest.raises(MissingValue) as missing:
        node_ids(catalog.node("A"), pa.table({"k": [1.0, None]}))
    assert (missing.value.row, missing.value.field, missing.value.type_key) == (1, "k", "node:A")
    with pytest.raises(MissingValue):
        node_id(catalog.node("C"), {"a": 1})
    with pytest.raises(InvalidValue, match="non-finite"):
        node_id(catalog.node("A"), {"k": float("nan")})
    with pytest.raises(InvalidValue) as bad:
        node_ids(catalog.node("A"), pa.table({"k": [1.0, float("inf")]}))
    assert bad.value.row == 1
    with pytest.raises(InvalidArgument, match="B has no key"):
        node_id(catalog.node("B"), {"x": 1})
    with pytest.raises(UnknownField, match="need the key property `a`"):
        node_ids(catalog.node("C"), pa.table({"b": [1]}))
