"""The types inside a catalog: node types, edge types and their properties, as the rest of the library uses them.

Values only. `catalog` builds them from a schema and looks them up, `codec` writes and reads them as JSON. A property
has two names: `name` is public and may change by a rename, `column` is the physical one and never does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.datatypes import PropertyType
from omnigraph.errors import UnknownField
from omnigraph.schema.names import suggest

Literal = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation that the engine does not interpret, kept as written. A positional value is kept as text."""

    name: str
    value: str | None = None
    arguments: tuple[tuple[str, Literal], ...] = ()


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """The String property that a vector is computed from, and the model that computes it."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """A wanted index: property names (`src` and `dst` too on edges) and the distance of a vector index."""

    properties: tuple[str, ...]
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a numeric property; None is open; null values are exempt."""

    property: str
    min: int | float | None
    max: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """A pattern a String property must contain (RE2 syntax, unanchored); null values are exempt."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of a type one source node may have; `max` None is unbounded."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """One property. `default` is the Python value for rows without one (`date`, UTC `datetime` for dates)."""

    property_id: str
    name: str
    column: str
    type: PropertyType
    default: Any | None = None
    annotations: tuple[Annotation, ...] = ()
    description: str | None = None
    embed: EmbedSpec | None = None
    # A hint to the migration planner, no part of the contract: two catalogs are equal without it.
    rename_from: str | None = field(default=None, compare=False)

    @property
    def arrow_field(self) -> pa.Field:
        """Return the physical column."""
        return pa.field(self.column, self.type.to_arrow(), nullable=self.type.nullable)


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """A named set of properties that node types share. It has no table, so its properties have no ids."""

    name: str
    properties: tuple[Property, ...]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[Index, ...] = ()

    def property(self, name: str) -> Property:
        """Return the property of that public name."""
        return _find(self.properties, name, f"interface {self.name}", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A node type: one table of nodes. `key` holds property names in property-id order; empty means unkeyed.

    `hidden` are properties that were dropped softly, oldest first: their columns may still be in the table.
    """

    type_id: str
    name: str
    properties: tuple[Property, ...]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[Index, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    implements: tuple[str, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()
    hidden: tuple[Property, ...] = ()
    rename_from: str | None = field(default=None, compare=False)
    arrow_schema: pa.Schema = field(init=False, compare=False, repr=False)
    """The physical table: `id`, then one column per property."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow_schema", _schema(("id",), self.properties))

    @property
    def kind(self) -> str:
        """Return `node`."""
        return "node"

    @property
    def table_key(self) -> str:
        """Return the name of its table in a manifest."""
        return f"node:{self.name}"

    def property(self, name: str) -> Property:
        """Return the property of that public name."""
        return _find(self.properties, name, self.name, self.table_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeType:
    """An edge type: one table of edges. A key is `src`, `dst`, then property names in property-id order."""

    type_id: str
    name: str
    source: str
    target: str
    properties: tuple[Property, ...]
    cardinality: Cardinality = Cardinality()
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[Index, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()
    hidden: tuple[Property, ...] = ()
    rename_from: str | None = field(default=None, compare=False)
    arrow_schema: pa.Schema = field(init=False, compare=False, repr=False)
    """The physical table: `id`, `src`, `dst`, then one column per property."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow_schema", _schema(("id", "src", "dst"), self.properties))

    @property
    def kind(self) -> str:
        """Return `edge`."""
        return "edge"

    @property
    def table_key(self) -> str:
        """Return the name of its table in a manifest."""
        return f"edge:{self.name}"

    def property(self, name: str) -> Property:
        """Return the property of that public name."""
        return _find(self.properties, name, self.name, self.table_key)


EntityType = NodeType | EdgeType


def later_column(name: str, property_id: str) -> str:
    """Return the column of a property added after the table was created: a name that no column of the table ever had.

    >>> later_column("age", "01HZZZ")
    'age__01hzzz'
    """
    return f"{name}__{property_id.lower()}"


def _schema(system: Iterable[str], properties: tuple[Property, ...]) -> pa.Schema:
    fields = [pa.field(name, pa.string(), nullable=False) for name in system]
    return pa.schema([*fields, *(each.arrow_field for each in properties)])


def _find(properties: tuple[Property, ...], name: str, owner: str, type_key: str | None) -> Property:
    for each in properties:
        if each.name == name:
            return each
    raise UnknownField(
        f"{owner} has no property `{name}`",
        type_key=type_key,
        field=name,
        hint=suggest(name, (each.name for each in properties)),
    )
