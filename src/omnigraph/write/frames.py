"""Arrow tables with public column names into typed batches, column at a time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import FLOATS, Scalar, TooPrecise, whole
from omnigraph.errors import DataError, InvalidValue, MissingValue, UnknownField
from omnigraph.errors.base import show_value
from omnigraph.schema.catalog import EdgeType, EntityType, Property
from omnigraph.write.ids import ids_of
from omnigraph.write.rows import ENDPOINTS, Batch, assemble_batch, known_fields, storage_type
from omnigraph.write.texts import is_in_calendar, is_readable, read_at_once, read_sure
from omnigraph.write.validation import Findings, Places
from omnigraph.write.values import (
    ISO,
    BadValue,
    DateFormats,
    coerce,
    read_date,
    read_text,
)

Bad = set[int]
_EXACT = {Scalar.F32: 6, Scalar.F64: 15}
"""How many decimal digits a float keeps exactly, whatever they are."""


def batch_from_table(
    entity: EntityType, table: pa.Table, places: Places, found: Findings, *, text: Collection[str] = (),
    dates: DateFormats = ISO,
) -> Batch:  # fmt: skip
    """A batch from an Arrow table. Wrong rows are noted and left out; a column of the wrong kind is an error.

    `text` names columns that hold text to parse, as those of a CSV file do; `dates` says how dates are written in them.
    """
    path = places.parts[0][0] if places.parts else None
    with naming_file(path):
        return _batch(entity, table, places, found, text, dates)


@contextmanager
def naming_file(path: str | None) -> Iterator[None]:
    """Add to errors about whole columns the file of the column."""
    try:
        yield
    except DataError as error:
        if path is None or error.path is not None:
            raise
        raise type(error)(
            f"{path}: {error.message}", type_key=error.type_key, row=error.row, field=error.field, path=path,
            hint=error.hint, violations=error.violations,
        ) from error  # fmt: skip


def _batch(
    entity: EntityType, table: pa.Table, places: Places, found: Findings, text: Collection[str], dates: DateFormats
) -> Batch:
    require_distinct(entity, table.column_names)
    table = pa.table([plain_column(column) for column in table.columns], names=list(table.column_names))
    known = known_fields(entity)
    for name in table.column_names:
        if name in ENDPOINTS and name not in known and isinstance(entity, EdgeType):
            hint = f"the column is called {ENDPOINTS[name]!r} in files"
            raise UnknownField(
                f"{entity.name} has no column {name!r}", type_key=entity.table_key, field=name, hint=hint
            )
        if name not in known and text and len(table.column_names) == 1 and re.search(r"[;|\t:^~]", name):
            raise UnknownField(
                f"{entity.name} has no column {show_value(name)}, and the file has no other", type_key=entity.table_key,
                field=name, hint="if the delimiter is not a comma, name it with the option delimiter",
            )  # fmt: skip
        if name not in known:
            entity.property(name)  # raises with the nearest name
    frame = _Frame(entity, table, places, found, text, dates)
    columns = frame.columns()
    if frame.bad:
        is_good = np.ones(table.num_rows, bool)
        is_good[list(frame.bad)] = False
        mask = pa.array(is_good)
        columns = {name: column.filter(mask) for name, column in columns.items()}
        places = places.filtered(is_good)
    before = len(found)
    explicit = columns.pop("id", None)
    ids, fresh = ids_of(entity, columns, explicit, places, table.num_rows - len(frame.bad), found)
    batch = assemble_batch(entity, columns, ids, places, fresh)
    return batch if len(found) == before else batch.without(found.places(since=before))


def require_distinct(entity: EntityType, names: Sequence[str]) -> None:
    """Refuse a table with two columns of one name, which is ambiguous."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidValue(
            f"{entity.name}: column {show_value(twice)} appears twice", type_key=entity.table_key, field=twice,
            hint="leave one of them out, or rename it",
        )  # fmt: skip


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without its encoding: the values of a dictionary, run ends, views or an extension type."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_column(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return plain_column(pa.chunked_array(chunks, kind.value_type))
    if pa.types.is_dictionary(kind):
        chunks = [chunk.dictionary_decode() for chunk in column.chunks]
        return plain_column(pa.chunked_array(chunks, kind.value_type))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = plain_column(pa.chunked_array([], kind.value_type)).type
        return column if items == kind.value_type else _with_plain_items(column)
    return column


