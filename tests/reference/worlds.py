"""Small random schemas with rows: colliding ids, parallel edges, self-loops, nulls, every kind of value."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from itertools import count
from typing import Any

from omnigraph import Graph
from omnigraph.schema.catalog import Catalog, compile_schema
from tests.reference.data import PlainGraph, plain_graph

MOMENTS = [dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=dt.UTC)]

# Every property has one type wherever it occurs, so that interfaces and edge alternatives share some.
POOLS: dict[str, tuple[str, list[Any]]] = {
    "num": ("I32", [-3, -1, 0, 1, 2, 5, 7]),
    "big": ("I64", [-1, 0, 2, 5, 10**12, 2**53, 2**53 + 1]),
    "huge": ("U64", [0, 5, 2**63, 2**64 - 1]),
    "size": ("U32", [0, 1, 2, 9]),
    "ratio": ("F64", [-1.5, -0.0, 0.0, 0.25, 2.0, 7.5]),
    "single": ("F32", [0.1, 0.25, -2.5, 2.0]),
    "word": ("String", ["", "alpha", "alp", "Beta", "a b", "100%", "n1", 'q"\\u', "é", "😀", "\uffee"]),
    "flag": ("Bool", [True, False]),
    "day": ("Date", [dt.date(2024, 1, 31), dt.date(2023, 5, 1), dt.date(1969, 7, 20)]),
    "moment": ("DateTime", MOMENTS),
    "tags": ("[String]", [[], ["alpha"], ["alpha", "Beta"], ["n1", "n1"]]),
    "codes": ("[I32]", [[], [1], [2, 5], [0, 7, -3]]),
    "color": ("enum(blue, green, red)", ["red", "green", "blue"]),
}
EDGE_POOLS = ["num", "ratio", "word", "day", "flag"]
IDS = ["n0", "n1", "n2", "n3", "n4", "n5"]


@dataclass(frozen=True)
class World:
    """A schema, rows in the batches they are loaded in, nodes deleted after that, and what is left."""

    schema: str
    batches: list[list[dict[str, Any]]]
    deleted: list[tuple[str, str]]
    catalog: Catalog
    plain: PlainGraph

    def create(self, uri: str) -> Graph:
        """The same as a stored graph."""
        graph = Graph.init(uri, self.schema)
        for batch in self.batches:
            if batch:
                graph.load(batch, mode="append")
        for type_name, node_id in self.deleted:
            graph.delete(type_name, [node_id])
        return graph

    def describe(self) -> str:
        """Schema and rows to read, and to paste."""
        lines = [self.schema]
        for batch in self.batches:
            lines += ["load:", *(f"  {row}" for row in batch)]
        return "\n".join([*lines, f"delete: {self.deleted}"])


def make_world(rng: random.Random) -> World:
    schema = _schema(rng)
    ids = count(1)
    catalog = compile_schema(schema, lambda: f"{next(ids):026}")
    rows = _rows(rng, catalog)
    plain = plain_graph(rows, catalog)
    deleted = _deleted(rng, plain, catalog)
    return World(schema, _batches(rng, rows), deleted, catalog, plain)


def _schema(rng: random.Random) -> str:
    types = ["Person", "Company", "Place"][: rng.randint(1, 3)]
    lines = []
    implementers: list[str] = []
    if rng.random() < 0.6:
        lines.append("interface Thing { name: String @key  num: I32?  word: String? }")
        implementers = rng.sample(types, rng.randint(1, len(types)))
    for name in types:
        given = {"num", "word"} if name in implementers else set()
        own = [each for each in rng.sample(list(POOLS), rng.randint(2, 6)) if each not in given]
        key = "" if name in implementers else "name: String @key  "
        heading = f"node {name}{' implements Thing' if name in implementers else ''}"
        lines.append(f"{heading} {{ {key}{'  '.join(_property(rng, each) for each in own)} }}")
    for index, name in enumerate(["Knows", "Follows", "Owns", "Near"][: rng.randint(1, 4)]):
        source = rng.choice(types)
        target = source if index == 0 or rng.random() < 0.4 else rng.choice(types)
        own = rng.sample(EDGE_POOLS, rng.randint(0, 3))
        lines.append(f"edge {name}: {source} -> {target} {{ {'  '.join(_property(rng, each) for each in own)} }}")
    return "\n".join(lines)


def _property(rng: random.Random, name: str) -> str:
    return f"{name}: {POOLS[name][0]}{rng.choice(['?', '?', ''])}"


def _rows(rng: random.Random, catalog: Catalog) -> list[dict[str, Any]]:
    rows = []
    for node in catalog.nodes.values():
        for node_id in rng.sample(IDS, rng.choice([0, 1, 3, 4, 5, 5, 6, 6, 6])):
            rows.append({"type": node.name, "data": {"name": node_id, **_values(rng, node.properties)}})
    for edge in catalog.edges.values():
        sources = [row["data"]["name"] for row in rows if row.get("type") == edge.source]
        targets = [row["data"]["name"] for row in rows if row.get("type") == edge.target]
        for number in range(rng.choice([0, 4, 8, 12, 12]) if sources and targets else 0):
            data = {"id": f"{edge.name[0].lower()}{number}", **_values(rng, edge.properties)}
            rows.append({"edge": edge.name, "from": rng.choice(sources), "to": rng.choice(targets), "data": data})
    return rows


def _values(rng: random.Random, properties: Any) -> dict[str, Any]:
    found = {}
    for each in properties:
        if each.name in POOLS and not (each.type.nullable and rng.random() < 0.3):
            found[each.name] = rng.choice(POOLS[each.name][1])
    return found


def _batches(rng: random.Random, rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Nodes before the edges that need them, in one to three loads."""
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 2)))
    return [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def _deleted(rng: random.Random, plain: PlainGraph, catalog: Catalog) -> list[tuple[str, str]]:
    """Sometimes a node goes again, and its edges with it."""
    everyone = [(name, each) for name, nodes in plain["nodes"].items() for each in nodes]
    if not everyone or rng.random() < 0.7:
        return []
    type_name, node_id = rng.choice(everyone)
    del plain["nodes"][type_name][node_id]
    for edge in catalog.edges.values():
        plain["edges"][edge.name] = [
            each
            for each in plain["edges"][edge.name]
            if (edge.source, each["src"]) != (type_name, node_id) and (edge.target, each["dst"]) != (type_name, node_id)
        ]
    return [(type_name, node_id)]
