"""The properties of one type, before and after: carried over, renamed, widened, added or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import SchemaError
from omnigraph.schema import steps
from omnigraph.schema.catalog import EntityType, Mint, Property, later_column
from omnigraph.schema.steps import Step, unsupported

WIDER = {Scalar.I32: (Scalar.I64,), Scalar.U32: (Scalar.U64, Scalar.I64), Scalar.F32: (Scalar.F64,)}


def evolve_properties(
    kind: str, old: EntityType, new: EntityType, mint: Mint, mode: str
) -> tuple[tuple[Property, ...], dict[str, str], list[Step]]:
    """The properties after the change, old names -> new names of those carried over, and the steps."""
    before = {p.name: p for p in old.properties}
    matched = _matches(new, before)
    result: list[Property] = []
    found: list[Step] = []
    for prop in new.properties:
        if prop.name not in matched:
            result.append(replace(prop, column=later_column(prop.name, prop.property_id)))
            found.append(_added(kind, new, prop))
            continue
        was = before[matched[prop.name]]
        column = was.column
        if was.type != prop.type and _is_rewritten(was.type, prop.type):
            column = later_column(prop.name, mint())
        result.append(replace(prop, property_id=was.property_id, column=column))
        found.extend(_carried(kind, old, new, was, prop))
    for name in sorted(set(before) - set(matched.values())):
        found.append(_dropped(kind, old, new, name, mode))  # noqa: PERF401
    return tuple(result), {was: name for name, was in matched.items()}, found


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
        return unsupported(
            f"{new.table_key}.{prop.name}",
            f"`{prop.name}` is required, and rows that exist have no value for it; add `?` or @default(...)",
            steps.REQUIRED_ADD,
        )
    shown = {"type_kind": kind, "type_name": new.name, "property_name": prop.name}
    return Step(steps.ADD_PROPERTY, {**shown, "property_type": str(prop.type)})


def _dropped(kind: str, old: EntityType, new: EntityType, name: str, mode: str) -> Step:
    if name in old.key:
        return unsupported(f"{new.table_key}.{name}", "a property of the key cannot be dropped")
    return Step(steps.DROP_PROPERTY, {"type_kind": kind, "type_name": new.name, "property_name": name, "mode": mode})


def _carried(kind: str, old: EntityType, new: EntityType, was: Property, prop: Property) -> Iterator[Step]:
    shown = {"type_kind": kind, "type_name": new.name}
    if was.name != prop.name:
        yield Step(steps.RENAME_PROPERTY, {**shown, "from": was.name, "to": prop.name})
    yield from _type_steps(old, new, was, prop, shown)
    entity = f"{new.table_key}.{prop.name}"
    if set(was.annotations) != set(prop.annotations):
        yield unsupported(entity, "annotations that the engine does not know cannot change")
    if _embed(was, old) != _embed(prop, new, names={was.name: prop.name}):
        yield unsupported(entity, "@embed cannot change")
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
    """What a vector is computed from, by identity where a rename moved the source's name."""
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
    yield unsupported(f"{new.table_key}.{prop.name}", reason, steps.TYPE_CHANGE)


def _added_values(was: PropertyType, now: PropertyType) -> tuple[str, ...] | None:
    """The values that an enum gained; None when this is no widening of an enum."""
    if was.values is None or now.values is None or was.is_list != now.is_list:
        return None
    if not set(was.values) <= set(now.values) or (was.nullable and not now.nullable):
        return None
    return tuple(v for v in now.values if v not in was.values)


def _is_wider(was: PropertyType, now: PropertyType) -> bool:
    """Every value of the one is a value of the other."""
    if was.nullable and not now.nullable:
        return False
    if was.is_list != now.is_list or was.dimension != now.dimension or was.values != now.values:
        return False
    return was.scalar is now.scalar or now.scalar in WIDER.get(was.scalar, ())


def _is_rewritten(was: PropertyType, now: PropertyType) -> bool:
    """Whether a change of type needs a column of its own: another Arrow type does, more nulls or values do not."""
    return bool(was.to_arrow() != now.to_arrow())
