"""Reading one split inside a task: Arrow batches with the columns of a type, and the row number of each first row."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.json as pajson
import pyarrow.orc as orc
import pyarrow.parquet as pq

from omnigraph.errors import DataError
from omnigraph.pipeline.sources import ARROW, CSV, JSONL, ORC, PARQUET, Split, filesystem_of

_BATCH_ROWS = 1 << 17


def read_split(split: Split) -> Iterator[tuple[pa.Table, int]]:
    """Tables of a split, in order, each with the number of its first row in the file (from 1)."""
    filesystem, inner = filesystem_of(split.path)
    readers = {PARQUET: _parquet, ORC: _orc, ARROW: _arrow, CSV: _csv, JSONL: _flat_json}
    row = split.first_row
    try:
        for table in readers[split.format](split, filesystem, inner):
            yield renamed(table, split.columns, split.path), row
            row += table.num_rows
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{split.path}: {error}", path=split.path) from error


def renamed(table: pa.Table, columns: Mapping[str, str], path: str) -> pa.Table:
    """The table with property names instead of the source's column names. Columns that nothing maps to stay."""
    if not columns:
        return table
    missing = sorted(set(columns.values()) - set(table.column_names))
    if missing:
        raise DataError(
            f"{path}: column {missing[0]!r} is missing", path=path, hint=f"the file has {', '.join(table.column_names)}"
        )
    taken = set(columns.values())
    chosen = {**{n: n for n in table.column_names if n not in taken and n not in columns}, **columns}
    return pa.table({name: table[column] for name, column in chosen.items()})


def json_lines(split: Split) -> Iterator[bytes]:
    """The whole lines of a byte range: a line belongs to the range that its first byte lies in."""
    filesystem, inner = filesystem_of(split.path)
    if split.end < 0:
        with filesystem.open_input_stream(inner) as stream:
            yield from io.BufferedReader(stream, buffer_size=1 << 20)
        return
    with filesystem.open_input_file(inner) as raw:
        stream = io.BufferedReader(raw, buffer_size=1 << 20)
        at = split.begin
        if at:
            stream.seek(at - 1)
            at += len(stream.readline()) - 1
        while at < split.end:
            line = stream.readline()
            if not line:
                return
            at += len(line)
            yield line


def _parquet(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    with filesystem.open_input_file(inner) as stream:
        file = pq.ParquetFile(stream)
        groups = list(range(split.begin, split.end))
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups):
            yield pa.Table.from_batches([batch])


def _orc(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    with filesystem.open_input_file(inner) as stream:
        file = orc.ORCFile(stream)
        for stripe in range(split.begin, split.end):
            yield pa.Table.from_batches([file.read_stripe(stripe)])


def _arrow(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    with filesystem.open_input_file(inner) as stream:
        try:
            file = ipc.open_file(stream)
            batches: Iterator[Any] = (file.get_batch(i) for i in range(file.num_record_batches))
        except pa.ArrowInvalid:
            stream.seek(0)
            batches = iter(ipc.open_stream(stream))
        for batch in batches:
            yield pa.Table.from_batches([batch])


def _csv(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    # Text first: what a value means is decided by the property it is for, not by how the first rows look.
    with filesystem.open_input_stream(inner) as stream:
        head = pacsv.open_csv(
            stream, read_options=pacsv.ReadOptions(block_size=1 << 20), parse_options=_dialect(split)
        ).schema.names
    with filesystem.open_input_stream(inner) as stream:
        reader = pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(block_size=8 << 20),
            parse_options=_dialect(split),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in head}, strings_can_be_null=True, null_values=[""],
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _dialect(split: Split) -> pacsv.ParseOptions:
    delimiter = "\t" if ".tsv" in split.path.lower() else split.delimiter
    return pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _flat_json(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    body = b"".join(json_lines(split))
    if body.strip():
        yield pajson.read_json(pa.BufferReader(body), read_options=pajson.ReadOptions(block_size=16 << 20))
