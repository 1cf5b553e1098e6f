"""Compare the constraints of one type before and after. Added ones are checked against the data on apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from omnigraph.schema import steps
from omnigraph.schema.catalog import Cardinality, EdgeType, EntityType, Index
from omnigraph.schema.steps import Step, unsupported_steps

Names = Mapping[str, str]


def constraint_steps(kind: str, old: EntityType, new: EntityType, names: Names) -> Iterator[Step]:
    """Return the steps for keys, uniques, ranges, checks, cardinality and indexes. `names` maps old names to new."""
    if {names.get(n, n) for n in old.key} != set(new.key):
        yield unsupported_steps(new.table_key, "@key cannot change: it is what entities are known by")
    kept = {p.name for p in old.properties if p.name in names}
    shown = {"type_kind": kind, "type_name": new.name}
    before, after = dict(_texts(old, lambda n: names.get(n, n), kept)), dict(_texts(new, lambda n: n, None))
    for text in sorted(set(before) - set(after)):
        yield Step(steps.DROP_CONSTRAINT, {**shown, "constraint": text})
    for text in sorted(set(after) - set(before)):
        yield Step(steps.ADD_CONSTRAINT, {**shown, "constraint": text})


def added_constraints(old: EntityType, new: EntityType) -> EntityType:
    """Return the new type with only the constraints that the old one did not have, to be checked on its rows."""
    by_id = {p.property_id: p.name for p in new.properties}
    names = {p.name: by_id[p.property_id] for p in old.properties if p.property_id in by_id}
    known = {text for text, _ in _texts(old, lambda n: names.get(n, n), set(names))}
    kept = replace(
        new,
        uniques=tuple(g for g in new.uniques if _group("unique", g) not in known),
        ranges=tuple(r for r in new.ranges if _range(r.property, r.min, r.max) not in known),
        checks=tuple(c for c in new.checks if _check(c.property, c.pattern) not in known),
    )
    if isinstance(kept, EdgeType) and _card(kept.cardinality) in known:
        return replace(kept, cardinality=Cardinality())
    return kept


def without_constraints(entity: EntityType) -> EntityType:
    """Return the type without constraints that are checked on rows."""
    bare = replace(entity, uniques=(), ranges=(), checks=())
    return replace(bare, cardinality=Cardinality()) if isinstance(bare, EdgeType) else bare


def joined_constraints(entity: EntityType, several: Iterable[EntityType]) -> EntityType:
    """Return the type with the constraints that any of the given ones has."""
    joined = without_constraints(entity)
    for each in several:
        joined = replace(
            joined,
            uniques=tuple(sorted({*joined.uniques, *each.uniques})),
            ranges=tuple(dict.fromkeys((*joined.ranges, *each.ranges))),
            checks=tuple(dict.fromkeys((*joined.checks, *each.checks))),
        )
        if isinstance(joined, EdgeType) and isinstance(each, EdgeType) and each.cardinality != Cardinality():
            joined = replace(joined, cardinality=each.cardinality)
    return joined


def _texts(each: EntityType, named: Callable[[str], str], kept: set[str] | None) -> Iterator[tuple[str, str]]:
    """Return every constraint as text, in the names of the new type, without those of dropped properties."""

    def lives(properties: Iterable[str]) -> bool:
        return kept is None or all(n in kept or n in ("src", "dst") for n in properties)

    found: list[str] = []
    found.extend(_group("unique", map(named, g)) for g in each.uniques if lives(g))
    found.extend(_index(i, named) for i in each.indexes if lives(i.properties) and set(i.properties) != set(each.key))
    found.extend(_range(named(r.property), r.min, r.max) for r in each.ranges if lives([r.property]))
    found.extend(_check(named(c.property), c.pattern) for c in each.checks if lives([c.property]))
    if isinstance(each, EdgeType) and each.cardinality != Cardinality():
        found.append(_card(each.cardinality))
    return ((text, text) for text in found)


def _group(name: str, properties: Iterable[str]) -> str:
    return f"@{name}({', '.join(sorted(properties))})"


def _index(index: Index, named: Callable[[str], str]) -> str:
    metric = f', metric="{index.metric}"' if index.metric else ""
    return f"@index({', '.join(map(named, index.properties))}{metric})"


def _range(name: str, low: float | None, high: float | None) -> str:
    return f"@range({name}, {'' if low is None else low}..{'' if high is None else high})"


def _check(name: str, pattern: str) -> str:
    return f'@check({name}, "{pattern}")'


def _card(card: Cardinality) -> str:
    return f"@card({card.min}..{'' if card.max is None else card.max})"
