"""What was read of pins so far: columns, and values computed from them. Pins are immutable, so nothing goes stale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import pyarrow as pa

from omnigraph.storage.tables import Table
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import GraphStore

_MAX_PINS = 256


class LoadedTable:
    """The columns of one pin that were asked for so far."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns: dict[str, pa.Array] = {}
        self._lock = threading.Lock()
        self.count = table.row_count

    def column(self, name: str) -> pa.Array:
        """A physical column as one array, in the table's scan order."""
        with self._lock:
            found = self._columns.get(name)
            if found is None:
                found = self._columns[name] = _one_array(self._table.scan([name])[name])
        return found

    def columns(self, names: list[str]) -> None:
        """Load several columns in one scan."""
        with self._lock:
            missing = [name for name in names if name not in self._columns]
            if missing:
                rows = self._table.scan(missing)
                self._columns.update({name: _one_array(rows[name]) for name in missing})


class PinCache:
    """Loaded tables and topologies by pin, least recently used first out."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._tables: OrderedDict[tuple[str, int], LoadedTable] = OrderedDict()
        self._derived: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def table(self, entry: TableEntry) -> LoadedTable:
        """The loaded table of a pin."""
        key = (entry.location, entry.staged_version)
        with self._lock:
            found = self._tables.get(key)
            if found is None:
                found = self._tables[key] = LoadedTable(open_table(self._store, entry))
            self._tables.move_to_end(key)
            while len(self._tables) > _MAX_PINS:
                self._tables.popitem(last=False)
        return found

    def holds(self, key: tuple[Any, ...]) -> bool:
        """Whether a value was computed already."""
        with self._lock:
            return key in self._derived

    def derived(self, key: tuple[Any, ...], build: Any) -> Any:
        """A value computed from pins, built once."""
        with self._lock:
            found = self._derived.get(key)
        if found is None:
            found = build()
            with self._lock:
                self._derived[key] = found
                while len(self._derived) > _MAX_PINS:
                    self._derived.popitem(last=False)
        return found


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
