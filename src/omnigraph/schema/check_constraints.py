"""Check the constraints of one type: keys, uniqueness, indexes, ranges, patterns, embed sources."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import Scalar
from omnigraph.schema import ast
from omnigraph.schema.names import ENDPOINTS, suggest
from omnigraph.schema.report import Report
from omnigraph.schema.resolve import Group, groups, text_value

Properties = Mapping[str, ast.PropertyDecl]


def check_constraints(report: Report, declaration: ast.Declaration, properties: tuple[ast.PropertyDecl, ...]) -> None:
    """Check all constraints of a type; `properties` includes the injected ones."""
    known = {each.name.text: each for each in properties}
    if isinstance(declaration, ast.InterfaceDecl) and declaration.constraints:
        for annotation in declaration.constraints:
            message = f"an interface holds properties only, found `@{annotation.name}(...)`"
            report.add(message, annotation.span, "put it in the node types that implement the interface")
        return
    found = list(groups(declaration, properties))
    for group in found:
        _check_group(report, declaration, group, known)
    _check_one_key(report, declaration, [group for group in found if group.kind == "key"])
    for annotation in declaration.constraints:
        if annotation.name in ("range", "check"):
            _check_value_rule(report, declaration, annotation, known)
    if isinstance(declaration, ast.NodeDecl):
        for each in properties:
            _check_embed_source(report, declaration, each, known)


def _check_group(report: Report, declaration: ast.Declaration, group: Group, known: Properties) -> None:
    if not group.on_property and not _has_names_only(report, declaration, group):
        return
    seen: set[str] = set()
    for name in group.names:
        if name.text in seen:
            report.add(f"`@{group.kind}` names `{name.text}` twice", name.span, "keep one")
        seen.add(name.text)
        if name.text in ENDPOINTS and isinstance(declaration, ast.EdgeDecl):
            continue
        if name.at:
            hint = "on edges `@src` and `@dst` name the endpoints; properties are written bare"
            report.add(f"`@{name.text}` is no endpoint of `{declaration.name.text}`", name.span, hint)
        elif name.text not in known:
            _unknown_property(report, declaration, name, known)
        else:
            _check_fit(report, group, known[name.text])


def _has_names_only(report: Report, declaration: ast.Declaration, group: Group) -> bool:
    example = "src, dst" if isinstance(declaration, ast.EdgeDecl) else "a, b"
    hint = f"write `@{group.kind}` behind a property, or `@{group.kind}({example})` with the names of properties"
    if not group.annotation.arguments:
        report.add(f"`@{group.kind}()` names no property", group.span, hint)
        return False
    for argument in group.annotation.arguments:
        if isinstance(argument, ast.Keyword) and group.kind == "index":
            hint = 'a metric is given on the property: `embedding: Vector(3) @index(metric="cosine")`'
        if not isinstance(argument, ast.Name):
            report.add(f"`@{group.kind}` takes property names", argument.span, hint)
            return False
    return True


def _check_fit(report: Report, group: Group, each: ast.PropertyDecl) -> None:
    """Check the types of properties in a key, a unique group or an index."""
    kind, name, written = group.kind, each.name.text, each.type
    # The error points at the annotation in the property form, at the name inside it in the body form.
    span = group.span if group.on_property else next(n.span for n in group.names if n.text == name)
    if kind == "index":
        if written.scalar is Scalar.BLOB or (written.is_list and group.on_property):
            report.add(f"`@index` does not fit `{name}`, which is `{written}`", span, "index a scalar or a vector")
    elif not written.is_plain_scalar:
        hint = "use a String, number, Bool, Date, DateTime or enum property"
        report.add(f"`@{kind}` does not fit `{name}`, which is `{written}`", span, hint)
    elif kind == "key" and written.nullable:
        report.add(f"the key property `{name}` is nullable", span, "remove the `?`: every entity needs its key")


def _check_one_key(report: Report, declaration: ast.Declaration, keys: list[Group]) -> None:
    for later in keys[1:]:
        names = ", ".join(dict.fromkeys(name.text for group in keys for name in group.names))
        message = f"`{declaration.name.text}` has a second `@key`; the first is on line {keys[0].span.line}"
        report.add(message, later.span, f"for a key of several properties write `@key({names})` in the body")
    if not isinstance(declaration, ast.EdgeDecl):
        return
    for key in keys:
        names = ", ".join(name.text for name in key.names if name.text not in ENDPOINTS and not name.at)
        hint = f"write `@key(src, dst{', ' + names if names else ''})` in the body"
        if key.on_property:
            report.add("an edge key is written in the body and names both endpoints", key.span, hint)
        elif key.annotation.arguments and not set(ENDPOINTS) <= {name.text for name in key.names}:
            report.add("an edge key must name both endpoints", key.span, hint)


def _check_value_rule(
    report: Report, declaration: ast.Declaration, annotation: ast.Annotation, known: Properties
) -> None:
    kind, span = annotation.name, annotation.span
    if isinstance(declaration, ast.EdgeDecl):
        report.add(f"`@{kind}` is for node types only", span, "remove it from the edge")
        return
    example = "age, 0..130" if kind == "range" else 'code, "^[A-Z]+$"'
    hint = f"write `@{kind}({example})`"
    match annotation.arguments:
        case (ast.Name(at=False) as name, rule):
            pass
        case _:
            wants = "a property and bounds" if kind == "range" else "a property and a pattern"
            report.add(f"`@{kind}` needs {wants}", span, hint)
            return
    each = known.get(name.text)
    if each is None:
        _unknown_property(report, declaration, name, known)
    elif kind == "range":
        _check_range(report, name, each, rule, hint)
    else:
        _check_pattern(report, name, each, rule, hint)


def _check_range(report: Report, name: ast.Name, each: ast.PropertyDecl, rule: ast.Argument, hint: str) -> None:
    if not each.type.is_numeric:
        message = f"`@range` needs a number; `{name.text}` is `{each.type}`"
        report.add(message, name.span, "use a property of type I32, I64, U32, U64, F32 or F64")
    if not isinstance(rule, ast.Bounds):
        report.add("`@range` needs bounds", rule.span, hint)
    elif rule.low is not None and rule.high is not None and rule.low > rule.high:
        message = f"the range {rule.low}..{rule.high} is empty"
        report.add(message, rule.span, f"write `@range({name.text}, {rule.high}..{rule.low})`")


def _check_pattern(report: Report, name: ast.Name, each: ast.PropertyDecl, rule: ast.Argument, hint: str) -> None:
    if each.type.scalar is not Scalar.STRING or each.type.is_list:
        message = f"`@check` needs a String; `{name.text}` is `{each.type}`"
        report.add(message, name.span, "for numbers use `@range`" if each.type.is_numeric else None)
    if not (isinstance(rule, ast.Literal) and isinstance(rule.value, str)):
        report.add("`@check` needs a pattern in double quotes", rule.span, hint)
        return
    try:
        # The engine that evaluates the pattern also validates it.
        pc.match_substring_regex(pa.array([""]), rule.value)
    except pa.ArrowInvalid as problem:
        reason = str(problem).removeprefix("Invalid regular expression: ")
        report.add(f"bad pattern: {reason}", rule.span, "patterns are RE2: no look-around, no back-references")


def _check_embed_source(report: Report, node: ast.NodeDecl, each: ast.PropertyDecl, known: Properties) -> None:
    embed = each.annotation("embed")
    source = text_value(embed) if embed else None
    if embed is None or source is None or not isinstance(embed.positional[0], ast.Name | ast.Literal):
        return
    span = embed.positional[0].span
    found = known.get(source)
    if not source.strip():
        return
    if found is None:
        _unknown_property(report, node, ast.Name(source, span), known)
    elif found.type.scalar is not Scalar.STRING or found.type.is_list:
        message = f"the `@embed` source `{source}` is `{found.type}`, not a String"
        report.add(message, span, "name a String property of the same node")


def _unknown_property(report: Report, owner: ast.Declaration, name: ast.Name, known: Properties) -> None:
    if name.text in ENDPOINTS and not isinstance(owner, ast.EdgeDecl):
        report.add(f"`{name.text}` is an endpoint, and `{owner.name.text}` is no edge", name.span, "use a property")
        return
    report.add(f"`{owner.name.text}` has no property `{name.text}`", name.span, suggest(name.text, known))
