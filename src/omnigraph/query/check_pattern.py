"""Check the blocks of `match`: the types of each variable and the direction of each traversal.          (ast -> CHECK)

Within a block the written order has no meaning: bindings are read first, then traversals as soon as one end has a type,
then optionals, filters and negations. A traversal narrows the variables of its own block, never those around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from omnigraph.datatypes import Scalar
from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.check_expressions import Expressions, Place, describe, property_type
from omnigraph.query.check_traversal import CheckedTraversal, TraversalChecker
from omnigraph.query.grammar import edge_word
from omnigraph.query.scope import ANONYMOUS, Checks, Scope, Variable, name_hint

_Kind = TypeVar("_Kind", bound=ast.Clause)


@dataclass(frozen=True, slots=True)
class CheckedMatch:
    """A checked `property: value` of a binding; on a list property it tests membership."""

    prop: ir.Prop
    value: ir.Expr


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """A checked block: the variables first bound in it, and its conditions."""

    nodes: tuple[Variable, ...]
    traversals: tuple[CheckedTraversal, ...]
    matches: tuple[CheckedMatch, ...]
    filters: tuple[ir.Expr, ...]
    optionals: tuple[CheckedBlock, ...]
    negations: tuple[CheckedBlock, ...]


def check_block(checks: Checks, clauses: tuple[ast.Clause, ...], scope: Scope) -> CheckedBlock:
    """Check the clauses of one block; its variables are added to `scope`."""
    expressions = Expressions(checks, Place(scope))
    bound = [(binding, _bind(checks, binding, scope)) for binding in _of(clauses, ast.Binding)]
    traversals = TraversalChecker(checks, scope).check(_of(clauses, ast.Traversal))
    matches = tuple(
        # Looked up again: a traversal may have narrowed the types since.
        _match(expressions, scope.find(variable.name) or variable, match)
        for binding, variable in bound
        for match in binding.matches
    )
    optionals = []
    for optional in _of(clauses, ast.OptionalBlock):
        inner = Scope(scope)
        optionals.append(_inner(checks, optional, inner, "optional"))
        scope.export(inner)
    filters = tuple(expressions.boolean(each.expression) for each in _of(clauses, ast.Filter))
    negations = tuple(_inner(checks, each, Scope(scope), "not") for each in _of(clauses, ast.NotBlock))
    nodes = [each for each in scope.variables.values() if each.kind == "node"]
    ordered = (*(each for each in nodes if each.declared), *(each for each in nodes if not each.declared))
    return CheckedBlock(ordered, traversals, matches, filters, tuple(optionals), negations)


def _of(clauses: tuple[ast.Clause, ...], kind: type[_Kind]) -> list[_Kind]:
    return [each for each in clauses if isinstance(each, kind)]


def _inner(checks: Checks, block: ast.NotBlock | ast.OptionalBlock, scope: Scope, word: str) -> CheckedBlock:
    checked = check_block(checks, block.clauses, scope)
    if not scope.uses_outer:
        hint = "use a variable that is bound around the block"
        checks.fail("T9", f"this `{word}` block has nothing to do with the rest of the pattern", block.span, hint)
    return checked


def _bind(checks: Checks, binding: ast.Binding, scope: Scope) -> Variable:
    types = _node_types(checks, binding.type)
    if binding.var.text == ANONYMOUS:
        variable = Variable(checks.fresh(), "node", types, declared=True)
        scope.bind(variable)
        return variable
    found = scope.find(binding.var.text)
    if found is None:
        variable = Variable(binding.var.text, "node", types, declared=True)
        scope.bind(variable)
        return variable
    if found.kind == "edge":
        hint = "give the node another name"
        checks.fail("T23", f"`${found.name}` is an edge and cannot be bound as a node", binding.var.span, hint)
    if found.types != types:
        known = "|".join(found.types) or "path"
        message = f"`${found.name}` is already bound to {known}, it cannot be {binding.type.text} too"
        checks.fail(None, message, binding.span, "give the second node another name")
    if found.name in scope.variables:
        scope.bind(replace(found, declared=True))
    return found


def _node_types(checks: Checks, name: ast.Name) -> tuple[str, ...]:
    catalog = checks.catalog
    if name.text in catalog.nodes:
        return (name.text,)
    if name.text in catalog.interfaces:
        types = tuple(each.name for each in catalog.implementers(name.text))
        if not types:
            hint = "let a node type implement it"
            checks.fail("T1", f"no node type implements the interface `{name.text}`", name.span, hint)
        return types
    if name.text in catalog.edges:
        edge = edge_word(name.text)
        hint = f"edges are followed, not bound: `$a {edge} $b`, or `$a $e:{edge} $b` to name the edge"
        checks.fail("T1", f"`{name.text}` is an edge type", name.span, hint)
    return checks.fail(
        "T1",
        f"there is no node type `{name.text}`",
        name.span,
        name_hint(name.text, (*catalog.nodes, *catalog.interfaces)),
    )


def _match(expressions: Expressions, variable: Variable, match: ast.InlineMatch) -> CheckedMatch:
    checks = expressions.checks
    found = property_type(checks, variable, match.name, rule="T2")
    prop = ir.Prop(variable.name, match.name.text, vt.nullable(vt.value(found), found.nullable or variable.optional))
    value = _match_value(expressions, match.value)
    span = match.value.span
    name = f"`{match.name.text}`"
    if found.scalar is Scalar.BLOB or found.is_vector:
        kind = "a blob" if found.scalar is Scalar.BLOB else "a vector"
        hint = "order by `nearest(...)`" if found.is_vector else "blobs are fetched, never compared; `is null` works"
        checks.fail("T3", f"{name} is {kind} and cannot be matched", match.name.span, hint)
    if value.type.kind == "null":
        hint = f"write the filter `${variable.name}.{match.name.text} is null`"
        what = "is required and never null" if not found.nullable else "equals nothing when it is null"
        checks.fail("T3", f"{name} {what}", span, hint if found.nullable else "leave it out")
    if not vt.is_scalar(value.type):
        hint = "match one item; it asks whether the list holds it" if found.is_list else "match a single value"
        checks.fail("T3", f"{name} cannot be matched with {describe(value.type)}", span, hint)
    if found.is_list:
        member = expressions.member("T3", value, prop, span)
        assert isinstance(member, ir.Member)
        return CheckedMatch(prop, member.item)
    expressions.must_meet("T3", value.type, prop.type, span, f"{name} is {found}, found {describe(value.type)}")
    if found.values is not None and isinstance(value, ir.Const) and value.value not in found.values:
        close = name_hint(str(value.value), found.values)
        checks.fail("T3", f"invalid enum value '{value.value}' for {name}", span, close)
    return CheckedMatch(prop, vt.fold_literals(value, prop.type))


def _match_value(expressions: Expressions, node: ast.Expression) -> ir.Expr:
    # A bare `$name` in braces is a parameter even when a variable has the same name.
    if isinstance(node, ast.Var):
        if node.name not in expressions.checks.params and node.name != ANONYMOUS:
            scope = expressions.place.scope
            if scope is not None and scope.find(node.name) is not None:
                hint = f"compare properties in a filter: `$p.name = ${node.name}.name`"
                expressions.checks.fail("T3", f"`${node.name}` is a variable, not a value", node.span, hint)
        return expressions.parameter(ast.Name(node.name, node.span))
    return expressions.check(node)
