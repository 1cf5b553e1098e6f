"""`ensure_indices`: builds the indexes that the schema declares and storage lacks, in one maintenance commit.

Declaring an index builds nothing, and no answer depends on one: an index only changes how an answer is found. Kinds
follow from types: numbers, Bool, Date, DateTime and enums get a BTREE, vectors an IVF index, free text a full-text
index that is kept as derived state and, where texts are short, a BTREE, lists none. Ids and edge ends always have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.api.reports import IndexReport, IndexStatus
from omnigraph.datatypes import Scalar
from omnigraph.errors import ConflictError
from omnigraph.execution.arrow.text_indexes import is_stored, is_worth_keeping
from omnigraph.schema.catalog import Catalog, EntityType
from omnigraph.storage.apply_effects import commit_indexes
from omnigraph.storage.effects import Reshape
from omnigraph.storage.indexes import missing_segments
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, BuildSegment, TaskPool
from omnigraph.storage.search_indexes import (
    MIN_VECTORS,
    TOO_FEW,
    WantedIndex,
    crowding_vectors,
    is_suitable,
    rows_of,
    uncovered_fragments,
    vector_work,
)
from omnigraph.storage.tables import Table, TableStore
from omnigraph.versioning.maintenance_plan import maintenance_plan
from omnigraph.versioning.plan import TableChange
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table, stage_reshape
from omnigraph.versioning.store import GraphStore

_ATTEMPTS = 5
INDEXED, PARTIAL, PENDING = "indexed", "partial", "pending"
TEXT = "text"
NOT_YET = "covered by the next optimize"
MADE_BY_SEARCH = "made and kept by the first search"
MADE_IN_MEMORY = "so few rows are indexed in memory by each process"


def wanted_indexes(entity: EntityType) -> Iterator[tuple[str, WantedIndex | None]]:
    """Public names and physical indexes of a type; None for free text, whose index is not kept in the table."""
    yield "id", WantedIndex("id", "btree")
    if entity.table_key.startswith("edge:"):
        yield "src", WantedIndex("src", "btree")
        yield "dst", WantedIndex("dst", "btree")
    seen = {"id", "src", "dst"}
    if len(entity.key) == 1 and entity.property(entity.key[0]).type.scalar is Scalar.STRING:
        seen.add(entity.key[0])  # its text is the id; other keys are only looked up by it, and sort otherwise
    for index in entity.indexes:
        for name in index.properties:
            if name in seen:
                continue
            seen.add(name)
            kind = entity.property(name).type
            if kind.is_vector:
                yield name, WantedIndex(entity.property(name).column, "vector", index.metric or "l2")
            elif kind.is_list or kind.scalar is Scalar.BLOB:
                continue
            elif kind.scalar is Scalar.STRING and not kind.is_enum:
                yield name, WantedIndex(entity.property(name).column, "btree", is_text=True)
                yield name, None
            else:
                yield name, WantedIndex(entity.property(name).column, "btree")


def suitable_indexes(store: TableStore, table: Table, entity: EntityType) -> list[tuple[str, WantedIndex | None]]:
    """The wanted indexes of a type that its table should have."""
    wanted = wanted_indexes(entity)
    return [(name, index) for name, index in wanted if index is None or is_suitable(store, table, index)]


def index_status(repository: Repository, branch: str = MAIN) -> tuple[IndexStatus, ...]:
    """Every index that the schema of a branch declares, and how much of the table it covers."""
    state = repository.head(branch)
    catalog = repository.store.catalog(state.schema_hash)
    found: list[IndexStatus] = []
    for key, entry in sorted(state.tables.items()):
        table = open_table(repository.store, entry)
        for name, wanted in suitable_indexes(repository.store.tables, table, catalog.type_of(key)):
            if wanted is None:
                column = catalog.type_of(key).property(name).column
                found.append(_text_status(repository.store, entry, name, column))
            else:
                found.append(_status(table, entry, name, wanted))
    return tuple(found)


def ensure_indices(
    repository: Repository, branch: str = MAIN, *, actor: str | None = None, pool: TaskPool = LOCAL_POOL
) -> IndexReport:
    """Build or extend every index that is lacking, as one commit. A table that moves meanwhile is built again."""
    repository.store.require_writable()
    repository.recovery.sweep_if_due()
    repository.store.wait_for_background_work()
    for _ in range(_ATTEMPTS - 1):
        try:
            return _ensured(repository, branch, actor, pool)
        except ConflictError as error:
            if not error.retryable:
                raise
    return _ensured(repository, branch, actor, pool)


def _ensured(repository: Repository, branch: str, actor: str | None, pool: TaskPool) -> IndexReport:
    state = repository.head(branch)
    catalog = repository.store.catalog(state.schema_hash)
    reasons: dict[tuple[str, str], str] = {}
    changes = [c for e in state.tables.values() if (c := _built(repository, e, catalog, reasons, pool)) is not None]
    commit = None
    if changes:
        message = "indexes " + ", ".join(sorted(c.table_key for c in changes))
        plan = maintenance_plan(state, changes, kind="ensure_indices", message=message, actor=actor)
        commit = repository.publisher.publish(plan)
    found = index_status(repository, branch)
    told = (replace(s, reason=reasons.get((s.table_key, s.property), s.reason)) for s in found)
    return IndexReport(tuple(told), commit)


def _built(
    repository: Repository, entry: TableEntry, catalog: Catalog, reasons: dict[tuple[str, str], str], pool: TaskPool
) -> TableChange | None:
    store = repository.store
    base = open_table(store, entry)
    if not base.fragments:
        return None
    asked = suitable_indexes(store.tables, base, catalog.type_of(entry.table_key))
    vectors = {name: wanted for name, wanted in asked if wanted is not None and wanted.kind == "vector"}
    table = commit_indexes(store.tables, base, dropped=crowding_vectors(base, list(vectors.values())))
    works: list[BuildSegment] = []
    for name, wanted in vectors.items():
        work, reason = vector_work(table, wanted)
        works += work
        if reason is not None:
            reasons[(entry.table_key, name)] = reason
    columns = [wanted.column for _, wanted in asked if wanted is not None and wanted.kind == "btree"]
    table = commit_indexes(store.tables, table, missing_segments(store.tables, table, columns, pool, works))
    if table.version == base.version:
        return None
    return stage_reshape(store, entry, table, Reshape("ensure_indices"))


def _status(table: Table, entry: TableEntry, name: str, wanted: WantedIndex) -> IndexStatus:
    rows = entry.row_count
    covered = rows - rows_of(table, uncovered_fragments(table, wanted))
    state = INDEXED if covered == rows else (PARTIAL if covered else PENDING)
    reason = None
    if covered < rows:
        too_few = wanted.kind == "vector" and rows < MIN_VECTORS and wanted.name not in table.index_coverage()
        reason = TOO_FEW if too_few else NOT_YET
    return IndexStatus(entry.table_key, name, wanted.kind, state, covered, rows, reason)


def _text_status(store: GraphStore, entry: TableEntry, name: str, column: str) -> IndexStatus:
    """The full-text index of a property, which searches build: it exists when a search has stored it."""
    rows = entry.row_count
    if not rows or is_stored(store, entry, column):
        return IndexStatus(entry.table_key, name, TEXT, INDEXED, rows, rows)
    reason = MADE_BY_SEARCH if is_worth_keeping(store, entry) else MADE_IN_MEMORY
    return IndexStatus(entry.table_key, name, TEXT, PENDING, 0, rows, reason)
