"""Finding duplicate edges of types without a key: equal ends and equal property values, whatever their ids.

They are compared by a digest of 128 bits of these values, without vectors that were computed from other properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.write.rows import Batch
from omnigraph.write.transaction import WriteTxn

_DIGEST_BYTES = 16


def can_repeat(entity: EntityType) -> bool:
    """Whether two edges of a type may be equal: those with a key cannot."""
    return isinstance(entity, EdgeType) and not entity.key


def content_columns(entity: EntityType) -> list[str]:
    """The physical columns that are compared."""
    return ["src", "dst", *(p.column for p in entity.properties if p.embed is None)]


def content_digests(rows: pa.Table) -> list[str]:
    """A text for each row of some `content_columns`, equal where all values are."""
    if not rows.num_rows:
        return []
    parts: list[pa.Array] = []
    for column in rows.columns:
        text = _texts(pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0))
        # Lengths go first, so that the boundaries between values are unambiguous; a null has none.
        parts += [pc.fill_null(pc.binary_length(text).cast(pa.string()), "-"), pc.fill_null(text, "")]
    return [blake2b(row, digest_size=_DIGEST_BYTES).hexdigest() for row in _joined(parts)]


def _joined(parts: list[pa.Array]) -> list[bytes]:
    texts = [part.cast(pa.large_string()) for part in parts]
    joined: list[bytes] = (
        pc.binary_join_element_wise(*texts, pa.scalar(":", pa.large_string())).cast(pa.large_binary()).to_pylist()
    )
    return joined


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if pa.types.is_floating(kind):
        return pc.add(column, pa.scalar(0, kind)).cast(pa.string())  # -0.0 is 0.0
    if pa.types.is_primitive(kind):
        return (column.cast(pa.int64()) if pa.types.is_temporal(kind) and kind.bit_width == 64 else column).cast(
            pa.string()
        )
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


class UniqueEdges:
    """Takes batches in their order and leaves out edges that are in the graph or in an earlier row."""

    def __init__(self, txn: WriteTxn, *, overwrites: bool) -> None:
        self._txn = txn
        self._overwrites = overwrites
        self._known: dict[str, set[str]] = {}
        self.skipped: dict[str, int] = {}

    def unique(self, batch: Batch) -> Batch:
        """The edges that are equal to none before them."""
        if not can_repeat(batch.entity) or not batch.table.num_rows:
            return batch
        key = batch.entity.table_key
        if key not in self._known:
            self._known[key] = set() if self._overwrites else set(self._present(batch.entity))
        known = self._known[key]
        keep: list[int] = []
        for index, digest in enumerate(content_digests(batch.table.select(content_columns(batch.entity)))):
            if digest not in known:
                known.add(digest)
                keep.append(index)
        self.skipped[key] = self.skipped.get(key, 0) + batch.table.num_rows - len(keep)
        return batch if len(keep) == batch.table.num_rows else batch.taken(keep)

    def _present(self, entity: EntityType) -> Iterator[str]:
        if self._txn.entry(entity.table_key).row_count:
            for batch in self._txn.table(entity.table_key).batches(content_columns(entity)):
                yield from content_digests(pa.Table.from_batches([batch]))
