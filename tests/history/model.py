"""What operations mean: a graph as dictionaries, and each operation as a function of the state before it.

Rows are by a key of the model's own, so that a write that was applied twice is seen even where the store gives each row
an id of its own. Nulls are left out, so that a property added later changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.property import merge_model
from tests.property.merge_model import Merge, Prop, Type

Row = dict[str, Any]
Rows = dict[str, Row]
State = dict[str, Rows]
"""Rows by the key of their table."""

SCHEMA = """
node Left { txn: String @key  value: I32?  op: String? }
node Right { txn: String @key  value: I32?  op: String? }
node Person { name: String @key  age: I32?  op: String? }
node Event { op: String  number: I32 }
edge Knows: Person -> Person { op: String?  @key(src, dst) }
"""
_TYPES = {
    "node:Left": ("txn", "value", "op"),
    "node:Right": ("txn", "value", "op"),
    "node:Person": ("name", "age", "op"),
    "node:Event": ("op", "number"),
    "edge:Knows": ("op",),
}
_SCRATCH = ("name", "op")
EVENT = "node:Event"
_KEYS = {"Left": "txn", "Right": "txn", "Person": "name"}


def schema_text(scratch: Iterable[str], extras: Iterable[str] = ()) -> str:
    """The schema with some more types, and some more properties of `Person`."""
    more = "".join(f"node {name} {{ name: String @key  op: String? }}\n" for name in sorted(scratch))
    fields = "".join(f"  {name}: String?" for name in sorted(extras))
    return SCHEMA.replace("age: I32?  op: String? }", f"age: I32?  op: String?{fields} }}") + more


def empty_state() -> State:
    """The graph as it was made."""
    return {key: {} for key in _TYPES}


def key_of(table_key: str, row: Mapping[str, Any]) -> str:
    """What the model calls a row."""
    if table_key == EVENT:
        return f"{row['op']}#{row['number']}"
    if table_key.startswith("edge:"):
        return f"{row['src']}>{row['dst']}"
    return str(row[_KEYS.get(table_key.partition(":")[2], "name")])


def canonical(table_key: str, rows: Iterable[Mapping[str, Any]]) -> tuple[Rows, list[str]]:
    """Stored rows as the model has them, and the keys that are there twice."""
    found: Rows = {}
    twice = []
    for row in rows:
        key = key_of(table_key, row)
        if key in found:
            twice.append(key)
        found[key] = {name: value for name, value in row.items() if value is not None and name != "id"}
    return found, twice


def digest(rows: Rows) -> str:
    """Rows in short."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:24]


# --- operations ---------------------------------------------------------------------------------------------------


def apply(state: State, arguments: Mapping[str, Any]) -> State:
    """The state after one operation of one branch."""
    after = dict(state)
    match arguments["do"]:
        case "load":
            _load(after, arguments["mode"], arguments["rows"])
        case "mutate":
            for step in arguments["steps"]:
                _step(after, *step)
        case "delete":
            _delete(after, f"node:{arguments['type']}", set(arguments["ids"]))
        case "schema":
            scratch = {f"node:{name}" for name in arguments["scratch"]}
            after = {key: after.get(key, {}) for key in (*_TYPES, *sorted(scratch))}
        case unknown:
            raise AssertionError(f"{unknown} writes no rows")
    return after


def _load(state: State, mode: str, rows: Mapping[str, list[Row]]) -> None:
    for name, each in rows.items():
        table_key = "edge:Knows" if name == "Knows" else f"node:{name}"
        loaded = (_stored(table_key, row) for row in each)
        fresh = {key_of(table_key, row): row for row in loaded}
        state[table_key] = fresh if mode == "overwrite" else {**state.get(table_key, {}), **fresh}


def _step(state: State, verb: str, type_name: str, values: Row, where: Row | None = None) -> None:
    table_key = "edge:Knows" if type_name == "Knows" else f"node:{type_name}"
    rows = state[table_key]
    if verb == "insert":
        row = _stored(table_key, values)
        state[table_key] = {**rows, key_of(table_key, row): row}
        return
    wanted = _stored(table_key, where or {})
    matched = {key for key, row in rows.items() if all(row.get(name) == value for name, value in wanted.items())}
    if verb == "update":
        state[table_key] = {key: {**row, **values} if key in matched else row for key, row in rows.items()}
    else:
        _delete(state, table_key, matched)


def _delete(state: State, table_key: str, keys: set[str]) -> None:
    state[table_key] = {key: row for key, row in state[table_key].items() if key not in keys}
    if table_key == "node:Person":
        edges = state["edge:Knows"].items()
        state["edge:Knows"] = {key: row for key, row in edges if not {row["src"], row["dst"]} & keys}


def _stored(table_key: str, row: Mapping[str, Any]) -> Row:
    names = {"from": "src", "to": "dst"} if table_key.startswith("edge:") else {}
    return {names.get(name, name): value for name, value in row.items() if value is not None}


# --- merges -------------------------------------------------------------------------------------------------------


def merge(base: State, ours: State, theirs: State, strategy: str | None) -> tuple[State, set[Any]]:
    """The state after a merge, and what a strategy had to decide."""
    sides = (_shaped(base), _shaped(ours), _shaped(theirs))
    result, conflicts = Merge(*sides, side=strategy).run()
    return {key: {k: _bare(row) for k, row in rows.items()} for key, rows in result.rows.items()}, conflicts


def _shaped(state: State) -> merge_model.State:
    types = {}
    rows = {}
    for key, each in state.items():
        names = _TYPES.get(key, _SCRATCH)
        ends = ("node:Person", "node:Person") if key.startswith("edge:") else None
        types[key] = Type(key.partition(":")[2], {name: Prop(name, "String") for name in names}, ends)
        columns = (*names, *(merge_model.ENDS if ends else ()))
        rows[key] = {k: {name: row.get(name) for name in columns} for k, row in each.items()}
    return merge_model.State(types, rows)


def _bare(row: Mapping[str, Any]) -> Row:
    return {name: value for name, value in row.items() if value is not None}
