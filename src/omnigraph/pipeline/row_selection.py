"""Conditions and casts of Spark SQL over the rows of files, as the readers of every load read them.

    splits -> tasks: our readers -> columns, with the place of each row -> Spark: where, TRY_CAST -> tasks: stage

Spark sees the columns and never the files, so a source is read in one way with and without a condition. What the SQL
does not compute is staged as it was read: text of CSV and of folders is read as its property wants it, objects of JSON
are those of their lines. ADR 36 has the reasons.
"""

from __future__ import annotations

import json
import pickle
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import whole
from omnigraph.errors import DataError, InvalidValue, JobError, OmnigraphError, StorageError, Violation
from omnigraph.errors.base import show_value
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.execution.spark.versions import spark_schema
from omnigraph.pipeline.reading import parsed_rows
from omnigraph.pipeline.rejects import with_row
from omnigraph.pipeline.row_schema import column_for_spark, objects_for_spark, row_schema, spark_fields
from omnigraph.pipeline.sources import Split
from omnigraph.pipeline.staging import Checks, frame_place
from omnigraph.schema.catalog import EntityType
from omnigraph.write.frames import batch_from_table
from omnigraph.write.inputs.expectations import DROP, FAIL, IGNORE, Expectation
from omnigraph.write.inputs.locations import readable
from omnigraph.write.inputs.objects import row_reader
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.tables import JSON, JSONL, tables_of
from omnigraph.write.rows import Batch, batch_from_rows, known_columns, known_fields
from omnigraph.write.validation import Findings, Places, Subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT, ROW, WRONG, OBJECT = "__omnigraph_split", "__omnigraph_row", "__omnigraph_wrong", "__omnigraph_object"
_FAILED = "__omnigraph_failed_"
EXPECTED, REJECTED = "__omnigraph_expected_", "__omnigraph_rejected"
QUARANTINED = 100_000
"""The number of dropped rows described per batch of a task; all are counted."""
PLACE = (pa.field(SPLIT, pa.int32()), pa.field(ROW, pa.int64()), pa.field(WRONG, pa.binary()))
_ROWS = 10_000


