"""The parsed form of a `.pg` text, declaration by declaration, with places.      (text -> parser -> AST -> catalog)

Nodes are frozen and hold the text as written, not its meaning: injected properties, implied indexes and sorted enum
values appear in the catalog only.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.datatypes import PropertyType
from omnigraph.errors import Span


@dataclass(frozen=True, slots=True)
class Name:
    """A name and where it stands. `at` marks an endpoint written `@src` or `@dst`."""

    text: str
    span: Span
    at: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number or truth value."""

    value: str | int | float | bool
    span: Span


@dataclass(frozen=True, slots=True)
class Bounds:
    """`low..high`; a missing side is open."""

    low: int | float | None
    high: int | float | None
    span: Span


@dataclass(frozen=True, slots=True)
class Keyword:
    """`name=literal` inside an annotation."""

    name: Name
    value: Literal
    span: Span


Argument = Name | Literal | Bounds | Keyword


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name` or `@name(...)`; `arguments` is None without parentheses."""

    name: str
    arguments: tuple[Argument, ...] | None
    span: Span

    @property
    def positional(self) -> tuple[Name | Literal | Bounds, ...]:
        """The arguments that are not `name=value`."""
        return tuple(a for a in self.arguments or () if not isinstance(a, Keyword))

    @property
    def keywords(self) -> tuple[Keyword, ...]:
        """The `name=value` arguments."""
        return tuple(a for a in self.arguments or () if isinstance(a, Keyword))


@dataclass(frozen=True, slots=True)
class PropertyDecl:
    """`name: Type @annotation...`; enum values and vector dimensions as written, not yet checked."""

    name: Name
    type: PropertyType
    type_span: Span
    annotations: tuple[Annotation, ...] = ()

    def annotation(self, name: str) -> Annotation | None:
        """The first annotation of that name."""
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(frozen=True, slots=True)
class InterfaceDecl:
    """`interface Name { ... }`."""

    name: Name
    annotations: tuple[Annotation, ...]
    properties: tuple[PropertyDecl, ...]
    constraints: tuple[Annotation, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """`node Name implements A, B { ... }`; `constraints` are the annotations about the whole type."""

    name: Name
    annotations: tuple[Annotation, ...]
    implements: tuple[Name, ...]
    properties: tuple[PropertyDecl, ...]
    constraints: tuple[Annotation, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class EdgeDecl:
    """`edge Name: Source -> Target @card(m..n) { ... }`."""

    name: Name
    source: Name
    target: Name
    annotations: tuple[Annotation, ...]
    properties: tuple[PropertyDecl, ...]
    constraints: tuple[Annotation, ...]
    span: Span


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One parsed text. `source` and `path` are kept so that later errors can quote the line."""

    declarations: tuple[Declaration, ...]
    source: str
    path: str | None = None

    @property
    def interfaces(self) -> tuple[InterfaceDecl, ...]:
        """The interfaces, in written order."""
        return tuple(d for d in self.declarations if isinstance(d, InterfaceDecl))

    @property
    def nodes(self) -> tuple[NodeDecl, ...]:
        """The node types, in written order."""
        return tuple(d for d in self.declarations if isinstance(d, NodeDecl))

    @property
    def edges(self) -> tuple[EdgeDecl, ...]:
        """The edge types, in written order."""
        return tuple(d for d in self.declarations if isinstance(d, EdgeDecl))
