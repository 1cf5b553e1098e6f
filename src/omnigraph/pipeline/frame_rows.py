"""Rows of DataFrames with a mapping, a condition, casts and expectations, as files of a load have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.execution.spark.versions import arrow_schema, spark_schema
from omnigraph.pipeline.row_selection import PLACE, Selection, compute_columns, quote_column, require_known
from omnigraph.pipeline.spark_session import frame_of
from omnigraph.schema.catalog import EntityType
from omnigraph.write.inputs.expectations import IGNORE, REFUSE, UNKNOWN, Expectation
from omnigraph.write.rows import known_fields
from omnigraph.write.sources import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a DataFrame or a table: `pipeline.load(..., nodes={"Person": Rows(frame, columns={"name": "who"})})`.

    The options are those of `Files`. `text` names columns that are text of files, to be read as their property wants
    it; `name` is what reports call the rows.
    """

    rows: Any
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    cast: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()
    unknown: str | None = None
    text: frozenset[str] = frozenset()
    name: str = ""

    def __post_init__(self) -> None:
        if self.unknown not in (None, *UNKNOWN):
            raise InvalidArgument(f"unknown {self.unknown!r} is unknown", hint=f"use one of {', '.join(UNKNOWN)}")

    @property
    def is_selected(self) -> bool:
        """Return whether Spark SQL selects rows or computes values, or text must be parsed."""
        return self.where is not None or bool(self.cast) or bool(self.expect) or bool(self.text)


def local_frame(spark: SparkSession, rows: Any, what: str) -> DataFrame | None:
    """Return a table of pyarrow, pandas or polars as a DataFrame; None for any other value."""
    is_pandas = type(rows).__module__.partition(".")[0] == "pandas"
    if not (is_pandas or isinstance(rows, pa.Table) or hasattr(rows, "__arrow_c_stream__")):
        return None
    return frame_of(spark, table_of(what, rows))


def row_frame(
    source: Rows, frame: DataFrame, entity: EntityType, name: str, *, ignore_unknown: bool
) -> tuple[DataFrame, Selection | None]:
    """Return the rows to stage, and their selection. Raises Spark's own error for invalid SQL."""
    mapping = dict(source.columns) or {column: column for column in frame.columns}
    require_known(source, mapping, frame.columns, name)
    known = known_fields(entity)
    if source.unknown == REFUSE:
        for unknown in [each for each in mapping if each not in known]:
            entity.property(unknown)  # raises with the nearest name
    if source.unknown == IGNORE or (source.unknown is None and ignore_unknown):
        mapping = {each: column for each, column in mapping.items() if each in known}
    if not source.is_selected:
        return frame.selectExpr(
            *(f"{quote_column(column)} AS {quote_column(each)}" for each, column in mapping.items())
        ), None
    schema = arrow_schema(frame.schema)
    kept = {each: column for each, column in mapping.items() if each not in source.cast}
    text = frozenset(each for each, column in kept.items() if column in source.text)
    empty = frozenset(each for each, column in kept.items() if pa.types.is_null(schema.field(column).type))
    selection = Selection((), tuple(source.cast.items()), text, empty, frame=name, expect=source.expect)
    return compute_columns(number_rows(frame), source, mapping, is_json=False), selection


def number_rows(frame: DataFrame) -> DataFrame:
    """Number the rows within their partition, as in every report of a load."""
    from pyspark.sql.types import StructType

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        row = 1
        for batch in batches:
            count = batch.num_rows
            places = [
                pa.array([partition] * count, pa.int32()), pa.array(range(row, row + count), pa.int64()),
                pa.nulls(count, pa.binary()),
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays([*places, *batch.columns], schema=pa.schema([*PLACE, *batch.schema]))
            row += count

    shipped = StructType([*spark_schema(pa.schema(PLACE)).fields, *frame.schema.fields])
    return frame.mapInArrow(number, shipped)
