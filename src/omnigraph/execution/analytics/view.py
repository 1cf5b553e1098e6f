"""The part of a snapshot that an algorithm runs on: some edge types, and the node types at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.errors.base import show_value
from omnigraph.execution.analytics.algorithms import IN, OUT, SIMPLE
from omnigraph.execution.analytics.blocks import Floats, Ints, LocalRunner, Rows, Values
from omnigraph.execution.analytics.weights import checked_weights, weight_column
from omnigraph.execution.arrow.data import GraphData
from omnigraph.schema.identity import IdValue, id_text


class GraphView:
    """Nodes of the types involved, numbered from 0 by type name and then in the table's order.

    `weight` names the property of every edge type that weighs its edges.
    """

    def __init__(self, data: GraphData, edge_types: tuple[str, ...], weight: str | None = None) -> None:
        self.data = data
        self.edge_types = tuple(sorted({data.catalog.edge(name).name for name in edge_types}))
        self.weight = weight
        edges = [data.catalog.edge(name) for name in self.edge_types]
        for edge in edges:
            if weight is not None:
                weight_column(edge, weight)
        self.node_types = tuple(sorted({name for edge in edges for name in (edge.source, edge.target)}))
        counts = [data.nodes[name].count for name in self.node_types]
        self.offsets = dict(zip(self.node_types, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
        self.node_count = sum(counts)
        self.rows = lru_cache(maxsize=None)(self._rows)

    def local(self) -> LocalRunner:
        """Return a runner in this process."""
        return LocalRunner(self.rows)

    def _rows(self, direction: str) -> Rows:
        """Return the compressed rows of one direction: out, in, both, or simple."""
        if direction in (OUT, IN):
            if len(self.edge_types) == 1:
                return self._stored(direction)
            return _compressed(*self._pairs(direction), self.node_count)
        source, target, weights = self._pairs(OUT)
        first, second = np.concatenate([source, target]), np.concatenate([target, source])
        if direction != SIMPLE:
            twice = None if weights is None else np.concatenate([weights, weights])
            return _compressed(first, second, twice, self.node_count)
        apart = first != second
        width = max(self.node_count, 1)
        first, second = np.divmod(np.unique(first[apart] * width + second[apart]), width)
        return _compressed(first, second, None, self.node_count)

    def _stored(self, direction: str) -> Rows:
        """Return the cached adjacency of the single edge type, in the numbering of the view."""
        [name] = self.edge_types
        edge = self.data.catalog.edge(name)
        adjacency = self.data.adjacency((name,), direction, distinct=False)
        near, far = (edge.source, edge.target) if direction == OUT else (edge.target, edge.source)
        weights = self._weights(name, adjacency.edges)
        starts = np.asarray(adjacency.starts, np.int64)
        before = self.offsets[near]
        after = self.node_count + 1 - before - len(starts)
        if len(self.node_types) == 1:
            return Rows(starts, adjacency.targets, weights)
        padded = np.concatenate([np.zeros(before, np.int64), starts, np.full(after, starts[-1])])
        return Rows(padded, np.asarray(adjacency.targets, np.int64) + self.offsets[far], weights)

    def _pairs(self, direction: str) -> tuple[Ints, Ints, Floats | None]:
        """Return both ends of every edge, with its weight: by type, then by the end that comes first, then number."""
        near, far = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        weights = [np.empty(0, np.float64)]
        for name in self.edge_types:
            edge = self.data.catalog.edge(name)
            adjacency = self.data.adjacency((name,), direction, distinct=False)
            ends = (edge.source, edge.target) if direction == OUT else (edge.target, edge.source)
            degrees = np.diff(adjacency.starts)
            near.append(np.repeat(np.arange(len(degrees), dtype=np.int64), degrees) + self.offsets[ends[0]])
            far.append(np.asarray(adjacency.targets, np.int64) + self.offsets[ends[1]])
            mine = self._weights(name, adjacency.edges)
            weights += [] if mine is None else [mine]
        weighed = None if self.weight is None else np.concatenate(weights)
        return np.concatenate(near), np.concatenate(far), weighed

    def _weights(self, edge_type: str, numbers: Values) -> Floats | None:
        """Return the weights of some edges of a type."""
        if self.weight is None:
            return None
        edge = self.data.catalog.edge(edge_type)

        def ends(row: int) -> tuple[str, str]:
            source, target = (self.data.property_column(edge, name)[row].as_py() for name in ("src", "dst"))
            return source, target

        weights = checked_weights(self.data.property_column(edge, self.weight), edge, self.weight, ends)
        return weights[numbers]

    def ids(self) -> pa.Array:
        """Return the id of each node."""
        return pa.concat_arrays([self._ids(name).cast(pa.string()) for name in self.node_types])

    def _ids(self, type_name: str) -> pa.Array:
        return self.data.property_column(self.data.catalog.node(type_name), "id")

    def table(self, values: Mapping[str, Values]) -> pa.Table:
        """Return a result table: type, id and some values of every node."""
        counts = [self.data.nodes[node].count for node in self.node_types]
        kinds = pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts)), pa.array(list(self.node_types))
        )
        columns = {name: pa.array(each) for name, each in values.items()}
        return pa.table({"type": kinds.cast(pa.string()), "id": self.ids(), **columns})

    def number_of(self, type_name: str | None, node_id: IdValue) -> int:
        """Return the number of a node; the type may be left out where ids are not shared between types."""
        if type_name is not None:
            type_name = self.data.catalog.node(type_name).name
        for name in (type_name,) if type_name is not None else self.node_types:
            if name in self.offsets:
                try:
                    text = id_text(self.data.catalog.node(name), node_id)
                except InvalidArgument:  # a value that is no key of this type may be one of another
                    if type_name is not None:
                        raise
                    continue
                place = self._ids(name).index(text).as_py()
                if place >= 0:
                    return int(place) + int(self.offsets[name])
        raise NotFound(f"no {type_name or 'node'} has the id {show_value(node_id)}", hint="sources are ids of nodes")


def _compressed(source: Ints, target: Ints, weights: Floats | None, node_count: int) -> Rows:
    if len(source) and (source[1:] < source[:-1]).any():
        order = np.argsort(source, kind="stable")
        source, target = source[order], target[order]
        weights = None if weights is None else weights[order]
    starts = np.zeros(node_count + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=node_count), out=starts[1:])
    return Rows(starts, target, weights)