class Selectable(Protocol):
    """A source that may have a condition and casts: files, or rows of a DataFrame."""

    @property
    def where(self) -> str | None:
        """A condition over the columns."""

    @property
    def cast(self) -> Mapping[str, str]:
        """Types of Spark SQL by property."""

    @property
    def expect(self) -> tuple[Expectation, ...]:
        """Rules over the columns."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The parameters of tasks that stage selected rows: the splits of the rows, and the values that the SQL computed.

    `casts` are properties and the types that they were cast to; `text` are columns that are text to be read, `empty`
    those without any value. Rows of a DataFrame have no splits: `frame` is its name in reports.
    """

    splits: tuple[Split, ...]
    casts: tuple[tuple[str, str], ...]
    text: frozenset[str]
    empty: frozenset[str]
    frame: str = ""
    expect: tuple[Expectation, ...] = ()
    unknown: str | None = None

    def batches(
        self, batches: Iterator[pa.RecordBatch], entity: EntityType, found: Findings, checks: Checks,
        *, ignore_unknown: bool = False,
    ) -> Iterator[Batch]:  # fmt: skip
        """Yield the rows that passed, as batches of their type. Rows whose cast failed are noted and left out."""
        for batch in batches:
            whole_batch, before = pa.Table.from_batches([batch]), len(found)
            table = self.readable(whole_batch, entity, found)
            table = self.expected(table, entity, checks)
            if OBJECT in table.column_names:
                yield batch_from_rows(entity, self._objects(table, entity), self.places(table), found)
            else:
                yield self.batch(table, entity, found, ignore_unknown=ignore_unknown)
            if self.frame:  # only the row itself identifies it
                found.attach_rows(before, partial(_row_of, whole_batch))
            if found.full:
                return

    def readable(self, table: pa.Table, entity: Subject, found: Findings) -> pa.Table:
        """Return the rows that could be read and cast. The others are noted."""
        return self._without_failed(self._without_wrong(table, found), entity, found)

    def expected(self, table: pa.Table, entity: Subject, checks: Checks) -> pa.Table:
        """Leave out the rows that an expectation drops. Raises for the first row that an expectation does not allow."""
        if not self.expect or not table.num_rows:
            return table
        places = self.places(table)
        dropped = np.zeros(table.num_rows, np.bool_)
        for number, each in enumerate(self.expect):
            fails = ~table[f"{EXPECTED}{number}"].to_numpy(zero_copy_only=False).astype(np.bool_)
            at = np.flatnonzero(fails & ~dropped).tolist()
            if not at:
                continue
            if each.on_fail == FAIL:
                path, row = places.at(at[0])
                raise InvalidValue(
                    f"{path}:{row}: the row does not meet the expectation {each.name!r} of {entity.name}: {each.rule}",
                    type_key=entity.table_key, path=path, row=row,
                )  # fmt: skip
            checks.counts[each.name, each.on_fail] += len(at)
            if each.on_fail == DROP:
                dropped[at] = True
                checks.quarantine(entity, each, places, [(i, table[REJECTED][i].as_py()) for i in at[:QUARANTINED]])
        return table.filter(pa.array(~dropped)) if dropped.any() else table

    def batch(self, table: pa.Table, entity: EntityType, found: Findings, *, ignore_unknown: bool) -> Batch:
        """Return rows of columns as a batch of their type."""
        names = [name for name in table.column_names if not name.startswith("__omnigraph_")]
        rows = pa.table({n: pa.nulls(table.num_rows) if n in self.empty else table[n] for n in names})
        ignore = ignore_unknown if self.unknown is None else self.unknown == IGNORE
        rows = known_columns(entity, rows) if ignore else rows
        return batch_from_table(entity, rows, self.places(table), found, text=self.text)

    def _without_wrong(self, table: pa.Table, found: Findings) -> pa.Table:
        """Note rows that the reader could not read, or raise the error that stopped it."""
        for body in table[WRONG].drop_null().to_pylist():
            wrong = pickle.loads(body)
            if isinstance(wrong, OmnigraphError):
                raise wrong
            found.add(wrong)
        return table.filter(pc.is_null(table[WRONG]))

    def _without_failed(self, table: pa.Table, entity: Subject, found: Findings) -> pa.Table:
        bad: set[int] = set()
        places = self.places(table)
        for number, (name, kind) in enumerate(self.casts):
            failed = table[f"{_FAILED}{number}"]
            for index in np.flatnonzero(pc.is_valid(failed).to_numpy(zero_copy_only=False)).tolist():
                bad.add(index)
                text = f"{entity.name}.{name} {show_value(failed[index].as_py())} cannot be cast to {kind}"
                found.note("type", text, entity, places=places, index=index, field=name, value=failed[index].as_py())
        return table.take([i for i in range(table.num_rows) if i not in bad]) if bad else table

    def places(self, table: pa.Table) -> Places:
        """Return the places of rows. They keep the order of their files unless the condition made Spark mix them."""
        numbers = table[SPLIT].to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        rows = table[ROW].to_numpy()
        parts = [(self._path(int(numbers[a])), rows[a:b].tolist()) for a, b in pairwise(cuts) if b > a]
        return Places(tuple(parts))

    def _path(self, number: int) -> str:
        return frame_place(self.frame, number) if self.frame else self.splits[number].path

    def _objects(self, table: pa.Table, entity: EntityType) -> list[dict[str, Any]]:
        cast = {name: table[name].to_pylist() for name, _ in self.casts}
        readers = {number: row_reader(self.splits[number], entity) for number in table[SPLIT].unique().to_pylist()}
        found, known = [], known_fields(entity)
        for index, (body, number) in enumerate(zip(table[OBJECT].to_pylist(), table[SPLIT].to_pylist(), strict=True)):
            row = readers[number](json.loads(body))
            if self.unknown == IGNORE:
                row = {name: value for name, value in row.items() if name in known}
            found.append(row | {name: values[index] for name, values in cast.items()})
        return found


