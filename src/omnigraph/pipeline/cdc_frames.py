"""Change events as DataFrames: the columns of a row and of its event; of several events of a row the last one.

An envelope (`before`, `after`) is opened here. Ids and orders are computed by tasks (`cdc_rows.py`), so that different
spellings of one key meet; Spark then keeps the last event of each id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import JobError
from omnigraph.execution.spark.versions import arrow_schema
from omnigraph.pipeline.cdc_rows import (
    ACTION,
    DELETED_AT,
    ID,
    IDENTIFIED,
    OP,
    ORDER,
    ORDERED,
    SEQUENCE,
    ChangeRows,
)
from omnigraph.pipeline.frame_rows import number_rows
from omnigraph.pipeline.row_schema import row_schema, spark_fields
from omnigraph.pipeline.row_selection import (
    PLACE,
    ROW,
    SPLIT,
    WRONG,
    Selectable,
    Selection,
    compute_columns,
    failed_place,
    quote_column,
    raw_rows,
    require_known,
)
from omnigraph.pipeline.sources import Split
from omnigraph.schema.catalog import EntityType
from omnigraph.write.frames import is_text
from omnigraph.write.inputs.change_events import DEBEZIUM, DELETE, Cdc
from omnigraph.write.inputs.expectations import Expectation
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.tables import JSON, JSONL
from omnigraph.write.rows import ENDPOINTS, known_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RANK, _NUMBER = "__omnigraph_rank", "__omnigraph_number"


@dataclass(frozen=True, slots=True)
class Changes:
    """Change events in a DataFrame or a table: `pipeline.load(..., nodes={"Person": Changes(frame, Cdc(...))})`.

    The options are those of `Files`; `text` and `name` are those of `Rows`.
    """

    rows: Any
    cdc: Cdc
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    cast: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()
    unknown: str | None = None
    text: frozenset[str] = frozenset()
    name: str = ""


@dataclass(frozen=True, slots=True)
class ChangeFrame:
    """The last event of each row, the staging of these rows, and the search for the row on which a condition fails."""

    frame: DataFrame
    rows: ChangeRows
    failed_place: Callable[[], str | None] | None = None


def file_changes(
    spark: SparkSession, source: Files, entity: EntityType, splits: Sequence[Split], place: str
) -> ChangeFrame | None:
    """Return the events of files; None where the files have no column. Raises Spark's error for invalid SQL."""
    found = row_schema(spark, splits)
    if not found.names:
        return None
    fields = spark_fields(found)
    raw = raw_rows(spark, splits, pa.schema([*PLACE, *fields]))
    columns = _Columns(source, source.cdc or Cdc(preset=DEBEZIUM), entity, raw(0, len(splits)), place)
    if source.format in (JSON, JSONL):  # texts may be dates, as in every load of JSON
        names = {n for n, c in columns.mapping.items() if c in fields.names and is_text(fields.field(c).type)}
        text = frozenset(n for n in names if _is_read(entity, n))
    else:
        text = frozenset(n for split in splits for n in split.text_columns(list(columns.mapping)))
    text -= set(source.cast)
    empty = frozenset(
        n for n, c in columns.mapping.items() if n not in source.cast and c in found.names and _is_null(found, c)
    )
    selection = Selection(
        tuple(splits), tuple(source.cast.items()), text, empty, expect=source.expect, unknown=source.unknown
    )
    change_frame = columns.change_frame(selection)
    where = source.where or "true"
    return replace(
        change_frame, failed_place=partial(failed_place, spark, columns.opened_of(raw), where, tuple(splits))
    )


def frame_changes(source: Changes, frame: DataFrame, entity: EntityType, name: str) -> ChangeFrame:
    """Return the events of a DataFrame."""
    schema = arrow_schema(frame.schema)
    columns = _Columns(source, source.cdc, entity, number_rows(frame), name)
    empty = frozenset(n for n, c in columns.mapping.items() if c in schema.names and _is_null(schema, c))
    text = frozenset(n for n, c in columns.mapping.items() if c in source.text) - set(source.cast)
    return columns.change_frame(
        Selection((), tuple(source.cast.items()), text, empty, frame=name, expect=source.expect, unknown=source.unknown)
    )


def _is_null(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_null(schema.field(name).type))


def _is_read(entity: EntityType, name: str) -> bool:
    """Return whether a text of JSON must be parsed to become the value of a property."""
    if name in ("id", *ENDPOINTS.values()) or name not in known_fields(entity):
        return False
    kind = entity.property(name).type
    return kind.is_plain_scalar and not is_text(kind.to_arrow())


