"""Equal texts among millions: by 64-bit hashes, which need eight bytes a row, then by the texts themselves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

_CHUNK_BYTES = 4 << 20
_SEED = 20_25


def rows_with_equal_hash(texts: pa.Array) -> np.ndarray:
    """Rows, in order, whose hash another row has as well: all rows of equal texts, and rarely one more."""
    rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    hashes = text_hashes(texts)[rows]
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return rows[np.isin(hashes, shared)] if len(shared) else rows[:0]


def text_hashes(texts: pa.Array) -> np.ndarray:
    """The hash of every text: the sum of its bytes, each times a random number for its place."""
    found = np.empty(len(texts), np.uint64)
    begun = 0
    while begun < len(texts):
        step = max(1, (len(texts) - begun) * _CHUNK_BYTES // max(_CHUNK_BYTES, texts[begun:].nbytes))
        part = texts.slice(begun, step)
        found[begun : begun + len(part)] = _hashed(part)
        begun += len(part)
    return found


def _hashed(texts: pa.Array) -> np.ndarray:
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = np.zeros(len(texts), np.uint64)
    if offsets[-1] == offsets[0]:
        return found
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    places = np.arange(len(data)) - np.repeat(starts - offsets[0], lengths)
    weights = _weights(1 << int(lengths.max()).bit_length())
    products = (data.astype(np.uint64) + np.uint64(1)) * weights[places]
    filled = lengths > 0  # an empty text has no first byte to sum from
    found[filled] = np.add.reduceat(products, (starts - offsets[0])[filled])
    return found


@lru_cache(maxsize=32)
def _weights(count: int) -> np.ndarray:
    return np.random.default_rng(_SEED).integers(0, 1 << 64, count, np.uint64) | np.uint64(1)
