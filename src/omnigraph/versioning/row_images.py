"""The rows of one type that differ between two states, each with its exact image before and after.

A schema change can change rows without writing them: a property that is added with a default, or restored, gives every
row a value, and one that is dropped removes it. An image shows the properties of its own side, with the names of the
newer side for those that both have. A property that one side does not have counts as null when rows are compared, so
adding a nullable property changes no row, and neither does a rename or a wider type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from omnigraph.datatypes import PropertyType
from omnigraph.errors import Unsupported
from omnigraph.schema.catalog import EntityType, Property
from omnigraph.schema.evolve_properties import WIDER
from omnigraph.versioning.diff import Pinned, Row, TableDelta, has_restored, is_unchanged, public_names, table_delta
from omnigraph.versioning.store import GraphStore

_OLDER = " (before)"
Image = tuple[str, str, Row | None, Row | None]


@dataclass(frozen=True)
class ChangedRows:
    """The rows of one type that differ, in a shape that both sides have in common.

    `names_before` and `names_after` map public names of that shape to the names in an image of each side.
    """

    delta: TableDelta
    names_before: Mapping[str, str]
    names_after: Mapping[str, str]


def changed_images(
    store: GraphStore, before: Pinned | None, after: Pinned | None, *, lineal: bool = False
) -> Iterator[Image]:
    """Id, operation and both images of every row that differs, by id. `lineal`: `after` descends from `before`."""
    found = changed_rows(store, before, after, lineal=lineal)
    if found is not None:
        for entity_id, op, old, new in found.delta.images():
            yield entity_id, op, _shown(old, found.names_before), _shown(new, found.names_after)


def changed_rows(
    store: GraphStore, before: Pinned | None, after: Pinned | None, *, lineal: bool = False
) -> ChangedRows | None:
    """The rows that differ as tables, or None when no row can differ. `lineal`: `after` descends from `before`."""
    if before is None or after is None:
        one_side = before or after
        if one_side is None:
            return None
        names = {name: name for name in public_names(one_side.entity).values()}
        return ChangedRows(table_delta(store, before, after, one_side.entity, lineal=lineal), names, names)
    shapes = _Shapes(before.entity, after.entity, lineal)
    if is_unchanged(before.entry, after.entry) and not shapes.give_rows_other_values:
        return None
    delta = table_delta(store, before, after, shapes.common, exhaustive=shapes.give_rows_other_values, lineal=lineal)
    return ChangedRows(delta, shapes.names_before, shapes.names_after)


def can_differ(before: Pinned | None, after: Pinned | None) -> bool:
    """Whether any row of a type can differ between two pins; reads nothing."""
    if before is None or after is None:
        return before is not after
    shapes = _Shapes(before.entity, after.entity, lineal=True)
    return not is_unchanged(before.entry, after.entry) or shapes.give_rows_other_values


def _shown(row: Row | None, names: Mapping[str, str]) -> Row | None:
    """A row of the common shape with the properties and names of its own side."""
    return None if row is None else {names[name]: value for name, value in row.items() if name in names}


@dataclass(frozen=True)
class _Shapes:
    """A type in two schemas, and a shape in which the rows of both can be compared.

    `lineal`: the newer schema was derived from the older one, so a nullable property that it adds had no values.
    """

    before: EntityType
    after: EntityType
    lineal: bool

    @cached_property
    def _old(self) -> Mapping[str, Property]:
        return {p.property_id: p for p in self.before.properties}

    @cached_property
    def _added(self) -> tuple[Property, ...]:
        return tuple(p for p in self.after.properties if p.property_id not in self._old)

    @cached_property
    def _dropped(self) -> tuple[Property, ...]:
        kept, taken = ({getattr(p, name) for p in self.after.properties} for name in ("property_id", "name"))
        gone = (p for p in self.before.properties if p.property_id not in kept)
        return tuple(replace(p, name=f"{p.name}{_OLDER}") if p.name in taken else p for p in gone)

    @property
    def give_rows_other_values(self) -> bool:
        """Whether rows that were not written may have different values on the two sides."""
        filled = any(not self.lineal or p.default is not None or not p.type.nullable for p in self._added)
        return filled or bool(self._dropped) or has_restored(self.before, self.after)

    @cached_property
    def names_before(self) -> Mapping[str, str]:
        """Names in the common shape -> names in an image of the older side."""
        added = {p.name for p in self._added}
        carried = {p.name for p in self.after.properties} - added
        own = {name: name for name in public_names(self.common).values() if name not in added}
        plain = {p.name: p.name.removesuffix(_OLDER) for p in self._dropped}
        return own | {name: was for name, was in plain.items() if was not in carried}

    @cached_property
    def names_after(self) -> Mapping[str, str]:
        """Names in the common shape -> names in an image of the newer side."""
        return {name: name for name in public_names(self.after).values()}

    @cached_property
    def common(self) -> EntityType:
        """The newer type with the properties of both sides; a property that one side lacks is null there."""
        if self.before.properties == self.after.properties:
            return self.after
        own = (replace(p, type=self._common_type(p)) for p in self.after.properties)
        return replace(self.after, properties=tuple(map(_optional, (*own, *self._dropped))))

    def _common_type(self, prop: Property) -> PropertyType:
        """The wider one of the types that a property has on the two sides."""
        was = self._old.get(prop.property_id, prop).type
        if was.to_arrow() == prop.type.to_arrow() or prop.type.scalar in WIDER.get(was.scalar, ()):
            return prop.type
        if was.scalar in WIDER.get(prop.type.scalar, ()):
            return was
        raise Unsupported(
            f"{self.after.name}.{prop.name} is {was} on one side and {prop.type} on the other: "
            "their values cannot be compared",
            hint="export both states and compare the files",
        )


def _optional(prop: Property) -> Property:
    return replace(prop, default=None, type=replace(prop.type, nullable=True))
