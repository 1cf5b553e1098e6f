"""Compute the steps from an accepted schema to a new text, and the catalog after them.

Types and properties keep their identity by name, or by `@rename_from` where the name is new. Identity decides what is
carried over. What was dropped softly and is declared again, of the same shape, is restored with its rows, unless it is
named in `fresh`. Pure: `Kept` provides the dropped rows of a graph, and the apply reads data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph.errors import SchemaError
from omnigraph.schema import codec, steps
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
from omnigraph.schema.dropped import Kept, MigrationOptions, NothingKept
from omnigraph.schema.evolve_constraints import constraint_steps
from omnigraph.schema.evolve_properties import evolve_properties
from omnigraph.schema.steps import Step, unsupported_steps

E = TypeVar("E", NodeType, EdgeType)
_DEFAULTS = MigrationOptions()
_NOTHING = NothingKept()
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Migration:
    """The change from one catalog to another. `source` is the text of the new one.

    `restored` are types that come back, by id, as they were when they were dropped.
    """

    before: Catalog
    after: Catalog
    steps: tuple[Step, ...]
    source: str
    restored: Mapping[str, EntityType] = field(default_factory=dict)

    @property
    def supported(self) -> bool:
        """Return whether every step can be applied."""
        return all(step.is_supported for step in self.steps)

    def digest(self, base: str) -> str:
        """Names the plan: the schema it begins with, by the hash of its contract, its steps, and what it ends with."""
        body = {"base": base, "steps": [step.identity for step in self.steps], "shape": self.after.shape_hash}
        return codec.sha256(body)[:_DIGEST_LENGTH]

    def is_same_change(self, other: Migration) -> bool:
        """Return whether both take the same steps from equal types, although their schemas may differ."""
        return [s.identity for s in self.steps] == [s.identity for s in other.steps] and self._touched == other._touched

    @property
    def _touched(self) -> list[EntityType]:
        """Return the types that the steps change, as they were."""
        about = {step.fields.get(name) for step in self.steps for name in ("name", "type_name", "from")}
        return [each for each in self.before.entity_types if each.name in about]

    def pairs(self) -> Iterator[tuple[EntityType | None, EntityType | None]]:
        """Return every type before and after, matched by identity."""
        old = {t.type_id: t for t in self.before.entity_types}
        new = {t.type_id: t for t in self.after.entity_types}
        for type_id in {**new, **old}:
            yield old.get(type_id), new.get(type_id)


def plan_migration(
    current: Catalog, text: str, mint: Mint, path: str | None = None, *,
    options: MigrationOptions = _DEFAULTS, kept: Kept = _NOTHING,
) -> Migration:  # fmt: skip
    """Compare a schema text with the accepted catalog. Raises `SchemaError` for an invalid text."""
    wanted = compile_schema(text, mint, path)
    if not (wanted.nodes or wanted.edges or wanted.interfaces):
        raise SchemaError("the schema declares no type", path=path, hint="check that this is the file you meant")
    found = [*_interface_steps(current.interfaces, wanted.interfaces)]
    planner = _Planner(mint, options, kept)
    node_names = _matches("node", current.nodes, wanted.nodes)
    nodes, node_steps = planner.evolve("node", current.nodes, wanted.nodes, node_names)
    planner.node_ids = {name: each.type_id for name, each in nodes.items()}
    edge_names = _matches("edge", current.edges, wanted.edges)
    edges, edge_steps = planner.evolve("edge", current.edges, wanted.edges, edge_names)
    found.extend(node_steps)
    renamed = {old: new for new, old in node_names.items()}
    found.extend(_endpoint_steps(current.edges, edges, edge_names, renamed))
    found.extend(edge_steps)
    return Migration(current, Catalog(nodes, edges, wanted.interfaces), tuple(found), text, planner.restored)


def _matches(kind: str, old: Mapping[str, EntityType], new: Mapping[str, EntityType]) -> dict[str, str]:
    """Map new name to old name for every type that is carried over. An equal name takes precedence over a hint."""
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


class _Planner:
    """One comparison: the options, the dropped rows of the graph, and the restored types."""

    def __init__(self, mint: Mint, options: MigrationOptions, kept: Kept) -> None:
        self._mint = mint
        self._options = options
        self._kept = kept
        self.node_ids: Mapping[str, str] = {}
        self.restored: dict[str, EntityType] = {}

    def evolve(
        self, kind: str, old: Mapping[str, E], new: Mapping[str, E], matched: Mapping[str, str]
    ) -> tuple[dict[str, E], list[Step]]:
        """Return the types after the change, and the steps."""
        result: dict[str, E] = {}
        found: list[Step] = []
        for name, each in sorted(new.items()):
            was = old[matched[name]] if name in matched else None
            made = self._add_type(kind, each) if was is None else self._evolve_type(kind, was, each)
            result[name] = made[0]
            found.extend(made[1])
        mode = steps.HARD if self._options.allow_data_loss else steps.SOFT
        for name in sorted(set(old) - set(matched.values())):
            found.append(Step(steps.DROP_TYPE, {"type_kind": kind, "name": name, "mode": mode}))  # noqa: PERF401
        return result, found

    def _add_type(self, kind: str, new: E) -> tuple[E, list[Step]]:
        """Add a type of a new name: restored when one of that name and shape was dropped, otherwise empty."""
        _refuse_borrowed_identity(new)
        shown = {"type_kind": kind, "name": new.name}
        dropped = None if new.name in self._options.fresh else self._kept.dropped_type(new.table_key)
        old = dropped.entity if dropped is not None and isinstance(dropped.entity, type(new)) else None
        if dropped is None or old is None:
            return new, [Step(steps.ADD_TYPE, shown)]
        made = self._evolve_type(kind, old, new)
        after: E = made[0]
        own: list[Step] = made[1]
        ends = (self.node_ids[new.source], self.node_ids[new.target]) if isinstance(new, EdgeType) else ()
        if dropped.ends != ends or any(not step.is_supported or step.dropped for step in own):
            return new, [Step(steps.ADD_TYPE, shown)]
        if dropped.rows is None:
            note = f"the rows of the {new.name} that was dropped have been reclaimed by cleanup"
            return new, [Step(steps.ADD_TYPE, {**shown, "note": note})]
        self.restored[after.type_id] = dropped.entity
        return after, [Step(steps.RESTORE_TYPE, {**shown, "rows": dropped.rows}), *own]

    def _evolve_type(self, kind: str, old: E, new: E) -> tuple[E, list[Step]]:
        found: list[Step] = []
        if old.name != new.name:
            found.append(Step(steps.RENAME_TYPE, {"type_kind": kind, "from": old.name, "to": new.name}))
        if isinstance(old, NodeType) and isinstance(new, NodeType) and set(old.implements) != set(new.implements):
            found.append(unsupported_steps(new.table_key, "the list of interfaces cannot change"))
        found.extend(_metadata_steps(kind, old, new))
        changed = evolve_properties(kind, old, new, self._mint, self._options, self._kept)
        found.extend(changed.steps)
        names = changed.names
        after = replace(
            new,
            type_id=old.type_id,
            properties=changed.properties,
            hidden=changed.hidden,
            key=tuple(names.get(n, n) for n in old.key) if _same_key(old, new, names) else new.key,
            uniques=_ordered(new, changed.properties),
        )
        found.extend(constraint_steps(kind, old, after, names))
        return after, found


def _refuse_borrowed_identity(each: EntityType) -> None:
    for prop in each.properties:
        if prop.rename_from is not None:
            raise SchemaError(f"{each.name}.{prop.name}: a new type cannot take a property over from elsewhere")


def _same_key(old: EntityType, new: EntityType, names: Mapping[str, str]) -> bool:
    return {names.get(n, n) for n in old.key} == set(new.key)


def _ordered(new: EntityType, properties: tuple[Property, ...]) -> tuple[tuple[str, ...], ...]:
    """Return unique groups with their members in the order of property ids, ends of edges first."""
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
        yield unsupported_steps(new.table_key, "annotations that the engine does not know cannot change")


def _endpoint_steps(
    old: Mapping[str, EdgeType], new: Mapping[str, EdgeType], matched: Mapping[str, str], renamed: Mapping[str, str]
) -> Iterator[Step]:
    for name, was in sorted(matched.items()):
        before, after = old[was], new[name]
        ends = tuple(renamed.get(end, end) for end in (before.source, before.target))
        if ends != (after.source, after.target):
            yield unsupported_steps(after.table_key, "the ends of an edge type cannot change")


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
            yield unsupported_steps(f"interface:{name}", "a property of an interface cannot be dropped")
    for name in sorted(set(old) - set(new)):
        yield unsupported_steps(f"interface:{name}", "an interface cannot be dropped or renamed")
