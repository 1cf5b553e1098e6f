"""Accepted schemas as content-addressed, write-once objects. `__manifest` names one by its hash.

The hash covers the text and its compiled form, and is checked whenever either is read: what the catalog says and what
`schema show` prints is what was accepted.
"""

from __future__ import annotations

import json
from typing import Any

from omnigraph.errors import CorruptGraph
from omnigraph.schema import codec
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import SCHEMAS
from omnigraph.storage.objects import ObjectStore


def _path(schema_hash: str) -> str:
    return f"{SCHEMAS}/{schema_hash}.json"


def save_contract(objects: ObjectStore, catalog: Catalog, source: str) -> str:
    """Store a schema (its text and its compiled form) and return its hash."""
    body = {"source": source, "catalog": catalog.to_json()}
    schema_hash = codec.sha256(body)
    if not objects.put_new_json(_path(schema_hash), body):
        _load(objects, schema_hash)  # it is there already; a damaged one must not be published
    hit(Point.CONTRACT_WRITTEN)
    return schema_hash


def load_catalog(objects: ObjectStore, schema_hash: str) -> Catalog:
    """The compiled schema."""
    body = _load(objects, schema_hash)
    try:
        return Catalog.from_json(body["catalog"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # The hash is right, so it was written like this: by a program that knows more kinds of types than this one.
        raise CorruptGraph(
            f"{_path(schema_hash)} holds a schema that cannot be read: {error!r}", hint="upgrade omnigraph"
        ) from error


def load_source(objects: ObjectStore, schema_hash: str) -> str:
    """The schema text as it was accepted."""
    return str(_load(objects, schema_hash)["source"])


def _load(objects: ObjectStore, schema_hash: str) -> dict[str, Any]:
    """The contract of a hash, or an error that names the object and the remedy."""
    body = objects.get(_path(schema_hash))
    if body is None:
        raise _damaged(schema_hash, "is missing")
    try:
        value = json.loads(body)
        if codec.sha256(value) != schema_hash:
            raise _damaged(schema_hash, "does not match its own hash")
    except (ValueError, RecursionError) as error:
        raise _damaged(schema_hash, "is no JSON") from error
    if not isinstance(value, dict) or not isinstance(value.get("source"), str) or "catalog" not in value:
        raise _damaged(schema_hash, "is no schema contract")
    return value


def _damaged(schema_hash: str, what: str) -> CorruptGraph:
    path = _path(schema_hash)
    return CorruptGraph(
        f"{path} {what}, and the versions that name it cannot be read without it",
        hint=f"restore {path} from a copy of the store; `omnigraph fsck` shows the branches that need it",
    )
