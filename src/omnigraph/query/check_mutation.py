"""Inserts, updates and deletes with types.                                          (ast -> CHECK -> lower -> ir)

Bare names are properties of the target row, `from` and `to` the ends of an edge (`src` and `dst` from here on). A name
that both a node and an edge type have means the node.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, INTEGERS, PropertyType, Scalar
from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.check_expressions import Expressions, Place, describe
from omnigraph.query.check_functions import as_vector
from omnigraph.query.scope import Checks, name_hint
from omnigraph.schema.catalog import EdgeType, NodeType, Property

_ENDS = {"from": "src", "to": "dst"}
_WORDS = {stored: written for written, stored in _ENDS.items()}


def check_statement(checks: Checks, node: ast.Statement) -> ir.Statement:
    """Return the typed form of one statement."""
    target = _target(checks, node.type)
    kind: ir.TypeKind = "edge" if isinstance(target, EdgeType) else "node"
    expressions = Expressions(checks, Place(target=target, has_row=not isinstance(node, ast.Insert)))
    match node:
        case ast.Insert():
            assignments = _assignments(expressions, target, node)
            _refuse_missing(checks, target, node, {name for name, _ in assignments})
            return ir.Insert(kind, target.name, assignments)
        case ast.Update():
            assignments = _assignments(expressions, target, node)
            return ir.Update(kind, target.name, assignments, _where(expressions, node))
        case ast.Delete():
            return ir.Delete(kind, target.name, _where(expressions, node))


def _target(checks: Checks, name: ast.Name) -> NodeType | EdgeType:
    catalog = checks.catalog
    if name.text in catalog.nodes:
        return catalog.nodes[name.text]
    if name.text in catalog.edges:
        return catalog.edges[name.text]
    if name.text in catalog.interfaces:
        types = ", ".join(each.name for each in catalog.implementers(name.text))
        checks.fail(
            "T10", f"the interface `{name.text}` has no rows", name.span, f"name one of {types or 'the node types'}"
        )
    known = (*catalog.nodes, *catalog.edges)
    return checks.fail("T10", f"there is no node or edge type `{name.text}`", name.span, name_hint(name.text, known))


def _where(expressions: Expressions, node: ast.Update | ast.Delete) -> ir.Expr:
    where = expressions.boolean(node.where)
    for each in ir.walk(where):
        found = each.type.value
        if isinstance(each, ir.Prop) and found is not None and found.scalar is Scalar.BLOB:
            hint = "test another property"
            expressions.checks.fail("T11", f"the blob `{each.name}` cannot be tested", node.where.span, hint)
    return where


# --- assignments ----------------------------------------------------------------------------------------------------


def _assignments(
    expressions: Expressions, target: NodeType | EdgeType, node: ast.Insert | ast.Update
) -> tuple[tuple[str, ir.Expr], ...]:
    checks = expressions.checks
    if not node.assignments:
        checks.fail("T10", f"nothing is assigned to {target.name}", node.type.span, "write `{ property: value }`")
    found: dict[str, ir.Expr] = {}
    for each in node.assignments:
        name = _ENDS.get(each.name.text, each.name.text) if isinstance(target, EdgeType) else each.name.text
        if isinstance(target, EdgeType) and each.name.text in _ENDS:
            if isinstance(node, ast.Update):
                hint = "delete the edge and insert it again"
                checks.fail("T16", f"an update cannot move the `{each.name.text}` end of an edge", each.name.span, hint)
            wanted = PropertyType(Scalar.STRING)
        else:
            wanted = _property(checks, target, each.name).type
            _refuse_key(checks, target, node, each.name)
        if name in found:
            checks.fail("T13", f"`{each.name.text}` is assigned twice", each.name.span, "assign it once")
        found[name] = _assigned(expressions, each, wanted)
    return tuple(found.items())


def _property(checks: Checks, target: NodeType | EdgeType, name: ast.Name) -> Property:
    for each in target.properties:
        if each.name == name.text:
            return each
    known = [each.name for each in target.properties]
    known += list(_ENDS) if isinstance(target, EdgeType) else []
    return checks.fail("T11", f"{target.name} has no property `{name.text}`", name.span, name_hint(name.text, known))


def _refuse_key(checks: Checks, target: NodeType | EdgeType, node: ast.Insert | ast.Update, name: ast.Name) -> None:
    if isinstance(node, ast.Update) and name.text in target.key:
        hint = "the key names the row: insert the new one and delete the old"
        checks.fail(None, f"`{name.text}` belongs to the @key of {target.name} and cannot be updated", name.span, hint)


def _assigned(expressions: Expressions, node: ast.Assignment, wanted: PropertyType) -> ir.Expr:
    """Return the value of an assignment, a literal in the property's own type (T7)."""
    checks, span = expressions.checks, node.value.span
    expr = expressions.check(node.value)
    name = f"`{node.name.text}`"
    if expr.type.kind == "null":
        if not wanted.nullable:
            checks.fail("T7", f"{name} is required and cannot be null", span, "give it a value")
        return ir.Const(None, vt.value(wanted))
    if isinstance(expr, ir.Const):
        return _literal(checks, node, expr, wanted)
    found = expr.type.value
    assert found is not None
    is_blob = wanted.scalar is Scalar.BLOB and found.scalar in (Scalar.STRING, Scalar.BLOB) and not found.is_list
    fits = vt.scalars_meet(found.scalar, wanted.scalar) and found.is_list == wanted.is_list
    if not is_blob and (not fits or found.dimension != wanted.dimension):
        checks.fail("T7", f"{name} is {wanted}, found {describe(expr.type)}", span, _hint(wanted))
    # Whether a nullable value is null is known only when a row is written.
    return expr


