"""Semantic checks of a parsed schema: names, endpoints, interfaces and headers.           (ast -> CHECKS -> catalog)

`check_schema` walks the file once and reports every error it finds. Properties and constraints have a module each:
`check_properties` for one property alone, `check_constraints` for constraints over several.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.errors import SchemaError
from omnigraph.schema import ast
from omnigraph.schema.check_constraints import check_constraints
from omnigraph.schema.check_properties import check_property, check_text_annotation, check_unknown
from omnigraph.schema.names import KNOWN_ANNOTATIONS, TYPE_ANNOTATIONS, suggest
from omnigraph.schema.report import Report
from omnigraph.schema.resolve import Interfaces, all_properties

MAX_CARDINALITY = 2**32 - 1


def check_schema(schema: ast.SchemaFile) -> tuple[SchemaError, ...]:
    """Return all semantic errors of a parsed schema, in the order of the text."""
    report = Report(schema)
    _check_names(report, schema)
    interfaces: dict[str, ast.InterfaceDecl] = {}
    for each in schema.interfaces:
        interfaces.setdefault(each.name.text, each)
    for declaration in schema.declarations:
        _check_header(report, declaration)
        _check_members(report, declaration)
        if isinstance(declaration, ast.NodeDecl):
            _check_implements(report, declaration, interfaces)
        check_constraints(report, declaration, all_properties(declaration, interfaces))
    _check_endpoints(report, schema)
    return report.errors


def _check_names(report: Report, schema: ast.SchemaFile) -> None:
    _check_distinct(report, (each.name for each in schema.edges), "edge type")
    _check_distinct(report, (each.name for each in schema.nodes), "node type")
    _check_distinct(report, (each.name for each in schema.interfaces), "interface")
    nodes = {each.name.text: each.name for each in schema.nodes}
    for interface in schema.interfaces:
        node = nodes.get(interface.name.text)
        if node is not None:
            # Queries use one namespace for both (`$x: Name`), so a name must be unique among them.
            later, first = sorted((interface.name, node), key=lambda n: (n.span.line, n.span.column), reverse=True)
            message = f"`{node.text}` is both a node type and an interface (also line {first.span.line})"
            report.add(message, later.span, "rename one of them")
    folded: dict[str, ast.Name] = {}
    for edge in schema.edges:
        first = folded.setdefault(edge.name.text.lower(), edge.name)
        if first.text != edge.name.text:
            message = f"edge type `{edge.name.text}` equals `{first.text}` of line {first.span.line} after case folding"
            report.add(message, edge.name.span, "edge names are matched without case; rename one of them")


def _check_distinct(report: Report, names: Iterable[ast.Name], what: str) -> None:
    first: dict[str, ast.Name] = {}
    for name in names:
        known = first.setdefault(name.text, name)
        if known is not name:
            message = f"{what} `{name.text}` is declared twice; the first is on line {known.span.line}"
            report.add(message, name.span, "rename or remove one of them")


def _check_members(report: Report, declaration: ast.Declaration) -> None:
    _check_distinct(report, (each.name for each in declaration.properties), "property")
    for each in declaration.properties:
        check_property(report, each, declaration)


def _check_header(report: Report, declaration: ast.Declaration) -> None:
    seen: dict[str, ast.Annotation] = {}
    for annotation in declaration.annotations:
        name, span = annotation.name, annotation.span
        if isinstance(declaration, ast.InterfaceDecl):
            report.add(f"an interface takes no annotations, found `@{name}`", span, "put it on the node types")
            continue
        if name in KNOWN_ANNOTATIONS:
            first = seen.setdefault(name, annotation)
            if first is not annotation:
                report.add(f"`@{name}` is given twice; the first is on line {first.span.line}", span, "keep one")
                continue
        if name == "card":
            _check_card(report, declaration, annotation)
        elif name in TYPE_ANNOTATIONS:
            check_text_annotation(report, annotation)
        elif name in KNOWN_ANNOTATIONS:
            hint = f"write it inside the braces, on a property or as `@{name}(...)`"
            report.add(f"`@{name}` does not belong on a type's header", span, hint)
        else:
            check_unknown(report, annotation)


def _check_card(report: Report, declaration: ast.Declaration, annotation: ast.Annotation) -> None:
    if not isinstance(declaration, ast.EdgeDecl):
        report.add("`@card` is for edge types only", annotation.span, "put it on the edge that should be limited")
        return
    hint = "write `@card(0..1)` or `@card(1..)`"
    match annotation.arguments:
        case (ast.Bounds(low=int() as low, high=int() | None as high),):
            limit = MAX_CARDINALITY if high is None else high
            if low < 0 or low > MAX_CARDINALITY or limit > MAX_CARDINALITY:
                report.add(f"`@card` bounds must lie in 0 to {MAX_CARDINALITY}", annotation.span, hint)
            elif low > limit:
                report.add(f"`@card` has min {low} above max {high}", annotation.span, f"write `@card({high}..{low})`")
        case _:
            report.add("`@card` takes one range of whole numbers with a lower bound", annotation.span, hint)


def _check_implements(report: Report, node: ast.NodeDecl, interfaces: Interfaces) -> None:
    listed: set[str] = set()
    for name in node.implements:
        if name.text in listed:
            report.add(f"interface `{name.text}` is listed twice", name.span, "keep one")
        listed.add(name.text)
    declared = {each.name.text: each for each in node.properties}
    injected: dict[str, tuple[ast.PropertyDecl, str]] = {}
    for name in node.implements:
        interface = interfaces.get(name.text)
        if interface is None:
            report.add(f"unknown interface `{name.text}`", name.span, suggest(name.text, interfaces))
            continue
        for each in interface.properties:
            own = declared.get(each.name.text)
            if own is not None:
                _check_same_type(report, own, each, name.text)
                continue
            other, owner = injected.setdefault(each.name.text, (each, name.text))
            if owner != name.text and _meaning(other) != _meaning(each):
                message = f"interfaces `{owner}` and `{name.text}` disagree about property `{each.name.text}`"
                report.add(message, name.span, f"make both `{each.name.text}` the same, or declare it in the node")


def _check_same_type(report: Report, own: ast.PropertyDecl, wanted: ast.PropertyDecl, interface: str) -> None:
    if _type_meaning(own) != _type_meaning(wanted):
        message = f"property `{own.name.text}` is `{own.type}` here but `{wanted.type}` in interface `{interface}`"
        report.add(message, own.type_span, f"write `{own.name.text}: {wanted.type}`, or leave the property out")


def _type_meaning(each: ast.PropertyDecl) -> tuple[object, ...]:
    written = each.type
    values = None if written.values is None else frozenset(written.values)
    return (written.scalar, written.nullable, written.is_list, written.dimension, values)


def _meaning(each: ast.PropertyDecl) -> tuple[object, ...]:
    notes = [
        (a.name, tuple((k.name.text, k.value.value) for k in a.keywords), tuple(_bare(p) for p in a.positional))
        for a in each.annotations
        if a.name != "rename_from"
    ]
    # By text: values of different types have no common order.
    return (_type_meaning(each), tuple(sorted(notes, key=repr)))


def _bare(argument: ast.Name | ast.Literal | ast.Bounds) -> str:
    match argument:
        case ast.Name(text=text):
            return text
        case ast.Literal(value=value):
            return str(value)
        case ast.Bounds(low=low, high=high):
            return f"{low}..{high}"


def _check_endpoints(report: Report, schema: ast.SchemaFile) -> None:
    nodes = {each.name.text for each in schema.nodes}
    interfaces = {each.name.text for each in schema.interfaces}
    for edge in schema.edges:
        for end, role in ((edge.source, "source"), (edge.target, "target")):
            if end.text in nodes:
                continue
            if end.text in interfaces:
                message = f"the {role} of edge `{edge.name.text}` is the interface `{end.text}`"
                report.add(message, end.span, "an edge joins node types; declare one edge per node type")
            else:
                message = f"the {role} of edge `{edge.name.text}` is the unknown node type `{end.text}`"
                report.add(message, end.span, suggest(end.text, nodes, f"declare `node {end.text} {{ ... }}`"))