class _Columns:
    """Maps the columns of one source of events to the properties of a type."""

    def __init__(self, source: Any, cdc: Cdc, entity: EntityType, raw: DataFrame, place: str) -> None:
        if not entity.key:
            raise JobError(f"{place}: {entity.name} has no key", hint="change events need a type with @key")
        self._source: Selectable = source
        self._cdc = cdc
        self._entity = entity
        self._place = place
        self._names = [name for name in raw.columns if not name.startswith("__omnigraph_")]
        self._op = cdc.op_column(self._names, place)
        self._sequence = cdc.sequence_column(self._names, place)
        self._fields = self._row_fields(raw)
        self._opened = self._open(raw)
        known = known_fields(entity)
        given = [n for n in self._opened.columns if not n.startswith("__omnigraph_")]
        inside = set().union(*self._fields.values()) if self._fields else set()
        self.mapping: dict[str, str] = dict(source.columns) or {
            n: n for n in given if n in inside or n in known or not (self._cdc.is_meta(n) or "." in n)
        }
        require_known(self._source, self.mapping, given, place)
        missing = sorted({ENDPOINTS.get(n, n) for n in entity.key} - set(self.mapping))
        if missing:
            raise JobError(f"{place}: no column gives {missing[0]!r}, which is a key of {entity.name}")

    def _row_fields(self, raw: DataFrame) -> dict[str, list[str]]:
        """Return the members of `before` and `after` of an envelope."""
        from pyspark.sql.types import StructType

        if self._cdc.preset != DEBEZIUM:
            return {}
        found = {name: raw.schema[name].dataType for name in ("before", "after") if name in self._names}
        return {name: list(kind.names) for name, kind in found.items() if isinstance(kind, StructType)}

    def _open(self, raw: DataFrame) -> DataFrame:
        """Return the columns of the row and of its event side by side."""
        inside = list(dict.fromkeys(n for name in ("after", "before") for n in self._fields.get(name, ())))
        deletes = ", ".join("'" + value.replace("'", "''") + "'" for value in self._cdc.delete)
        chosen = [SPLIT, ROW, WRONG]
        op, sequence = _path(self._op, self._names), _path(self._sequence, self._names)
        chosen += [f"CAST({op} AS STRING) AS {OP}", f"{sequence} AS {SEQUENCE}"]
        for name in inside:
            after, before = (
                f"{side}.{quote_column(name)}" if name in self._fields.get(side, ()) else "NULL"
                for side in ("after", "before")
            )
            chosen.append(f"CASE WHEN {op} IN ({deletes}) THEN {before} ELSE {after} END AS {quote_column(name)}")
        others = [n for n in self._names if n not in inside and not (self._fields and n in ("before", "after"))]
        dotted = [n for n in {*self._source_columns(), self._sequence} if n not in self._names and "." in n]
        chosen += [quote_column(n) for n in others] + [
            f"{_path(n, self._names)} AS {quote_column(n)}" for n in sorted(dotted)
        ]
        return raw.selectExpr(*chosen)

    def _source_columns(self) -> Sequence[str]:
        return list(getattr(self._source, "columns", {}).values())

    def opened_of(self, raw: Callable[[int, int], DataFrame]) -> Callable[[int, int], DataFrame]:
        """Return some of the rows, as a condition sees them."""
        return lambda first, after: self._open(raw(first, after))

    def change_frame(self, selection: Selection) -> ChangeFrame:
        """Return the last event of each row."""
        rows = ChangeRows(selection, self._cdc, self._entity, tuple(self.mapping), self._kept_in())
        frame = compute_columns(self._opened, self._source, self.mapping, is_json=False, also=(OP, SEQUENCE))
        return ChangeFrame(last_events(frame, rows), rows)

    def _kept_in(self) -> str | None:
        """Return the property that keeps the sequence, if one does."""
        properties = {prop.name for prop in self._entity.properties}
        found: str | None = next((n for n, c in self.mapping.items() if c == self._sequence and n in properties), None)
        if found is None:
            return None
        kind = self._entity.property(found).type
        if not kind.is_plain_scalar or kind.scalar not in ORDERED:
            raise JobError(
                f"{self._place}: {self._entity.name}.{found} keeps the sequence and is {kind}",
                hint="use integers, dates or times",
            )
        return found


def _path(name: str, names: Sequence[str]) -> str:
    """Return a column, or a member of one."""
    return quote_column(name) if name in names else ".".join(map(quote_column, name.split(".")))


def last_events(frame: DataFrame, rows: ChangeRows) -> DataFrame:
    """Keep, of the events of one id, the one with the highest order; of equal ones the last in the input.

    The order of the last delete is added to it. Events whose id or order is unknown are kept, to be reported.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    def identify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return rows.identified(batches)

    more = [StructField(name, from_arrow_type(kind)) for name, kind in IDENTIFIED]
    found = frame.mapInArrow(identify, StructType([*frame.schema.fields, *more]))
    is_odd = F.col(WRONG).isNotNull() | F.col(ID).isNull() | F.col(ORDER).isNull() | F.col(ACTION).isNull()
    found = found.withColumn(_NUMBER, F.when(is_odd, F.monotonically_increasing_id()))
    of_id = Window.partitionBy(ID, _NUMBER)
    last = of_id.orderBy(F.col(ORDER).desc(), F.col(SPLIT).desc(), F.col(ROW).desc())
    found = found.withColumn(_RANK, F.row_number().over(last))
    found = found.withColumn(DELETED_AT, F.max(F.when(F.col(ACTION) == DELETE, F.col(ORDER))).over(of_id))
    return found.where(F.col(_RANK) == 1).drop(_RANK, _NUMBER)
