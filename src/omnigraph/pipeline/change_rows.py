"""Rows of the change feed in Spark: their columns, and a task that reads the changes of some commits.

A row is one change. Its properties are the image after the commit, of a deleted row the image before; `_before` is the
image before, null for an inserted row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from omnigraph.api.commits import GraphCommit
from omnigraph.errors import ChangeFeedGap, InvalidArgument, MissingData
from omnigraph.execution.spark.frames import public_fields, spark_arrow_schema
from omnigraph.execution.spark.versions import arrow_schema, spark_schema
from omnigraph.execution.spark.workers import store_of
from omnigraph.schema.catalog import EntityType
from omnigraph.versioning.diff import DELETE, INSERT, UPDATE, TableDelta, public_names
from omnigraph.versioning.row_images import changed_rows
from omnigraph.versioning.type_changes import TypeChange

BEFORE = "_before"
_ENDS = ("src", "dst")
_ROWS_AT_ONCE = 10_000
_SAID = {
    "_op": pa.string(), "_commit_id": pa.string(), "_commit_version": pa.int64(),
    "_commit_time": pa.timestamp("us", "UTC"),
}  # fmt: skip


def change_schema(entity: EntityType, names: list[str] | None, *, with_before: bool) -> StructType:
    """Return the columns of a feed of one type: its properties, the metadata of changes, perhaps the image before."""
    known = [name for name, _, _ in public_fields(entity)]
    for name in names or ():
        if name not in known:
            entity.property(name)  # raises with the nearest name
    taken = [name for name in names or known if name in _SAID or name == BEFORE]
    if taken:
        raise InvalidArgument(
            f"{entity.name} has a property {taken[0]!r}, which is a column of the change feed",
            hint="leave it out with the option `columns`",
        )
    properties = spark_arrow_schema(entity, names)
    fields = [*properties, *(pa.field(name, kind) for name, kind in _SAID.items())]
    if with_before:
        fields.append(pa.field(BEFORE, pa.struct(list(properties))))
    return spark_schema(pa.schema(fields))


@dataclass(frozen=True)
class ChangeColumns:
    """The columns of a query when it began, whatever the current schema. `has_all`: the user named none."""

    schema: StructType
    has_all: bool

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the property columns."""
        return [name for name in self.schema.fieldNames() if name not in _SAID and name != BEFORE]

    @property
    def with_before(self) -> bool:
        """Return whether the image before is requested."""
        return BEFORE in self.schema.fieldNames()

    @cached_property
    def arrow(self) -> pa.Schema:
        """Return the columns as Arrow fields."""
        return arrow_schema(self.schema)

    def difference_to(self, entity: EntityType) -> str | None:
        """Return the difference of a type to these columns, or None. Named columns are compared, or all."""
        theirs = {f.name: f.dataType.simpleString() for f in spark_schema(spark_arrow_schema(entity))}
        for name in self.names:
            if name not in theirs:
                return f"{name} is not there"
            mine = self.schema[name].dataType.simpleString()
            if theirs[name] != mine:
                return f"{name} is {theirs[name]} and not {mine}"
        more = sorted(theirs.keys() - set(self.names)) if self.has_all else []
        return f"{more[0]} is there as well" if more else None


@dataclass(frozen=True)
class ChangePartition(InputPartition):  # type: ignore[misc]
    """The changes that one task reads."""

    changes: tuple[TypeChange, ...]


def read_changes(uri: str, columns: ChangeColumns, changes: tuple[TypeChange, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some commits in their order, those of a commit by id."""
    store = store_of(uri)
    for change in changes:
        for before, after in change.pairs:
            try:
                found = changed_rows(store, before, after, lineal=True)
            except MissingData as error:
                raise ChangeFeedGap(change.commit.graph_commit_id) from error
            if found is None:
                continue
            ids = found.delta.ids
            olds = _Side(found.delta.before, found.delta.old, found.names_before, found.delta.entity)
            news = _Side(found.delta.after, found.delta.new, found.names_after, found.delta.entity)
            for start in range(0, len(ids), _ROWS_AT_ONCE):
                page = ids[start : start + _ROWS_AT_ONCE]
                yield _batch(columns, change.commit, found.delta, page, olds, news)


@dataclass(frozen=True)
class _Side:
    """The images of one side: rows by physical columns, the row of each id, and the names that the side has."""

    rows: pa.Table
    places: Mapping[str, int]
    names: Mapping[str, str]
    entity: EntityType

    @cached_property
    def _columns(self) -> Mapping[str, str]:
        """Map names in Spark to physical columns. The ends of edges keep their physical names."""
        mine = {column: self.names[name] for column, name in public_names(self.entity).items() if name in self.names}
        return {column if column in _ENDS else name: column for column, name in mine.items()}

    def column(self, name: str, kind: pa.DataType, at: pa.Array) -> pa.Array:
        """Return one column at some places, null where there is no row or the side lacks the column."""
        if name not in self._columns:
            return pa.nulls(len(at), kind)
        return self.rows[self._columns[name]].combine_chunks().take(at).cast(kind)


def _batch(
    columns: ChangeColumns, commit: GraphCommit, delta: TableDelta, ids: tuple[str, ...], olds: _Side, news: _Side
) -> pa.RecordBatch:
    old_at, new_at = (pa.array([side.places.get(i) for i in ids], pa.int64()) for side in (olds, news))
    was, is_there = (np.asarray(at.is_valid()) for at in (old_at, new_at))
    properties = [columns.arrow.field(name) for name in columns.names]
    before = [olds.column(field.name, field.type, old_at) for field in properties]
    after = [news.column(field.name, field.type, new_at) for field in properties]
    there = pa.array(is_there)
    arrays = [_either(there, new, old) for new, old in zip(after, before, strict=True)]
    arrays.append(pa.array(np.where(~was, INSERT, np.where(is_there, UPDATE, DELETE)), pa.string()))
    said = (commit.graph_commit_id, commit.manifest_version, commit.created_at)
    arrays += [pa.array([value] * len(ids), kind) for value, kind in zip(said, list(_SAID.values())[1:], strict=True)]
    if columns.with_before:
        arrays.append(pa.StructArray.from_arrays(before, fields=properties, mask=pa.array(~was)))
    return pa.RecordBatch.from_arrays(arrays, schema=columns.arrow)


def _either(choose: pa.Array, yes: pa.Array, no: pa.Array) -> pa.Array:
    """Select row by row from one of two columns."""
    count = len(choose)
    at = np.arange(count) + np.where(np.asarray(choose), 0, count)
    return pa.concat_arrays([yes, no]).take(pa.array(at))
