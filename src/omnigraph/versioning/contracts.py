"""Accepted schemas as content-addressed, write-once objects. `__manifest` names one by its hash.

The hash covers the text and its compiled form, and is checked whenever either is read: the catalog and the output of
`schema show` are what was accepted.
"""

from __future__ import annotations

from typing import Any

from omnigraph.errors import CorruptGraph
from omnigraph.schema import codec
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_checks import require_sound
from omnigraph.storage.decode import Malformed, as_object, as_text, decoding
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import SCHEMAS
from omnigraph.storage.objects import ObjectStore


def contract_path(schema_hash: str) -> str:
    """The object of a schema contract."""
    return f"{SCHEMAS}/{schema_hash}.json"


def save_contract(objects: ObjectStore, catalog: Catalog, source: str) -> str:
    """Store a schema (its text and its compiled form) and return its hash."""
    body = {"source": source, "catalog": catalog.to_json()}
    schema_hash = codec.sha256(body)
    if not objects.put_new_json(contract_path(schema_hash), body):
        _load(objects, schema_hash)  # it exists already; a damaged one must not be published
    hit(Point.CONTRACT_WRITTEN)
    return schema_hash


def load_catalog(objects: ObjectStore, schema_hash: str) -> Catalog:
    """The compiled schema."""
    value = _load(objects, schema_hash)
    with decoding(contract_path(schema_hash)):
        catalog = Catalog.from_json(as_object(value["catalog"], "a catalog"))
        require_sound(catalog)
    return catalog


def load_source(objects: ObjectStore, schema_hash: str) -> str:
    """The schema text as it was accepted."""
    value = _load(objects, schema_hash)
    with decoding(contract_path(schema_hash)):
        return as_text(value["source"], "the text of a schema")


def _load(objects: ObjectStore, schema_hash: str) -> dict[str, Any]:
    """The contract of a hash; raises an error that names the object and the remedy."""
    path = contract_path(schema_hash)
    value = objects.get_json(path)
    if value is None:
        raise CorruptGraph(
            f"{path} is missing, and the versions that name it cannot be read without it",
            hint=f"restore {path} from a copy of the store; `omnigraph fsck` shows the branches that need it",
        )
    with decoding(path):
        if codec.sha256(value) != schema_hash:
            raise Malformed("it does not match its own hash")
        return as_object(value, "a schema contract")
