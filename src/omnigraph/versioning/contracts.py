"""Accepted schemas as content-addressed, write-once objects. `__manifest` names one by its hash."""

from __future__ import annotations

from typing import Any

from omnigraph.errors import CorruptGraph
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.soundness import require_sound
from omnigraph.storage.decode import as_object, as_text, decoding
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import SCHEMAS
from omnigraph.storage.objects import ObjectStore


def _path(schema_hash: str) -> str:
    return f"{SCHEMAS}/{schema_hash}.json"


def save_contract(objects: ObjectStore, catalog: Catalog, source: str) -> str:
    """Store a schema (its text and its compiled form) and return its hash."""
    schema_hash = catalog.contract_hash
    objects.put_new_json(_path(schema_hash), {"source": source, "catalog": catalog.to_json()})
    hit(Point.CONTRACT_WRITTEN)
    return schema_hash


def load_catalog(objects: ObjectStore, schema_hash: str) -> Catalog:
    """The compiled schema, checked against its own hash."""
    value = _load(objects, schema_hash)
    with decoding(_path(schema_hash)):
        catalog = Catalog.from_json(as_object(value["catalog"], "a catalog"))
        require_sound(catalog)
        if catalog.contract_hash != schema_hash:
            raise CorruptGraph(
                f"{_path(schema_hash)} does not match its own hash", hint="restore the object from a copy of the store"
            )
    return catalog


def load_source(objects: ObjectStore, schema_hash: str) -> str:
    """The schema text as it was accepted."""
    value = _load(objects, schema_hash)
    with decoding(_path(schema_hash)):
        return as_text(value["source"], "the text of a schema")


def _load(objects: ObjectStore, schema_hash: str) -> dict[str, Any]:
    value = objects.get_json(_path(schema_hash))
    if value is None:
        raise CorruptGraph(f"{_path(schema_hash)} is missing", hint="restore the object from a copy of the store")
    with decoding(_path(schema_hash)):
        return as_object(value, "a schema contract")
