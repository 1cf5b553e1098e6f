"""Input rows and frames into one typed batch per node or edge type.

A batch has the physical columns of its table. Ids are derived here: from the key where the type has one, from the row
where it names its own, fresh otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import Scalar
from omnigraph.errors import DataError, InvalidArgument, InvalidValue, MissingValue, UnknownField
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, Property
from omnigraph.schema.identity import edge_key_ids, node_ids
from omnigraph.write.values import BadValue, coerce

Mint = Callable[[], str]
ENVELOPE_NODE = frozenset({"type", "data"})
ENVELOPE_EDGE = frozenset({"edge", "from", "to", "data"})
ENDPOINTS = {"src": "from", "dst": "to"}


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one type, physical columns, in input order. `numbers` are the rows' places in the input (1-based).

    `fresh_ids` is true when every id was minted here, so that none of them can exist already.
    """

    entity: EntityType
    table: pa.Table
    numbers: Sequence[int]
    fresh_ids: bool

    @property
    def ids(self) -> list[str]:
        """The entity ids, in input order."""
        found: list[str] = self.table["id"].to_pylist()
        return found


@dataclass(slots=True)
class _Rows:
    entity: EntityType
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def batches_from_envelopes(rows: Iterable[Any], catalog: Catalog, mint: Mint) -> dict[str, Batch]:
    """Typed batches from `{"type": T, "data": {...}}` and `{"edge": E, "from": id, "to": id, "data": {...}}` rows."""
    collected: dict[str, _Rows] = {}
    for number, row in enumerate(rows, start=1):
        entity, values = _open_envelope(row, number, catalog)
        group = collected.setdefault(entity.table_key, _Rows(entity))
        group.rows.append(values)
        group.numbers.append(number)
    return {key: batch_from_rows(g.entity, g.rows, g.numbers, mint) for key, g in collected.items()}


def batches_from_frames(frames: Mapping[str, Any], catalog: Catalog, mint: Mint) -> dict[str, Batch]:
    """Typed batches from `{"Person": table or rows, "Knows": table or rows}`; edge frames have `from` and `to`."""
    batches: dict[str, Batch] = {}
    for name, frame in frames.items():
        entity = _entity_named(name, catalog)
        if isinstance(frame, (pa.Table, pa.RecordBatch)):
            table = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
            batches[entity.table_key] = batch_from_table(entity, table, mint)
        elif isinstance(frame, Sequence) and not isinstance(frame, (str, bytes)):
            rows = list(frame)
            batches[entity.table_key] = batch_from_rows(entity, rows, range(1, len(rows) + 1), mint)
        else:
            raise InvalidArgument(
                f"{name}: cannot load {type(frame).__name__}", hint="pass a pyarrow.Table or a list of dicts"
            )
    return batches


def batch_from_rows(entity: EntityType, rows: list[Mapping[str, Any]], numbers: Sequence[int], mint: Mint) -> Batch:
    """A batch from plain dicts with public property names."""
    for row, number in zip(rows, numbers, strict=True):
        _require_known_fields(entity, row, number)
    columns = {p.name: _column(entity, p, [row.get(p.name) for row in rows], numbers) for p in entity.properties}
    ends: dict[str, pa.Array] = {}
    if isinstance(entity, EdgeType):
        for column, name in ENDPOINTS.items():
            ends[column] = _text_column(entity, name, [row.get(name) for row in rows], numbers)
    given = [row.get("id") for row in rows]
    for value, row, number in zip(given, rows, numbers, strict=True):
        if value is None and "id" in row:
            raise InvalidValue(
                f"row {number}: {entity.name}.id cannot be null", type_key=entity.table_key, row=number, field="id"
            )
    explicit = _text_column(entity, "id", given, numbers, required=False) if any(v is not None for v in given) else None
    return _assemble(entity, columns, ends, explicit, numbers, mint)


