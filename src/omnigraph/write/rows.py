"""Plain rows into typed batches: values one by one, strictly, and every bad one is noted.

A batch has the physical columns of its table. Wrong rows are noted and left out, so that a load can report all of them,
or go on without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.datatypes import Scalar
from omnigraph.errors import TypeNotFound, UnknownField, Violation
from omnigraph.errors.base import show_value
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, Property
from omnigraph.write.ids import ids_of
from omnigraph.write.validation import Findings, Mask, Place, Places
from omnigraph.write.values import BadValue, coerce

ENVELOPE_NODE = frozenset({"type", "data"})
ENVELOPE_EDGE = frozenset({"edge", "from", "to", "data"})
ENDPOINTS = {"src": "from", "dst": "to"}
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one type, physical columns, in input order. `fresh_ids`: every id was minted here."""

    entity: EntityType
    table: pa.Table
    places: Places
    fresh_ids: bool

    def taken(self, keep: Sequence[int]) -> Batch:
        """Some of the rows."""
        return Batch(self.entity, self.table.take(pa.array(keep, pa.int64())), self.places.taken(keep), self.fresh_ids)

    def without(self, refused: Iterable[Place]) -> Batch:
        """The rows whose places are not among those given."""
        mask = self.places.outside(refused)
        return self if mask.all() else self.filtered(mask)

    def filtered(self, mask: Mask) -> Batch:
        """The rows where a mask is true."""
        kept = pa.array(mask)  # column by column: for a whole table Arrow makes a list of row numbers first
        columns = [column.filter(kept) for column in self.table.columns]
        table = pa.table(columns, schema=self.table.schema)
        return Batch(self.entity, table, self.places.filtered(mask), self.fresh_ids)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of one type taken out of their envelopes, with their numbers in the input."""

    entity: EntityType
    rows: list[Row]
    numbers: list[int]


def group_envelopes(
    rows: Iterable[tuple[int, Any]], catalog: Catalog, path: str | None, found: Findings
) -> Iterator[Grouped]:
    """Numbered envelope rows by type: `{"type": T, "data": {...}}` and `{"edge": E, "from": a, "to": b, ...}`."""
    groups: dict[str, Grouped] = {}
    for number, row in rows:
        try:
            entity, values = _open_envelope(row, catalog)
        except _Refused as error:
            found.add(Violation(rule=error.rule, message=str(error), field=error.field, path=path, row=number,
                                hint=error.hint))  # fmt: skip
            if found.full:
                break
            continue
        group = groups.setdefault(entity.table_key, Grouped(entity, [], []))
        group.rows.append(values)
        group.numbers.append(number)
    yield from groups.values()


def batch_from_rows(entity: EntityType, rows: Sequence[Row], places: Places, found: Findings) -> Batch:
    """A batch from plain dicts with public property names. Wrong rows are noted and left out."""
    converter = _Converter(entity, rows, places, found)
    columns = converter.columns()
    if converter.bad:
        keep = [i for i in range(len(rows)) if i not in converter.bad]
        return batch_from_rows(entity, [rows[i] for i in keep], places.taken(keep), Findings())
    before = len(found)
    explicit = columns.pop("id", None)
    ids, fresh = ids_of(entity, columns, explicit, places, len(rows), found)
    batch = assemble_batch(entity, columns, ids, places, fresh)
    return batch if len(found) == before else batch.without(found.places(since=before))


class _Converter:
    """Converts the columns of some rows and collects the rows that are wrong."""

    def __init__(self, entity: EntityType, rows: Sequence[Row], places: Places, found: Findings) -> None:
        self._entity = entity
        self._rows = rows
        self._places = places
        self._found = found
        self.bad: set[int] = set()

    def columns(self) -> dict[str, pa.Array]:
        """Public columns: ends, properties, and `id` where a row gives one."""
        for index, row in enumerate(self._rows):
            if not isinstance(row, Mapping):
                self._note(index, "type", f"{self._entity.name} row is not an object")
            else:
                self._require_known(index, row)
        rows = [row if isinstance(row, Mapping) else {} for row in self._rows]
        columns: dict[str, pa.Array] = {}
        if isinstance(self._entity, EdgeType):
            for column, name in ENDPOINTS.items():
                columns[column] = self._text(name, [row.get(name) for row in rows])
        for prop in self._entity.properties:
            columns[prop.name] = self._property(prop, [row.get(prop.name) for row in rows])
        if any("id" in row for row in rows):
            for index, row in enumerate(rows):
                if "id" in row and row["id"] is None:
                    self._note(index, "id", f"{self._entity.name}.id cannot be null", "id")
            columns["id"] = self._text("id", [row.get("id") for row in rows], required=False)
        return columns

    def _note(self, index: int, rule: str, text: str, field: str | None = None, value: Any = None,
              hint: str | None = None) -> None:  # fmt: skip
        self.bad.add(index)
        self._found.note(rule, text, self._entity, places=self._places, index=index, field=field, value=value,
                         hint=hint)  # fmt: skip

    def _require_known(self, index: int, row: Row) -> None:
        for name in row.keys() - known_fields(self._entity):
            if not isinstance(name, str):
                self._note(index, "unknown", f"{self._entity.name} has no property {show_value(name)}")
                continue
            try:
                self._entity.property(name)
            except UnknownField as error:
                self._note(index, "unknown", error.message, name, hint=error.hint)

    def _property(self, prop: Property, values: list[Any]) -> pa.Array:
        converted: list[Any] = []
        for index, given in enumerate(values):
            value = prop.default if given is None else given
            if value is None:
                # A vector may still be computed; missing ones are found with the other rules.
                if not prop.type.nullable and prop.embed is None:
                    self._note(index, "required", f"{self._entity.name}.{prop.name} is required", prop.name)
                converted.append(None)
                continue
            try:
                converted.append(coerce(value, prop.type))
            except BadValue as error:
                text = f"{self._entity.name}.{prop.name} {error}"
                self._note(index, error.rule, text, prop.name, value)
                converted.append(None)
        column, kind = pa.array(converted, storage_type(prop)), prop.type.to_arrow()
        return column if column.type == kind else column.cast(kind)

    def _text(self, name: str, values: list[Any], *, required: bool = True) -> pa.Array:
        texts: list[str | None] = []
        for index, value in enumerate(values):
            if value is None and required:
                self._note(index, "required", f"{self._entity.name}.{name} is required", name)
            elif value is not None and not _is_text(value):
                text = f"{self._entity.name}.{name} must be text (the id of an entity), got {show_value(value)}"
                self._note(index, "type", text, name, value)
                value = None
            texts.append(value)
        return pa.array(texts, pa.string())


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def known_fields(entity: EntityType) -> frozenset[str]:
    """The fields that a row of a type may have."""
    ends = ENDPOINTS.values() if isinstance(entity, EdgeType) else ()
    return frozenset(("id", *(p.name for p in entity.properties), *ends))


def known_columns(entity: EntityType, table: pa.Table) -> pa.Table:
    """The columns of a table that rows of a type may have."""
    return table.select([name for name in table.column_names if name in known_fields(entity)])


def assemble_batch(entity: EntityType, columns: Mapping[str, Any], ids: pa.Array, places: Places, fresh: bool) -> Batch:
    """A batch from public columns and ids."""
    ends = [columns[name] for name in ENDPOINTS] if isinstance(entity, EdgeType) else []
    arrays = [ids, *ends, *(columns[p.name] for p in entity.properties)]
    return Batch(entity, pa.table(arrays, schema=entity.arrow_schema), places, fresh)


def storage_type(prop: Property) -> pa.DataType:
    """The Arrow type for a property's values: dates are built from integers, since Arrow misreads a bare number."""
    if prop.type.is_vector:
        return prop.type.to_arrow()
    base = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(prop.type.scalar)
    if base is None:
        return prop.type.to_arrow()
    return pa.list_(pa.field("item", base)) if prop.type.is_list else base


