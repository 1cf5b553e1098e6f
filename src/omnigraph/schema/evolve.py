"""From an accepted schema to a new text: which steps lead there, and the catalog after them.

Types and properties keep their identity by name, or by `@rename_from` where the name is new. Identity decides what is
carried over: a property that is dropped and added again is another property. Pure: data is looked at by the apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from omnigraph.errors import SchemaError
from omnigraph.schema import steps
from omnigraph.schema.catalog import (
    Catalog,
    EdgeType,
    EntityType,
    InterfaceType,
    Mint,
    NodeType,
    Property,
    compile_schema,
)
from omnigraph.schema.evolve_constraints import constraint_steps
from omnigraph.schema.evolve_properties import evolve_properties
from omnigraph.schema.steps import Step, unsupported

E = TypeVar("E", NodeType, EdgeType)


@dataclass(frozen=True, slots=True)
class Migration:
    """The way from one catalog to another. `source` is the text of the new one."""

    before: Catalog
    after: Catalog
    steps: tuple[Step, ...]
    source: str

    @property
    def supported(self) -> bool:
        """True when every step can be taken."""
        return all(step.is_supported for step in self.steps)

    def pairs(self) -> Iterator[tuple[EntityType | None, EntityType | None]]:
        """Every type before and after, matched by identity."""
        old = {t.type_id: t for t in self.before.entity_types}
        new = {t.type_id: t for t in self.after.entity_types}
        for type_id in {**new, **old}:
            yield old.get(type_id), new.get(type_id)


def plan_migration(
    current: Catalog, text: str, mint: Mint, path: str | None = None, *, allow_data_loss: bool = False
) -> Migration:
    """Compare a schema text with the accepted catalog. Raises for a text that is wrong in itself."""
    wanted = compile_schema(text, mint, path)
    mode = steps.HARD if allow_data_loss else steps.SOFT
    found = [*_interface_steps(current.interfaces, wanted.interfaces)]
    node_names = _matches("node", current.nodes, wanted.nodes)
    nodes, node_steps = _evolve("node", current.nodes, wanted.nodes, node_names, mint, mode)
    edge_names = _matches("edge", current.edges, wanted.edges)
    edges, edge_steps = _evolve("edge", current.edges, wanted.edges, edge_names, mint, mode)
    found.extend(node_steps)
    renamed = {old: new for new, old in node_names.items()}
    found.extend(_endpoint_steps(current.edges, edges, edge_names, renamed))
    found.extend(edge_steps)
    return Migration(current, Catalog(nodes, edges, wanted.interfaces), tuple(found), text)


def _matches(kind: str, old: Mapping[str, EntityType], new: Mapping[str, EntityType]) -> dict[str, str]:
    """New name -> old name of every type that is carried over. The name itself beats a hint."""
    matched = {name: name for name in new if name in old}
    used = set(matched.values())
    for name, each in new.items():
        hint = each.rename_from
        if name in matched or hint is None:
            continue
        if hint not in old:
            raise SchemaError(f"{kind} {name} is renamed from `{hint}`, which the graph does not have")
        if hint in used:
            raise SchemaError(f"two {kind} types would come from `{hint}`")
        matched[name] = hint
        used.add(hint)
    return matched


def _evolve(
    kind: str, old: Mapping[str, E], new: Mapping[str, E], matched: Mapping[str, str], mint: Mint, mode: str
) -> tuple[dict[str, E], list[Step]]:
    result: dict[str, E] = {}
    found: list[Step] = []
    for name, each in sorted(new.items()):
        if name not in matched:
            _refuse_borrowed_identity(each)
            result[name] = each
            found.append(Step(steps.ADD_TYPE, {"type_kind": kind, "name": name}))
            continue
        result[name], own = _evolve_type(kind, old[matched[name]], each, mint, mode)
        found.extend(own)
    for name in sorted(set(old) - set(matched.values())):
        found.append(Step(steps.DROP_TYPE, {"type_kind": kind, "name": name, "mode": mode}))  # noqa: PERF401
    return result, found


def _refuse_borrowed_identity(each: EntityType) -> None:
    for prop in each.properties:
        if prop.rename_from is not None:
            raise SchemaError(f"{each.name}.{prop.name}: a new type cannot take a property over from elsewhere")


def _evolve_type(kind: str, old: E, new: E, mint: Mint, mode: str) -> tuple[E, list[Step]]:
    found: list[Step] = []
    if old.name != new.name:
        found.append(Step(steps.RENAME_TYPE, {"type_kind": kind, "from": old.name, "to": new.name}))
    if isinstance(old, NodeType) and isinstance(new, NodeType) and set(old.implements) != set(new.implements):
        found.append(unsupported(new.table_key, "the list of interfaces cannot change"))
    found.extend(_metadata_steps(kind, old, new))
    properties, names, own = evolve_properties(kind, old, new, mint, mode)
    found.extend(own)
    after = replace(
        new,
        type_id=old.type_id,
        properties=properties,
        key=tuple(names.get(n, n) for n in old.key) if _same_key(old, new, names) else new.key,
        uniques=_ordered(new, properties),
    )
    found.extend(constraint_steps(kind, old, after, names))
    return after, found


def _same_key(old: EntityType, new: EntityType, names: Mapping[str, str]) -> bool:
    return {names.get(n, n) for n in old.key} == set(new.key)


def _ordered(new: EntityType, properties: tuple[Property, ...]) -> tuple[tuple[str, ...], ...]:
    """Unique groups with their members in the order of property ids, ends of edges first."""
    ids = {p.name: p.property_id for p in properties}
    groups = (tuple(sorted(group, key=lambda n: (n not in ("src", "dst"), ids.get(n, ""), n))) for group in new.uniques)
    return tuple(sorted(groups))


def _metadata_steps(kind: str, old: EntityType, new: EntityType) -> Iterator[Step]:
    changed = {
        name: getattr(new, name) for name in ("description", "instruction") if getattr(old, name) != getattr(new, name)
    }
    if changed:
        yield Step(steps.UPDATE_TYPE_METADATA, {"type_kind": kind, "name": new.name, "annotations": changed})
    if set(old.annotations) != set(new.annotations):
        yield unsupported(new.table_key, "annotations that the engine does not know cannot change")


def _endpoint_steps(
    old: Mapping[str, EdgeType], new: Mapping[str, EdgeType], matched: Mapping[str, str], renamed: Mapping[str, str]
) -> Iterator[Step]:
    for name, was in sorted(matched.items()):
        before, after = old[was], new[name]
        ends = tuple(renamed.get(end, end) for end in (before.source, before.target))
        if ends != (after.source, after.target):
            yield unsupported(after.table_key, "the ends of an edge type cannot change")


def _interface_steps(old: Mapping[str, InterfaceType], new: Mapping[str, InterfaceType]) -> Iterator[Step]:
    for name in sorted(new):
        if name not in old:
            yield Step(steps.ADD_TYPE, {"type_kind": "interface", "name": name})
            continue
        before, after = (
            {p.name: (p.type, p.default, p.embed) for p in each.properties} for each in (old[name], new[name])
        )
        for prop in after:
            if prop not in before:
                shown = {"type_kind": "interface", "type_name": name, "property_name": prop}
                yield Step(steps.ADD_PROPERTY, {**shown, "property_type": str(after[prop][0])})
        if any(prop not in after for prop in before):
            yield unsupported(f"interface:{name}", "a property of an interface cannot be dropped")
    for name in sorted(set(old) - set(new)):
        yield unsupported(f"interface:{name}", "an interface cannot be dropped or renamed")