def batch_from_table(entity: EntityType, table: pa.Table, mint: Mint) -> Batch:
    """A batch from an Arrow table with public property names."""
    numbers = range(1, table.num_rows + 1)
    known = (
        {p.name for p in entity.properties}
        | {"id"}
        | (set(ENDPOINTS.values()) if isinstance(entity, EdgeType) else set())
    )
    for name in table.column_names:
        if name not in known:
            entity.property(name)  # raises with the nearest name
    columns = {p.name: _cast_column(entity, p, table, numbers) for p in entity.properties}
    ends: dict[str, pa.Array] = {}
    if isinstance(entity, EdgeType):
        for column, name in ENDPOINTS.items():
            if name not in table.column_names:
                raise MissingValue(f"{entity.name}: column {name!r} is missing", type_key=entity.table_key, field=name)
            ends[column] = _text_array(entity, name, table[name], numbers)
    explicit = _text_array(entity, "id", table["id"], numbers) if "id" in table.column_names else None
    return _assemble(entity, columns, ends, explicit, numbers, mint)


def _open_envelope(row: Any, number: int, catalog: Catalog) -> tuple[EntityType, Mapping[str, Any]]:
    if not isinstance(row, Mapping):
        raise DataError(f"row {number} is not an object", row=number)
    if ("type" in row) == ("edge" in row):
        raise DataError(
            f"row {number} needs exactly one of 'type' (a node) and 'edge'", row=number,
            hint='{"type": "Person", "data": {...}} or {"edge": "Knows", "from": "a", "to": "b"}',
        )  # fmt: skip
    allowed = ENVELOPE_NODE if "type" in row else ENVELOPE_EDGE
    unknown = sorted(set(row) - allowed)
    if unknown:
        raise UnknownField(f"row {number} has an unknown field {unknown[0]!r}", row=number, field=unknown[0])
    data = row.get("data", {})
    if not isinstance(data, Mapping):
        raise InvalidValue(f"row {number}: 'data' must be an object", row=number, field="data")
    if "type" in row:
        return catalog.node(_name(row["type"], number)), data
    edge = catalog.edge(_name(row["edge"], number))
    for name in ("from", "to", "src", "dst"):
        if name in data:
            raise UnknownField(
                f"row {number}: {name!r} belongs outside 'data'", row=number, field=name,
                hint='write {"edge": "' + edge.name + '", "from": "a", "to": "b", "data": {...}}',
            )  # fmt: skip
    return edge, {**data, "from": row.get("from"), "to": row.get("to")}


def _name(value: Any, number: int) -> str:
    if not isinstance(value, str):
        raise InvalidValue(f"row {number}: the type name must be text", row=number)
    return value


def _entity_named(name: str, catalog: Catalog) -> EntityType:
    if name in catalog.nodes:
        return catalog.node(name)
    return catalog.edge(name)


def _require_known_fields(entity: EntityType, row: Mapping[str, Any], number: int) -> None:
    known = (
        {p.name for p in entity.properties}
        | {"id"}
        | (set(ENDPOINTS.values()) if isinstance(entity, EdgeType) else set())
    )
    for name in row:
        if name not in known:
            try:
                entity.property(name)
            except UnknownField as error:
                raise UnknownField(
                    f"row {number}: {error.message}", type_key=entity.table_key, row=number, field=name, hint=error.hint
                ) from None


def _column(entity: EntityType, prop: Property, values: list[Any], numbers: Sequence[int]) -> pa.Array:
    converted: list[Any] = []
    for value, number in zip(values, numbers, strict=True):
        if value is None:
            value = prop.default
        if value is None:
            if not prop.type.nullable:
                raise _missing(entity, prop.name, number)
            converted.append(None)
            continue
        try:
            converted.append(coerce(value, prop.type))
        except BadValue as error:
            raise InvalidValue(
                f"row {number}: {entity.name}.{prop.name} {error}",
                type_key=entity.table_key, row=number, field=prop.name,
            ) from None  # fmt: skip
    return pa.array(converted, _storage_type(prop)).cast(prop.type.to_arrow())


def _storage_type(prop: Property) -> pa.DataType:
    """Dates are built from integers: Arrow would read a bare number as something else."""
    if prop.type.is_vector:
        return prop.type.to_arrow()
    base = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(prop.type.scalar)
    if base is None:
        return prop.type.to_arrow()
    return pa.list_(pa.field("item", base)) if prop.type.is_list else base


