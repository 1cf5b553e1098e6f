"""`graph.blobs`: the bytes of one entity's blob property, whole or a range of them."""

from __future__ import annotations

import hashlib
from typing import Annotated

from omnigraph.api.arguments import AtLeast, Count, EntityId, checked
from omnigraph.api.results import BlobInfo
from omnigraph.api.target import Target
from omnigraph.datatypes import Scalar
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.schema.identity import id_text
from omnigraph.storage.lookup import rows_by_id
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.staging import open_table


@checked
class Blobs:
    """`graph.blobs`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def get(
        self, table_key: str, entity_id: EntityId, property_name: str, *, at: Target = None,
        offset: Annotated[int, AtLeast(0)] = 0, length: Count | None = None,
    ) -> bytes | None:  # fmt: skip
        """The bytes, from `offset` on, at most `length` of them. None when the property is null: null is not empty."""
        found = self._bytes(table_key, entity_id, property_name, at)[0]
        if found is not None and offset > len(found):
            raise InvalidArgument(f"offset {offset} lies behind the end: the blob has {len(found)} bytes")
        if found is None:
            return None
        return found[offset:] if length is None else found[offset : offset + length]

    def stat(self, table_key: str, entity_id: EntityId, property_name: str, *, at: Target = None) -> BlobInfo | None:
        """Size and etag; None when the property is null."""
        found, head = self._bytes(table_key, entity_id, property_name, at)
        if found is None:
            return None
        return BlobInfo("managed", len(found), hashlib.sha256(found).hexdigest(), head)

    def _bytes(self, table_key: str, entity_id: EntityId, name: str, at: Target) -> tuple[bytes | None, str]:
        state = self._repository.resolve(at)
        entity = self._repository.store.catalog(state.schema_hash).entity(table_key)
        prop = entity.property(name)
        if prop.type.scalar is not Scalar.BLOB:
            raise InvalidArgument(f"{name} of {table_key} is a {prop.type}, not a Blob")
        entry = state.snapshot.table(entity.table_key)
        table = open_table(self._repository.store, entry)
        rows = rows_by_id(table, [id_text(entity, entity_id)], entry.tail, [prop.column])
        if not rows.num_rows:
            raise NotFound(f"{table_key} has no entity with id {entity_id!r}")
        found: bytes | None = rows[prop.column][0].as_py()
        return found, state.head
