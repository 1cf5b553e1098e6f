"""Entity ids derived from keys: equal keys give equal ids, on every branch and in every process.

A key of one property is its canonical text; a key of several is the compact JSON array of their texts, in property-id
order. An edge key starts with the ids of both endpoints. The functions for rows and for columns agree on every value.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import FLOATS, INTEGERS, PropertyType, Scalar, canonical_text, whole
from omnigraph.errors import InvalidArgument, InvalidValue, MissingValue, UnknownField
from omnigraph.errors.base import show_value
from omnigraph.schema.model import EdgeType, EntityType, NodeType
from omnigraph.schema.names import ENDPOINTS

_ENDPOINT_TYPE = PropertyType(Scalar.STRING)

IdValue = str | int | float | bool | dt.date
"""The name of an entity in a call: its id, or the value of the key that its id is derived from."""

# The characters that JSON escapes; texts without them can be joined as columns instead of row by row.
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def node_id(node_type: NodeType, row: Mapping[str, Any]) -> str:
    """Return the id of a keyed node from its row, by public property names.

    `@key(tenant, slot)` with acme and 7 gives `["7","acme"]`.
    """
    return _row_id(node_type, row)


def edge_key_id(edge_type: EdgeType, src: str, dst: str, row: Mapping[str, Any]) -> str:
    """Return the id of a keyed edge from its endpoints' ids and its row."""
    return _row_id(edge_type, {**row, "src": src, "dst": dst})


def id_text(entity: EntityType, value: IdValue) -> str:
    """Return the id that an argument names: a text is the id itself, any other value is the key of the type.

    Raises `InvalidArgument` for a value that no key of the type has.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"{show_value(value)} is no id: it is not valid Unicode") from error
        return value
    if len(entity.key) != 1 or entity.key[0] in ENDPOINTS:
        raise InvalidArgument(
            f"{show_value(value)} is no id of {entity.name}: an id is a text", hint="rows of the type have it as `id`"
        )
    kind = entity.property(entity.key[0]).type
    if not _fits(value, kind.scalar):
        raise InvalidArgument(
            f"{show_value(value)} is no id of {entity.name}: its key `{entity.key[0]}` is {kind}",
            hint=f"give the id as a text, or a value of the type {kind}",
        )
    try:
        return canonical_text(value, kind.scalar)
    except ValueError as error:
        raise InvalidArgument(f"{show_value(value)} is no id of {entity.name}: it {error}") from error


def _fits(value: Any, scalar: Scalar) -> bool:
    """Return whether a Python value is one of a type. A moment is no date, and True no number."""
    is_number = not isinstance(value, bool)
    if scalar in INTEGERS:
        return is_number and isinstance(value, int)
    if scalar in FLOATS:
        return is_number and isinstance(value, int | float) and math.isfinite(value)
    if scalar is Scalar.DATE:
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return isinstance(value, {Scalar.BOOL: bool, Scalar.DATETIME: dt.datetime}.get(scalar, str))


def node_ids(node_type: NodeType, table: pa.Table) -> pa.Array:
    """Return the ids of a table of keyed nodes with public property names."""
    return _table_ids(node_type, table)


def edge_key_ids(edge_type: EdgeType, table: pa.Table) -> pa.Array:
    """Return the ids of a table of keyed edges with columns `src`, `dst` and public property names."""
    return _table_ids(edge_type, table)


def _key(entity: EntityType) -> tuple[str, ...]:
    if not entity.key:
        raise InvalidArgument(f"{entity.name} has no key", hint="give the row an id of its own")
    return entity.key


def _type(entity: EntityType, name: str) -> PropertyType:
    if name in ENDPOINTS and isinstance(entity, EdgeType):
        return _ENDPOINT_TYPE
    return entity.property(name).type


def _row_id(entity: EntityType, row: Mapping[str, Any]) -> str:
    texts = []
    for name in _key(entity):
        value = row.get(name)
        if value is None:
            raise _missing(entity, name, None)
        texts.append(_text(entity, name, value, None))
    return texts[0] if len(texts) == 1 else _array_text(texts)


def _table_ids(entity: EntityType, table: pa.Table) -> pa.Array:
    columns = [_text_column(entity, name, table) for name in _key(entity)]
    if len(columns) == 1:
        return columns[0]
    if any(pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE)).as_py() for column in columns):
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([_array_text(row) for row in rows], pa.string())
    inner = pc.binary_join_element_wise(*columns, '","')
    return pc.binary_join_element_wise('["', inner, '"]', "")


def _text_column(entity: EntityType, name: str, table: pa.Table) -> pa.Array:
    if name not in table.column_names:
        message = f"{entity.name} rows need the key property `{name}`"
        raise UnknownField(message, type_key=entity.table_key, field=name, hint="add the column")
    column = whole(table.column(name))
    if column.null_count:
        raise _missing(entity, name, pc.index(column.is_null(), True).as_py())
    type_ = _type(entity, name)
    if type_.scalar in FLOATS:
        values = (_text(entity, name, value, row) for row, value in enumerate(column.to_pylist()))
        return pa.array(list(values), pa.string())
    if type_.scalar in (Scalar.DATE, Scalar.DATETIME):
        return _epoch_numbers(column, type_.scalar).cast(pa.string())
    return column if column.type == pa.string() else column.cast(pa.string())


def _epoch_numbers(column: pa.Array, scalar: Scalar) -> pa.Array:
    if scalar is Scalar.DATE:
        return column.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        # Straight to date64 would cut the time of day off.
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return column.cast(pa.int64())


def _text(entity: EntityType, name: str, value: Any, row: int | None) -> str:
    try:
        return canonical_text(value, _type(entity, name).scalar)
    except (ValueError, TypeError, AttributeError) as problem:
        message = f"{entity.name}.{name} cannot be part of a key: {problem}"
        raise InvalidValue(message, type_key=entity.table_key, row=row, field=name) from problem


def _missing(entity: EntityType, name: str, row: int | None) -> MissingValue:
    message = f"{entity.name} rows need a value for the key property `{name}`"
    return MissingValue(message, type_key=entity.table_key, row=row, field=name)


def _array_text(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), separators=(",", ":"), ensure_ascii=False)