def _with_plain_items(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Unwrap list items by way of Python, because few of Arrow's own functions support them."""
    return pa.chunked_array([pa.array(chunk.to_pylist()) for chunk in column.chunks] or [pa.nulls(0)])


def property_values(
    entity: EntityType, prop: Property, given: pa.Array, places: Places, found: Findings, *, is_text: bool = False
) -> Any:
    """The values of one property of some rows. Wrong ones are noted; a column of the wrong kind is an error.

    `is_text`: the column holds text to parse.
    """
    column = plain_column(pa.chunked_array([given]) if isinstance(given, pa.Array) else given)
    text = (prop.name,) if is_text else ()
    return _Frame(entity, pa.table({prop.name: column}), places, found, text).values_of(prop)


class _Frame:
    """Converts the columns of one table and collects the rows that are wrong."""

    def __init__(
        self, entity: EntityType, table: pa.Table, places: Places, found: Findings, text: Collection[str] = (),
        dates: DateFormats = ISO,
    ) -> None:  # fmt: skip
        self._text = text
        self._dates = dates
        self._entity = entity
        self._table = table
        self._places = places
        self._found = found
        self.bad: Bad = set()

    def columns(self) -> dict[str, Any]:
        """Public columns: ends, properties, and `id` where the table has it."""
        columns: dict[str, Any] = {}
        if isinstance(self._entity, EdgeType):
            for column, name in ENDPOINTS.items():
                if name not in self._table.column_names:
                    raise self._lacks(name)
                columns[column] = self._ids(name, required=True)
        for prop in self._entity.properties:
            columns[prop.name] = self.values_of(prop)
        if "id" in self._table.column_names:
            columns["id"] = self._ids("id", required=not self._mints)
        return columns

    @property
    def _mints(self) -> bool:
        return not self._entity.key

    def _lacks(self, name: str) -> MissingValue:
        text = f"{self._entity.name}: column {name!r} is missing"
        return MissingValue(text, type_key=self._entity.table_key, field=name, hint="add it, or rename a column")

    def _note(self, index: int, rule: str, text: str, field: str, value: Any = None) -> None:
        self.bad.add(index)
        self._found.note(rule, text, self._entity, places=self._places, index=index, field=field, value=value)

    def _ids(self, name: str, *, required: bool) -> pa.Array:
        column = self._table[name]
        if column.null_count and required:
            for index in self._found.rows(pc.is_null(column)):
                self._note(index, "required", f"{self._entity.name}.{name} is required", name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_integer(kind) or is_text(kind) or pa.types.is_null(kind)):
            raise InvalidValue(
                f"{self._entity.name}.{name} must be text (the id of an entity), the column is {column.type}",
                type_key=self._entity.table_key, field=name, hint="cast the column before it is loaded",
            )  # fmt: skip
        return whole(column.cast(pa.string()))

    def values_of(self, prop: Property) -> Any:
        """The values of one property, in its type."""
        if prop.name not in self._table.column_names:
            return self._absent(prop)
        column = self._table[prop.name]
        if prop.default is not None and column.null_count:
            default = pa.array([coerce(prop.default, prop.type)], storage_type(prop)).cast(prop.type.to_arrow())[0]
            return pc.fill_null(self._converted(prop, column), default)
        if column.null_count and not prop.type.nullable and prop.embed is None:
            for index in self._found.rows(pc.is_null(column)):
                self._note(index, "required", f"{self._entity.name}.{prop.name} is required", prop.name)
        return self._converted(prop, column)

    def _absent(self, prop: Property) -> pa.Array:
        count = self._table.num_rows
        if prop.default is not None:
            value = pa.array([coerce(prop.default, prop.type)], storage_type(prop)).cast(prop.type.to_arrow())
            return value.take(pa.array(np.zeros(count, np.int64)))
        if not prop.type.nullable and prop.embed is None:
            for index in range(count):
                if self._found.full:
                    break
                self._note(index, "required", f"{self._entity.name}.{prop.name} is required", prop.name)
        return pa.nulls(count, prop.type.to_arrow())

    def _converted(self, prop: Property, column: pa.ChunkedArray) -> Any:
        kind, wanted = prop.type, prop.type.to_arrow()
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), wanted)
        if prop.name in self._text:
            return self._read(prop, column)
        if kind.is_list or kind.is_vector:
            return self._nested(prop, column)
        if kind.scalar is Scalar.BLOB and is_text(column.type):
            return self._one_by_one(prop, column)
        column = self._days(prop, column)
        if not is_castable(column.type, kind.scalar):
            raise InvalidValue(
                f"{self._entity.name}.{prop.name} expects {kind}, the column is {column.type}",
                type_key=self._entity.table_key, field=prop.name, hint="cast the column before it is loaded",
            )  # fmt: skip
        self._refuse_fine(prop, column)
        if column.type != wanted:
            try:
                column = _cast(column, wanted, kind.scalar)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return self._one_by_one(prop, column)
        if not is_in_calendar(column, kind.scalar):
            return self._one_by_one(prop, column)
        if kind.scalar in FLOATS and pc.any(pc.invert(pc.is_finite(column))).as_py():
            return self._one_by_one(prop, column)
        return column

    def _days(self, prop: Property, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Moments at midnight as dates, since pandas has no other dates. Other moments are noted."""
        kind = column.type
        if prop.type.scalar is not Scalar.DATE or not pa.types.is_timestamp(kind) or kind.tz not in (None, "UTC"):
            return column
        local = column.cast(pa.timestamp(kind.unit))
        days = local.cast(pa.date32(), safe=False)
        for index in self._found.rows(pc.not_equal(days.cast(local.type, safe=False), local)):
            value = str(local[index].cast(pa.string()))
            text = f"{self._entity.name}.{prop.name} expects a Date, and {value} is not midnight"
            self._note(index, "type", text, prop.name, value)
        return days

    def _refuse_fine(self, prop: Property, column: pa.ChunkedArray) -> None:
        """Note the moments of a column that lie between two milliseconds."""
        if not pa.types.is_timestamp(column.type) or column.type.unit in ("s", "ms"):
            return
        coarse = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        for index in self._found.rows(pc.not_equal(coarse.cast(column.type, safe=False), column)):
            text = f"{self._entity.name}.{prop.name} {column[index].cast(pa.string())} {TooPrecise()}"
            self._note(index, "type", text, prop.name, str(column[index].cast(pa.string())))

    def _nested(self, prop: Property, column: pa.ChunkedArray) -> Any:
        """Lists and vectors: as they are when nothing can be wrong with them, one by one otherwise."""
        wanted = prop.type.to_arrow()
        if column.type == wanted and prop.type.scalar not in FLOATS | {Scalar.STRING} and not _has_null_items(column):
            return column
        if column.type == wanted and prop.type.scalar is Scalar.STRING and not _has_null_items(column):
            return column
        if prop.type.is_vector and _are_vectors(column, prop.type.dimension or 0):
            return column if column.type == wanted else _as_vectors(column, wanted)
        return self._one_by_one(prop, column)

    def _read(self, prop: Property, column: pa.ChunkedArray) -> Any:
        """Parse text into values: at once where Arrow reads it, else one by one."""
        kind = prop.type
        pattern = self._dates.pattern(kind)
        if pattern is not None:
            return self.convert(prop, column.to_pylist(), lambda text: coerce(read_date(text, pattern, kind), kind))
        read = read_at_once(column, kind)
        if read is not None:
            return read
        if is_readable(kind):
            return self._read_apart(prop, column)
        return self.convert(prop, column.to_pylist(), lambda text: coerce(read_text(text, kind), kind))

    def _read_apart(self, prop: Property, column: pa.ChunkedArray) -> pa.Array:
        """Parse text that Arrow cannot read entirely: the texts it surely reads at once, and the rest one by one."""
        kind, texts = prop.type, whole(column)
        read, is_rest = read_sure(texts, kind)
        at = np.flatnonzero(is_rest.to_numpy(zero_copy_only=False)).tolist()
        rest = texts.filter(is_rest).to_pylist()
        values = self.convert(prop, rest, lambda text: coerce(read_text(text, kind), kind), at)
        return pc.replace_with_mask(read, is_rest, values)

    def _one_by_one(self, prop: Property, column: pa.ChunkedArray) -> pa.Array:
        try:
            values = column.to_pylist()
        except (ValueError, OverflowError):  # a moment that Python's calendar does not have
            values = [_python_value(each) for each in column]
        return self.convert(prop, values, lambda value: coerce(value, prop.type))

    def convert(
        self, prop: Property, values: Sequence[Any], how: Callable[[Any], Any], at: Iterable[int] | None = None
    ) -> pa.Array:
        """Convert values one by one; `at` has the row of each where they are not those of all rows."""
        converted: list[Any] = []
        for index, value in zip(itertools.count() if at is None else at, values, strict=False):
            try:
                converted.append(None if value is None else how(value))
            except BadValue as error:
                self._note(index, error.rule, f"{self._entity.name}.{prop.name} {error}", prop.name, value)
                converted.append(None)
        return pa.array(converted, storage_type(prop)).cast(prop.type.to_arrow())


def is_text(kind: pa.DataType) -> bool:
    """Any of Arrow's text types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_castable(found: pa.DataType, scalar: Scalar) -> bool:
    """Whether the types are of one family: a number never becomes text, a fraction never an integer."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    match scalar:
        case Scalar.STRING:
            return is_text(found)
        case Scalar.BLOB:
            return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
        case Scalar.BOOL:
            return bool(pa.types.is_boolean(found))
        case Scalar.F32 | Scalar.F64:
            return bool(pa.types.is_floating(found) or pa.types.is_integer(found) or pa.types.is_decimal(found))
        case Scalar.DATE:
            return bool(pa.types.is_date32(found) or pa.types.is_date64(found))
        case Scalar.DATETIME:
            return bool(pa.types.is_timestamp(found) or pa.types.is_date(found))
        case _:  # Spark has no unsigned 64-bit integers: they come as decimals
            return bool(pa.types.is_integer(found) or pa.types.is_decimal(found))


def _cast(column: pa.ChunkedArray, wanted: pa.DataType, scalar: Scalar) -> pa.ChunkedArray:
    """A column in another type of its family. Refuses decimals with more digits than a float is sure to keep.

    Moments between two milliseconds were noted before, and are truncated.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) and scalar is Scalar.DATETIME and kind.unit in ("us", "ns"):
        return column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(wanted)
    if pa.types.is_decimal(kind) and scalar in FLOATS and kind.precision > _EXACT[scalar]:
        raise pa.ArrowInvalid(f"{kind} has more digits than {scalar} is sure to keep")
    return column.cast(wanted)


def _python_value(scalar: pa.Scalar) -> Any:
    """The Python value of a scalar; where Python has none, its number, which `coerce` then refuses as too large."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return scalar.value


def _has_null_items(column: pa.ChunkedArray) -> bool:
    return any(pc.list_flatten(chunk).null_count for chunk in column.chunks)


def _as_vectors(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Lists as vectors. Arrow's cast reads the items even where no row has any, and ends the process."""
    chunks = [
        pa.nulls(len(chunk), wanted) if chunk.null_count == len(chunk) else chunk.cast(wanted)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, wanted)


def _are_vectors(column: pa.ChunkedArray, dimension: int) -> bool:
    """Whether every value is a list of `dimension` finite F32 numbers."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    if not pa.types.is_floating(kind.value_type):
        return False
    lengths = pc.list_value_length(column)
    if pc.any(pc.not_equal(lengths, dimension)).as_py():
        return False
    for chunk in column.chunks:
        items = pc.list_flatten(chunk).cast(pa.float32())
        if items.null_count or pc.any(pc.invert(pc.is_finite(items))).as_py():
            return False
    return True