def selected_frame(
    spark: SparkSession, source: Files, splits: Sequence[Split], place: str
) -> tuple[DataFrame, Selection, Callable[[], str | None]] | None:
    """Return the rows of a source that pass its condition, with the values cast; None where its files have no column.

    Also returns a function that finds the row on which the condition fails. The session is a work session with ANSI
    SQL: failed computations are errors. Raises Spark's own error for an invalid condition or type.
    """
    found = row_schema(spark, splits)
    if not found.names:
        return None
    fields, is_json = spark_fields(found), source.format in (JSON, JSONL)
    columns = dict(source.columns) or {name: name for name in fields.names}
    require_known(source, columns, found.names, place)
    shipped = pa.schema([*PLACE, *([pa.field(OBJECT, pa.string())] if is_json else []), *fields])
    parts = tuple(splits)
    raw = raw_rows(spark, parts, shipped)
    frame = compute_columns(raw(0, len(parts)), source, columns, is_json=is_json)
    kept = [name for name in columns if name not in source.cast]
    text = frozenset(name for part in parts for name in part.text_columns(kept))
    empty = frozenset(name for name in kept if pa.types.is_null(found.field(columns[name]).type))
    selection = Selection(
        parts, tuple(source.cast.items()), text, empty, expect=source.expect, unknown=source.unknown
    )  # fmt: skip
    return frame, selection, partial(failed_place, spark, raw, source.where or "true", parts)


def raw_rows(spark: SparkSession, splits: Sequence[Split], shipped: pa.Schema) -> Callable[[int, int], DataFrame]:
    """Return a function that gives the rows of the splits from one number up to another, with the place of each row."""
    parts = tuple(splits)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from raw_batches(parts[number], number, shipped)

    def raw(first: int, after: int) -> DataFrame:
        return spark.range(first, after, 1, after - first).mapInArrow(read, spark_schema(shipped))

    return raw


