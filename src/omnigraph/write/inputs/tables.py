"""Rows of input files as tables, each row with its number: one reader for each format, for every kind of load."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from omnigraph.errors import DataError
from omnigraph.write.inputs.csv_dialect import HEAD_BYTES, PLAIN, CsvDialect, resolve_dialect
from omnigraph.write.inputs.csv_files import csv_columns, csv_tables
from omnigraph.write.inputs.locations import locate
from omnigraph.write.inputs.meter import Meter
from omnigraph.write.inputs.partition_folders import Folders, with_folders
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.validation import Findings

PARQUET, CSV, JSONL, JSON, ORC, ARROW = "parquet", "csv", "jsonl", "json", "orc", "arrow"
FORMATS = (PARQUET, CSV, JSONL, JSON, ORC, ARROW)
BATCH_ROWS = 262_144
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
Numbered = tuple[pa.Table, Sequence[int]]
"""Some rows, and the number of each in its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A part of one file. `begin` and `end` are row groups, stripes or bytes, by format; -1 is the file's end.

    `columns` maps properties to columns of the file; `folders` are columns in the names of its folders.
    """

    path: str
    format: str
    begin: int = 0
    end: int = -1
    first_row: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)
    dialect: CsvDialect = PLAIN
    folders: Folders = ()
    access: S3Access | None = None

    def text_columns(self, names: Sequence[str]) -> frozenset[str]:
        """The columns, as `selected` names them, whose values are text to parse."""
        if self.format == CSV:
            return frozenset(names)
        folders = {name for name, _ in self.folders}
        return frozenset(name for name in names if self.columns.get(name, name) in folders)


def open_stream(part: FilePart, meter: Meter | None = None) -> Any:
    """The bytes of a file from the beginning; compressed ones, by the name of the file, are decompressed."""
    place = locate(part.path, part.access)
    if meter is not None:
        return meter.opened(place.filesystem, place.path)
    return place.filesystem.open_input_stream(place.path)


def open_file(part: FilePart) -> Any:
    """The bytes of a file in any order."""
    place = locate(part.path, part.access)
    return place.filesystem.open_input_file(place.path)


def resolve_part(part: FilePart) -> tuple[FilePart, Mapping[str, str]]:
    """A part with options sniffed from its first bytes where the caller gives none, and which of them were sniffed.

    A file called `.json` that begins with an array, or with an object over several lines, is not JSON lines.
    """
    if part.format == CSV and (part.dialect.delimiter is None or part.dialect.encoding is None):
        with open_stream(part) as stream:
            dialect, sniffed = resolve_dialect(part.dialect, bytes(stream.read(HEAD_BYTES)), part.path)
        return replace(part, dialect=dialect), sniffed
    if part.format == JSONL and part.path.lower().split(".json")[-1] in ("", *_COMPRESSED):
        with open_stream(part) as stream:
            head = bytes(stream.read(HEAD_BYTES)).removeprefix(codecs.BOM_UTF8).lstrip()
        if head.startswith(b"[") or head.partition(b"\n")[0].strip() == b"{":
            return replace(part, format=JSON), {"format": JSON}
    return part, {}


def tables_of(part: FilePart, found: Findings, meter: Meter | None = None) -> Iterator[Numbered]:
    """The rows of a part of a file that holds tables, with the columns of its folders. `meter` gets the position."""
    meter = meter or Meter()
    if part.format == CSV:
        numbered = csv_tables(lambda: open_stream(part, meter), part.dialect, part.path, found)
    else:
        read = {PARQUET: _parquet, ORC: _orc, ARROW: _arrow}[part.format]
        numbered = _counted(read(part, meter), part.first_row)
    for table, rows in numbered:
        table.validate(full=True)  # a file may declare bytes as text
        yield with_folders(table, part.folders), rows


def select_columns(table: pa.Table, columns: Mapping[str, str], path: str) -> pa.Table:
    """The table with property names instead of the file's. With a mapping, only mapped columns are taken."""
    if not columns:
        return table
    names = table.column_names
    for column in sorted(set(columns.values())):
        if column not in names:
            raise DataError(f"{path}: column {column!r} is missing", path=path, hint=f"the file has {', '.join(names)}")
        if names.count(column) > 1:
            raise DataError(f"{path}: column {column!r} appears twice", path=path, hint="rename one of them")
    return pa.table({name: table[column] for name, column in columns.items()})


def schema_of(part: FilePart) -> pa.Schema:
    """The columns of a file of tables, without those of its folders."""
    if part.format == CSV:
        return pa.schema(
            [(name, pa.string()) for name in csv_columns(lambda: open_stream(part), part.dialect, part.path)]
        )
    with open_file(part) as stream:
        if part.format == PARQUET:
            return pq.ParquetFile(stream).schema_arrow
        return orc.ORCFile(stream).schema if part.format == ORC else _arrow_reader(stream).schema


def _counted(tables: Iterator[pa.Table], row: int) -> Iterator[Numbered]:
    for table in tables:
        yield table, range(row, row + table.num_rows)
        row += table.num_rows


def _parquet(part: FilePart, meter: Meter) -> Iterator[pa.Table]:
    with open_file(part) as stream:
        file = pq.ParquetFile(stream)
        groups = list(range(part.begin, file.num_row_groups if part.end < 0 else part.end))
        if not groups or not file.metadata.num_rows:
            yield file.schema_arrow.empty_table()
            return
        done = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups):
            done += batch.num_rows
            meter.passed(done, file.metadata.num_rows)
            yield pa.Table.from_batches([batch])


def _orc(part: FilePart, meter: Meter) -> Iterator[pa.Table]:
    with open_file(part) as stream:
        file = orc.ORCFile(stream)
        stripes = range(part.begin, file.nstripes if part.end < 0 else part.end)
        if not stripes:
            yield file.schema.empty_table()
        for done, stripe in enumerate(stripes, start=1):
            meter.passed(done, len(stripes))
            yield pa.Table.from_batches([file.read_stripe(stripe)])


def _arrow(part: FilePart, meter: Meter) -> Iterator[pa.Table]:
    with open_file(part) as stream:
        reader = _arrow_reader(stream)
        yield reader.schema.empty_table()
        has_index = isinstance(reader, ipc.RecordBatchFileReader)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches)) if has_index else reader
        for done, batch in enumerate(batches, start=1):
            if has_index:
                meter.passed(done, reader.num_record_batches)
            else:
                meter.stand_at(stream.tell())
            yield pa.Table.from_batches([batch])


def _arrow_reader(stream: Any) -> Any:
    try:
        return ipc.open_file(stream)
    except pa.ArrowInvalid:
        stream.seek(0)
        return ipc.open_stream(stream)
