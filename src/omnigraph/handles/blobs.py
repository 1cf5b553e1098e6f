"""`graph.blobs`: the bytes of one entity's blob property, whole or a range of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from omnigraph.datatypes import Scalar
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.storage.lookup import rows_by_id
from omnigraph.versioning.repository import Repository, Target
from omnigraph.versioning.staging import open_table


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A blob without its bytes. `etag` is equal for equal bytes."""

    kind: str
    size: int
    etag: str
    graph_commit_id: str


class Blobs:
    """`graph.blobs`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def get(
        self, table_key: str, entity_id: str, property_name: str, *, at: Target = None, offset: int = 0,
        length: int | None = None,
    ) -> bytes | None:  # fmt: skip
        """The bytes, from `offset` on, at most `length` of them. None when the property is null: null is not empty."""
        if offset < 0 or (length is not None and length <= 0):
            raise InvalidArgument("a range needs an offset of at least 0 and a length of at least 1")
        found = self._bytes(table_key, entity_id, property_name, at)[0]
        if found is not None and offset > len(found):
            raise InvalidArgument(f"offset {offset} lies behind the end: the blob has {len(found)} bytes")
        if found is None:
            return None
        return found[offset:] if length is None else found[offset : offset + length]

    def stat(self, table_key: str, entity_id: str, property_name: str, *, at: Target = None) -> BlobInfo | None:
        """Size and etag; None when the property is null."""
        found, head = self._bytes(table_key, entity_id, property_name, at)
        if found is None:
            return None
        return BlobInfo("managed", len(found), hashlib.sha256(found).hexdigest(), head)

    def _bytes(self, table_key: str, entity_id: str, name: str, at: Target) -> tuple[bytes | None, str]:
        state = self._repository.resolve(at)
        prop = self._repository.store.catalog(state.schema_hash).type_of(table_key).property(name)
        if prop.type.scalar is not Scalar.BLOB:
            raise InvalidArgument(f"{name} of {table_key} is a {prop.type}, not a Blob")
        entry = state.snapshot.table(table_key)
        table = open_table(self._repository.store, entry)
        rows = rows_by_id(table, [entity_id], entry.tail, [prop.column])
        if not rows.num_rows:
            raise NotFound(f"{table_key} has no entity with id {entity_id!r}")
        found: bytes | None = rows[prop.column][0].as_py()
        return found, state.head
