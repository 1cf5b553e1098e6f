"""Finding equal texts among millions: by 64-bit hashes, which need eight bytes a row, then by the texts themselves.

Hashes are compared by the process that computes them, and never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_MIX = np.uint64(0x9E3779B97F4A7C15)
_WORD = 8
_BITS = np.array([0, *(8 * (_WORD - length) for length in range(1, _WORD + 1))], np.uint64)
_AT_ONCE = 1 << 15
"""Texts that are hashed together: few enough for all intermediate arrays to fit in the processor's cache."""
_FEW = 32
"""Up to this number texts are hashed one by one: making a column of them costs more than hashing."""
_ALL_BITS = 2**64 - 1
Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def rows_with_equal_hash(texts: pa.Array) -> np.ndarray:
    """Rows, in order, whose hash another row has as well: all rows of equal texts, and rarely others."""
    rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    hashes = text_hashes(texts)[rows]
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return rows[np.isin(hashes, shared)] if len(shared) else rows[:0]


def hashes_of(texts: Sequence[str]) -> Hashes:
    """The hashes of some texts."""
    if len(texts) > _FEW:
        return text_hashes(pa.array(texts, pa.string()))
    return np.fromiter(map(_hash_of, texts), np.uint64, len(texts))


def _hash_of(text: str) -> int:
    """The same hash as `_hashed` computes, of one text."""
    raw, mix = text.encode(), int(_MIX)
    found = len(raw) * mix & _ALL_BITS
    for at in range(0, len(raw), _WORD):
        word = raw[at : at + _WORD]
        mixed = (found ^ int.from_bytes(word, "little") << 8 * (_WORD - len(word))) * mix & _ALL_BITS
        found = mixed ^ mixed >> 29
    return found * mix & _ALL_BITS


def text_hashes(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """The hash of every text of a column, the same on every machine. The hash of a null is meaningless."""
    found = np.empty(len(texts), np.uint64)
    at = 0
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        for begin in range(0, len(chunk), _AT_ONCE):
            part = chunk.slice(begin, _AT_ONCE)
            found[at : at + len(part)] = _hashed(part)
            at += len(part)
    return found


def _hashed(texts: pa.Array) -> Hashes:
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, bounds, data = texts.buffers()
    ends = np.frombuffer(bounds, width, len(texts) + 1, texts.offset * np.dtype(width).itemsize).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    padded = np.zeros(last - first + _WORD, np.uint8)
    if data is not None:
        padded[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    # A word beginning at every byte: numpy reads unaligned words when the strides are single bytes.
    words = np.ndarray((last - first + 1,), np.dtype("<u8"), padded, strides=(1,))
    begin, lengths = ends[:-1] - first, np.diff(ends)
    found = lengths.astype(np.uint64) * _MIX
    rows: Any = slice(None)
    for at in range(0, int(lengths.max(initial=0)), _WORD):
        left = lengths[rows] - at
        if left.min() <= 0:  # only the texts with words left: a very long text costs its own words alone
            rows, left = np.arange(len(texts))[rows][left > 0], left[left > 0]
        # Bytes beyond the end of a text are shifted out of its last word.
        spare = _BITS[np.minimum(left, _WORD)]
        mixed = (found[rows] ^ (words[begin[rows] + at] << spare)) * _MIX
        found[rows] = mixed ^ (mixed >> np.uint64(29))
    result: Hashes = found * _MIX
    return result
