"""Files into batches: JSON lines, CSV, Parquet and Arrow, plain or compressed, a bounded piece at a time."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from omnigraph.errors import DataError, InvalidArgument, LimitExceeded, OmnigraphError
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.write.frames import batch_from_table, require_distinct
from omnigraph.write.jsonl import parsed_lines
from omnigraph.write.jsonl_columns import batches_by_column
from omnigraph.write.rows import Batch, batch_from_rows, group_envelopes, known_fields
from omnigraph.write.validation import Findings, Places

Progress = Callable[[int], None]
"""Hears how many more bytes of input were read."""

BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 64 << 20
"""A line is read whole; one without an end, which a small compressed file can hold, must not fill the memory."""
BATCH_ROWS = 262_144
_READERS = 2
_LINE_END = ord("\n")
_KINDS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow", ".arrows": "arrow",
}  # fmt: skip
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def _suffixes(path: str) -> tuple[str, str | None]:
    stem, last = os.path.splitext(path)
    compression = _COMPRESSIONS.get(last.lower())
    if compression is not None:
        return os.path.splitext(stem)[1].lower(), compression
    return last.lower(), None


def kind_of(path: str) -> str:
    """The format of a file, by its name; JSON lines where the name says nothing."""
    return _KINDS.get(_suffixes(path)[0], "jsonl")


def spooled(stream: IO[bytes] | IO[str]) -> str:
    """The path of a temporary file with all of a stream. It is removed when the process ends."""
    handle, path = tempfile.mkstemp(prefix="omnigraph-", suffix=".jsonl")
    with os.fdopen(handle, "wb") as copy:
        while piece := stream.read(1 << 20):
            # What cannot be encoded is refused where it is read, with its line.
            copy.write(piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece)
    atexit.register(Path(path).unlink, missing_ok=True)
    return path


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Errors of reading a file as errors about that file."""
    try:
        yield
    except OmnigraphError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError, NotADirectoryError) as error:
        raise InvalidArgument(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error
    except (pa.ArrowException, OSError, EOFError, ValueError, OverflowError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{path}: the file is damaged or not what its name says: {reason}", path=path) from error


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    with _readable(path):
        if os.path.isdir(path):
            raise InvalidArgument(f"{path} cannot be read: Is a directory")
        with pa.input_stream(path, compression=_suffixes(path)[1]) as stream:
            yield stream


# --- JSON lines -------------------------------------------------------------------------------------------------


def envelope_chunks(
    path: str,
    catalog: Catalog,
    found: Findings,
    progress: Progress,
    *,
    shown_as: str | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Batch]:
    """Batches of a file of envelopes, any types in any order."""
    name = shown_as or path
    for first, block, batches in _ahead(
        _blocks(path, progress, shown_as, block_bytes), lambda b, first: batches_by_column(b, first, name, catalog)
    ):
        if batches is not None:
            yield from batches
            continue
        lines = parsed_lines(_numbered(block, first), name, found)
        for group in group_envelopes(lines, catalog, name, found):
            yield batch_from_rows(group.entity, group.rows, Places(((name, group.numbers),)), found)
        if found.full:
            return


def _ahead(
    blocks: Iterator[tuple[int, bytes]], read: Callable[[bytes, int], list[Batch] | None]
) -> Iterator[tuple[int, bytes, list[Batch] | None]]:
    """Every block with its batches, in order; while one is used, other threads read the next ones."""
    with ThreadPoolExecutor(_READERS, "omnigraph-read") as readers:
        pending: deque[tuple[int, bytes, Future[list[Batch] | None]]] = deque()
        for first, block in blocks:
            pending.append((first, block, readers.submit(read, block, first)))
            if len(pending) > _READERS:
                begun, oldest, batches = pending.popleft()
                yield begun, oldest, batches.result()
        for begun, oldest, batches in pending:
            yield begun, oldest, batches.result()


def _blocks(
    path: str, progress: Progress, shown_as: str | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, bytes]]:
    """Pieces of a file that end with a line, each with the number of its first line."""
    first, begun = 1, [b""]
    length = 0
    with _opened(path) as stream:
        while data := stream.read(block_bytes):
            progress(len(data))
            end = data.rfind(b"\n") + 1
            length += data.find(b"\n") if end else len(data)
            if length > MAX_LINE_BYTES:
                raise _endless_line(shown_as or path, first)
            if not end:
                begun.append(data)
                continue
            block = b"".join((*begun, memoryview(data)[:end]))
            begun, length = [data[end:]], len(data) - end
            yield first, block
            first += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_END))
    if length:
        yield first, b"".join(begun)


