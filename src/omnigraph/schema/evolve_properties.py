"""Compare the properties of one type before and after: carried over, renamed, widened, added, restored or dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import SchemaError
from omnigraph.schema import steps
from omnigraph.schema.catalog import EntityType, Mint, Property, later_column
from omnigraph.schema.dropped import Kept, MigrationOptions
from omnigraph.schema.steps import Step, unsupported_steps

WIDER = {Scalar.I32: (Scalar.I64,), Scalar.U32: (Scalar.U64, Scalar.I64), Scalar.F32: (Scalar.F64,)}


@dataclass(frozen=True, slots=True)
class ChangedProperties:
    """The properties after a change, those hidden by it, and old names -> new names of those carried over."""

    properties: tuple[Property, ...]
    hidden: tuple[Property, ...]
    names: Mapping[str, str]
    steps: tuple[Step, ...]


def evolve_properties(
    kind: str, old: EntityType, new: EntityType, mint: Mint, options: MigrationOptions, kept: Kept
) -> ChangedProperties:
    """Match the properties of a type before and after, and list the steps between them."""
    before = {p.name: p for p in old.properties}
    matched = _matches(new, before)
    result: list[Property] = []
    found: list[Step] = []
    back: set[str] = set()
    for prop in new.properties:
        if prop.name in matched:
            was = before[matched[prop.name]]
            column = later_column(prop.name, mint()) if _is_rewritten(was.type, prop.type) else was.column
            result.append(replace(prop, property_id=was.property_id, column=column))
            found.extend(_carried(kind, old, new, was, prop))
            continue
        restored = _restored(kind, old, new, prop, options, kept)
        if restored is None:
            result.append(replace(prop, column=later_column(prop.name, prop.property_id)))
            found.append(_added(kind, new, prop))
            continue
        was, own = restored
        back.add(was.property_id)
        # The hidden column is nullable. A required property, or one of another type, gets a copy of its values.
        is_copied = not prop.type.nullable or _is_rewritten(was.type, prop.type)
        column = later_column(prop.name, mint()) if is_copied else was.column
        result.append(replace(prop, property_id=was.property_id, column=column))
        found.extend(own)
    mode = steps.HARD if options.allow_data_loss else steps.SOFT
    gone = sorted(set(before) - set(matched.values()))
    found.extend(_dropped(kind, old, new, name, mode) for name in gone)
    erased = [
        p for p in old.hidden if p.property_id not in back and mode == steps.HARD and _named(new, p, options.drop)
    ]
    found.extend(_dropped(kind, old, new, p.name, mode) for p in erased)
    hidden = [p for p in old.hidden if p.property_id not in back and p not in erased]
    hidden.extend(before[name] for name in gone if mode == steps.SOFT)
    names = {was: name for name, was in matched.items()}
    return ChangedProperties(tuple(result), tuple(hidden), names, tuple(found))


def _named(entity: EntityType, prop: Property, names: Collection[str]) -> bool:
    return f"{entity.name}.{prop.name}" in names


def _restored(
    kind: str, old: EntityType, new: EntityType, prop: Property, options: MigrationOptions, kept: Kept
) -> tuple[Property, list[Step]] | None:
    """Restore the property of that name that was dropped last, if its values fit the new type; return it and steps."""
    held = next((p for p in reversed(old.hidden) if p.name == prop.name), None)
    if held is None or _named(new, prop, options.fresh) or (held.type.nullable and not prop.type.nullable):
        return None
    was = replace(held, type=replace(held.type, nullable=prop.type.nullable))
    own = list(_carried(kind, old, new, was, prop))
    if any(not step.is_supported for step in own):
        return None
    values = kept.held_values(old, held)
    if values is None or not values.present:
        return None
    if values.absent and not prop.type.nullable and prop.default is None:
        return None
    shown = {"type_kind": kind, "type_name": new.name, "property_name": prop.name, "property_type": str(prop.type)}
    return was, [Step(steps.RESTORE_PROPERTY, {**shown, "rows": values.present}), *own]


def _matches(new: EntityType, before: Mapping[str, Property]) -> dict[str, str]:
    matched = {p.name: p.name for p in new.properties if p.name in before}
    used = set(matched.values())
    for prop in new.properties:
        hint = prop.rename_from
        if prop.name in matched or hint is None:
            continue
        if hint not in before:
            raise SchemaError(f"{new.name}.{prop.name} is renamed from `{hint}`, which {new.name} does not have")
        if hint in used:
            raise SchemaError(f"two properties of {new.name} would come from `{hint}`")
        matched[prop.name] = hint
        used.add(hint)
    return matched


def _added(kind: str, new: EntityType, prop: Property) -> Step:
    if not prop.type.nullable and prop.default is None:
        return unsupported_steps(
            f"{new.table_key}.{prop.name}",
            f"`{prop.name}` is required, and rows that exist have no value for it; add `?` or @default(...)",
            steps.REQUIRED_ADD,
        )
    shown = {"type_kind": kind, "type_name": new.name, "property_name": prop.name}
    return Step(steps.ADD_PROPERTY, {**shown, "property_type": str(prop.type)})


def _dropped(kind: str, old: EntityType, new: EntityType, name: str, mode: str) -> Step:
    if name in old.key:
        return unsupported_steps(f"{new.table_key}.{name}", "a property of the key cannot be dropped")
    return Step(steps.DROP_PROPERTY, {"type_kind": kind, "type_name": new.name, "property_name": name, "mode": mode})


def _carried(kind: str, old: EntityType, new: EntityType, was: Property, prop: Property) -> Iterator[Step]:
    shown = {"type_kind": kind, "type_name": new.name}
    if was.name != prop.name:
        yield Step(steps.RENAME_PROPERTY, {**shown, "from": was.name, "to": prop.name})
    yield from _type_steps(old, new, was, prop, shown)
    entity = f"{new.table_key}.{prop.name}"
    if set(was.annotations) != set(prop.annotations):
        yield unsupported_steps(entity, "annotations that the engine does not know cannot change")
    if _embed(was, old) != _embed(prop, new, names={was.name: prop.name}):
        yield unsupported_steps(entity, "@embed cannot change")
    changed = {
        name: getattr(prop, name) for name in ("description", "default") if getattr(was, name) != getattr(prop, name)
    }
    if changed:
        yield Step(
            steps.UPDATE_PROPERTY_METADATA, {**shown, "property_name": prop.name, "annotations": _texts(changed)}
        )


def _texts(changed: Mapping[str, object]) -> dict[str, object]:
    plain = (str, int, float, bool, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in changed.items()}


def _embed(prop: Property, owner: EntityType, names: Mapping[str, str] | None = None) -> object:
    """Return the source and the model of a vector's `@embed`, the source by its name before a rename."""
    if prop.embed is None:
        return None
    source = next((p for p in owner.properties if p.name == prop.embed.source), None)
    hint = source.rename_from if source is not None and names is not None else None
    return (hint or prop.embed.source, prop.embed.model)


