"""Topologies of edge types by pin: from memory, from derived state, by extending an older one, or built.

A topology depends on three pins: the edge table's and those of its two node tables. It is stored under their names, so
finding it reads no table. When it is missing, an older one is extended if each of its three tables was only appended to
since: its rows keep their places, and the new edges are added. Otherwise it is built.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.pin_cache import PinCache
from omnigraph.execution.arrow.text_indexes import Texts
from omnigraph.execution.arrow.topology import (
    Adjacency,
    Ends,
    Ints,
    arcs,
    build_adjacency,
    extend_adjacency,
    is_to_one,
    narrow,
)
from omnigraph.storage.derived import Derived
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import GraphStore

ENDS = "ends"
KEPT = 4
"""The number of pins of one topology that stay in the store."""

_WORTH_KEEPING = 20
"""An extended topology is stored again once it has grown by one part in this many."""

_PATIENCE = 32
"""The number of index lookups on one state of an edge table before its topology is built."""


@dataclass(frozen=True)
class EdgePins:
    """The three pins that a topology depends on."""

    edges: TableEntry
    sources: TableEntry
    targets: TableEntry

    @property
    def key(self) -> tuple[tuple[str, int], ...]:
        """Return the key of a state."""
        return tuple((e.location, e.staged_version) for e in (self.edges, self.sources, self.targets))

    def folder(self, kind: str) -> str:
        """Return the folder of the topologies of one kind, of all states."""
        return f"topology/{self.edges.location.replace('/', '-')}/{kind}/"

    def path(self, kind: str) -> str:
        """Return the path of one state's topology of a kind."""
        return self.folder(kind) + self.name

    @property
    def name(self) -> str:
        """Return the name of the topologies of one state."""
        text = "|".join(f"{location}@{version}" for location, version in self.key)
        return hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class _Base:
    """An older topology to extend: the layouts of its tables, and its arrays."""

    layouts: Mapping[str, Any]
    arrays: Mapping[str, Any]


