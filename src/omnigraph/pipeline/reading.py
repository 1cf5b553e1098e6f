"""Reading one split inside a task: typed batches, by the same rules as a load in one process."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from omnigraph.errors import DataError
from omnigraph.pipeline.sources import ARROW, CSV, JSONL, ORC, PARQUET, Split, filesystem_of
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.write.files import BATCH_ROWS, BLOCK_BYTES
from omnigraph.write.frames import batch_from_table
from omnigraph.write.jsonl import parsed_lines
from omnigraph.write.jsonl_columns import batches_by_column
from omnigraph.write.rows import Batch, batch_from_rows, group_envelopes, known_columns
from omnigraph.write.sources import entity_named
from omnigraph.write.validation import Findings, Places


def read_split(split: Split, catalog: Catalog, found: Findings, *, ignore_unknown: bool = False) -> Iterator[Batch]:
    """The rows of a split. Rows that are wrong are noted and left out; `ignore_unknown` leaves columns out as well."""
    if split.type_name is not None:  # a file without rows still names its type: an overwrite empties it
        yield batch_from_rows(entity_named(split.type_name, catalog), [], Places(), found)
    try:
        if split.format == JSONL:
            yield from _json_batches(split, catalog, found)
        else:
            assert split.type_name is not None, "only JSON lines hold rows of several types"
            yield from _table_batches(split, entity_named(split.type_name, catalog), found, ignore_unknown)
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{split.path}: the file is damaged or not what its name says: {reason}", path=split.path
        ) from error


def _table_batches(split: Split, entity: EntityType, found: Findings, ignore_unknown: bool) -> Iterator[Batch]:
    filesystem, inner = filesystem_of(split.path)
    readers = {PARQUET: _parquet, ORC: _orc, ARROW: _arrow, CSV: _csv}
    row = split.first_row
    for table in readers[split.format](split, filesystem, inner):
        places = Places(((split.path, range(row, row + table.num_rows)),))
        row += table.num_rows
        rows = renamed(table, split.columns, split.path)
        rows = known_columns(entity, rows) if ignore_unknown else rows
        yield batch_from_table(entity, rows, places, found, is_text=split.format == CSV)
        if found.full:
            return


def renamed(table: pa.Table, columns: Mapping[str, str], path: str) -> pa.Table:
    """The table with property names instead of the source's. With a mapping, only mapped columns are taken."""
    if not columns:
        return table
    missing = sorted(set(columns.values()) - set(table.column_names))
    if missing:
        raise DataError(
            f"{path}: column {missing[0]!r} is missing", path=path, hint=f"the file has {', '.join(table.column_names)}"
        )
    return pa.table({name: table[column] for name, column in columns.items()})


def _json_batches(split: Split, catalog: Catalog, found: Findings) -> Iterator[Batch]:
    first = split.first_row
    for block in _blocks(split):
        if split.type_name is None:
            yield from _envelopes(block, first, split.path, catalog, found)
        else:
            yield _plain_rows(split, entity_named(split.type_name, catalog), block, first, found)
        if found.full:
            return
        first += block.count(b"\n")


def _envelopes(block: bytes, first: int, path: str, catalog: Catalog, found: Findings) -> Iterator[Batch]:
    batches = batches_by_column(block, first, path, catalog)
    if batches is not None:
        yield from batches
        return
    lines = parsed_lines(enumerate(block.split(b"\n"), start=first), path, found)
    for group in group_envelopes(lines, catalog, path, found):
        yield batch_from_rows(group.entity, group.rows, Places(((path, group.numbers),)), found)


def _plain_rows(split: Split, entity: EntityType, block: bytes, first: int, found: Findings) -> Batch:
    parsed = list(parsed_lines(enumerate(block.split(b"\n"), start=first), split.path, found))
    back = {column: name for name, column in split.columns.items()}
    rows = [{back.get(k, k): v for k, v in row.items() if not back or k in back} for _, row in parsed]
    return batch_from_rows(entity, rows, Places(((split.path, [number for number, _ in parsed]),)), found)


def _blocks(split: Split) -> Iterator[bytes]:
    """Pieces of whole lines. A line belongs to the byte range that its first byte lies in."""
    filesystem, inner = filesystem_of(split.path)
    if split.end < 0:
        with filesystem.open_input_stream(inner) as stream:
            yield from _whole_lines(io.BufferedReader(stream, 1 << 20), None)
        return
    with filesystem.open_input_file(inner) as raw:
        stream = io.BufferedReader(raw, 1 << 20)
        begin = split.begin
        if begin:
            stream.seek(begin - 1)
            begin += len(stream.readline()) - 1
        if begin < split.end:
            yield from _whole_lines(stream, split.end - begin)


def _whole_lines(stream: Any, size: int | None) -> Iterator[bytes]:
    """Blocks of lines of which the first `size` bytes hold the beginning."""
    left = size
    while left is None or left > 0:
        block = stream.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
        if not block:
            return
        if not block.endswith(b"\n"):
            block += stream.readline()
        left = None if left is None else left - len(block)
        yield block


def lines_begun(split: Split) -> int:
    """How many lines begin inside a byte range."""
    filesystem, inner = filesystem_of(split.path)
    begin, end = max(split.begin - 1, 0), split.end - 1
    count = 1 if split.begin == 0 else 0
    with filesystem.open_input_file(inner) as stream:
        stream.seek(begin)
        while begin < end:
            block = stream.read(min(BLOCK_BYTES, end - begin))
            if not block:
                break
            count += block.count(b"\n")
            begin += len(block)
    return count


def _parquet(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    with filesystem.open_input_file(inner) as stream:
        file = pq.ParquetFile(stream)
        groups = list(range(split.begin, split.end))
        if not groups:
            yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups):
            yield pa.Table.from_batches([batch])


def _orc(split: Split, filesystem: Any, inner: str) -> Iterator[pa.Table]:
    with filesystem.open_input_file(inner) as stream:
        file = orc.ORCFile(stream)
        if split.begin == split.end:
            yield file.schema.empty_table()
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
    dialect = pacsv.ParseOptions(delimiter=split.delimiter, newlines_in_values=True)
    with filesystem.open_input_stream(inner) as stream:
        head = stream.read(1 << 20)
    if not head.strip():
        return
    names = pacsv.read_csv(pa.BufferReader(head.split(b"\n", 1)[0] + b"\n"), parse_options=dialect).column_names
    with filesystem.open_input_stream(inner) as stream:
        reader = pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=dialect,
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""],
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        for batch in reader:
            yield pa.Table.from_batches([batch])
