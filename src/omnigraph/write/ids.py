"""Entity ids of a batch: derived from the key, given by the row, or fresh; and fresh ids by the million."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.schema.identity import edge_key_ids, node_ids
from omnigraph.write.validation import Findings, Places

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
_TIME_CHARS, _CHARS = 10, 26


def fresh_ids(count: int) -> pa.Array:
    """That many new ULIDs, ascending: one random start, then one by one."""
    stamp = time.time_ns() // 1_000_000
    high = secrets.randbits(40)
    # The top bit of the low half stays clear, so that counting up never runs over.
    low = np.arange(count, dtype=np.uint64) + np.uint64(secrets.randbits(39))
    text = np.empty((count, _CHARS), np.uint8)
    for at in range(_TIME_CHARS):
        text[:, at] = _ALPHABET[(stamp >> (5 * (_TIME_CHARS - 1 - at))) & 31]
    for at in range(8):
        shift = 5 * (7 - at)
        text[:, _TIME_CHARS + at] = _ALPHABET[(high >> shift) & 31]
        text[:, _TIME_CHARS + 8 + at] = _ALPHABET[(low >> np.uint64(shift)) & np.uint64(31)]
    offsets = np.arange(count + 1, dtype=np.int64) * _CHARS
    if count and offsets[-1] < 2**31:
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text))
    return pa.array([], pa.string()) if not count else _in_parts(count)


def _in_parts(count: int) -> pa.Array:
    return pa.chunked_array([fresh_ids(count // 2), fresh_ids(count - count // 2)])


def ids_of(
    entity: EntityType, columns: Mapping[str, Any], explicit: pa.Array | None, places: Places, count: int,
    found: Findings,
) -> tuple[pa.Array, bool]:  # fmt: skip
    """The ids of rows given by public columns, and whether all of them are fresh."""
    if entity.key:
        public = pa.table(dict(columns))
        derived = edge_key_ids(entity, public) if isinstance(entity, EdgeType) else node_ids(entity, public)
        if explicit is not None:
            _compare(entity, derived, explicit, places, found)
        return derived, False
    if explicit is None:
        return fresh_ids(count), True
    if explicit.null_count:
        explicit = pc.coalesce(explicit, fresh_ids(count))
    return explicit, False


def _compare(entity: EntityType, derived: pa.Array, explicit: pa.Array, places: Places, found: Findings) -> None:
    for index in found.rows(pc.not_equal(explicit, derived)):
        given, expected = explicit[index].as_py(), derived[index].as_py()
        text = f"{entity.name} id {given!r} does not match @key ({expected!r})"
        found.note("id", text, entity, places=places, index=index, field="id", value=given)
