"""The plain graph the interpreter reads, and what its variables are bound to.

`{"nodes": {type: {id: {property: value}}}, "edges": {type: [{"id", "src", "dst", "props"}]}}`; a property that is
missing is null. Values are those of Python: str, int, float, bool, `date`, UTC `datetime`, lists of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.schema.catalog import Catalog

PlainGraph = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node: ids are unique within a type only."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class EdgeRef:
    """A stored edge and the nodes it joins."""

    type: str
    id: str
    src: NodeRef
    dst: NodeRef


@dataclass(frozen=True, slots=True)
class PathRef:
    """A shortest path: its nodes, both ends included."""

    nodes: tuple[NodeRef, ...]

    @property
    def length(self) -> int:
        return len(self.nodes) - 1


Bound = NodeRef | EdgeRef | PathRef | None
Row = dict[str, Bound]


def plain_graph(envelopes: Iterable[dict[str, Any]], catalog: Catalog) -> PlainGraph:
    """The graph that loading these rows gives. Single-key nodes only; edges must name their id."""
    graph: PlainGraph = {"nodes": {name: {} for name in catalog.nodes}, "edges": {name: [] for name in catalog.edges}}
    for row in envelopes:
        if "type" in row:
            node = catalog.nodes[row["type"]]
            values = _stored(row["data"], {each.name: each.type for each in node.properties})
            identity = row["data"][node.key[0]] if node.key else row["data"]["id"]
            graph["nodes"][node.name][identity] = values
        else:
            edge = catalog.edges[row["edge"]]
            data = row.get("data", {})
            values = _stored(data, {each.name: each.type for each in edge.properties})
            graph["edges"][edge.name].append({"id": data["id"], "src": row["from"], "dst": row["to"], "props": values})
    return graph


def edges_of(graph: PlainGraph, catalog: Catalog, names: Iterable[str]) -> Iterator[EdgeRef]:
    """The stored edges of some types whose ends both exist."""
    for name in names:
        edge_type = catalog.edges[name]
        for edge in graph["edges"].get(name, []):
            src, dst = NodeRef(edge_type.source, edge["src"]), NodeRef(edge_type.target, edge["dst"])
            if has_node(graph, src) and has_node(graph, dst):
                yield EdgeRef(name, edge["id"], src, dst)


def has_node(graph: PlainGraph, node: NodeRef) -> bool:
    return node.id in graph["nodes"].get(node.type, {})


def property_of(graph: PlainGraph, bound: Bound, name: str) -> Any:
    """A property of a bound node or edge; of null it is null."""
    if bound is None:
        return None
    if isinstance(bound, NodeRef):
        return graph["nodes"][bound.type][bound.id].get(name)
    assert isinstance(bound, EdgeRef)
    found = next(each for each in graph["edges"][bound.type] if each["id"] == bound.id)
    return found["props"].get(name)


def _stored(data: dict[str, Any], types: dict[str, PropertyType]) -> dict[str, Any]:
    return {name: _as_stored(data[name], found) for name, found in types.items() if data.get(name) is not None}


def _as_stored(value: Any, found: PropertyType) -> Any:
    if isinstance(value, list):
        return [_as_stored(item, PropertyType(found.scalar)) for item in value]
    if found.scalar is Scalar.F32:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return float(value) if found.scalar is Scalar.F64 else value
