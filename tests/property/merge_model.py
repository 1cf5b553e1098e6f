"""A graph as dictionaries, and three-way merging of schemas and rows by definition: whole states, no files, no deltas.

Types and properties have identities of the model's own. Rows hold values by property identity, so a rename moves
nothing, and whoever lacks a property reads its default.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Conflict = tuple[str, str, str | None]
ENDS = ("src", "dst")


@dataclass(frozen=True)
class Prop:
    """A property as its text says it."""

    name: str
    scalar: str
    nullable: bool = True
    default: Any = None
    is_key: bool = False

    def text(self, was: str) -> str:
        notes = " @key" if self.is_key else ""
        if self.default is not None:
            notes += f' @default("{self.default}")' if isinstance(self.default, str) else f" @default({self.default})"
        notes += f' @rename_from("{was}")' if was != self.name else ""
        return f"    {self.name}: {self.scalar}{'?' if self.nullable else ''}{notes}"


@dataclass(frozen=True)
class Type:
    """A node type, or an edge type with the identities of its ends."""

    name: str
    props: dict[str, Prop] = field(default_factory=dict)
    ends: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        return f"{'node' if self.ends is None else 'edge'}:{self.name}"


Types = dict[str, Type]


@dataclass
class State:
    """What one commit holds: types by identity, and their rows by id."""

    types: Types = field(default_factory=dict)
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        return sorted(i for i, t in self.types.items() if t.ends is None)

    @property
    def edges(self) -> list[str]:
        return sorted(i for i, t in self.types.items() if t.ends is not None)

    def public(self) -> dict[str, dict[str, Row]]:
        """By the names that users see."""
        found = {}
        for i, each in self.types.items():
            names = {p: each.props[p].name for p in each.props} | {end: end for end in ENDS if each.ends}
            found[each.key] = {k: {names[p]: row[p] for p in names} for k, row in self.rows[i].items()}
        return found


def text(types: Types, before: Types) -> str:
    """The schema that leads from one set of types to another, with hints for what has another name now."""
    parts = []
    for i, each in types.items():
        was = before.get(i, each)
        hint = f' @rename_from("{was.name}")' if was.name != each.name else ""
        if each.ends is None:
            head = f"node {each.name}{hint}"
        else:
            head = f"edge {each.name}: {types[each.ends[0]].name} -> {types[each.ends[1]].name}{hint}"
        lines = [p.text(was.props.get(k, p).name) for k, p in each.props.items()]
        parts.append("\n".join((f"{head} {{", *lines, "}")))
    return "\n".join(parts)


def shaped(row: Row | None, shape: Type) -> Row | None:
    """A row as a type shows it: a property that the row's writer did not know has its default."""
    if row is None:
        return None
    ends = {end: row[end] for end in ENDS if shape.ends}
    return ends | {i: row.get(i, p.default) for i, p in shape.props.items()}


class Clash(Exception):
    """Two schemas that exclude each other."""


MISSING = object()


def one_of(base: Any, ours: Any, theirs: Any) -> Any:
    """The value of whoever changed it."""
    if ours == theirs or base == theirs:
        return ours
    if base == ours:
        return theirs
    raise Clash


def merged_parts(base: Any, ours: Any, theirs: Any, join: Any) -> dict[str, Any]:
    """Three dictionaries by identity; what all have, or both added, is joined by its own rule."""
    found = {}
    for i in {**ours, **theirs}:
        b, o, t = (side.get(i) for side in (base, ours, theirs))
        each = one_of(b, o, t) if o is None or t is None else join(b, o, t)
        if each is not None:
            found[i] = each
    return found


def merged_fields(base: Any, ours: Any, theirs: Any, names: tuple[str, ...]) -> Any:
    changed = {n: one_of(getattr(base, n, MISSING), getattr(ours, n), getattr(theirs, n)) for n in names}
    return replace(ours, **changed)


def merged_prop(base: Prop | None, ours: Prop, theirs: Prop) -> Any:
    return merged_fields(base, ours, theirs, ("name", "scalar", "nullable", "default"))


def merged_type(base: Type | None, ours: Type, theirs: Type) -> Any:
    props = merged_parts(base.props if base else {}, ours.props, theirs.props, merged_prop)
    return replace(merged_fields(base, ours, theirs, ("name",)), props=props)


