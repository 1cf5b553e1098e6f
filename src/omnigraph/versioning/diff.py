"""Changes of a table between two pins, row by row, with exact images of before and after.

Both pins are read through the schema of their own state and converted to one shape, matched by property identity: a
rename changes no row, and a property that one side does not have yet counts with its default. Merges need exactly that;
`row_images` gives the images of rows whose values a schema change has altered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import EdgeType, EntityType, Property
from omnigraph.storage.row_difference import Difference, difference, everything
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import GraphStore

INSERT, UPDATE, DELETE = "insert", "update", "delete"
Row = dict[str, Any]
_PAGE = 1024


@dataclass(frozen=True)
class Pinned:
    """A table at a pin, with the type that its state's schema gives it."""

    entry: TableEntry
    entity: EntityType


@dataclass(frozen=True)
class TableDelta:
    """Changed rows of one table in the columns of `entity`: `before` and `after` images, one row per id and side."""

    entity: EntityType
    before: pa.Table
    after: pa.Table

    @cached_property
    def old(self) -> Mapping[str, int]:
        """Row numbers in `before`, by id."""
        return {i: at for at, i in enumerate(self.before["id"].to_pylist())}

    @cached_property
    def new(self) -> Mapping[str, int]:
        """Row numbers in `after`, by id."""
        return {i: at for at, i in enumerate(self.after["id"].to_pylist())}

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Every changed id, in order."""
        return tuple(sorted(self.old.keys() | self.new.keys()))

    @property
    def deleted(self) -> frozenset[str]:
        """Ids that are in `before` and not in `after`."""
        return frozenset(self.old.keys() - self.new.keys())

    def op(self, entity_id: str) -> str:
        """The operation on one of the ids."""
        if entity_id not in self.old:
            return INSERT
        return UPDATE if entity_id in self.new else DELETE

    def image(self, entity_id: str, *, after: bool) -> Row | None:
        """One row by public names, or None where the entity does not exist on that side."""
        row = self.row(entity_id, after=after)
        return None if row is None else public_row(self.entity, row)

    def images(self) -> Iterator[tuple[str, str, Row | None, Row | None]]:
        """Every change in order: id, operation, and both rows by public names."""
        names = public_names(self.entity)
        before, after = (
            rows.rename_columns([names[c] for c in rows.column_names]) for rows in (self.before, self.after)
        )
        for start in range(0, len(self.ids), _PAGE):
            page = self.ids[start : start + _PAGE]
            olds, news = _page(before, self.old, page), _page(after, self.new, page)
            for entity_id in page:
                yield entity_id, self.op(entity_id), olds.get(entity_id), news.get(entity_id)

    def row(self, entity_id: str, *, after: bool) -> Row | None:
        """One row by physical columns, or None."""
        return self.rows([entity_id], after=after).get(entity_id)

    def rows(self, ids: Sequence[str], *, after: bool) -> dict[str, Row]:
        """Rows by physical columns, of those ids that have one."""
        return _page(*((self.after, self.new) if after else (self.before, self.old)), ids)


def table_delta(
    store: GraphStore, base: Pinned | None, head: Pinned | None, shape: EntityType, *, exhaustive: bool = False,
    lineal: bool = False,
) -> TableDelta:  # fmt: skip
    """The changes from one pin to another. Not `exhaustive`: only files that differ are read.

    `lineal`: the state of `head` descends from that of `base`, so that rows can be matched by their row ids as well.
    """
    before_table, after_table = (open_table(store, side.entry) if side else None for side in (base, head))
    base_columns, head_columns = (columns_of(side.entity) if side else () for side in (base, head))
    found: Difference
    if exhaustive or (base is not None and head is not None and has_restored(base.entity, head.entity)):
        found = everything(before_table, after_table, base_columns, head_columns)
    else:
        by_row_id = lineal and is_one_family(base, head)
        found = difference(
            before_table,
            after_table,
            base_columns,
            head_columns,
            by_row_id=by_row_id,
            few_rows=store.settings.diff_few_rows,
        )
    before = in_shape(found.removed, base.entity, shape) if base else shape.arrow_schema.empty_table()
    after = in_shape(found.added, head.entity, shape) if head else shape.arrow_schema.empty_table()
    return net_delta(shape, before, after)


def has_restored(before: EntityType, after: EntityType) -> bool:
    """Whether a property that was hidden is visible again: values changed without new files."""
    return not {p.property_id for p in before.hidden}.isdisjoint(p.property_id for p in after.properties)


def is_one_family(base: Pinned | None, head: Pinned | None) -> bool:
    """Whether one row id means one row in both pins, where one state descends from the other."""
    return base is not None and head is not None and base.entry.family == head.entry.family


def is_unchanged(base: TableEntry | None, head: TableEntry | None) -> bool:
    """True when the rows are certainly the same: one content version, whatever maintenance did."""
    if base is None or head is None:
        return base is head
    return base.content_version == head.content_version


def columns_of(entity: EntityType) -> tuple[str, ...]:
    """The physical columns of a type."""
    return tuple(f.name for f in entity.arrow_schema)


def in_shape(rows: pa.Table, have: EntityType, want: EntityType) -> pa.Table:
    """Rows of one schema in the columns of another, matched by property id."""
    schema = want.arrow_schema
    if rows.schema.equals(schema, check_metadata=False):
        return rows
    by_id = {p.property_id: p for p in have.properties}
    system = ("id", "src", "dst") if isinstance(want, EdgeType) else ("id",)
    arrays = [rows[name] for name in system]
    for prop in want.properties:
        own = by_id.get(prop.property_id)
        if own is None:
            arrays.append(default_column(prop, rows.num_rows))
        else:
            arrays.append(_cast(rows[own.column], prop))
    return pa.table(arrays, schema=pa.schema([f.with_nullable(True) for f in schema])).cast(schema)


def _cast(column: pa.ChunkedArray, prop: Property) -> pa.ChunkedArray:
    """A column in the type of a property. A required property has nulls only in a column that was hidden."""
    column = column.cast(prop.type.to_arrow())
    if not column.null_count or prop.type.nullable or prop.default is None:
        return column
    return pc.fill_null(column, pa.scalar(prop.default, column.type))


def default_column(prop: Property, count: int) -> pa.Array:
    """The column of a property for rows that were written before it existed."""
    if prop.default is None:
        return pa.nulls(count, prop.type.to_arrow())
    return pa.array([prop.default] * count, prop.type.to_arrow())


def public_names(entity: EntityType) -> dict[str, str]:
    """Physical column names -> public property names."""
    ends = {"src": "from", "dst": "to"} if isinstance(entity, EdgeType) else {}
    return {"id": "id", **ends, **{p.column: p.name for p in entity.properties}}


def public_row(entity: EntityType, row: Row) -> Row:
    """A row by its public property names."""
    names = public_names(entity)
    return {names[column]: value for column, value in row.items()}


def _page(rows: pa.Table, places: Mapping[str, int], ids: Sequence[str]) -> dict[str, Row]:
    """The rows of some ids, converted to Python values a page at a time."""
    here = [i for i in ids if i in places]
    found = rows.take(pa.array([places[i] for i in here], pa.int64())).to_pylist()
    return dict(zip(here, found, strict=True))


def same_value(left: Any, right: Any) -> bool:
    """Whether two stored values are the same."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_value, left, right))
    return type(left) is type(right) and bool(left == right)