def failed_place(
    spark: SparkSession, raw: Callable[[int, int], DataFrame], where: str, splits: Sequence[Split]
) -> str | None:
    """Return file and number of the first row on which a condition fails, or None where it does not fail again.

    SQL does not report it: the splits, then the rows of one, are halved until one is left.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    def fails(first: int, after: int, last_row: int | None) -> bool:
        condition = F.expr(where) if last_row is None else F.when(F.col(ROW) <= last_row, F.expr(where))
        frame = raw(first, after).where(F.when(F.col(WRONG).isNull(), condition))
        try:
            frame.count()
        except PySparkException:
            return True
        return False

    split = bisect_left(range(len(splits)), True, key=lambda number: fails(0, number + 1, None))
    if split == len(splits):
        return None
    last = raw(split, split + 1).agg(F.max(ROW)).collect()[0][0] or 0
    row = bisect_left(range(last + 1), True, key=lambda number: fails(split, split + 1, number))
    return f"{splits[split].path}:{row}" if row <= last else None


def _row_of(table: pa.Table, violation: Violation) -> Mapping[str, Any] | None:
    """Return the row of a violation, in the columns that were to be loaded."""
    index = pc.index(table[ROW], violation.row).as_py() if violation.row is not None else -1
    if index < 0:
        return None
    names = [name for name in table.column_names if not name.startswith("__omnigraph_")]
    return with_row(replace(violation, row=1), 1, table.select(names).slice(index, 1).combine_chunks().to_batches()[0])


def require_known(source: Selectable, columns: Mapping[str, str], names: Sequence[str], place: str) -> None:
    """Refuse a column that the rows do not have, and a cast of a name that is no column."""
    hint = f"it has {', '.join(names)}"
    missing = sorted(set(columns.values()) - set(names))
    if missing:
        raise JobError(f"{place}: column {missing[0]!r} is missing", hint=hint)
    unknown = sorted(set(source.cast) - set(columns))
    if unknown:
        raise JobError(f"{place}: cast names {unknown[0]!r}, which is no column", hint=hint)


def compute_columns(
    raw: DataFrame, source: Selectable, columns: Mapping[str, str], *, is_json: bool, also: Sequence[str] = ()
) -> DataFrame:
    """Return the columns to stage: cast values, cast errors, other columns of tables, and `also` as they are."""
    from pyspark.sql import functions as F

    if source.where is not None:  # a row that could not be read has no values: it passes, to be reported
        raw = raw.where(F.col(WRONG).isNotNull() | F.expr(source.where))
    chosen = [SPLIT, ROW, WRONG, *([OBJECT] if is_json else []), *also]
    for name, column in columns.items():
        kind, value = source.cast.get(name), quote_column(column)
        if kind is not None:
            chosen.append(f"TRY_CAST({value} AS {kind}) AS {quote_column(name)}")
        elif not is_json:
            chosen.append(f"{value} AS {quote_column(name)}")
    failed = []
    for number, (name, kind) in enumerate(source.cast.items()):
        value = quote_column(columns[name])
        failed.append(f"({value} IS NOT NULL AND TRY_CAST({value} AS {kind}) IS NULL)")
        chosen.append(f"CASE WHEN {failed[-1]} THEN CAST({value} AS STRING) END AS {_FAILED}{number}")
    found = raw.selectExpr(*chosen, *_expectations(raw, source, failed, is_json=is_json))
    _ = found.schema  # Spark Connect analyses the expressions only here
    return found


def _expectations(raw: DataFrame, source: Selectable, failed: Sequence[str], *, is_json: bool) -> Iterator[str]:
    """Return which rules each row meets, and the whole row where one drops it. Unreadable rows are not judged."""
    bad = " OR ".join([f"{WRONG} IS NOT NULL", *failed])
    held = [f"CASE WHEN {bad} THEN true ELSE coalesce(({each.rule}\n), false) END" for each in source.expect]
    for number, each in enumerate(held):
        yield f"{each} AS {EXPECTED}{number}"
    drops = [rule for rule, each in zip(held, source.expect, strict=True) if each.on_fail == DROP]
    if source.expect:
        names = ", ".join(quote_column(name) for name in raw.columns if not name.startswith("__omnigraph_"))
        row = OBJECT if is_json else f"to_json(struct({names}), map('ignoreNullFields', 'false'))"
        kept = " AND ".join(f"({each})" for each in drops) or "true"
        yield f"CASE WHEN NOT ({kept}) THEN {row} END AS {REJECTED}"


def quote_column(name: str) -> str:
    """Quote a name as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def raw_batches(split: Split, number: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in their columns for Spark. Errors are sent as rows of their own."""
    found = Findings(sys.maxsize)  # none may be lost in transport
    try:
        with readable(split.path):
            for rows, columns in _read(split, schema, found):
                yield _batch(schema, {SPLIT: [number] * len(rows), ROW: rows, **columns}, len(rows))
    except StorageError as error:
        raise TaskRefusal(error) from error  # the store may succeed in the next attempt
    except OmnigraphError as error:
        yield _wrong(schema, number, [error])
        return
    yield _wrong(schema, number, list(found))


def _wrong(schema: pa.Schema, number: int, wrong: Sequence[Violation | OmnigraphError]) -> pa.RecordBatch:
    bodies = [pickle.dumps(each) for each in wrong]
    rows = [getattr(each, "row", None) or 0 for each in wrong]
    return _batch(schema, {SPLIT: [number] * len(rows), ROW: rows, WRONG: bodies}, len(rows))


def _batch(schema: pa.Schema, columns: Mapping[str, Any], count: int) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        values = columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _read(split: Split, schema: pa.Schema, found: Findings) -> Iterator[tuple[Sequence[int], dict[str, Any]]]:
    fields = [field for field in schema if not field.name.startswith("__omnigraph_")]
    if split.format in (JSON, JSONL):
        for parsed in parsed_rows(split, found):
            for first in range(0, len(parsed), _ROWS):
                few = parsed[first : first + _ROWS]
                objects = [row | dict(split.folders) for _, row in few]
                columns = {field.name: objects_for_spark(objects, field) for field in fields}
                yield [number for number, _ in few], {OBJECT: [json.dumps(row) for _, row in few], **columns}
        return
    for table, numbers in tables_of(split, found):
        _require_mapped(split, table.column_names)
        for first in range(0, table.num_rows, _ROWS):
            some = table.slice(first, _ROWS)
            yield numbers[first : first + _ROWS], {f.name: whole(column_for_spark(some, f)) for f in fields}


def _require_mapped(split: Split, names: Sequence[str]) -> None:
    for column in split.columns.values():
        if column not in names:
            raise DataError(
                f"{split.path}: column {column!r} is missing", path=split.path,
                hint=f"the file has {', '.join(names)}",
            )  # fmt: skip