def _literal(checks: Checks, node: ast.Assignment, expr: ir.Const, wanted: PropertyType) -> ir.Expr:
    span, name = node.value.span, f"`{node.name.text}`"
    found = expr.type.value
    assert found is not None
    target = vt.value(replace(wanted, nullable=False))
    if wanted.scalar is Scalar.BLOB and isinstance(expr.value, str):
        return ir.Const(expr.value, target)
    if found.is_list != (wanted.is_list or wanted.is_vector):
        checks.fail("T7", f"{name} is {wanted}, found {found}", span, _hint(wanted))
    items = expr.value if found.is_list else (expr.value,)
    if wanted.dimension is not None:
        return _vector(checks, node, items, wanted)
    folded = []
    for item in items:
        value = vt.folded_value(item, wanted.scalar)
        if value is None and isinstance(item, int) and not isinstance(item, bool) and wanted.scalar in FLOATS:
            value = float(item) if wanted.scalar is Scalar.F64 else vt.single(float(item))
        if value is None:
            _refuse_literal(checks, node, item, wanted)
        folded.append(value)
    if wanted.values is not None and expr.value not in wanted.values:
        hint = name_hint(str(expr.value), wanted.values)
        checks.fail("T7", f"invalid enum value '{expr.value}' for {name}", span, hint)
    return ir.Const(tuple(folded) if found.is_list else folded[0], target)


def _vector(checks: Checks, node: ast.Assignment, items: tuple[object, ...], wanted: PropertyType) -> ir.Expr:
    values = as_vector(items)
    if values is None or len(values) != wanted.dimension:
        message = f"`{node.name.text}` is {wanted}, found {len(items)} items"
        checks.fail("T7", message, node.value.span, f"write {wanted.dimension} numbers")
    return ir.Const(values, vt.value(replace(wanted, nullable=False)))


def _refuse_literal(checks: Checks, node: ast.Assignment, item: object, wanted: PropertyType) -> None:
    name = f"`{node.name.text}`"
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    if wanted.scalar in INTEGERS and isinstance(item, int) and is_number:
        low, high = INTEGER_RANGE[wanted.scalar]
        message = f"{item} is outside the range of {wanted.scalar} for {name}"
        checks.fail("T7", message, node.value.span, f"it holds {low} to {high}")
    if wanted.scalar in FLOATS and is_number:
        checks.fail("T7", f"{item} is outside the range of {wanted.scalar} for {name}", node.value.span, "use F64")
    checks.fail("T7", f"{name} is {wanted}, found {vt.scalar_of(item)}", node.value.span, _hint(wanted))


def _hint(wanted: PropertyType) -> str:
    if wanted.is_list:
        return "write a list: `[a, b]`"
    if wanted.is_vector:
        return f"write a list of {wanted.dimension} numbers, or pass a `Vector({wanted.dimension})`"
    return {
        Scalar.STRING: 'write text in double quotes: `"..."`',
        Scalar.DATE: 'write `date("2024-01-31")`',
        Scalar.DATETIME: 'write `datetime("2024-01-31T12:00:00Z")` or `now()`',
        Scalar.BOOL: "write `true` or `false`",
        Scalar.BLOB: 'write `"base64:..."`',
    }.get(wanted.scalar, "write a whole number" if wanted.scalar in INTEGERS else "write a number")


# --- what an insert needs -------------------------------------------------------------------------------------------


def _refuse_missing(checks: Checks, target: NodeType | EdgeType, node: ast.Insert, given: set[str]) -> None:
    ends = _WORDS if isinstance(target, EdgeType) else {}
    missing = [written for stored, written in ends.items() if stored not in given]
    missing += [each.name for each in target.properties if _is_missed(each, given)]
    if missing:
        listed = ", ".join(f"`{each}`" for each in missing)
        hint = f"add {', '.join(f'{each}: ...' for each in missing)}"
        checks.fail("T12", f"inserting {target.name} needs {listed}", node.type.span, hint)


def _is_missed(each: Property, given: set[str]) -> bool:
    if each.name in given or each.type.nullable or each.default is not None:
        return False
    # A vector with `@embed` is computed from its source, if that is there.
    return not (each.embed is not None and each.embed.source in given)