def _type_steps(
    old: EntityType, new: EntityType, was: Property, prop: Property, shown: Mapping[str, str]
) -> Iterator[Step]:
    if was.type == prop.type:
        return
    named = {**shown, "property_name": prop.name}
    grown = _added_values(was.type, prop.type)
    if grown is not None:
        if grown:
            yield Step(steps.EXTEND_ENUM, {**named, "added_values": list(grown)})
        if was.type.nullable != prop.type.nullable:
            yield Step(steps.WIDEN_PROPERTY, {**named, "from": str(was.type), "to": str(prop.type)})
        return
    if _is_wider(was.type, prop.type) and not (was.type.scalar is Scalar.F32 and was.name in old.key):
        yield Step(steps.WIDEN_PROPERTY, {**named, "from": str(was.type), "to": str(prop.type)})
        return
    reason = f"the type cannot change from {was.type} to {prop.type}"
    yield unsupported_steps(f"{new.table_key}.{prop.name}", reason, steps.TYPE_CHANGE)


def _added_values(was: PropertyType, now: PropertyType) -> tuple[str, ...] | None:
    """Return the values added to an enum; None when the change is not a widening of an enum."""
    if was.values is None or now.values is None or was.is_list != now.is_list:
        return None
    if not set(was.values) <= set(now.values) or (was.nullable and not now.nullable):
        return None
    return tuple(v for v in now.values if v not in was.values)


def _is_wider(was: PropertyType, now: PropertyType) -> bool:
    """Return whether every value of the one type is a value of the other."""
    if was.nullable and not now.nullable:
        return False
    if was.is_list != now.is_list or was.dimension != now.dimension or was.values != now.values:
        return False
    return was.scalar is now.scalar or now.scalar in WIDER.get(was.scalar, ())


def _is_rewritten(was: PropertyType, now: PropertyType) -> bool:
    """Return whether a change of type needs a new column: another Arrow type does, more nulls or values do not."""
    return bool(was.to_arrow() != now.to_arrow())
