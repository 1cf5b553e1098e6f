"""Handle requests that read rows, entities, blobs, snapshots and tables, or write them to files."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from omnigraph.api.progress import Listener
from omnigraph.api.requests import (
    ExportRows,
    GetBlob,
    LocateTable,
    ReadCatalog,
    ReadEntity,
    ReadRows,
    ReadSnapshot,
    StatBlob,
)
from omnigraph.api.results import BlobInfo, ExportResult
from omnigraph.datatypes import Scalar
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.identity import id_text
from omnigraph.storage.lookup import in_list, rows_by_id
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.snapshot import Snapshot
from omnigraph.versioning.staging import open_table
from omnigraph.write.export import export_rows


def read_rows(graph: LocalGraph, request: ReadRows, _: Listener | None) -> pa.Table:
    """All rows of a type."""
    return rows_of_state(graph, graph.repository.resolve(request.at), request.table_key)


def read_entity(graph: LocalGraph, request: ReadEntity, _: Listener | None) -> dict[str, Any] | None:
    """One entity; None when it does not exist."""
    state = graph.repository.resolve(request.at)
    entity = graph.store.catalog(state.schema_hash).entity(request.table_key)
    wanted = in_list("id", [id_text(entity, request.entity_id)])
    found: list[dict[str, Any]] = rows_of_state(graph, state, request.table_key, where=wanted).to_pylist()
    return found[0] if found else None


def read_snapshot(graph: LocalGraph, request: ReadSnapshot, _: Listener | None) -> Snapshot:
    """Return the contents of a target."""
    return graph.repository.resolve(request.at).snapshot


def read_catalog(graph: LocalGraph, request: ReadCatalog, _: Listener | None) -> Catalog:
    """The types of a target."""
    return graph.store.catalog(graph.repository.resolve(request.at).schema_hash)


def locate_table(graph: LocalGraph, request: LocateTable, _: Listener | None) -> tuple[str, int]:
    """The Lance dataset and version behind a type."""
    state = graph.repository.resolve(request.at)
    entry = state.snapshot.table(graph.store.catalog(state.schema_hash).entity(request.table_key).table_key)
    return graph.store.root.join(entry.location), entry.staged_version


def write_export(graph: LocalGraph, request: ExportRows, progress: Listener | None) -> ExportResult:
    """Write rows of a target to files."""
    state = graph.repository.resolve(request.at)
    with graph.repository.reading(state):
        return export_rows(
            graph.store, state, request.target, format=request.format, types=request.types, progress=progress
        )


def get_blob(graph: LocalGraph, request: GetBlob, _: Listener | None) -> bytes | None:
    """Bytes of a blob, whole or a range of them."""
    found = _blob(graph, request)[0]
    if found is not None and request.offset > len(found):
        raise InvalidArgument(f"offset {request.offset} lies behind the end: the blob has {len(found)} bytes")
    if found is None:
        return None
    return found[request.offset :] if request.length is None else found[request.offset :][: request.length]


def stat_blob(graph: LocalGraph, request: StatBlob, _: Listener | None) -> BlobInfo | None:
    """Size and etag of a blob."""
    found, head = _blob(graph, request)
    return None if found is None else BlobInfo("managed", len(found), hashlib.sha256(found).hexdigest(), head)


def _blob(graph: LocalGraph, request: GetBlob | StatBlob) -> tuple[bytes | None, str]:
    """Return the bytes of a blob, and the commit they were read at."""
    key, name = request.table_key, request.property_name
    state = graph.repository.resolve(request.at)
    entity = graph.store.catalog(state.schema_hash).entity(key)
    prop = entity.property(name)
    if prop.type.scalar is not Scalar.BLOB:
        raise InvalidArgument(f"{name} of {key} is a {prop.type}, not a Blob")
    entry = state.snapshot.table(entity.table_key)
    table = open_table(graph.store, entry)
    rows = rows_by_id(table, [id_text(entity, request.entity_id)], entry.tail, [prop.column])
    if not rows.num_rows:
        raise NotFound(f"{key} has no entity with id {request.entity_id!r}")
    found: bytes | None = rows[prop.column][0].as_py()
    return found, state.head


def rows_of_state(graph: LocalGraph, state: ManifestState, table_key: str, *, where: str | None = None) -> pa.Table:
    """Return rows of a type in a resolved state, with public property names."""
    entity = graph.store.catalog(state.schema_hash).entity(table_key)
    entry = state.snapshot.table(entity.table_key)
    names = {p.column: p.name for p in entity.properties}
    columns = [f.name for f in entity.arrow_schema]
    with graph.repository.reading(state):
        rows = open_table(graph.store, entry).scan(columns, where=where)
    return rows.rename_columns([names.get(c, c) for c in columns])


HANDLERS: Handlers = {
    ReadRows: read_rows,
    ReadEntity: read_entity,
    ReadSnapshot: read_snapshot,
    ReadCatalog: read_catalog,
    LocateTable: locate_table,
    ExportRows: write_export,
    GetBlob: get_blob,
    StatBlob: stat_blob,
}
