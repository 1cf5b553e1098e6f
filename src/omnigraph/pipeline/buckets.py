"""Cut values into buckets by their hash, so that equal values meet in one task wherever their rows were read.

A file holds the streams of one staged part, or of some fragments of a table: for each stream and bucket a piece of
Arrow that is read by its range of bytes. The hash only selects the bucket; rules compare the values themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from omnigraph.storage.hashes import text_hashes
from omnigraph.storage.objects import ObjectStore

BUCKETS = 256
"""The number of buckets of every stream, however large it is: a task takes several adjacent ones."""

VALUE = "value"
"""The column that a stream is cut by."""

_SAMPLE = 1 << 15
_DESCRIPTION = 1024
Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """Values of one kind: `what` (`id`, `ends`, `sources`, or a unique group) and the table they belong to."""

    what: str
    table_key: str


@dataclass(frozen=True, slots=True)
class CutFile:
    """A file of pieces: for each stream, the offset of every bucket's piece, and the end of the last one."""

    path: str
    pieces: Mapping[Stream, Offsets]

    def piece(self, stream: Stream, begin: int, end: int) -> Piece | None:
        """Return the range of some adjacent buckets of a stream; None where they are empty."""
        bounds = self.pieces.get(stream)
        if bounds is None or bounds[begin] == bounds[end]:
            return None
        return Piece(self.path, int(bounds[begin]), int(bounds[end]))


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of bytes of a file."""

    path: str
    begin: int
    end: int


def cut(path: str, streams: Mapping[Stream, pa.Table], objects: ObjectStore, by: str = VALUE) -> CutFile:
    """Cut streams by a text column that has no nulls, and write them to one object."""
    pieces: dict[Stream, Offsets] = {}
    sink = _Sink(streams.values())
    for stream, table in streams.items():
        bounds = [sink.file.tell()]
        for piece in _by_bucket(table, by):
            if piece.num_rows:
                with ipc.new_stream(sink.file, piece.schema) as writer:
                    writer.write_table(piece)
            bounds.append(sink.file.tell())
        pieces[stream] = np.array(bounds, np.int64)
    objects.put_new(path, sink.written(), flush=False)
    return CutFile(path, pieces)


class _Sink:
    """The output buffer of pieces: allocated at once, since a growing buffer is copied again and again.

    The size is known for flat columns: their bytes, and for each piece its metadata and some padding.
    """

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        given = list(tables)
        self._room: pa.Buffer | None = None
        self.file: Any = None
        if all(_is_flat(field.type) for table in given for field in table.schema):
            self._room = pa.allocate_buffer(sum(map(_room, given)))
            self.file = pa.FixedSizeBufferWriter(self._room)
        else:
            self.file = pa.BufferOutputStream()

    def written(self) -> pa.Buffer:
        """Return the bytes written."""
        return self.file.getvalue() if self._room is None else self._room.slice(0, self.file.tell())


def _is_flat(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_primitive(kind))


def _room(table: pa.Table) -> int:
    """Return an upper bound of the bytes that the pieces of a flat table take."""
    around: int = table.schema.serialize().size + _DESCRIPTION * (1 + table.num_columns)
    values: int = table.nbytes
    return values + BUCKETS * around


def pieces_of(files: Iterable[CutFile], begin: int, end: int) -> dict[Stream, list[Piece]]:
    """Return the ranges of some adjacent buckets of each stream in some files."""
    found: dict[Stream, list[Piece]] = {}
    for file in files:
        for stream in file.pieces:
            piece = file.piece(stream, begin, end)
            if piece is not None:
                found.setdefault(stream, []).append(piece)
    return found


def bucket_ranges(rows: int, rows_per_task: int, slots: int) -> Iterator[tuple[int, int]]:
    """Return ranges of adjacent buckets, one for each task: full rounds of tasks, all ranges of equal length."""
    rounds = -(-rows // (rows_per_task * slots))
    count = min(BUCKETS, max(1, rounds) * slots)
    return itertools.pairwise([BUCKETS * number // count for number in range(count + 1)])


def bucket_of(values: Sequence[str]) -> list[int]:
    """Return the bucket of each of some values."""
    found: list[int] = _owners(pa.chunked_array([values], pa.string())).tolist()
    return found


def _owners(values: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return ((text_hashes(values) >> np.uint64(32)) % np.uint64(BUCKETS)).astype(np.uint8)


def _by_bucket(table: pa.Table, by: str) -> Iterator[pa.Table]:
    owners = _owners(table[by])
    ordered = table.take(pa.array(np.argsort(owners, kind="stable"))).combine_chunks()
    ends = np.cumsum(np.bincount(owners, minlength=BUCKETS))
    begin = 0
    for end in ends.tolist():
        yield ordered.slice(begin, end - begin)
        begin = end


def read_pieces(pieces: Iterable[Piece], schema: pa.Schema, objects: ObjectStore) -> pa.Table:
    """Read pieces of one stream as a table."""
    tables = [table for p in pieces for table in _tables(objects.get_range(p.path, p.begin, p.end))]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _tables(body: pa.Buffer) -> Iterator[pa.Table]:
    """Yield the buckets of a range, in order."""
    source = pa.BufferReader(body)
    while source.tell() < body.size:
        yield ipc.open_stream(source).read_all()


def distinct(columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    """Return the values of some columns as a stream, without most repetitions where there are many."""
    parts = [column.drop_null() for column in columns]
    parts = [part if _hardly_repeats(part) else pa.chunked_array([pc.unique(part)]) for part in parts]
    return pa.table({VALUE: pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())})


def count_values(column: pa.ChunkedArray) -> pa.Table:
    """Return the values of a column with their counts, as a stream; the counts of a value add up."""
    if _hardly_repeats(column):
        return pa.table({VALUE: column, "count": pa.array(np.ones(len(column), np.int32))})
    found = pc.value_counts(column)
    return pa.table({VALUE: found.field("values"), "count": found.field("counts").cast(pa.int32())})


def _hardly_repeats(column: pa.ChunkedArray) -> bool:
    """Return whether finding repeated values would cost more than keeping them, judged by the first values."""
    sample = column.slice(0, _SAMPLE)
    return bool(pc.count_distinct(sample).as_py() > 0.8 * len(sample))
