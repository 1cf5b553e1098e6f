"""Check the result of a read: columns, groups, `having`, `order`, `offset`, `limit`.         (ast -> CHECK -> lower)

Column names, for results and lint alike: the alias; else for an aggregate the name of its argument (`count(*)` is
`count`), `literal` for a literal, the function's name for a search or ranking call, and for all else its text without
`$`: `p.name`, `p`, `p.age + 1`. A derived name that exists already gets a number: `p.age`, `p.age_2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from omnigraph.datatypes import Scalar
from omnigraph.errors import Span
from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.check_expressions import Expressions, Place, describe
from omnigraph.query.check_traversal import whole_number_param
from omnigraph.query.format import expression_text
from omnigraph.query.grammar import AGGREGATES, RANKS, TEXT_FUNCTIONS
from omnigraph.query.scope import Checks, Scope

# Leaves that read a row; in an aggregate query they must be grouping keys.
_ROW_LEAVES = (ir.Prop, ir.Entity, ir.EntityId, ir.PathLength, ir.PathNodes, ir.TextMatch, ir.Bm25, ir.Nearest, ir.Rrf)


@dataclass(frozen=True, slots=True)
class CheckedReturn:
    """Everything after the pattern."""

    columns: tuple[ir.OutputColumn, ...]
    having: ir.Expr | None
    order: tuple[ir.OrderKey, ...]
    offset: ir.Expr | int | None
    limit: ir.Expr | int | None


def check_return(checks: Checks, read: ast.Read, scope: Scope) -> CheckedReturn:
    """Check `return` and the clauses after it."""
    grouped = _has_keys(read)
    columns = _columns(checks, read, scope, grouped)
    tail = _Tail(checks, read, scope, columns, grouped)
    tail.check_groups()
    having = tail.having()
    order = tuple(tail.key(item) for item in read.order)
    tail.check_rankings()
    offset, limit = (_count(checks, each) for each in (read.offset, read.limit))
    return CheckedReturn(columns, having, order, offset, limit)


def _has_keys(read: ast.Read) -> bool:
    """Return whether some column is a grouping key: it holds no aggregate, directly or through an earlier column."""
    holding: set[str] = set()
    keys = False
    for each in read.projections:
        if _holds_aggregate(each.expression, holding):
            holding |= {each.alias.text} if each.alias else set()
        else:
            keys = True
    return keys


def _holds_aggregate(node: Any, holding: set[str]) -> bool:
    if isinstance(node, tuple):
        return any(_holds_aggregate(each, holding) for each in node)
    if isinstance(node, ast.Word):
        return node.text in holding
    if isinstance(node, ast.Call) and node.function in AGGREGATES:
        return True
    if not isinstance(node, ast.Expression):
        return False
    return any(_holds_aggregate(getattr(node, each.name), holding) for each in fields(node))


# --- columns --------------------------------------------------------------------------------------------------------


def _columns(checks: Checks, read: ast.Read, scope: Scope, grouped: bool) -> tuple[ir.OutputColumn, ...]:
    names = _names(checks, read)
    aliases: dict[str, ir.Expr] = {}
    columns = []
    for name, projection in zip(names, read.projections, strict=True):
        place = Place(scope, columns=dict(aliases), aggregates=True, grouped=grouped)
        expr = Expressions(checks, place).check(projection.expression)
        _refuse_blob(checks, expr, projection.expression.span)
        if projection.alias is not None:
            aliases[projection.alias.text] = expr
        columns.append(ir.OutputColumn(name, expr, expr.type))
    return tuple(columns)


def _names(checks: Checks, read: ast.Read) -> list[str]:
    taken: set[str] = set()
    for each in read.projections:
        if each.alias is not None:
            if each.alias.text in taken:
                message = f"two columns are called `{each.alias.text}`"
                checks.fail(None, message, each.alias.span, "give each its own name")
            taken.add(each.alias.text)
    names = []
    for each in read.projections:
        name = each.alias.text if each.alias else _free(column_name(each.expression), taken)
        taken.add(name)
        names.append(name)
    return names


def column_name(node: ast.Expression) -> str:
    """Return the name of a column without an alias.

    >>> from omnigraph.errors import Span
    >>> column_name(ast.Call("count", (ast.Var("f", Span(1, 1)),), Span(1, 1)))
    'f'
    """
    match node:
        case ast.Literal() | ast.ListLiteral():
            return "literal"
        case ast.Call(function=function, arguments=arguments) if function in AGGREGATES:
            return column_name(arguments[0]) if arguments else function
        case ast.Call(function=function) if function in (*TEXT_FUNCTIONS, *RANKS, "now"):
            return function
        case _:
            return expression_text(node).replace("$", "")


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _refuse_blob(checks: Checks, expr: ir.Expr, span: Span) -> None:
    if expr.type.value is not None and expr.type.value.scalar is Scalar.BLOB:
        checks.fail("T24", "a blob cannot be read by a query", span, "return the id, and fetch the blob with it")


def _count(checks: Checks, written: int | ast.Name | None) -> ir.Expr | int | None:
    if not isinstance(written, ast.Name):
        return written
    return whole_number_param(checks, written, None, "this number of rows")


# --- what follows ---------------------------------------------------------------------------------------------------


class _Tail:
    """Checks `having` and `order` against the columns."""

    def __init__(
        self, checks: Checks, read: ast.Read, scope: Scope, columns: tuple[ir.OutputColumn, ...], grouped: bool
    ) -> None:
        self.checks = checks
        self.read = read
        self.columns = columns
        self.by_name = {each.name: each for each in columns}
        names: dict[str, ir.Expr] = {each.name: ir.Output(each.name, each.type) for each in columns}
        self.expressions = Expressions(checks, Place(scope, columns=names, aggregates=True, grouped=grouped))
        tail = (*read.having, *(item.expression for item in read.order))
        self.is_aggregate = any(ir.has_aggregate(each.expr) for each in columns) or _holds_aggregate(tail, set())

    def check_groups(self) -> None:
        """Check that every column of an aggregate query is an aggregate, or a key computed from the row (T9)."""
        if not self.is_aggregate:
            return
        keys = [each.expr for each in self.columns if not ir.has_aggregate(each.expr)]
        for column, projection in zip(self.columns, self.read.projections, strict=True):
            span = projection.expression.span
            if ir.has_aggregate(column.expr):
                self._refuse_ungrouped(column.expr, keys, span)
            elif not any(isinstance(each, _ROW_LEAVES) for each in ir.walk(column.expr)):
                hint = "leave it out, or group by a property"
                self.checks.fail("T9", "beside an aggregate a constant is no group", span, hint)

    def having(self) -> ir.Expr | None:
        """Return the typed filter on groups."""
        if not self.read.having:
            return None
        if not self.is_aggregate:
            hint = "filter rows in `match`"
            self.checks.fail(None, "`having` filters groups, and nothing is aggregated", self.read.having[0].span, hint)
        exprs = []
        for node in self.read.having:
            expr = self._by_output(self.expressions.boolean(node))
            self._refuse_ungrouped(expr, (), node.span)
            exprs.append(expr)
        if len(exprs) == 1:
            return exprs[0]
        return ir.And(tuple(exprs), vt.nullable(vt.BOOL, any(each.type.nullable for each in exprs)))

    def key(self, item: ast.OrderItem) -> ir.OrderKey:
        """Return one typed sort key; rankings come best first."""
        expr = self.expressions.check(item.expression)
        span = item.expression.span
        _refuse_blob(self.checks, expr, span)
        if not vt.is_scalar(expr.type):
            hint = "order by a property, or by `$p.@id`" if expr.type.kind == "node" else "order by a single value"
            self.checks.fail("T7", f"{describe(expr.type)} has no order", span, hint)
        if self.is_aggregate or self.read.distinct:
            expr = self._by_output(expr)
            if self.read.distinct and any(
                isinstance(each, _ROW_LEAVES) or ir.has_aggregate(each) for each in ir.walk(expr)
            ):
                self.checks.fail(None, "with `distinct`, order by returned columns", span, "return it too")
            self._refuse_ungrouped(expr, (), span)
        if isinstance(expr, ir.Bm25 | ir.Rrf):
            return ir.OrderKey(expr, True)
        best_first = isinstance(self._behind(expr), ir.Bm25 | ir.Rrf)
        return ir.OrderKey(expr, best_first if item.descending is None else item.descending)

    def check_rankings(self) -> None:
        """Check rankings: `nearest` and `rrf` need a limit (T17, T21); `nearest` allows no alias (T18)."""
        keys = [(item, self.expressions.check(item.expression)) for item in self.read.order]
        direct = [item for item, expr in keys if isinstance(expr, ir.Nearest)]
        aliases = [item for item, expr in keys if isinstance(expr, ir.Output)]
        if direct and aliases:
            hint = "order by `nearest(...)` alone, or name its distance with `as` and order by the names"
            self.checks.fail("T18", "`nearest` cannot be mixed with a column name", aliases[0].span, hint)
        if self.read.limit is not None:
            return
        for item, expr in keys:
            if isinstance(self._behind(expr), ir.Nearest):
                self.checks.fail("T17", "`nearest` needs a `limit`", item.span, "write `limit 10` behind `order`")
            if isinstance(self._behind(expr), ir.Rrf):
                self.checks.fail("T21", "`rrf` needs a `limit`", item.span, "write `limit 10` behind `order`")

    def _behind(self, expr: ir.Expr) -> ir.Expr:
        return self.by_name[expr.name].expr if isinstance(expr, ir.Output) else expr

    def _by_output(self, expr: ir.Expr) -> ir.Expr:
        """Replace every part of the expression that is a column by a reference to it."""
        for column in self.columns:
            if column.expr == expr:
                return ir.Output(column.name, column.type)
        changes: dict[str, Any] = {}
        for each in fields(expr):
            held = getattr(expr, each.name)
            if isinstance(held, ir.Expr) and not isinstance(expr, ir.Aggregate | ir.Rrf):
                changes[each.name] = self._by_output(held)
            elif isinstance(held, tuple) and isinstance(expr, ir.And | ir.Or):
                changes[each.name] = tuple(self._by_output(item) for item in held)
        return replace(expr, **changes) if changes else expr

    def _refuse_ungrouped(self, expr: ir.Expr, keys: Sequence[ir.Expr], span: Span) -> None:
        if expr in keys or isinstance(expr, ir.Aggregate):
            return
        if isinstance(expr, _ROW_LEAVES):
            hint = "return it as a group of its own, or aggregate it"
            self.checks.fail("T9", "this value differs within a group", span, hint)
        for child in ir.children(expr):
            self._refuse_ungrouped(child, keys, span)
