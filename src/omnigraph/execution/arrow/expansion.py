"""Expand few nodes to their neighbours without a topology, by lookups in the index of the edge table.

Compressed rows are fastest once they are in memory, but expensive to build for a query about a few nodes. So every hop
decides by its start nodes: few nodes without a topology in memory use the BTREE of `src` or `dst`, all others the
topology. A table that is expanded often gets its topology in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import whole
from omnigraph.execution.arrow.topology import Adjacency, Arcs, Guard, Ints, Neighbourhood, build_adjacency, join_arcs
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lookup import in_list

if TYPE_CHECKING:
    from omnigraph.execution.arrow.data import GraphData

__all__ = ["IndexedExpansion", "Neighbourhood"]

SMALL_FRONTIER = 64
LARGE_TABLE = 20_000
MANY_EDGES = 2_000
"""A lookup has a cost per edge found; above this number of expected edges the topology is cheaper."""
_COLUMNS = {"out": (("src", "dst"),), "in": (("dst", "src"),), "both": (("src", "dst"), ("dst", "src"))}


class IndexedExpansion:
    """One edge type in one direction; chooses between index and topology at every hop."""

    def __init__(self, data: GraphData, edge: EdgeType, direction: str, *, distinct: bool) -> None:
        self._data = data
        self._edge = edge
        self._direction = direction
        self._distinct = distinct
        self._pins = data.edge_pins(edge)
        near, far = (edge.target, edge.source) if direction == "in" else (edge.source, edge.target)
        self._near, self._far = data.nodes[near], data.nodes[far]
        self._adjacency: Adjacency | None = None
        self.near_offset = self._near.offset
        self.near_count = self._near.count
        self.chains = near == far

    def neighbours(self, nodes: Ints, guard: Guard) -> tuple[Ints, Ints, Ints]:
        """For each node in turn return its place in the input, repeated, its neighbours, and the edges to them."""
        if self._adjacency is None and self._prefers_index(nodes):
            return self._by_index(nodes, guard)
        return self.topology().neighbours(nodes, guard)

    def topology(self) -> Adjacency:
        """Return the compressed rows; build them if absent."""
        if self._adjacency is None:
            at_hand = self._data.topologies.is_at_hand(self._pins, self._direction, distinct=self._distinct)
            self._adjacency = self._data.one_type(self._edge, self._direction, distinct=self._distinct)
            self._data.note("topology" if at_hand else "topology, loaded")
        return self._adjacency

    def _prefers_index(self, nodes: Ints) -> bool:
        topologies = self._data.topologies
        if topologies.expansion == "btree":
            return True
        if topologies.is_at_hand(self._pins, self._direction, distinct=self._distinct):
            return False
        count = self._data.edges[self._edge.name].count
        if len(nodes) > SMALL_FRONTIER or count < LARGE_TABLE:
            return False
        if len(nodes) * count > MANY_EDGES * max(1, self._near.count):
            return False
        if not all(self._data.loaded(self._edge).table.has_index(near) for near, _ in _COLUMNS[self._direction]):
            return False
        return topologies.prefers_index(self._pins, self._direction, distinct=self._distinct)

    def _by_index(self, nodes: Ints, guard: Guard) -> tuple[Ints, Ints, Ints]:
        distinct, which = np.unique(nodes, return_inverse=True)
        inside = (distinct >= self.near_offset) & (distinct < self.near_offset + self.near_count)
        ids = self._data.take((self._near.name,), "id", distinct[inside])
        self._data.note(f"index, {len(ids)} nodes")
        parts = [self._looked_up(near, far, ids) for near, far in _COLUMNS[self._direction]]
        if len(parts) == 2:
            parts[1] = _without_loops(parts[1], distinct[inside] - self.near_offset)
        few = build_adjacency(join_arcs(parts), int(inside.sum()), self._far.count, distinct=self._distinct)
        place = np.full(len(distinct), -1, np.int64)
        place[inside] = np.arange(int(inside.sum()))
        rows, found, edges = few.neighbours(place[which], guard)
        return rows, found + self._far.offset, edges + self._data.edges[self._edge.name].offset

    def _looked_up(self, near: str, far: str, ids: pa.Array) -> Arcs:
        """Look up edges with `near` ends among some nodes: the node, the place of the other end, and of the edge."""
        edges = self._data.loaded(self._edge)
        if not len(ids):
            return Arcs(*(np.empty(0, np.int64) for _ in range(3)))
        places, rows = edges.table.find(in_list(near, ids.to_pylist()), [near, far])
        froms = pc.index_in(rows[near], value_set=ids)
        is_source = far == "src"
        node = self._data.catalog.node(self._edge.source if is_source else self._edge.target)
        other = self._data.loaded(node)
        wanted = whole(rows[far]).unique()
        found = other.places_of(wanted)
        known = other.take("id", found)
        tos = pc.index_in(rows[far], value_set=known).to_numpy()
        return Arcs(froms.to_numpy().astype(np.int64), found[tos.astype(np.int64)], places)


def _without_loops(found: Arcs, near_places: Ints) -> Arcs:
    """Drop self-loops from edges seen from their target, since they were seen from their source already."""
    apart: np.ndarray[Any, np.dtype[np.bool_]] = near_places[found.froms] != found.tos
    return Arcs(found.froms[apart], found.tos[apart], found.numbers[apart])
