"""Rows and values that a branch still holds of types and properties dropped softly from its schema.

The rows of a dropped type lie at the pin that its tombstone names, until cleanup reclaims the versions that show them.
The values of a dropped property lie in a column of its table, except for rows that were written since.
"""

from __future__ import annotations

from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, Property
from omnigraph.schema.dropped import DroppedType, HeldValues
from omnigraph.storage.layout import pin_file
from omnigraph.storage.predicates import sql_column
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import GraphStore


class KeptRows:
    """The `Kept` of a state of a branch."""

    def __init__(self, store: GraphStore, state: ManifestState) -> None:
        self._store = store
        self._state = state

    def dropped_type(self, table_key: str) -> DroppedType | None:
        """The type of a table key that was dropped last."""
        tombstone = self._state.tombstones.get(table_key)
        if tombstone is None:
            return None
        catalog = self._store.catalog(tombstone.schema_hash)
        entity = catalog.type_of(table_key)
        rows = tombstone.entry.row_count if is_there(self._store, tombstone.entry) else None
        return DroppedType(entity, _ends(catalog, entity), rows)

    def held_values(self, entity: EntityType, prop: Property) -> HeldValues | None:
        """The values of a dropped property; None when its column is no longer in the table."""
        entry = self.entry(entity)
        if entry is None:
            return None
        table = open_table(self._store, entry)
        if prop.column not in table.schema.names:
            return None
        present = table.scan(["id"], where=f"{sql_column(prop.column)} IS NOT NULL").num_rows
        return HeldValues(present, table.row_count - present)

    def entry(self, entity: EntityType) -> TableEntry | None:
        """The pin with the rows of a type, live or dropped; None when they no longer exist."""
        live = self._state.tables.get(entity.table_key)
        if live is not None and live.type_id == entity.type_id:
            return live
        tombstone = self._state.tombstones.get(entity.table_key)
        is_its = tombstone is not None and tombstone.entry.type_id == entity.type_id
        return tombstone.entry if tombstone is not None and is_its and is_there(self._store, tombstone.entry) else None


def is_there(store: GraphStore, entry: TableEntry) -> bool:
    """Whether the version that an entry pins still exists. Probes the store: a handle may outlive its files."""
    return store.objects.exists(f"{entry.location}/{pin_file(entry.staged_version)}")


def require_there(store: GraphStore, entry: TableEntry) -> None:
    """Raise when cleanup has reclaimed the rows of an entry."""
    if not is_there(store, entry):
        raise HistoricalVersionReclaimed(
            f"the rows of the {entry.table_key} that was dropped have been reclaimed by cleanup",
            hint="plan again: the type is added with an empty table",
        )


def _ends(catalog: Catalog, entity: EntityType) -> tuple[str, ...]:
    if not isinstance(entity, EdgeType):
        return ()
    return catalog.nodes[entity.source].type_id, catalog.nodes[entity.target].type_id
