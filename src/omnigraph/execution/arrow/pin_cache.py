"""Cache of data read of pins: columns, and values computed from them. Pins are immutable, so no entry goes stale."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import whole
from omnigraph.execution.arrow.array_cache import ArrayCache
from omnigraph.storage.bounded_cache import BoundedCache, memory_of
from omnigraph.storage.lookup import in_list
from omnigraph.storage.tables import Table
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import GraphStore

_MAX_PINS = 256
_FEW = 1024
_MANY = 50
"""Rows are fetched singly up to `_FEW` of them, and below one row in `_MANY`."""
_PATIENCE = 8
_ROWS_AT_ONCE = 64
_ROWS_PER_FETCH = 1 << 15
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class _Sorted:
    """A sorted column for searching: `values` are sorted, and `places` are their rows."""

    values: Any
    places: Ints

    def places_of(self, value: Any) -> list[int]:
        """Return the rows that have a value."""
        key = (lambda scalar: scalar.as_py()) if isinstance(self.values, pa.Array) else int
        first, last = bisect_left(self.values, value, key=key), bisect_right(self.values, value, key=key)
        found: list[int] = self.places[first:last].tolist()
        return found


class LoadedTable:
    """The columns of one pin that were loaded so far."""

    def __init__(self, table: Table, cache: BoundedCache[Hashable, Any]) -> None:
        self.table = table
        self._cache = cache
        self._pin = (table.path, table.version)
        self._asked: dict[str, int] = {}
        self._lock = threading.Lock()
        self.count = table.row_count

    def column(self, name: str) -> pa.Array:
        """Return a physical column as one array, in the table's scan order."""
        found = self._cache.get((*self._pin, name))
        if found is None:
            with self._lock:  # one thread reads it
                found = self._cache.get_or_make((*self._pin, name), lambda: whole(self.table.scan([name])[name]))
        return found

    def is_loaded(self, *names: str) -> bool:
        """Return whether some columns are in memory."""
        return all((*self._pin, name) in self._cache for name in names)

    def is_worth_loading(self, name: str, rows: int = 1, patience: int = _PATIENCE) -> bool:
        """Return whether a column was requested so often that loading it is cheaper than fetching. Counts as a request.

        A fetch has a cost per row, so requests for many rows reach the limit sooner.
        """
        with self._lock:
            self._asked[name] = self._asked.get(name, 0) + 1 + rows // _ROWS_AT_ONCE
            return self._asked[name] > patience

    def take(self, name: str, places: Ints) -> pa.Array:
        """Return a column at some places (none negative). A few rows of a large table are fetched, many loaded."""
        few = len(places) <= min(_FEW, self.count // _MANY)
        # Loading a column of a small table costs hardly more than one fetch.
        patience = min(_PATIENCE, self.count // _ROWS_PER_FETCH)
        if self.is_loaded(name) or not few or self.is_worth_loading(name, len(places), patience):
            return self.column(name).take(pa.array(places))
        return self.fetch(name, places)

    def fetch(self, name: str, places: Ints) -> pa.Array:
        """Return a column at some places (none negative), from memory if it is loaded; does not load it."""
        if self.is_loaded(name):
            return self.column(name).take(pa.array(places))
        if (places[1:] > places[:-1]).all():
            return whole(self.table.take(places, [name])[name])
        distinct, which = np.unique(places, return_inverse=True)
        found = whole(self.table.take(distinct, [name])[name])
        return found.take(pa.array(which))

    def places_of(self, ids: pa.Array) -> Ints:
        """Return the places of rows by id, in table order; ids that do not exist are left out."""
        if not self.is_loaded("id") and len(ids) <= _FEW and not self.is_worth_loading("id"):
            found, _ = self.table.find(in_list("id", ids.to_pylist())) if len(ids) else (np.empty(0, np.int64), None)
            return np.sort(found)
        hits = pc.is_in(self.column("id"), value_set=ids)
        places: Ints = np.flatnonzero(hits.to_numpy(zero_copy_only=False)).astype(np.int64)
        return places

    def places_with(self, name: str, values: list[Any]) -> Ints | None:
        """Return the places of rows whose (loaded) column has one of some values, in order; None when it needs a scan.

        Sorting a column pays only when it is searched often, so the first searches do not sort it.
        """
        column = self.column(name)
        if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_string(column.type)):
            return None
        order = self._cache.get(("order", *self._pin, name))
        if order is None:
            if not self.is_worth_loading(f"order {name}"):
                return None
            order = self._cache.put(("order", *self._pin, name), _order_of(column))
        found: set[int] = set()
        for value in values:
            found.update(order.places_of(value))
        return np.array(sorted(found), np.int64)

    def columns(self, names: list[str]) -> None:
        """Load several columns in one scan."""
        with self._lock:
            missing = [name for name in names if not self.is_loaded(name)]
            if missing:
                rows = self.table.scan(missing)
                for name in missing:
                    self._cache.put((*self._pin, name), whole(rows[name]))


class PinCache:
    """Columns, topologies and other values computed from pins, under the budget of the graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        budget = store.cache_budget
        self._tables: BoundedCache[tuple[str, int], LoadedTable] = BoundedCache(_MAX_PINS)
        self._columns: BoundedCache[Hashable, Any] = BoundedCache(budget=budget, size_of=memory_of)
        self._derived: BoundedCache[Hashable, Any] = BoundedCache(_MAX_PINS, budget=budget, size_of=memory_of)
        self.kept = ArrayCache(budget=budget)

    def table(self, entry: TableEntry) -> LoadedTable:
        """Return the loaded table of a pin."""
        key = (entry.location, entry.staged_version)
        return self._tables.get_or_make(key, lambda: LoadedTable(open_table(self._store, entry), self._columns))

    def holds(self, key: tuple[Any, ...]) -> bool:
        """Return whether a value was computed already."""
        return key in self._derived

    def derived(self, key: tuple[Any, ...], build: Any) -> Any:
        """Return a value computed from pins, built once."""
        return self._derived.get_or_make(key, build)


def _order_of(column: pa.Array) -> _Sorted:
    """Sort a column. Texts sort by their bytes, as Python compares them too."""
    if pa.types.is_string(column.type):
        places = pc.array_sort_indices(column)
        return _Sorted(column.take(places), places.to_numpy().astype(np.int64))
    values = column.to_numpy()
    order = np.argsort(values, kind="stable")
    return _Sorted(values[order], order)
