"""Reading files into batches: JSON lines, CSV, Parquet and Arrow, plain or compressed, a bounded piece at a time."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from omnigraph.errors import InvalidArgument, LimitExceeded
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.write.frames import batch_from_table, naming_file, require_distinct
from omnigraph.write.inputs.csv_files import BLOCK_BYTES
from omnigraph.write.inputs.locations import readable
from omnigraph.write.inputs.meter import Meter
from omnigraph.write.inputs.objects import Parsed, object_rows, row_reader
from omnigraph.write.inputs.tables import JSON, JSONL, FilePart, open_stream, resolve_part, select_columns, tables_of
from omnigraph.write.jsonl import parsed_lines
from omnigraph.write.jsonl_columns import batches_by_column
from omnigraph.write.rows import Batch, batch_from_rows, group_envelopes, known_columns
from omnigraph.write.validation import Findings, Places

Sniffed = dict[str, Mapping[str, str]]
"""Options sniffed from the first bytes of files, by path."""

MAX_LINE_BYTES = 64 << 20
"""A line is read whole; a line without an end, which a small compressed file can hold, must not fill the memory."""
_READERS = 2
_spooled: set[str] = set()
_LINE_END = ord("\n")


def noted_part(part: FilePart, sniffed: Sniffed | None) -> FilePart:
    """A part with the options sniffed from its first bytes, which are noted in `sniffed` by the path of the file."""
    with readable(part.path):
        if os.path.isdir(part.path):
            raise InvalidArgument(f"{part.path} cannot be read: Is a directory", hint="name a file")
        part, found = resolve_part(part)
    if found and sniffed is not None:
        sniffed[part.path] = found
    return part


def spool_stream(stream: IO[bytes] | IO[str]) -> str:
    """The path of a temporary file with all of a stream. It is removed when the process ends."""
    handle, path = tempfile.mkstemp(prefix="omnigraph-", suffix=".jsonl")
    _spooled.add(path)
    with os.fdopen(handle, "wb") as copy:
        while piece := stream.read(1 << 20):
            # Text that cannot be encoded is refused where it is read, with its line.
            copy.write(piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece)
    return path


@atexit.register
def remove_spooled() -> None:
    """Remove the temporary files of streams."""
    while _spooled:
        Path(_spooled.pop()).unlink(missing_ok=True)


@contextmanager
def _opened(path: str, meter: Meter) -> Iterator[Any]:
    with readable(path):
        if os.path.isdir(path):
            raise InvalidArgument(f"{path} cannot be read: Is a directory")
        with open_stream(FilePart(path=path, format=JSONL), meter) as stream:
            yield stream


# --- JSON lines -------------------------------------------------------------------------------------------------


def envelope_chunks(
    path: str,
    catalog: Catalog,
    found: Findings,
    meter: Meter,
    *,
    shown_as: str | None = None,
    block_bytes: int = BLOCK_BYTES,
    sniffed: Sniffed | None = None,
) -> Iterator[Batch]:
    """Batches of a file of envelopes, any types in any order."""
    name = shown_as or path
    part = noted_part(FilePart(path=path, format=JSONL), sniffed)
    if part.format == JSON:
        with readable(path):
            for parsed in object_rows(part, found, meter):
                for group in group_envelopes(parsed, catalog, name, found):
                    yield batch_from_rows(group.entity, group.rows, Places(((name, group.numbers),)), found)
        return
    for block, batches in _ahead(
        _blocks(path, shown_as, block_bytes), lambda b, first: batches_by_column(b, first, name, catalog)
    ):
        if batches is not None:
            yield from batches
        else:
            lines = parsed_lines(_numbered(block), name, found)
            for group in group_envelopes(lines, catalog, name, found):
                yield batch_from_rows(group.entity, group.rows, Places(((name, group.numbers),)), found)
            if found.full:
                return
        meter.stand_at(block.end)


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines of a file: the number of the first, and the position in the file to which it was read."""

    first: int
    data: bytes
    end: int


