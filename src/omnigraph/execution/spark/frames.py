"""Types of a graph as Spark types. Spark has no unsigned numbers and no fixed-size lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.schema.catalog import EntityType

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def spark_arrow_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which a column of a graph is sent to Spark."""
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", spark_arrow_type(kind.value_type)))
    if pa.types.is_dictionary(kind):
        return spark_arrow_type(kind.value_type)
    return kind


def public_fields(entity: EntityType) -> list[tuple[str, str, pa.DataType]]:
    """Return public name, physical column and stored type of every column of a node or edge type, in order."""
    names = {p.column: p.name for p in entity.properties}
    return [(names.get(f.name, f.name), f.name, f.type) for f in entity.arrow_schema]


def spark_arrow_schema(entity: EntityType, columns: list[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of a type's rows in Spark, of some columns or all."""
    fields = [(name, spark_arrow_type(kind)) for name, _, kind in public_fields(entity)]
    if columns is not None:
        kinds = dict(fields)
        fields = [(name, kinds[name]) for name in columns]
    return pa.schema([pa.field(name, kind) for name, kind in fields])


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert the columns of a batch to the types that Spark takes."""
    columns = [batch.column(i).cast(field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def parts_by_id(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch, in order: rows with an `id`, and rows without one, which lack the column.

    `INSERT INTO view (name) ...` gives null to columns that it does not name, and a load takes no null for an id.
    """
    place = batch.schema.get_field_index("id")
    if place < 0 or not batch.num_rows or not batch.column(place).null_count:
        yield batch
        return
    is_given = batch.column(place).is_valid().to_numpy(zero_copy_only=False)
    ends = [*(np.flatnonzero(np.diff(is_given)) + 1).tolist(), batch.num_rows]
    for begin, end in itertools.pairwise([0, *ends]):
        part = batch.slice(begin, end - begin)
        yield part if is_given[begin] else part.select([name for name in part.schema.names if name != "id"])