class _Refused(Exception):
    """A row that is no envelope."""

    def __init__(self, message: str, rule: str = "syntax", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.field = field
        self.hint = hint


def _open_envelope(row: Any, catalog: Catalog) -> tuple[EntityType, Row]:
    if not isinstance(row, Mapping):
        raise _Refused("is not an object")
    if ("type" in row) == ("edge" in row):
        hint = '{"type": "Person", "data": {...}} or {"edge": "Knows", "from": "a", "to": "b"}'
        raise _Refused("needs exactly one of 'type' (a node) and 'edge'", hint=hint)
    unknown = sorted(map(str, row.keys() - (ENVELOPE_NODE if "type" in row else ENVELOPE_EDGE)))
    if unknown:
        raise _Refused(f"has an unknown field {show_value(unknown[0])}", "unknown", unknown[0])
    data = row.get("data", {})
    if not isinstance(data, Mapping):
        raise _Refused("'data' must be an object", "type", "data")
    name = row["type"] if "type" in row else row["edge"]
    if not isinstance(name, str):
        raise _Refused("the type name must be text", "type")
    try:
        if "type" in row:
            return catalog.node(name), data
        edge = catalog.edge(name)
    except TypeNotFound as error:
        raise _Refused(error.message, "type_name", hint=error.hint) from None
    for end in ("from", "to", "src", "dst"):
        if end in data:
            hint = 'write {"edge": "' + edge.name + '", "from": "a", "to": "b", "data": {...}}'
            raise _Refused(f"{end!r} belongs outside 'data'", "unknown", end, hint)
    return edge, {**data, "from": row.get("from"), "to": row.get("to")}
