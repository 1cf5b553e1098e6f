"""The data of one snapshot for queries: columns, ids and topologies, loaded on first use and cached by pin.

Nodes of all types share one numbering within a snapshot: a type's nodes are `offset .. offset + count`. A variable is
an array of such numbers, whatever its types are. Edges have a numbering of their own. Pins are immutable, so data
loaded for one pin serves every snapshot that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import LimitExceeded
from omnigraph.execution.arrow.expansion import IndexedExpansion, Neighbourhood
from omnigraph.execution.arrow.governor import Note
from omnigraph.execution.arrow.pin_cache import LoadedTable, PinCache
from omnigraph.execution.arrow.text_index import TextIndex
from omnigraph.execution.arrow.topologies import EdgePins, Topologies
from omnigraph.execution.arrow.topology import Adjacency, arcs, build_adjacency, join_arcs
from omnigraph.query.plan.model import Sizes
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.versioning.snapshot import Snapshot

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Span:
    """The range of the nodes or edges of one type in the common numbering."""

    name: str
    offset: int
    count: int

    def numbers(self, part: slice = slice(None)) -> Ints:
        """Return the numbers of all of them, or of a part."""
        first, last, _ = part.indices(self.count)
        return np.arange(self.offset + first, self.offset + max(first, last), dtype=np.int64)


class GraphData:
    """One snapshot, as query operators read it."""

    def __init__(
        self,
        cache: PinCache,
        topologies: Topologies,
        snapshot: Snapshot,
        catalog: Catalog,
        note: Callable[[Note], None] = lambda _: None,
    ) -> None:
        self.note = note
        self._cache = cache
        self.topologies = topologies
        self._texts = topologies.texts
        self.snapshot = snapshot
        self.catalog = catalog
        self.nodes = _spans(catalog.nodes, snapshot, "node")
        self.edges = _spans(catalog.edges, snapshot, "edge")
        self.kept = cache.kept
        self._every: dict[str, Ints] = {}
        self._loads = True

    def fetching(self) -> GraphData:
        """Return the same data for few rows at a time: columns not in memory are fetched row by row, never loaded."""
        found = copy(self)
        found._loads = False
        return found

    def entity(self, name: str, *, is_edge: bool) -> EntityType:
        """Return a node or edge type."""
        return self.catalog.edge(name) if is_edge else self.catalog.node(name)

    def loaded(self, entity: EntityType) -> LoadedTable:
        """Return the loaded table of a type."""
        return self._cache.table(self.snapshot.table(entity.table_key))

    def property_column(self, entity: EntityType, name: str) -> pa.Array:
        """Return a property (public name), or `id`, `src`, `dst`, of every row of a type."""
        return self.loaded(entity).column(self.physical(entity, name))

    def all_of(self, types: tuple[str, ...]) -> Ints:
        """Return the numbers of every node of the given types."""
        if len(types) == 1:
            return self._every_one(self.nodes[types[0]])
        parts = [self._every_one(self.nodes[name]) for name in types]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _every_one(self, span: Span) -> Ints:
        found = self._every.get(span.name)
        if found is None:
            found = self._every[span.name] = span.numbers()
        return found

    def forget_numbers(self) -> None:
        """Release the numberings of whole types; they are made again on demand."""
        self._every.clear()

    @property
    def node_count(self) -> int:
        """Return the number of nodes of all types."""
        return sum(span.count for span in self.nodes.values())

    def take(self, types: tuple[str, ...], name: str, numbers: Ints, *, is_edge: bool = False) -> pa.Array:
        """Return a property of each numbered entity; null for a negative number (an optional without a match)."""
        every = [(self.edges if is_edge else self.nodes)[t] for t in types]
        spans = [span for span in every if span.count] or every[:1]
        if not self._loads:
            return self._fetched(spans, name, numbers, is_edge=is_edge)
        if len(spans) == 1:
            return self._take_of(spans[0], name, numbers, is_edge=is_edge)
        columns = [self.property_column(self.entity(s.name, is_edge=is_edge), name) for s in spans]
        bases = np.cumsum([0, *(s.count for s in spans[:-1])])
        order = np.argsort([s.offset for s in spans])
        offsets = np.array([spans[i].offset for i in order])
        which = order[np.maximum(np.searchsorted(offsets, numbers, side="right") - 1, 0)]
        positions = numbers - np.array([s.offset for s in spans])[which] + bases[which]
        return take_nullable(pa.concat_arrays(_unified(columns)), positions, numbers < 0)

    def _take_of(self, span: Span, name: str, numbers: Ints, *, is_edge: bool) -> pa.Array:
        entity = self.entity(span.name, is_edge=is_edge)
        loaded = self.loaded(entity)
        column = self.physical(entity, name)
        if not is_edge and numbers is self._every.get(span.name):
            return loaded.column(column)
        absent = numbers < 0
        if loaded.is_loaded(column) or absent.any():
            return take_nullable(loaded.column(column), numbers - span.offset, absent)
        if len(numbers) == span.count and span.count and numbers[0] == span.offset and (np.diff(numbers) == 1).all():
            return loaded.column(column)
        return loaded.take(column, numbers - span.offset)

    def _fetched(self, spans: list[Span], name: str, numbers: Ints, *, is_edge: bool) -> pa.Array:
        """Fetch a property of each numbered entity, of these rows only."""
        place = np.zeros(len(numbers), np.int64)
        absent = np.ones(len(numbers), np.bool_)
        parts: list[pa.Array] = []
        for span in spans:
            inside = np.flatnonzero((numbers >= span.offset) & (numbers < span.offset + span.count))
            entity = self.entity(span.name, is_edge=is_edge)
            place[inside] = np.arange(len(inside)) + sum(map(len, parts))
            absent[inside] = False
            parts.append(self.loaded(entity).fetch(self.physical(entity, name), numbers[inside] - span.offset))
        whole = pa.concat_arrays(_unified(parts)) if len(parts) > 1 else parts[0]
        return whole if len(parts) == 1 and not absent.any() else take_nullable(whole, place, absent)

    @staticmethod
    def physical(entity: EntityType, name: str) -> str:
        """Return the physical column of a property (public name), or of `id`, `src`, `dst`."""
        return name if name in ("id", "src", "dst") and not _has(entity, name) else entity.property(name).column

    def text_index(self, node: NodeType, name: str) -> TextIndex:
        """Return the inverted index of a String property of a node type."""
        entry = self.snapshot.table(node.table_key)
        return self._texts.index(entry, node.property(name).column, self.loaded(node))

    def vectors(self, node: NodeType, name: str) -> Any:
        """Return the vectors of a property as one matrix, zeros for nulls, and a mask of the rows that have one."""
        column = node.property(name).column
        return self._cache.derived(
            ("vectors", self._pin(node.table_key), column), lambda: _matrix(self.loaded(node).column(column))
        )

    def per_node(self, types: tuple[str, ...], numbers: Ints, values: Callable[[NodeType], Any]) -> Any:
        """Return a computed value of each numbered node: `values` gives those of all nodes of a type. 0 for no node."""
        result: Any = None
        for name in types:
            span = self.nodes[name]
            inside = (numbers >= span.offset) & (numbers < span.offset + span.count)
            if result is None or inside.any():
                of_type = values(self.catalog.node(name))
                result = np.zeros(len(numbers), of_type.dtype) if result is None else result
                result[inside] = of_type[numbers[inside] - span.offset]
        return result

    def far_types(self, edge_types: tuple[str, ...], direction: str) -> set[str]:
        """Return the node types at the far end of some edge types."""
        types = [self.catalog.edge(name) for name in edge_types]
        found = {t.target for t in types} if direction != "in" else set()
        return found | ({t.source for t in types} if direction != "out" else set())

    def neighbourhood(self, edge_types: tuple[str, ...], direction: str, *, distinct: bool) -> Neighbourhood:
        """Return the neighbours over some edge types, by index or topology per hop; several types use the topology."""
        if len(edge_types) > 1 or self.topologies.expansion == "csr":
            return self.adjacency(edge_types, direction, distinct=distinct)
        return IndexedExpansion(self, self.catalog.edge(edge_types[0]), direction, distinct=distinct)

    def adjacency(self, edge_types: tuple[str, ...], direction: str, *, distinct: bool) -> Adjacency:
        """Return the adjacency over some edge types. `distinct`: each pair once, and no edge numbers."""
        if len(edge_types) == 1:
            return self.one_type(self.catalog.edge(edge_types[0]), direction, distinct=distinct)
        key = ("adjacency", edge_types, direction, distinct, tuple(map(self._pin, sorted(self.snapshot.tables))))

        def build() -> Adjacency:
            parts = []
            for edge in map(self.catalog.edge, edge_types):
                span = self.edges[edge.name]
                source, target = self.nodes[edge.source], self.nodes[edge.target]
                numbers = span.numbers()
                ends = self.topologies.ends(self.edge_pins(edge)).shifted(source.offset, target.offset)
                parts.append(arcs(ends, numbers, direction))
            found = build_adjacency(join_arcs(parts), self.node_count, self.node_count, distinct=distinct)
            return replace(found, far_count=self.node_count)

        found: Adjacency = self._cache.derived(key, build)
        return found

    def one_type(self, edge: EdgeType, direction: str, *, distinct: bool) -> Adjacency:
        """Cached by the pins of the edge type and its two node types: writes to other types do not invalidate it."""
        source, target = self.nodes[edge.source], self.nodes[edge.target]
        near, far = (target, source) if direction == "in" else (source, target)
        found = self.topologies.adjacency(self.edge_pins(edge), direction, distinct=distinct)
        edge_offset = self.edges[edge.name].offset
        return replace(
            found, near_offset=near.offset, far_offset=far.offset, edge_offset=edge_offset, far_count=far.count
        )

    def edge_pins(self, edge: EdgeType) -> EdgePins:
        """Return the pins that the topology of an edge type depends on."""
        keys = (edge.table_key, f"node:{edge.source}", f"node:{edge.target}")
        return EdgePins(*map(self.snapshot.table, keys))

    def pin(self, entity: EntityType) -> tuple[str, int]:
        """Return the pin of a type, the cache key of its rows."""
        return self._pin(entity.table_key)

    def _pin(self, table_key: str) -> tuple[str, int]:
        entry = self.snapshot.table(table_key)
        return entry.location, entry.staged_version


def sizes_of(data: GraphData) -> Sizes:
    """Return the sizes of a snapshot that the planner uses."""
    catalog = data.catalog
    return Sizes(
        {name: span.count for name, span in data.nodes.items()},
        {name: span.count for name, span in data.edges.items()},
        {name: node.key[0] for name, node in catalog.nodes.items() if len(node.key) == 1},
    )


def take_nullable(column: pa.Array, positions: Ints, absent: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    """Return rows of a column by position, null where `absent`."""
    if absent.any():
        return column.take(pa.array(np.where(absent, 0, positions), mask=absent))
    return column.take(pa.array(positions))


def _spans(types: Any, snapshot: Snapshot, kind: str) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    offset = 0
    for name in sorted(types):
        count = snapshot.table(f"{kind}:{name}").row_count
        spans[name] = Span(name, offset, count)
        offset += count
    if offset >= 2**62:
        raise LimitExceeded("the graph has more entities than a query can number")
    return spans


def _has(entity: EntityType, name: str) -> bool:
    return any(p.name == name for p in entity.properties)


def _unified(columns: list[pa.Array]) -> list[pa.Array]:
    wanted = columns[0].type
    return [c if c.type == wanted else c.cast(wanted) for c in columns]


def _matrix(column: pa.Array) -> tuple[Any, Any]:
    present = column.is_valid().to_numpy(zero_copy_only=False)
    width = column.type.list_size
    matrix = np.zeros((len(column), width), np.float32)
    matrix[present] = column.filter(pa.array(present)).flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return matrix, present
