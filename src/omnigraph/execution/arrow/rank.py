"""Sorting and grouping by values of any type, through small integers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.data import Ints
from omnigraph.execution.arrow.evaluate import one_zero


def ranks(values: pa.Array) -> Ints:
    """A number per value that sorts like it; null is -1 and so comes first."""
    encoded = one_zero(values).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    return _by_code(encoded, rank_of)


def codes(values: pa.Array) -> Ints:
    """A number per value, equal for equal values; null is -1."""
    if pa.types.is_nested(values.type):
        seen: dict[str, int] = {}
        return np.array(
            [-1 if v is None else seen.setdefault(repr(v), len(seen)) for v in values.to_pylist()], np.int64
        )
    encoded = one_zero(values).dictionary_encode()
    return _by_code(encoded, np.arange(len(encoded.dictionary), dtype=np.int64))


def _by_code(encoded: pa.DictionaryArray, values: Ints) -> Ints:
    indices: Ints = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if not len(values):
        return indices
    found: Ints = np.where(indices < 0, -1, values[np.maximum(indices, 0)])
    return found


def groups(columns: list[Ints], length: int) -> tuple[Ints, Ints]:
    """Group number of every row, and the first row of every group, groups in order of first appearance."""
    if not columns:
        return np.zeros(length, np.int64), np.zeros(min(length, 1), np.int64)
    combined = columns[0]
    for column in columns[1:]:
        _, left = np.unique(combined, return_inverse=True)
        distinct, right = np.unique(column, return_inverse=True)
        combined = left.astype(np.int64) * len(distinct) + right
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    renumbered = np.empty(len(first), np.int64)
    renumbered[appearance] = np.arange(len(first))
    return renumbered[inverse], first[appearance]
