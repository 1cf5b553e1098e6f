"""Random schema changes with data, on branches, checked at every snapshot that was ever taken."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph import Graph

WIDER = {"I32": "I64", "F32": "F64", "U32": "U64"}
NEW_VALUES: dict[str, Any] = {"I32": 7, "I64": 2**40, "F32": 0.5, "F64": 0.25, "U32": 3, "U64": 2**60, "String": "t"}


@dataclass
class Prop:
    """A property as the text says it. `was` is the name it had when it was last applied."""

    name: str
    scalar: str
    nullable: bool = True
    default: Any = None
    was: str = ""

    def text(self) -> str:
        notes = "" if self.default is None else f" @default({_literal(self.default)})"
        notes += f' @rename_from("{self.was}")' if self.was != self.name else ""
        return f"    {self.name}: {self.scalar}{'?' if self.nullable else ''}{notes}"


@dataclass
class Model:
    """Types with properties, and rows by public names."""

    types: dict[str, list[Prop]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    made: int = 0

    def text(self) -> str:
        parts = []
        for name, props in sorted(self.types.items()):
            hint = f' @rename_from("{self.renamed[name]}")' if name in self.renamed else ""
            parts.append("\n".join((f"node {name}{hint} {{", "    k: String @key", *(p.text() for p in props), "}")))
        return "\n".join(parts)

    def applied(self) -> None:
        self.renamed.clear()
        for props in self.types.values():
            for prop in props:
                prop.was = prop.name

    def fresh(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def add_type(model: Model, chance: random.Random) -> None:
    name = model.fresh("T")
    scalar = chance.choice(sorted(NEW_VALUES))
    prop = model.fresh("p")
    model.types[name] = [Prop(prop, scalar, chance.random() < 0.5, None, prop)]
    model.rows[name] = {}


def add_property(model: Model, chance: random.Random) -> None:
    owner = chance.choice(sorted(model.types))
    scalar = chance.choice(sorted(NEW_VALUES))
    default = NEW_VALUES[scalar] if chance.random() < 0.6 else None
    name = model.fresh("p")
    model.types[owner].append(Prop(name, scalar, default is None or chance.random() < 0.5, default, name))
    for row in model.rows[owner].values():
        row[name] = default


def rename_property(model: Model, chance: random.Random) -> None:
    owner = chance.choice(sorted(model.types))
    if model.types[owner]:
        prop = chance.choice(model.types[owner])
        old, prop.name = prop.name, model.fresh("r")
        for row in model.rows[owner].values():
            row[prop.name] = row.pop(old)


def rename_type(model: Model, chance: random.Random) -> None:
    old = chance.choice(sorted(model.types))
    new = model.fresh("R")
    model.types[new], model.rows[new] = model.types.pop(old), model.rows.pop(old)
    model.renamed[new] = old


def drop_property(model: Model, chance: random.Random) -> None:
    owner = chance.choice(sorted(model.types))
    if model.types[owner]:
        prop = model.types[owner].pop(chance.randrange(len(model.types[owner])))
        for row in model.rows[owner].values():
            del row[prop.name]


def drop_type(model: Model, chance: random.Random) -> None:
    if len(model.types) > 1:
        name = chance.choice(sorted(model.types))
        del model.types[name], model.rows[name]


def widen(model: Model, chance: random.Random) -> None:
    owner = chance.choice(sorted(model.types))
    for prop in model.types[owner]:
        prop.scalar = WIDER.get(prop.scalar, prop.scalar)
        prop.nullable = prop.nullable or chance.random() < 0.5


CHANGES = [add_type, add_property, rename_property, rename_type, drop_property, drop_type, widen]


def write(graph: Graph, model: Model, chance: random.Random) -> None:
    owner = chance.choice(sorted(model.types))
    rows = {}
    for _ in range(chance.randrange(1, 4)):
        row: dict[str, Any] = {"k": f"k{chance.randrange(6)}"}
        for prop in model.types[owner]:
            value = NEW_VALUES[prop.scalar] if not prop.nullable or chance.random() < 0.7 else None
            row[prop.name] = prop.default if value is None else value
        rows[row["k"]] = row
    graph.load({owner: list(rows.values())}, "merge")
    model.rows[owner].update(rows)


def seen(graph: Graph, at: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
    found = {}
    for key in graph.snapshot(at).tables:
        rows = graph.rows(key, at).to_pylist()
        found[key.partition(":")[2]] = {r["id"]: {k: v for k, v in r.items() if k != "id"} for r in rows}
    return found


def run(seed: int, length: int) -> None:
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-schemas-"))
    try:
        model = Model()
        add_type(model, chance)
        graph = Graph.init(folder / "g", model.text())
        history: dict[str, Any] = {}
        for _ in range(length):
            if chance.random() < 0.5:
                write(graph, model, chance)
            else:
                chance.choice(CHANGES)(model, chance)
                graph.schema.apply(model.text(), allow_data_loss=chance.random() < 0.3, allow_drops=True)
                model.applied()
            if chance.random() < 0.2:
                graph = Graph.open(graph.uri)
            assert seen(graph) == model.rows
            history[graph.commits.head().graph_commit_id] = seen(graph)
            for commit, rows in history.items():
                assert seen(graph, commit) == rows, "an old snapshot reads differently"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=8, **QUIET)
@given(st.integers(0, 2**32))
def test_random_evolutions(seed: int) -> None:
    run(seed, 10)


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=100, **QUIET)
@given(st.integers(0, 2**32))
def test_a_hundred_random_evolutions(seed: int) -> None:
    run(seed, 16)