def _ahead(
    blocks: Iterator[_Block], read: Callable[[bytes, int], list[Batch] | None]
) -> Iterator[tuple[_Block, list[Batch] | None]]:
    """Every block with its batches, in order; while one is used, other threads read the next ones."""
    with ThreadPoolExecutor(_READERS, "omnigraph-read") as readers:
        pending: deque[tuple[_Block, Future[list[Batch] | None]]] = deque()
        for block in blocks:
            pending.append((block, readers.submit(read, block.data, block.first)))
            if len(pending) > _READERS:
                oldest, batches = pending.popleft()
                yield oldest, batches.result()
        for oldest, batches in pending:
            yield oldest, batches.result()


def _blocks(path: str, shown_as: str | None = None, block_bytes: int = BLOCK_BYTES) -> Iterator[_Block]:
    """Pieces of a file that end with a line."""
    first, begun = 1, [b""]
    length = 0
    meter = Meter()  # of reading, which is ahead of the rows that the load has taken
    with _opened(path, meter) as stream:
        while data := stream.read(block_bytes):
            end = data.rfind(b"\n") + 1
            length += data.find(b"\n") if end else len(data)
            if length > MAX_LINE_BYTES:
                raise _endless_line(shown_as or path, first)
            if not end:
                begun.append(data)
                continue
            block = b"".join((*begun, memoryview(data)[:end]))
            begun, length = [data[end:]], len(data) - end
            yield _Block(first, block, meter.stream_position)
            first += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_END))
        if length:
            yield _Block(first, b"".join(begun), meter.stream_position)


def _endless_line(path: str, line: int) -> LimitExceeded:
    return LimitExceeded(
        f"{path}:{line}: the line is longer than {MAX_LINE_BYTES >> 20} MiB",
        hint="write one object per line; large binary values belong in Parquet or Arrow files",
    )


def _numbered(block: _Block) -> Iterator[tuple[int, bytes]]:
    return enumerate(block.data.split(b"\n"), start=block.first)


# --- files of one type ------------------------------------------------------------------------------------------


def typed_chunks(
    entity: EntityType, part: FilePart, found: Findings, meter: Meter, *, ignore_unknown: bool = False,
    renamed: Mapping[str, str] | None = None, sniffed: Sniffed | None = None,
) -> Iterator[Batch]:  # fmt: skip
    """Batches of a file that holds one type, by public column names; edges have `from` and `to`."""
    path = part.path
    yield batch_from_rows(entity, [], Places(), found)  # a file without rows still names its type
    part = noted_part(part, sniffed)
    if part.format in (JSON, JSONL):
        yield from _plain_rows(entity, part, found, meter)
        return
    with readable(path), naming_file(path):
        if os.path.isdir(path):
            raise InvalidArgument(f"{path} cannot be read: Is a directory", hint="name a file")
        for table, rows in tables_of(part, found, meter):
            table = select_columns(table, part.columns, path)
            require_distinct(entity, table.column_names)
            if renamed:
                table = table.rename_columns([renamed.get(n, n) for n in table.column_names])
                require_distinct(entity, table.column_names)
            if ignore_unknown:
                table = known_columns(entity, table)
            text = part.text_columns(table.column_names)
            yield batch_from_table(entity, table, Places(((path, rows),)), found, text=text, dates=part.dialect.dates)
            if found.full:
                return


def _plain_rows(entity: EntityType, part: FilePart, found: Findings, meter: Meter) -> Iterator[Batch]:
    read = row_reader(part, entity)
    for parsed in _parsed(part, found, meter):
        places = Places(((part.path, [number for number, _ in parsed]),))
        yield batch_from_rows(entity, [read(row) for _, row in parsed], places, found)
        if found.full:
            return


def _parsed(part: FilePart, found: Findings, meter: Meter) -> Iterator[Parsed]:
    if part.format == JSONL:
        for block in _blocks(part.path):
            yield list(parsed_lines(_numbered(block), part.path, found))
            meter.stand_at(block.end)
        return
    with readable(part.path):
        yield from object_rows(part, found, meter)
