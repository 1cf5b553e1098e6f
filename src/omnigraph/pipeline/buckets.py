"""Text values spread over buckets by hash, in files that tasks write and other tasks read by range.

A global check (two rows with one key, an edge whose end is missing) compares values that different tasks saw. Each task
leaves its values in one file, bucket after bucket; the check of a bucket reads that range of every file. Values travel
whole, so a hash decides only who compares what and never whether two values are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from omnigraph.storage.objects import ObjectStore

Hashes = np.ndarray[tuple[int], np.dtype[np.uint64]]
_SCHEMA = pa.schema([("value", pa.string()), ("row", pa.int64())])
_CHUNK_ROWS = 1 << 16
_WEIGHTS = np.random.Generator(np.random.PCG64(0x0516)).integers(1, 2**63, size=1 << 12, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, slots=True)
class BucketFile:
    """Values that one task saw: an object below the graph's root and where each bucket begins in it."""

    path: str
    offsets: tuple[int, ...]
    split: int
    rows: int

    def read(self, objects: ObjectStore, bucket: int) -> pa.Table:
        """The values of one bucket and the rows they stand in."""
        begin, end = self.offsets[bucket], self.offsets[bucket + 1]
        if begin == end:
            return _SCHEMA.empty_table()
        return ipc.open_stream(objects.get_range(self.path, begin, end)).read_all()


def write_buckets(
    objects: ObjectStore, path: str, split: int, values: Sequence[pa.Array], rows: Sequence[pa.Array], buckets: int
) -> BucketFile:
    """Leave values (with their row numbers) for the checks, in `buckets` ranges of one object."""
    value = pa.chunked_array(values, pa.string()).combine_chunks() if values else pa.array([], pa.string())
    row = pa.chunked_array(rows, pa.int64()).combine_chunks() if rows else pa.array([], pa.int64())
    table = pa.table({"value": value, "row": row}, schema=_SCHEMA)
    parts: Iterable[pa.Table] = [table]
    if buckets > 1:
        chosen = bucket_of(value, buckets)
        order = np.argsort(chosen, kind="stable")
        ends = np.cumsum(np.bincount(chosen, minlength=buckets))
        table = table.take(pa.array(order)).combine_chunks()
        parts = [table.slice(int(b), int(e - b)) for b, e in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True)]
    body = bytearray()
    offsets = [0]
    for part in parts:
        if part.num_rows:
            body += _stream(part)
        offsets.append(len(body))
    objects.put_new(path, bytes(body), flush=False)
    return BucketFile(path, tuple(offsets), split, table.num_rows)


def bucket_of(values: pa.Array, buckets: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bucket of each value: the same in every process and for every chunking."""
    hashes = hash64(values)
    return ((hashes >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)


def hash64(values: pa.Array) -> Hashes:
    """A 64-bit hash of each text: bytes weighted by their place, summed modulo 2^64, then mixed."""
    parts = [_hash_chunk(values.slice(at, _CHUNK_ROWS)) for at in range(0, len(values), _CHUNK_ROWS)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _hash_chunk(values: pa.Array) -> Hashes:
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    # A slice copied on its own has its bytes from the beginning of the buffer.
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    begin, end = int(offsets[0]), int(offsets[-1])
    sums = np.zeros(len(values), np.uint64)
    if data is not None and end > begin:
        raw = np.frombuffer(data, np.uint8)[begin:end].astype(np.uint64)
        starts = (offsets[:-1] - begin).astype(np.int64)
        place = np.arange(end - begin, dtype=np.int64) - np.repeat(starts, lengths)
        weighted = (
            (raw + np.uint64(1))
            * _WEIGHTS[place & (len(_WEIGHTS) - 1)]
            * (place // len(_WEIGHTS) * 2 + 1).astype(np.uint64)
        )
        filled = lengths > 0
        sums[filled] = np.add.reduceat(weighted, starts[filled])
    mixed = sums ^ (sums >> np.uint64(31))
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    hashes: Hashes = mixed ^ (mixed >> np.uint64(29))
    return hashes


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
