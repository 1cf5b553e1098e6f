"""The Spark data source `omnigraph`: rows of one node or edge type of one snapshot, and loads.

    spark.read.format("omnigraph").option("type", "Person").load("graph.omni")
    df.write.format("omnigraph").option("type", "Person").mode("append").save("graph.omni")

Reading: `type` (node) or `edge`, one of `branch`, `snapshot`, `version`, `versionAsOf` (the same as `version`),
`timestampAsOf` (main as it was then), `columns`, a comma-separated list, because
Spark's Python sources have no column pruning of their own, and `filter`, a condition that is decided in storage. The
filters of a DataFrame are Spark's: it keeps what a Python source answered to pushed filters with the relation, and
other queries of the same relation would get it too. Partitions are groups of fragments.
With `changes`, `true`, the source reads the change feed, as a batch or as a stream: `changes_source`.
Writing: `type` or `edge`, `branch`, `actor`, `message`, and `mode`: `append`, or `merge` to replace rows by id. Batches
of a stream are committed once each: `stream_sink`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument
from omnigraph.execution.spark.frames import public_fields, spark_arrow_schema, to_spark
from omnigraph.execution.spark.versions import spark_schema
from omnigraph.execution.spark.workers import store_of
from omnigraph.graph import Graph
from omnigraph.pipeline.changes_source import OPTIONS, ChangeScan, ChangesReader, ChangesStreamReader, changes_schema
from omnigraph.pipeline.rowfilter import NEVER, RowFilter
from omnigraph.pipeline.sink import GraphWriter
from omnigraph.pipeline.source_options import columns_of, entity_of, known_options, path_of
from omnigraph.pipeline.stream_sink import stream_writer
from omnigraph.schema.catalog import EntityType
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table

NAME = "omnigraph"
_ROWS_PER_PARTITION = 1 << 20
_TARGETS = ("branch", "snapshot", "version", "versionAsOf", "timestampAsOf")
_READING = (*_TARGETS, "columns", "filter", "changes")
_WRITING = ("branch", "mode", "actor", "message")
_STREAM_WRITING = (*_WRITING, "streamId", "checkpointLocation", "queryName")


class OmnigraphSource(DataSource):  # type: ignore[misc]
    """Reads and writes one type of a graph."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns asked for, in Spark's types."""
        if self._is_feed:
            return changes_schema(self._feed_options())
        scan = self._scan()
        return spark_schema(spark_arrow_schema(scan.entity, scan.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the snapshot or the range of changes that the options name; it is resolved once, here."""
        if self._is_feed:
            return ChangesReader(ChangeScan.of(self._feed_options(), schema))
        return _Reader(self._scan(), list(schema.fieldNames()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of the change feed."""
        if not self._is_feed:  # Spark requests the columns before it reports that the query is a stream
            raise InvalidArgument("a stream reads the change feed", hint='add option("changes", "true")')
        return ChangesStreamReader(ChangeScan.of(self._feed_options(), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer whose tasks stage rows and whose commit is one graph commit."""
        return GraphWriter(known_options(self.options, "writing", _WRITING), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer that commits each batch of a stream once."""
        return stream_writer(known_options(self.options, "writing", _STREAM_WRITING), overwrite)

    @property
    def _is_feed(self) -> bool:
        given = {str(k).lower(): str(v).lower() for k, v in self.options.items()}
        return given.get("changes", "false") == "true"

    def _feed_options(self) -> dict[str, str]:
        return known_options(self.options, "reading changes", OPTIONS)

    def _scan(self) -> _Scan:
        return _Scan.of(known_options(self.options, "reading", _READING))


@dataclass(frozen=True)
class _Scan:
    """One type of one snapshot, resolved: every task reads the same pin."""

    uri: str
    entity: EntityType
    entry: TableEntry
    columns: list[str] | None
    rows: RowFilter | None

    @classmethod
    def of(cls, options: dict[str, str]) -> _Scan:
        graph = Graph.open(path_of(options), mode="ro")
        target = _target(options)
        entity = entity_of(graph.catalog(target), options)
        columns = columns_of(options)
        known = {name for name, _, _ in public_fields(entity)}
        for name in columns or ():
            if name not in known:
                entity.property(name)  # raises with the nearest name
        rows = RowFilter.of(options["filter"], entity, graph.catalog(target)) if "filter" in options else None
        return cls(graph.uri, entity, graph.snapshot(target).table(entity.table_key), columns, rows)


def _target(options: dict[str, str]) -> Target:
    given = [name.lower() for name in _TARGETS if name.lower() in options]
    if len(given) > 1:
        raise InvalidArgument(f"give one of {', '.join(given)}", hint="they all say which snapshot to read")
    if not given:
        return None
    value = options[given[0]]
    if given[0] == "timestampasof":
        return _moment(value)
    if given[0] in ("branch", "snapshot"):
        return value
    if not value.isdecimal():
        raise InvalidArgument(f"version {value!r} is not a number", hint="a branch, tag or commit is a `snapshot`")
    return int(value)


def _moment(text: str) -> dt.datetime:
    """Return a moment as Spark writes it; one without a zone is one of UTC."""
    try:
        found = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidArgument(f"{text!r} is no moment", hint="2024-05-01, 2024-05-01 12:00:00+02:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


@dataclass
class _Fragments(InputPartition):  # type: ignore[misc]
    ids: list[int]


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, scan: _Scan, columns: list[str]) -> None:
        self._uri = scan.uri
        self._entry = scan.entry
        fields = {name: (column, kind) for name, column, kind in public_fields(scan.entity)}
        self._columns = [(name, fields[name][0]) for name in columns]
        self._schema = spark_arrow_schema(scan.entity, columns)
        self._rows = scan.rows

    def partitions(self) -> list[_Fragments]:
        """Return groups of fragments of about equal size."""
        if self._rows is not None and self._rows.pushed == NEVER:
            return [_Fragments([])]
        table = open_table(store_of(self._uri), self._entry)
        groups: list[_Fragments] = []
        rows = _ROWS_PER_PARTITION
        for fragment_id, fragment in table.fragments.items():
            if rows >= _ROWS_PER_PARTITION:
                groups.append(_Fragments([]))
                rows = 0
            groups[-1].ids.append(fragment_id)
            rows += fragment.physical_rows
        return groups or [_Fragments([])]

    def read(self, partition: _Fragments) -> Iterator[pa.RecordBatch]:
        """Rows of one group, in a task."""
        if not partition.ids:
            return
        table = open_table(store_of(self._uri), self._entry)
        physical = [column for _, column in self._columns]
        if self._rows is None:
            for batch in table.batches(physical, fragments=partition.ids):
                yield to_spark(batch, self._schema)
            return
        needed = list(dict.fromkeys([*physical, *(column for _, column in self._rows.columns)]))
        for batch in table.batches(needed, where=self._rows.pushed, fragments=partition.ids):
            yield to_spark(self._rows.passing(batch).select(physical), self._schema)