def merged_types(base: State, ours: State, theirs: State) -> Types:
    """The schema after a merge, or `Clash`."""
    types = merged_parts(base.types, ours.types, theirs.types, merged_type)
    keys = [each.key for each in types.values()]
    if len(keys) != len(set(keys)):
        raise Clash
    for each in types.values():
        names = [p.name for p in each.props.values()]
        if len(names) != len(set(names)) or (each.ends and not set(each.ends) <= types.keys()):
            raise Clash
    for i in base.types.keys() - types.keys():  # dropped by one: the other must not have touched its rows
        for side in (ours, theirs):
            shape = side.types.get(i)
            if shape and side.rows[i] != {k: shaped(row, shape) for k, row in base.rows[i].items()}:
                raise Clash
    return types


@dataclass
class Merge:
    """One merge: both changes, by definition; where they exclude each other `side` decides, or ours stands in."""

    base: State
    ours: State
    theirs: State
    side: str | None
    result: State = field(default_factory=State)
    conflicts: set[Conflict] = field(default_factory=set)

    def run(self) -> tuple[State, set[Conflict]]:
        if self.base is self.ours:
            return self.theirs, set()
        self.result.types = merged_types(self.base, self.ours, self.theirs)
        sides = (self.base, self.ours, self.theirs)
        self.base, self.ours, self.theirs = (self._in_shape(side) for side in sides)
        arriving = {(i, k) for i in self.result.types for k in self._merge_rows(i)}
        self._settle_orphans(arriving)
        return self.result, self.conflicts

    def _in_shape(self, state: State) -> State:
        rows = {
            i: {k: shaped(row, shape) for k, row in state.rows.get(i, {}).items()}
            for i, shape in self.result.types.items()
        }
        return State(self.result.types, rows)

    def _merge_rows(self, i: str) -> list[str]:
        """Merge the rows of one type; which of them are the source's."""
        base, ours, theirs = self.base.rows[i], self.ours.rows[i], self.theirs.rows[i]
        found = self.result.rows[i] = {}
        arriving = []
        for k in {*base, *ours, *theirs}:
            b, o, t = base.get(k), ours.get(k), theirs.get(k)
            chosen = o
            if b != t and o != t:
                chosen = t
                if b != o:
                    name = "DivergentInsert" if b is None else "DeleteVsUpdate" if None in (o, t) else "DivergentUpdate"
                    self.conflicts.add((name, self.result.types[i].name, k))
                    chosen = t if self.side == "theirs" else o
            if chosen is not None:
                found[k] = chosen
                if chosen != o:
                    arriving.append(k)
        return arriving

    def _settle_orphans(self, arriving: set[tuple[str, str]]) -> None:
        for i, k in self._orphans(arriving, True):
            if self.side == "ours":
                del self.result.rows[i][k]
                arriving.discard((i, k))
                if k in self.ours.rows[i]:
                    self.result.rows[i][k] = self.ours.rows[i][k]
            elif self.side == "theirs":
                self._revive(i, k, self.base)
        for i, k in self._orphans(arriving, False):
            if self.side == "theirs":
                del self.result.rows[i][k]
            elif self.side == "ours":
                self._revive(i, k, self.ours)

    def _orphans(self, arriving: set[tuple[str, str]], expected: bool) -> list[tuple[str, str]]:
        found = [
            (i, k)
            for i in self.result.edges
            for k in sorted(self.result.rows[i])
            if ((i, k) in arriving) == expected and self._lost(i, k)
        ]
        self.conflicts |= {("OrphanEdge", self.result.types[i].name, k) for i, k in found}
        return found

    def _lost(self, i: str, k: str) -> list[tuple[str, str]]:
        """The ends of an edge that are not there."""
        row, ends = self.result.rows[i][k], self.result.types[i].ends or ()
        pairs = [(node, row[end]) for node, end in zip(ends, ENDS, strict=True)]
        return [(node, key) for node, key in pairs if key not in self.result.rows[node]]

    def _revive(self, i: str, k: str, source: State) -> None:
        for node, key in self._lost(i, k):
            self.result.rows[node][key] = source.rows[node][key]
