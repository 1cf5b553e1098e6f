"""Read one split inside a task: typed batches, by the same rules as a load in one process."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from omnigraph.pipeline.sources import Split
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.write.frames import batch_from_table
from omnigraph.write.inputs.csv_files import BLOCK_BYTES
from omnigraph.write.inputs.expectations import IGNORE
from omnigraph.write.inputs.locations import readable
from omnigraph.write.inputs.objects import Parsed, object_rows, row_reader
from omnigraph.write.inputs.tables import JSON, JSONL, open_file, open_stream, select_columns, tables_of
from omnigraph.write.jsonl import parsed_lines
from omnigraph.write.jsonl_columns import batches_by_column
from omnigraph.write.rows import Batch, batch_from_rows, group_envelopes, known_columns, known_fields
from omnigraph.write.validation import Findings, Places


def read_split(split: Split, catalog: Catalog, found: Findings, *, ignore_unknown: bool = False) -> Iterator[Batch]:
    """Yield the rows of a split. Invalid rows are noted and left out; `ignore_unknown` leaves columns out as well."""
    if split.type_name is not None:  # a file without rows still names its type: an overwrite empties it
        yield batch_from_rows(catalog.entity(split.type_name), [], Places(), found)
    with readable(split.path):
        if split.format in (JSONL, JSON):
            yield from _json_batches(split, catalog, found)
        else:
            assert split.type_name is not None, "only JSON holds rows of several types"
            yield from _table_batches(split, catalog.entity(split.type_name), found, ignore_unknown)


def _table_batches(split: Split, entity: EntityType, found: Findings, ignore_unknown: bool) -> Iterator[Batch]:
    for table, rows in tables_of(split, found):
        chosen = select_columns(table, split.columns, split.path)
        chosen = known_columns(entity, chosen) if ignore_unknown else chosen
        text = split.text_columns(chosen.column_names)
        yield batch_from_table(
            entity, chosen, Places(((split.path, rows),)), found, text=text, dates=split.dialect.dates
        )
        if found.full:
            return


def _json_batches(split: Split, catalog: Catalog, found: Findings) -> Iterator[Batch]:
    if split.type_name is not None:
        entity = catalog.entity(split.type_name)
        for parsed in parsed_rows(split, found):
            yield plain_batch(split, entity, parsed, found)
            if found.full:
                return
        return
    if split.format == JSON:
        for parsed in parsed_rows(split, found):
            yield from _grouped(parsed, split.path, catalog, found)
        return
    first = split.first_row
    for block in _blocks(split):
        yield from _envelopes(block, first, split.path, catalog, found)
        if found.full:
            return
        first += block.count(b"\n")


def parsed_rows(split: Split, found: Findings) -> Iterator[Parsed]:
    """Yield the objects of JSON lines or of JSON, some thousands at once. Other values are noted and left out."""
    if split.format == JSONL:
        first = split.first_row
        for block in _blocks(split):
            yield list(parsed_lines(enumerate(block.split(b"\n"), start=first), split.path, found))
            first += block.count(b"\n")
        return
    yield from object_rows(split, found)


def plain_batch(split: Split, entity: EntityType, parsed: Parsed, found: Findings) -> Batch:
    """Return objects of one type as a batch."""
    read = row_reader(split, entity)
    rows = [read(row) for _, row in parsed]
    if split.unknown == IGNORE:
        known = known_fields(entity)
        rows = [{name: row[name] for name in row if name in known} if isinstance(row, dict) else row for row in rows]
    return batch_from_rows(entity, rows, Places(((split.path, [number for number, _ in parsed]),)), found)


def _envelopes(block: bytes, first: int, path: str, catalog: Catalog, found: Findings) -> Iterator[Batch]:
    batches = batches_by_column(block, first, path, catalog)
    if batches is not None:
        yield from batches
        return
    yield from _grouped(parsed_lines(enumerate(block.split(b"\n"), start=first), path, found), path, catalog, found)


def _grouped(parsed: Iterable[tuple[int, Any]], path: str, catalog: Catalog, found: Findings) -> Iterator[Batch]:
    for group in group_envelopes(parsed, catalog, path, found):
        yield batch_from_rows(group.entity, group.rows, Places(((path, group.numbers),)), found)


def _blocks(split: Split) -> Iterator[bytes]:
    """Yield pieces of whole lines. A line belongs to the byte range that its first byte lies in."""
    if split.end < 0:
        with open_stream(split) as stream:
            yield from _whole_lines(io.BufferedReader(stream, 1 << 20), None)
        return
    with open_file(split) as raw:
        stream = io.BufferedReader(raw, 1 << 20)
        begin = split.begin
        if begin:
            stream.seek(begin - 1)
            begin += len(stream.readline()) - 1
        if begin < split.end:
            yield from _whole_lines(stream, split.end - begin)


def _whole_lines(stream: Any, size: int | None) -> Iterator[bytes]:
    """Yield blocks of the lines that begin in the first `size` bytes."""
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
    """Return the number of lines that begin inside a byte range."""
    begin, end = max(split.begin - 1, 0), split.end - 1
    count = 1 if split.begin == 0 else 0
    with open_file(split) as stream:
        stream.seek(begin)
        while begin < end:
            block = stream.read(min(BLOCK_BYTES, end - begin))
            if not block:
                break
            count += block.count(b"\n")
            begin += len(block)
    return count