def _cast_column(entity: EntityType, prop: Property, table: pa.Table, numbers: Sequence[int]) -> pa.ChunkedArray:
    if prop.name not in table.column_names:
        return pa.chunked_array([_column(entity, prop, [None] * table.num_rows, numbers)])
    column = table[prop.name]
    if (
        prop.type.is_enum
        or (prop.default is not None and column.null_count)
        or prop.type.is_vector
        or prop.type.is_list
    ):
        return pa.chunked_array([_column(entity, prop, column.to_pylist(), numbers)])
    if column.null_count and not prop.type.nullable:
        raise _missing(entity, prop.name, column.to_pylist().index(None) + 1)
    wanted = prop.type.to_arrow()
    if column.type == wanted:
        return column
    if not _is_castable(column.type, prop.type.scalar):
        raise InvalidValue(
            f"{entity.name}.{prop.name} expects {prop.type}, the column is {column.type}",
            type_key=entity.table_key, field=prop.name,
        )  # fmt: skip
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise InvalidValue(
            f"{entity.name}.{prop.name} expects {prop.type}: {error}", type_key=entity.table_key, field=prop.name
        ) from None


def _is_castable(found: pa.DataType, scalar: Scalar) -> bool:
    """Same family only: a number never becomes text, a fraction never an integer."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    match scalar:
        case Scalar.STRING:
            return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))
        case Scalar.BLOB:
            return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
        case Scalar.BOOL:
            return bool(pa.types.is_boolean(found))
        case Scalar.F32 | Scalar.F64:
            return bool(pa.types.is_floating(found) or pa.types.is_integer(found))
        case Scalar.DATE:
            return bool(pa.types.is_date32(found) or pa.types.is_date64(found))
        case Scalar.DATETIME:
            return bool(pa.types.is_timestamp(found) or pa.types.is_date(found))
        case _:
            return bool(pa.types.is_integer(found))


def _text_column(
    entity: EntityType, name: str, values: list[Any], numbers: Sequence[int], *, required: bool = True
) -> pa.Array:
    for value, number in zip(values, numbers, strict=True):
        if value is None and required:
            raise _missing(entity, name, number)
        if value is not None and not isinstance(value, str):
            raise InvalidValue(
                f"row {number}: {entity.name}.{name} must be text (the id of an entity), got {value!r}",
                type_key=entity.table_key, row=number, field=name,
            )  # fmt: skip
    return pa.array(values, pa.string())


def _text_array(entity: EntityType, name: str, column: pa.ChunkedArray, numbers: Sequence[int]) -> pa.Array:
    if column.null_count:
        raise _missing(entity, name, column.to_pylist().index(None) + 1)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InvalidValue(
            f"{entity.name}.{name} must be text (the id of an entity), the column is {column.type}",
            type_key=entity.table_key, field=name,
        )  # fmt: skip
    return column.cast(pa.string()).combine_chunks()


def _missing(entity: EntityType, name: str, number: int) -> MissingValue:
    return MissingValue(
        f"row {number}: {entity.name}.{name} is required", type_key=entity.table_key, row=number, field=name
    )


def _assemble(
    entity: EntityType, columns: Mapping[str, Any], ends: Mapping[str, pa.Array], explicit: pa.Array | None,
    numbers: Sequence[int], mint: Mint,
) -> Batch:  # fmt: skip
    count = len(numbers)
    public = pa.table({**ends, **columns}) if ends or columns else pa.table({"id": pa.nulls(count, pa.string())})
    derived: pa.Array | None = None
    if entity.key:
        derived = edge_key_ids(entity, public) if isinstance(entity, EdgeType) else node_ids(entity, public)
    ids, fresh = _ids(entity, derived, explicit, numbers, mint)
    arrays = [ids, *ends.values(), *(columns[p.name] for p in entity.properties)]
    return Batch(entity, pa.table(arrays, schema=entity.arrow_schema), numbers, fresh)


def _ids(
    entity: EntityType, derived: pa.Array | None, explicit: pa.Array | None, numbers: Sequence[int], mint: Mint
) -> tuple[pa.Array, bool]:
    if derived is not None:
        if explicit is not None:
            wrong = pc.fill_null(pc.not_equal(explicit, derived), False)
            if pc.any(wrong).as_py():
                at = wrong.to_pylist().index(True)
                found, expected = explicit[at].as_py(), derived[at].as_py()
                raise InvalidValue(
                    f"row {numbers[at]}: {entity.name} id {found!r} does not match @key ({expected!r})",
                    type_key=entity.table_key, row=numbers[at], field="id",
                )  # fmt: skip
        return derived, False
    if explicit is None:
        return pa.array([mint() for _ in numbers], pa.string()), True
    if explicit.null_count:
        explicit = pa.array([mint() if v is None else v for v in explicit.to_pylist()], pa.string())
    return explicit, False
