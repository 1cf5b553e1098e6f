"""Random changes of a schema, on the model: each takes a state and leaves what the graph should show afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.property.merge_model import Prop, State, Type

WIDER: dict[str, tuple[str, ...]] = {"I32": ("I64",), "F32": ("F64",), "U32": ("U64", "I64")}
VALUES: dict[str, list[Any]] = {
    "I32": [1, 2, 3], "I64": [1, 2, 2**40], "U32": [1, 2, 3], "U64": [1, 2, 2**60], "F32": [0.5, 1.0],
    "F64": [0.25, 1.0], "String": ["", "x"],
}  # fmt: skip
Change = Callable[[State, random.Random], None]


def fresh(chance: random.Random) -> str:
    """An identity that no other branch makes up."""
    return f"{chance.getrandbits(64):x}"


def value(prop: Prop, chance: random.Random) -> Any:
    """Something that may be written. Nothing at all means the default."""
    given = chance.choice(VALUES[prop.scalar]) if not prop.nullable or chance.random() < 0.75 else None
    return prop.default if given is None else given


def _some(state: State, chance: random.Random) -> str:
    return chance.choice(sorted(state.types))


def _put(state: State, i: str, k: str, prop: Prop) -> None:
    props = {**state.types[i].props, k: prop}
    state.types[i] = replace(state.types[i], props=props)


def _named(taken: set[str], stem: str, chance: random.Random) -> str | None:
    """A name out of few, so that two branches choose the same at times."""
    free = [name for name in (f"{stem}{n}" for n in range(4)) if name not in taken]
    return chance.choice(free) if free else None


def add_property(state: State, chance: random.Random) -> None:
    i = _some(state, chance)
    scalar = chance.choice(["I32", "U32", "F32", "String"])
    default = chance.choice(VALUES[scalar]) if chance.random() < 0.5 else None
    name = _named({p.name for p in state.types[i].props.values()}, "p", chance)
    if name is not None:
        k = fresh(chance)
        _put(state, i, k, Prop(name, scalar, default is None or chance.random() < 0.5, default))
        for row in state.rows[i].values():
            row[k] = default


def rename_property(state: State, chance: random.Random) -> None:
    i = _some(state, chance)
    props = state.types[i].props
    name = _named({p.name for p in props.values()}, "p", chance)
    if props and name is not None:
        k = chance.choice(sorted(props))
        _put(state, i, k, replace(props[k], name=name))


def drop_property(state: State, chance: random.Random) -> None:
    i = _some(state, chance)
    props = dict(state.types[i].props)
    free = sorted(k for k, p in props.items() if not p.is_key)
    if free:
        k = chance.choice(free)
        del props[k]
        state.types[i] = replace(state.types[i], props=props)
        for row in state.rows[i].values():
            del row[k]


def widen(state: State, chance: random.Random) -> None:
    i = _some(state, chance)
    for k, prop in state.types[i].props.items():
        if not prop.is_key and chance.random() < 0.6:
            scalar = chance.choice((prop.scalar, *WIDER.get(prop.scalar, ())))
            _put(state, i, k, replace(prop, scalar=scalar, nullable=prop.nullable or chance.random() < 0.5))


def add_node(state: State, chance: random.Random) -> None:
    name = _named({state.types[i].name for i in state.nodes}, "N", chance)
    if name is not None:
        i = fresh(chance)
        props = {fresh(chance): Prop("k", "String", nullable=False, is_key=True), fresh(chance): Prop("p0", "I32")}
        state.types[i], state.rows[i] = Type(name, props), {}


def add_edge(state: State, chance: random.Random) -> None:
    name = _named({state.types[i].name for i in state.edges}, "E", chance)
    if name is not None:
        i = fresh(chance)
        ends = (chance.choice(state.nodes), chance.choice(state.nodes))
        state.types[i], state.rows[i] = Type(name, {fresh(chance): Prop("p0", "U32")}, ends), {}


def rename_type(state: State, chance: random.Random) -> None:
    i = _some(state, chance)
    kind = state.nodes if i in state.nodes else state.edges
    name = _named({state.types[k].name for k in kind}, "N" if i in state.nodes else "E", chance)
    if name is not None:
        state.types[i] = replace(state.types[i], name=name)


def drop_type(state: State, chance: random.Random) -> None:
    """With the edge types that end at it."""
    i = _some(state, chance)
    if i in state.nodes and len(state.nodes) == 1:
        return
    for k in (i, *(e for e in state.edges if i in (state.types[e].ends or ()))):
        state.types.pop(k, None)
        state.rows.pop(k, None)


CHANGES: list[Change] = [
    add_property, rename_property, drop_property, widen, add_node, add_edge, rename_type, drop_type,
]  # fmt: skip
WEIGHTS = (5, 3, 2, 4, 1, 1, 2, 1)
