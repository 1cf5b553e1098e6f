"""The canonical text of a schema: `ast.SchemaFile -> text` and `Catalog -> text`, the inverse of the parser.

One member a line, properties before constraints, four spaces, a blank line between declarations. Comments are no part
of the ast and do not survive. A formatted text compiles to the same catalog as its source.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

from omnigraph.errors import Span
from omnigraph.schema import ast
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.model import Annotation, Cardinality, EdgeType, InterfaceType, NodeType, Property

_NOWHERE = Span(1, 1)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def format_schema(file: ast.SchemaFile) -> str:
    """Write a parsed schema in canonical form, declarations in their order.

    >>> from omnigraph.schema.parser import parse_schema
    >>> print(format_schema(parse_schema("node A{x:I32?@index}")), end="")
    node A {
        x: I32? @index
    }
    """
    return "\n".join(_declaration(each) for each in file.declarations)


def format_catalog(catalog: Catalog) -> str:
    """Write a catalog as a schema: interfaces, nodes, edges, each by name. Injected properties are spelled out."""
    interfaces = (_interface_decl(catalog.interfaces[name]) for name in sorted(catalog.interfaces))
    nodes = (_node_decl(catalog.nodes[name]) for name in sorted(catalog.nodes))
    edges = (_edge_decl(catalog.edges[name]) for name in sorted(catalog.edges))
    return format_schema(ast.SchemaFile((*interfaces, *nodes, *edges), ""))


# --- ast -> text --------------------------------------------------------------------------------------------------


def _declaration(each: ast.Declaration) -> str:
    notes = "".join(f" {_annotation(a)}" for a in each.annotations)
    match each:
        case ast.InterfaceDecl():
            head = f"interface {each.name.text}{notes}"
        case ast.NodeDecl():
            implements = ", ".join(name.text for name in each.implements)
            head = f"node {each.name.text}{notes}{f' implements {implements}' if implements else ''}"
        case ast.EdgeDecl():
            head = f"edge {each.name.text}: {each.source.text} -> {each.target.text}{notes}"
    members = [*(_property(p) for p in each.properties), *(_annotation(a) for a in each.constraints)]
    if members:
        return "\n".join((f"{head} {{", *(f"    {member}" for member in members), "}", ""))
    return f"{head}\n" if isinstance(each, ast.EdgeDecl) else f"{head} {{}}\n"


def _property(each: ast.PropertyDecl) -> str:
    return " ".join((f"{each.name.text}: {each.type}", *(_annotation(a) for a in each.annotations)))


def _annotation(each: ast.Annotation) -> str:
    if each.arguments is None:
        return f"@{each.name}"
    return f"@{each.name}({', '.join(_argument(a) for a in each.arguments)})"


def _argument(argument: ast.Argument) -> str:
    match argument:
        case ast.Name(text=text):
            return text
        case ast.Literal(value=value):
            return _literal(value)
        case ast.Keyword(name=name, value=value):
            return f"{name.text}={_literal(value.value)}"
        case ast.Bounds(low=low, high=high):
            return f"{'' if low is None else low}..{'' if high is None else high}"


def _literal(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(c, c) for c in value) + '"'
    return repr(value)


# --- catalog -> ast -----------------------------------------------------------------------------------------------


def _interface_decl(interface: InterfaceType) -> ast.InterfaceDecl:
    return ast.InterfaceDecl(_name(interface.name), (), _properties(interface), (), _NOWHERE)


def _node_decl(node: NodeType) -> ast.NodeDecl:
    rules = [
        *(_note("range", _name(r.property), ast.Bounds(r.min, r.max, _NOWHERE)) for r in node.ranges),
        *(_note("check", _name(c.property), _value(c.pattern)) for c in node.checks),
    ]
    implements = tuple(_name(name) for name in node.implements)
    constraints = (*_composites(node), *rules)
    return ast.NodeDecl(_name(node.name), _header(node), implements, _properties(node), constraints, _NOWHERE)


def _edge_decl(edge: EdgeType) -> ast.EdgeDecl:
    card: tuple[ast.Annotation, ...] = ()
    if edge.cardinality != Cardinality():
        card = (_note("card", ast.Bounds(edge.cardinality.min, edge.cardinality.max, _NOWHERE)),)
    notes = (*card, *_header(edge))
    ends = (_name(edge.source), _name(edge.target))
    return ast.EdgeDecl(_name(edge.name), *ends, notes, _properties(edge), tuple(_composites(edge)), _NOWHERE)


def _header(entity: NodeType | EdgeType) -> tuple[ast.Annotation, ...]:
    return (
        *_texts(description=entity.description, instruction=entity.instruction),
        *(_kept(a) for a in entity.annotations),
    )


def _properties(owner: InterfaceType | NodeType | EdgeType) -> tuple[ast.PropertyDecl, ...]:
    return tuple(
        ast.PropertyDecl(_name(each.name), each.type, _NOWHERE, tuple(_notes(owner, each))) for each in owner.properties
    )


def _notes(owner: InterfaceType | NodeType | EdgeType, each: Property) -> Iterator[ast.Annotation]:
    alone = (each.name,)
    if owner.key == alone:
        yield ast.Annotation("key", None, _NOWHERE)
    if alone in owner.uniques:
        yield ast.Annotation("unique", None, _NOWHERE)
    for index in owner.indexes:
        if index.properties == alone and index.metric is not None:
            yield _note("index", _keyword("metric", index.metric))
        elif index.properties == alone and owner.key != alone and not each.type.is_list:
            yield ast.Annotation("index", None, _NOWHERE)
    if each.default is not None:
        yield _note("default", _value(_default(each.default)))
    if each.embed is not None:
        model = () if each.embed.model is None else (_keyword("model", each.embed.model),)
        yield _note("embed", _value(each.embed.source), *model)
    yield from _texts(description=each.description)
    yield from (_kept(a) for a in each.annotations)


def _composites(entity: NodeType | EdgeType) -> Iterator[ast.Annotation]:
    """Return the groups that cannot be written on one property: several members, or an endpoint."""
    own = {(each.name,) for each in entity.properties}
    # A list may be indexed in the body form only.
    lists = {(each.name,) for each in entity.properties if each.type.is_list}
    if entity.key and entity.key not in own:
        yield _note("key", *(_name(name) for name in entity.key))
    for unique in entity.uniques:
        if unique not in own:
            yield _note("unique", *(_name(name) for name in unique))
    for index in entity.indexes:
        if (index.properties not in own or index.properties in lists) and index.properties != entity.key:
            yield _note("index", *(_name(name) for name in index.properties))


def _default(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _texts(**texts: str | None) -> Iterable[ast.Annotation]:
    return (_note(name, _value(text)) for name, text in texts.items() if text is not None)


def _kept(each: Annotation) -> ast.Annotation:
    value = () if each.value is None else (_value(each.value),)
    keywords = tuple(_keyword(name, literal) for name, literal in each.arguments)
    return _note(each.name, *value, *keywords) if value or keywords else ast.Annotation(each.name, None, _NOWHERE)


def _name(text: str) -> ast.Name:
    return ast.Name(text, _NOWHERE)


def _value(value: str | int | float | bool) -> ast.Literal:
    return ast.Literal(value, _NOWHERE)


def _keyword(name: str, value: str | int | float | bool) -> ast.Keyword:
    return ast.Keyword(_name(name), _value(value), _NOWHERE)


def _note(name: str, *arguments: ast.Argument) -> ast.Annotation:
    return ast.Annotation(name, arguments, _NOWHERE)
