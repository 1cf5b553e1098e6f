"""`graph.blobs`: the bytes of one entity's blob property, whole or a range of them."""

from __future__ import annotations

from typing import Annotated

from omnigraph.api.arguments import AtLeast, Count, EntityId, checked
from omnigraph.api.requests import GetBlob, StatBlob
from omnigraph.api.results import BlobInfo
from omnigraph.api.service import GraphService
from omnigraph.api.target import Target


@checked
class Blobs:
    """`graph.blobs`."""

    def __init__(self, service: GraphService) -> None:
        self._service = service

    def get(
        self, table_key: str, entity_id: EntityId, property_name: str, *, at: Target = None,
        offset: Annotated[int, AtLeast(0)] = 0, length: Count | None = None,
    ) -> bytes | None:  # fmt: skip
        """The bytes, from `offset` on, at most `length` of them. None when the property is null: null is not empty."""
        return self._service.call(
            GetBlob(
                table_key=table_key, entity_id=entity_id, property_name=property_name, at=at, offset=offset,
                length=length,
            )
        )  # fmt: skip

    def stat(self, table_key: str, entity_id: EntityId, property_name: str, *, at: Target = None) -> BlobInfo | None:
        """Size and etag; None when the property is null."""
        return self._service.call(
            StatBlob(table_key=table_key, entity_id=entity_id, property_name=property_name, at=at)
        )
