"""The part of a snapshot that an algorithm runs on: some edge types, and the node types at their ends."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.errors.base import shown
from omnigraph.execution.analytics.algorithms import IN, OUT, SIMPLE
from omnigraph.execution.analytics.blocks import Ints, LocalRunner, Rows, Values
from omnigraph.execution.arrow.data import GraphData
from omnigraph.schema.identity import IdValue, id_text


class GraphView:
    """Nodes of the types involved, numbered from 0 by type name and then in the table's order."""

    def __init__(self, data: GraphData, edge_types: tuple[str, ...]) -> None:
        self._data = data
        self.edge_types = tuple(sorted({data.catalog.edge(name).name for name in edge_types}))
        edges = [data.catalog.edge(name) for name in self.edge_types]
        self.node_types = tuple(sorted({name for edge in edges for name in (edge.source, edge.target)}))
        counts = [data.nodes[name].count for name in self.node_types]
        self._offsets = dict(zip(self.node_types, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
        self.node_count = sum(counts)
        self.rows = lru_cache(maxsize=None)(self._rows)

    def local(self) -> LocalRunner:
        """A runner in this process."""
        return LocalRunner(self.rows)

    def _rows(self, direction: str) -> Rows:
        """Compressed rows of one direction: out, in, both, or simple."""
        if direction in (OUT, IN):
            if len(self.edge_types) == 1:
                return self._stored(direction)
            source, target = self._pairs(direction)
            return _compressed(source, target, self.node_count)
        source, target = self._pairs(OUT)
        first, second = np.concatenate([source, target]), np.concatenate([target, source])
        if direction != SIMPLE:
            return _compressed(first, second, self.node_count)
        apart = first != second
        width = max(self.node_count, 1)
        first, second = np.divmod(np.unique(first[apart] * width + second[apart]), width)
        return _compressed(first, second, self.node_count)

    def _stored(self, direction: str) -> Rows:
        """The adjacency of the one edge type as it is kept, among the nodes of both types."""
        [name] = self.edge_types
        edge = self._data.catalog.edge(name)
        adjacency = self._data.adjacency((name,), direction, distinct=False)
        near, far = (edge.source, edge.target) if direction == OUT else (edge.target, edge.source)
        starts = np.asarray(adjacency.starts, np.int64)
        before = self._offsets[near]
        after = self.node_count + 1 - before - len(starts)
        if len(self.node_types) == 1:
            return Rows(starts, adjacency.targets)
        padded = np.concatenate([np.zeros(before, np.int64), starts, np.full(after, starts[-1])])
        return Rows(padded, np.asarray(adjacency.targets, np.int64) + self._offsets[far])

    def _pairs(self, direction: str) -> tuple[Ints, Ints]:
        near, far = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for name in self.edge_types:
            edge = self._data.catalog.edge(name)
            adjacency = self._data.adjacency((name,), direction, distinct=False)
            ends = (edge.source, edge.target) if direction == OUT else (edge.target, edge.source)
            degrees = np.diff(adjacency.starts)
            near.append(np.repeat(np.arange(len(degrees), dtype=np.int64), degrees) + self._offsets[ends[0]])
            far.append(np.asarray(adjacency.targets, np.int64) + self._offsets[ends[1]])
        return np.concatenate(near), np.concatenate(far)

    def ids(self) -> pa.Array:
        """The id of each node."""
        return pa.concat_arrays([self._ids(name).cast(pa.string()) for name in self.node_types])

    def _ids(self, type_name: str) -> pa.Array:
        return self._data.property_column(self._data.catalog.node(type_name), "id")

    def table(self, name: str, values: Values) -> pa.Table:
        """A result: type, id and a value of every node."""
        counts = [self._data.nodes[node].count for node in self.node_types]
        kinds = pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts)), pa.array(list(self.node_types))
        )
        return pa.table({"type": kinds.cast(pa.string()), "id": self.ids(), name: pa.array(values)})

    def number_of(self, type_name: str | None, node_id: IdValue) -> int:
        """The number of a node; the type may be left out where ids are not shared between types."""
        if type_name is not None:
            type_name = self._data.catalog.node(type_name).name
        for name in (type_name,) if type_name is not None else self.node_types:
            if name in self._offsets:
                try:
                    text = id_text(self._data.catalog.node(name), node_id)
                except InvalidArgument:  # a value that is no key of this type may be one of another
                    if type_name is not None:
                        raise
                    continue
                place = self._ids(name).index(text).as_py()
                if place >= 0:
                    return int(place) + int(self._offsets[name])
        raise NotFound(f"no {type_name or 'node'} has the id {shown(node_id)}", hint="sources are ids of nodes")


def _compressed(source: Ints, target: Ints, node_count: int) -> Rows:
    if len(source) and (source[1:] < source[:-1]).any():
        order = np.argsort(source, kind="stable")
        source, target = source[order], target[order]
    starts = np.zeros(node_count + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=node_count), out=starts[1:])
    return Rows(starts, target)