class Topologies:
    """Adjacency of edge types, kept in memory and in the store. Safe to share between threads."""

    def __init__(self, store: GraphStore, cache: PinCache) -> None:
        self._store = store
        self._cache = cache
        self._latest: dict[str, _Base] = {}
        self._pending: list[Future[None]] = []
        self._looked_up: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()
        self.texts = Texts(store, cache)
        self.expansion = store.settings.query_expansion

    def is_at_hand(self, pins: EdgePins, direction: str, *, distinct: bool) -> bool:
        """Return whether an adjacency is in memory, so that using it costs nothing."""
        return self._cache.holds(("adjacency", _kind(direction, distinct), *pins.key))

    def prefers_index(self, pins: EdgePins, direction: str, *, distinct: bool) -> bool:
        """Return whether to look few nodes up instead. Every yes is counted: after enough of them the topology is used.

        A topology in a local store is mapped at once; one on an object store is a large object to fetch.
        """
        if self._store.root.is_local and self.is_stored(pins, direction, distinct=distinct):
            return False
        with self._lock:
            key = (direction, *pins.key)
            self._looked_up[key] = self._looked_up.get(key, 0) + 1
            return self._looked_up[key] <= _PATIENCE

    def is_stored(self, pins: EdgePins, direction: str, *, distinct: bool) -> bool:
        """Return whether an adjacency is in memory or, complete, in the store."""
        if self.is_at_hand(pins, direction, distinct=distinct):
            return True
        return self._store.derived.read(pins.path(_kind(direction, distinct))) is not None

    def adjacency(self, pins: EdgePins, direction: str, *, distinct: bool) -> Adjacency:
        """Return the compressed rows of one edge type, in places within the types."""
        kind = _kind(direction, distinct)
        near, far = pins.sources.row_count, pins.targets.row_count
        if direction == "in":
            near, far = far, near

        def extend(base: Mapping[str, Any], delta: Ends, numbers: Ints) -> dict[str, Any]:
            old = Adjacency(base["starts"], base["targets"], base["edges"])
            return _arrays(extend_adjacency(old, arcs(delta, numbers, direction), near, far, distinct=distinct))

        def build() -> dict[str, Any]:
            numbers = np.arange(pins.edges.row_count, dtype=np.int64)
            found = arcs(self.ends(pins), numbers, direction)
            return _arrays(build_adjacency(found, near, far, distinct=distinct))

        def load() -> Adjacency:
            arrays = self._stored(pins, kind, {"starts", "targets", "edges"})
            if arrays is None:
                arrays = self._made(pins, kind, extend, build)
            starts, targets = arrays["starts"], arrays["targets"]
            return Adjacency(starts, targets, arrays["edges"], to_one=is_to_one(starts, targets))

        found: Adjacency = self._cache.derived(("adjacency", kind, *pins.key), load)
        return found

    def ends(self, pins: EdgePins) -> Ends:
        """Return both ends of every edge of a type, as places among the nodes of their types."""

        def extend(base: Mapping[str, Any], delta: Ends, _numbers: Ints) -> dict[str, Any]:
            return {
                "source": narrow(np.concatenate([base["source"], delta.source])),
                "target": narrow(np.concatenate([base["target"], delta.target])),
            }

        def build() -> dict[str, Any]:
            found = self._read_ends(pins, fragments=None)
            return {"source": narrow(found.source), "target": narrow(found.target)}

        def load() -> Ends:
            arrays = self._stored(pins, ENDS, {"source", "target"})
            if arrays is None:
                arrays = self._made(pins, ENDS, extend, build)
            return Ends(arrays["source"].astype(np.int64), arrays["target"].astype(np.int64))

        found: Ends = self._cache.derived((ENDS, *pins.key), load)
        return found

    def wait_until_kept(self) -> None:
        """Wait until every topology that is worth storing is in the store."""
        with self._lock:
            waiting, self._pending = self._pending, []
        for each in waiting:
            each.result()

    # --- the store ------------------------------------------------------------------------------------------------

    def _stored(self, pins: EdgePins, kind: str, names: set[str]) -> Mapping[str, Any] | None:
        found = self._store.derived.read(pins.path(kind))
        return found.arrays if found is not None and _is_of(found, pins, names) else None

    def _made(self, pins: EdgePins, kind: str, extend: Any, build: Any) -> Mapping[str, Any]:
        """Extend an older state where there is one, else build; store the result when that is worth it."""
        layouts = self._layouts(pins)
        base = self._base(pins, kind, layouts)
        grown = 0
        arrays: Mapping[str, Any]
        if base is None:
            arrays = build()
        else:
            before = base.layouts["edges"]
            grown = sum(rows for _, _, rows in layouts["edges"][len(before) :])
            fresh = list(self._table(pins.edges).fragments)[len(before) :]
            first = pins.edges.row_count - grown
            numbers = np.arange(first, pins.edges.row_count, dtype=np.int64)
            arrays = extend(base.arrays, self._read_ends(pins, fragments=fresh), numbers) if fresh else base.arrays
            if not fresh and kind != ENDS:
                arrays = {**arrays, "starts": _lengthened(arrays["starts"], pins, kind)}
        with self._lock:
            self._latest[pins.folder(kind)] = _Base(layouts, arrays)
        if base is None or grown * _WORTH_KEEPING > pins.edges.row_count:
            self._keep(pins, kind, layouts, arrays)
        return arrays

    def _base(self, pins: EdgePins, kind: str, layouts: Mapping[str, Any]) -> _Base | None:
        folder = pins.folder(kind)
        known = self._latest.get(folder)
        if known is not None and _begins_with(layouts, known.layouts):
            return known
        if pins.edges.row_count < self._store.settings.derived_min_rows:
            return None
        for name in self._store.derived.newest(folder, KEPT):
            stored = self._store.derived.read(name)
            if stored is not None and _begins_with(layouts, stored.facts.get("layouts", {})):
                return _Base(stored.facts["layouts"], stored.arrays)
        return None

    def _keep(self, pins: EdgePins, kind: str, layouts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        derived = self._store.derived
        if not derived.writable or pins.edges.row_count < self._store.settings.derived_min_rows:
            return
        facts = {"rows": _rows(pins), "layouts": dict(layouts)}

        def write() -> None:
            if derived.write(pins.path(kind), facts, arrays):
                derived.prune(pins.folder(kind), KEPT)

        with self._lock:
            self._pending = [each for each in self._pending if not each.done()]
            self._pending.append(self._store.workers.submit(write))

    # --- the tables -----------------------------------------------------------------------------------------------

    def _table(self, entry: TableEntry) -> Any:
        return open_table(self._store, entry)

    def _layouts(self, pins: EdgePins) -> dict[str, Any]:
        entries = {"edges": pins.edges, "sources": pins.sources, "targets": pins.targets}
        return {name: self._table(entry).layout for name, entry in entries.items()}

    def _read_ends(self, pins: EdgePins, fragments: list[int] | None) -> Ends:
        rows = self._table(pins.edges).scan(["src", "dst"], fragments=fragments)
        sources = self._cache.table(pins.sources).column("id")
        targets = self._cache.table(pins.targets).column("id")
        return Ends(places_of(rows["src"], sources), places_of(rows["dst"], targets))


def places_of(keys: pa.ChunkedArray | pa.Array, ids: pa.Array) -> Ints:
    """Return the place of each key among the ids; -1 where there is none."""
    found = pc.fill_null(pc.index_in(keys, value_set=ids), -1)
    places: Ints = found.to_numpy().astype(np.int64) if isinstance(found, pa.ChunkedArray) else _plain(found)
    return places


def _plain(found: pa.Array) -> Ints:
    values: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _kind(direction: str, distinct: bool) -> str:
    return f"{direction}-{'pairs' if distinct else 'edges'}"


def _arrays(adjacency: Adjacency) -> dict[str, Any]:
    return {"starts": adjacency.starts, "targets": adjacency.targets, "edges": adjacency.edges}


def _rows(pins: EdgePins) -> list[int]:
    return [pins.edges.row_count, pins.sources.row_count, pins.targets.row_count]


def _is_of(found: Derived, pins: EdgePins, names: set[str]) -> bool:
    """Return whether a stored object matches its name: the right arrays for tables of the right size."""
    return set(found.arrays) == names and found.facts.get("rows") == _rows(pins)


def _begins_with(layouts: Mapping[str, Any], older: Mapping[str, Any]) -> bool:
    """Return whether every table begins with the rows that it had in an older state."""
    return set(layouts) == set(older) and all(layouts[k][: len(older[k])] == older[k] for k in layouts)


def _lengthened(starts: Any, pins: EdgePins, kind: str) -> Any:
    """Extend index pointers by nodes that have no edge yet."""
    count = (pins.targets if kind.startswith("in-") else pins.sources).row_count
    return np.concatenate([starts, np.full(count + 1 - len(starts), starts[-1], np.int64)])