def _endless_line(path: str, line: int) -> LimitExceeded:
    return LimitExceeded(
        f"{path}:{line}: the line is longer than {MAX_LINE_BYTES >> 20} MiB",
        hint="write one object per line; large binary values belong in Parquet or Arrow files",
    )


def _numbered(block: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    return enumerate(block.split(b"\n"), start=first)


# --- files of one type ------------------------------------------------------------------------------------------


def typed_chunks(
    entity: EntityType, path: str, found: Findings, progress: Progress, *, ignore_unknown: bool = False,
    renamed: Mapping[str, str] | None = None,
) -> Iterator[Batch]:  # fmt: skip
    """Batches of a file that holds one type, by public column names; edges have `from` and `to`."""
    kind = kind_of(path)
    if kind == "jsonl":
        yield from _plain_rows(entity, path, found, progress)
        return
    tables = {"csv": _csv_tables, "parquet": _parquet_tables, "arrow": _arrow_tables}[kind](path)
    row = 0
    any_rows = False
    with _readable(path):
        for table in tables:
            any_rows = True
            # The heading of a CSV file is its first line.
            first = row + (2 if kind == "csv" else 1)
            numbers = range(first, first + table.num_rows)
            row += table.num_rows
            require_distinct(entity, table.column_names)
            table.validate(full=True)  # a file may say that bytes are text
            if renamed:
                table = table.rename_columns([renamed.get(n, n) for n in table.column_names])
                require_distinct(entity, table.column_names)
            if ignore_unknown:
                table = table.select([n for n in table.column_names if n in known_fields(entity)])
            progress(table.nbytes)
            yield batch_from_table(entity, table, Places(((path, numbers),)), found, is_text=kind == "csv")
            if found.full:
                return
    if not any_rows:
        yield batch_from_rows(entity, [], Places(), found)


def _plain_rows(entity: EntityType, path: str, found: Findings, progress: Progress) -> Iterator[Batch]:
    yield batch_from_rows(entity, [], Places(), found)  # a file without rows still names its type
    for first, block in _blocks(path, progress):
        parsed = list(parsed_lines(_numbered(block, first), path, found))
        places = Places(((path, [number for number, _ in parsed]),))
        yield batch_from_rows(entity, [row for _, row in parsed], places, found)
        if found.full:
            return


def _csv_tables(path: str) -> Iterator[pa.Table]:
    """All columns as text: an empty field is null, a quoted empty field is empty text."""
    with _opened(path) as stream:
        head = stream.read(BLOCK_BYTES)
        if not head.strip():
            return
        names = pcsv.read_csv(
            pa.BufferReader(head.split(b"\n", 1)[0] + b"\n"), parse_options=pcsv.ParseOptions(newlines_in_values=True)
        ).column_names
    with _opened(path) as stream:
        reader = pcsv.open_csv(
            stream,
            read_options=pcsv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pcsv.ParseOptions(newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True,
                quoted_strings_can_be_null=False, null_values=[""],
            ),
        )  # fmt: skip
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _parquet_tables(path: str) -> Iterator[pa.Table]:
    with _readable(path):
        if os.path.isdir(path):
            raise InvalidArgument(f"{path} cannot be read: Is a directory")
        with pq.ParquetFile(path) as file:
            if not file.metadata.num_rows:
                yield file.schema_arrow.empty_table()
                return
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                yield pa.Table.from_batches([batch])


def _arrow_tables(path: str) -> Iterator[pa.Table]:
    with _readable(path), pa.OSFile(path, "rb") as file:
        try:
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            file.seek(0)
            batches = iter(pa.ipc.open_stream(file))
        for batch in batches:
            yield pa.Table.from_batches([batch])
