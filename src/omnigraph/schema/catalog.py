"""The accepted schema: types, stable ids, physical columns.                    (text -> parser -> ast -> CATALOG)

A `Catalog` is built once from a checked schema and never edited. Ids come from the injected `mint`, so the package
itself stays without clock and randomness. Two hashes identify a catalog: `shape_hash` its meaning, `contract_hash` its
ids as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.datatypes import PropertyType
from omnigraph.errors import TypeNotFound
from omnigraph.schema import ast, codec
from omnigraph.schema.checks import check_schema
from omnigraph.schema.model import (
    Annotation,
    Cardinality,
    Check,
    EdgeType,
    EmbedSpec,
    EntityType,
    Index,
    InterfaceType,
    NodeType,
    Property,
    Range,
    later_column,
)
from omnigraph.schema.names import ENDPOINTS, KNOWN_ANNOTATIONS, suggest
from omnigraph.schema.resolve import Interfaces, all_properties, default_value, groups, text_value

__all__ = [
    "Annotation",
    "Cardinality",
    "Catalog",
    "Check",
    "EdgeType",
    "EmbedSpec",
    "EntityType",
    "Index",
    "InterfaceType",
    "Mint",
    "NodeType",
    "Property",
    "Range",
    "build_catalog",
    "compile_schema",
    "later_column",
]

Mint = Callable[[], str]
"""Returns a new ULID at every call."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All types of one schema, by name."""

    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    interfaces: Mapping[str, InterfaceType]

    def node(self, name: str) -> NodeType:
        """Return the node type of that name."""
        if name in self.nodes:
            return self.nodes[name]
        raise TypeNotFound(f"there is no node type `{name}`", hint=self._hint(name, self.nodes))

    def edge(self, name: str) -> EdgeType:
        """Return the edge type of that name; case is ignored, so `knows` finds `Knows`."""
        if name in self.edges:
            return self.edges[name]
        for each in self.edges.values():
            if each.name.lower() == name.lower():
                return each
        raise TypeNotFound(f"there is no edge type `{name}`", hint=self._hint(name, self.edges))

    def interface(self, name: str) -> InterfaceType:
        """Return the interface of that name."""
        if name in self.interfaces:
            return self.interfaces[name]
        raise TypeNotFound(f"there is no interface `{name}`", hint=self._hint(name, self.interfaces))

    def implementers(self, interface: str) -> tuple[NodeType, ...]:
        """Return the node types that implement an interface, by name."""
        return tuple(each for each in self.nodes.values() if interface in each.implements)

    def entity(self, name: str) -> EntityType:
        """Return the node type, or else the edge type, of a name; `node:Person` and `edge:Knows` are unambiguous."""
        kind, colon, rest = name.partition(":")
        if colon and kind in ("node", "edge"):
            return self.node(rest) if kind == "node" else self.edge(rest)
        if name in self.nodes:
            return self.nodes[name]
        if any(each.lower() == name.lower() for each in self.edges):
            return self.edge(name)
        hint = suggest(name, [*self.nodes, *self.edges])
        raise TypeNotFound(f"there is no node type and no edge type `{name}`", hint=hint)

    def type_of(self, table_key: str) -> EntityType:
        """Return the type of `node:Person` or `edge:Knows`."""
        kind, _, name = table_key.partition(":")
        if kind == "node" and name in self.nodes:
            return self.nodes[name]
        if kind == "edge" and name in self.edges:
            return self.edges[name]
        known = (each.table_key for each in self.entity_types)
        raise TypeNotFound(f"there is no type `{table_key}`", hint=suggest(table_key, known))

    @property
    def entity_types(self) -> Iterator[EntityType]:
        """Return node types, then edge types, each by name."""
        yield from (self.nodes[name] for name in sorted(self.nodes))
        yield from (self.edges[name] for name in sorted(self.edges))

    @property
    def shape_hash(self) -> str:
        """Return the hash of the schema's meaning: no ids, no order, no comments, no rename hints."""
        body = self.to_json()
        return codec.sha256({kind: [codec.shape(each) for each in body[kind]] for kind in sorted(body)})

    @property
    def contract_hash(self) -> str:
        """Return the hash of the whole contract, ids included."""
        return codec.sha256(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the catalog as JSON values."""
        return {
            "nodes": [codec.node_to_json(self.nodes[name]) for name in sorted(self.nodes)],
            "edges": [codec.edge_to_json(self.edges[name]) for name in sorted(self.edges)],
            "interfaces": [codec.interface_to_json(self.interfaces[name]) for name in sorted(self.interfaces)],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Catalog:
        """Decode the output of `to_json`. Rules are not checked again: an accepted schema stays readable."""
        nodes = (codec.node_from_json(each) for each in body["nodes"])
        edges = (codec.edge_from_json(each) for each in body["edges"])
        interfaces = (codec.interface_from_json(each) for each in body["interfaces"])
        return cls(
            {each.name: each for each in nodes},
            {each.name: each for each in edges},
            {each.name: each for each in interfaces},
        )

    def _hint(self, name: str, known: Mapping[str, Any]) -> str | None:
        for kind, others in (("node type", self.nodes), ("edge type", self.edges), ("interface", self.interfaces)):
            if others is not known and name in others:
                return f"`{name}` is an {kind}" if kind[0] in "ei" else f"`{name}` is a {kind}"
        return suggest(name, known)


def compile_schema(text: str, mint: Mint, path: str | None = None) -> Catalog:
    """Parse, check and build in one step.

    >>> from itertools import count
    >>> ids = count(1)
    >>> catalog = compile_schema("node Person { name: String @key }", lambda: f"{next(ids):026}")
    >>> catalog.node("Person").key
    ('name',)
    """
    from omnigraph.schema.parser import parse_schema  # imports a grammar that readers of stored schemas do not need

    return build_catalog(parse_schema(text, path), mint)


def build_catalog(schema: ast.SchemaFile, mint: Mint) -> Catalog:
    """Build the catalog of a new graph. Raises the first SchemaError of the text if there is any."""
    errors = check_schema(schema)
    if errors:
        raise errors[0]
    interfaces = {each.name.text: each for each in schema.interfaces}
    nodes = sorted(schema.nodes, key=lambda each: each.name.text)
    edges = sorted(schema.edges, key=lambda each: each.name.text)
    return Catalog(
        {each.name.text: _node(each, interfaces, mint) for each in nodes},
        {each.name.text: _edge(each, mint) for each in edges},
        {name: _interface(interfaces[name]) for name in sorted(interfaces)},
    )


def _node(declaration: ast.NodeDecl, interfaces: Interfaces, mint: Mint) -> NodeType:
    return NodeType(
        implements=tuple(sorted(each.text for each in declaration.implements)),
        **_entity(declaration, all_properties(declaration, interfaces), mint),
    )


def _edge(declaration: ast.EdgeDecl, mint: Mint) -> EdgeType:
    card = next((each for each in declaration.annotations if each.name == "card"), None)
    bounds = card.positional[0] if card else None
    cardinality = Cardinality()
    if isinstance(bounds, ast.Bounds):
        cardinality = Cardinality(int(bounds.low or 0), None if bounds.high is None else int(bounds.high))
    return EdgeType(
        source=declaration.source.text,
        target=declaration.target.text,
        cardinality=cardinality,
        **_entity(declaration, declaration.properties, mint),
    )


def _interface(declaration: ast.InterfaceDecl) -> InterfaceType:
    properties = tuple(_property(each, "") for each in declaration.properties)
    return InterfaceType(declaration.name.text, properties, **_groups(declaration, declaration.properties))


def _entity(
    declaration: ast.NodeDecl | ast.EdgeDecl, properties: tuple[ast.PropertyDecl, ...], mint: Mint
) -> dict[str, Any]:
    type_id = mint()
    # Sorted once more, so that ids sort like names even if the mint is not monotonic within a millisecond.
    ids = dict(zip(sorted(p.name.text for p in properties), sorted(mint() for _ in properties), strict=True))
    return {
        "type_id": type_id,
        "name": declaration.name.text,
        "properties": tuple(_property(each, ids[each.name.text]) for each in properties),
        **_groups(declaration, properties),
        "ranges": _ranges(declaration),
        "checks": _checks(declaration),
        "description": _text(declaration.annotations, "description"),
        "instruction": _text(declaration.annotations, "instruction"),
        "annotations": _annotations(declaration.annotations),
        "rename_from": _text(declaration.annotations, "rename_from"),
    }


def _property(declaration: ast.PropertyDecl, property_id: str) -> Property:
    written = declaration.type
    values = None if written.values is None else tuple(sorted(written.values))
    default = declaration.annotation("default")
    embed = declaration.annotation("embed")
    model = next((str(k.value.value) for k in embed.keywords if k.name.text == "model"), None) if embed else None
    return Property(
        property_id=property_id,
        name=declaration.name.text,
        column=declaration.name.text,
        type=PropertyType(written.scalar, written.nullable, written.is_list, written.dimension, values),
        default=default_value(written, default.positional[0]) if default else None,
        annotations=_annotations(declaration.annotations),
        description=_text(declaration.annotations, "description"),
        embed=EmbedSpec(text_value(embed) or "", model) if embed else None,
        rename_from=_text(declaration.annotations, "rename_from"),
    )


def _groups(declaration: ast.Declaration, properties: tuple[ast.PropertyDecl, ...]) -> dict[str, Any]:
    """Return keys, uniques and indexes. In a new graph name order is property-id order: ids sort like names."""
    key: tuple[str, ...] = ()
    uniques: set[tuple[str, ...]] = set()
    indexes: dict[tuple[str, ...], str | None] = {}
    for group in groups(declaration, properties):
        names = tuple(name.text for name in group.names)
        if group.kind == "key":
            key = _by_id(names, declaration)
        elif group.kind == "unique":
            uniques.add(_by_id(names, declaration))
        else:
            metric = next((str(k.value.value) for k in group.annotation.keywords), None)
            indexes[names] = metric or indexes.get(names)
    if key:
        indexes.setdefault(key, None)
    return {
        "key": key,
        "uniques": tuple(sorted(uniques)),
        "indexes": tuple(Index(names, indexes[names]) for names in sorted(indexes)),
    }


def _by_id(names: tuple[str, ...], declaration: ast.Declaration) -> tuple[str, ...]:
    ends = ENDPOINTS if isinstance(declaration, ast.EdgeDecl) else ()
    return (*(end for end in ends if end in names), *sorted(name for name in names if name not in ends))


def _ranges(declaration: ast.NodeDecl | ast.EdgeDecl) -> tuple[Range, ...]:
    found = []
    for annotation in declaration.constraints:
        match annotation.name, annotation.positional:
            case "range", (ast.Name(text=name), ast.Bounds(low=low, high=high)):
                found.append(Range(name, low, high))
    return tuple(found)


def _checks(declaration: ast.NodeDecl | ast.EdgeDecl) -> tuple[Check, ...]:
    found = []
    for annotation in declaration.constraints:
        match annotation.name, annotation.positional:
            case "check", (ast.Name(text=name), ast.Literal(value=str() as pattern)):
                found.append(Check(name, pattern))
    return tuple(found)


def _annotations(written: tuple[ast.Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(each.name, text_value(each), tuple((k.name.text, k.value.value) for k in each.keywords))
        for each in written
        if each.name not in KNOWN_ANNOTATIONS
    )


def _text(written: tuple[ast.Annotation, ...], name: str) -> str | None:
    found = next((each for each in written if each.name == name), None)
    return text_value(found) if found else None
