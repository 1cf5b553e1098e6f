"""Creating a graph: tables, schema contract, and a first manifest version that already holds all of it."""

from __future__ import annotations

import os

from omnigraph.api.commits import GraphCommit
from omnigraph.errors import CommitLost, CorruptGraph, InvalidArgument, NameTaken, OmnigraphError, StoreUnavailable
from omnigraph.schema.catalog import Catalog, compile_schema
from omnigraph.storage.durability import Durability
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import MANIFEST, RECOVERY, TAGS, GraphRoot, table_path
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.options import s3_options
from omnigraph.versioning.claims import Claims
from omnigraph.versioning.contracts import save_contract
from omnigraph.versioning.manifest import ManifestState, RowWriter
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import entry_at_birth
from omnigraph.versioning.store import GraphStore, mint, now_us


def create_graph(
    root: GraphRoot, schema_text: str, *, schema_path: str | None = None, actor: str | None = None
) -> GraphStore:
    """Create a graph and return its store. Nothing is visible until the manifest exists, and it is written last."""
    catalog = compile_schema(schema_text, mint, schema_path)
    store = GraphStore(root)
    _require_vacant(store)
    require_outside(root)
    store.objects.create_root()
    store.objects.probe_put_if_absent(f"{RECOVERY}/probe-{mint()}")
    commit_id = mint()
    tables = _create_tables(store, catalog, commit_id)
    schema_hash = save_contract(store.objects, catalog, schema_text)
    Claims(store.objects).put_main()
    commit = GraphCommit(
        graph_commit_id=commit_id, manifest_branch=MAIN, manifest_version=1, parent_commit_id=None, actor_id=actor,
        created_at=now_us(), kind="init",
    )  # fmt: skip
    state = ManifestState(
        branch=MAIN, native_branch=None, version=1, head=commit_id, schema_hash=schema_hash,
        tables={entry.table_key: entry for entry in tables}, commits={commit_id: commit},
    )  # fmt: skip
    try:
        created = store.manifests.create(MANIFEST, RowWriter().rows(state))
    except CommitLost as error:
        raise _taken(root) from error
    hit(Point.INIT_MANIFEST)
    if created.version != 1:
        raise OmnigraphError(f"{root.uri}: the first manifest version is {created.version}")
    return store


def _create_tables(store: GraphStore, catalog: Catalog, commit_id: str) -> list[TableEntry]:
    def create(entity_key: str) -> TableEntry:
        entity = catalog.type_of(entity_key)
        location = table_path(entity_key, mint())
        table = store.tables.create(location, entity.arrow_schema)
        return entry_at_birth(store, table, entity_key, entity.type_id, commit_id)

    return list(store.workers.map(create, [entity.table_key for entity in catalog.entity_types]))


def _require_vacant(store: GraphStore) -> None:
    if store.manifests.has_version(MANIFEST, 1) or store.objects.list(f"{MANIFEST}/_versions"):
        raise _taken(store.root)
    # Main's claim alone is left by an init that was killed.
    if Claims(store.objects).newest() or store.objects.list(TAGS):
        raise CorruptGraph(
            f"{store.root.uri} holds branches but no __manifest",
            hint="this was a graph: restore __manifest from a copy, or choose an empty location",
        )


def require_outside(root: GraphRoot) -> None:
    """Refuse a place inside another graph, whose cleanup would delete the new files as its own garbage."""
    for parent in root.parents():
        if parent.is_local and not os.path.isdir(parent.uri):
            continue
        try:
            objects = ObjectStore(parent, {} if parent.is_local else s3_options(), Durability(parent))
            is_graph = objects.holds_any(f"{MANIFEST}/_versions")
        except StoreUnavailable:  # a place that may not be read
            continue
        if is_graph:
            raise InvalidArgument(
                f"{root.uri} lies inside the graph at {parent.uri}", hint="choose a location outside of it"
            )


def _taken(root: GraphRoot) -> NameTaken:
    return NameTaken(f"there is a graph at {root.uri} already", hint="open it, or choose another location")