def same_ids(
    left: pa.Table, left_at: Mapping[str, int], right: pa.Table, right_at: Mapping[str, int]
) -> frozenset[str]:
    """Ids whose rows are the same in both tables, column by column."""
    both = [i for i in left_at if i in right_at]
    if not both:
        return frozenset()
    before, after = left.take([left_at[i] for i in both]), right.take([right_at[i] for i in both])
    differs = np.zeros(len(both), dtype=bool)
    for name in before.column_names:
        differs |= _differs(before[name].combine_chunks(), after[name].combine_chunks())
    return frozenset(i for i, changed in zip(both, differs.tolist(), strict=True) if not changed)


def net_delta(entity: EntityType, before: pa.Table, after: pa.Table) -> TableDelta:
    """The delta of differing rows, without rows that were rewritten with equal values."""
    delta = TableDelta(entity, before, after)
    same = same_ids(delta.before, delta.old, delta.after, delta.new)
    if not same:
        return delta
    return TableDelta(delta.entity, _without(delta.before, same), _without(delta.after, same))


def _without(rows: pa.Table, ids: frozenset[str]) -> pa.Table:
    return rows.filter(pa.array([i not in ids for i in rows["id"].to_pylist()], pa.bool_()))


def _differs(left: pa.Array, right: pa.Array) -> np.ndarray:
    if pa.types.is_floating(left.type):
        bits = pa.int32() if left.type == pa.float32() else pa.int64()
        left, right = left.view(bits), right.view(bits)
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([not same_value(a, b) for a, b in pairs], dtype=bool)
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    either = pc.or_(unequal, pc.not_equal(left.is_null(), right.is_null()))
    return np.asarray(either.to_numpy(zero_copy_only=False), dtype=bool)
