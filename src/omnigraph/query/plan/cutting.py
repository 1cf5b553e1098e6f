"""Rule: stop matching at enough rows when any rows will do, and skip projections of rows that are cut off.

An expression that can fail must fail whichever rows are kept, so a query with arithmetic computes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.query import ir


def stops_early(query: ir.QueryIR) -> bool:
    """Return whether the first rows found suffice: limited, and neither ordered, grouped nor made distinct."""
    is_plain = not (query.order or query.is_aggregate or query.distinct or query.having)
    return query.limit is not None and is_plain and not _can_fail(query)


def cuts_first(query: ir.QueryIR) -> bool:
    """Return whether rows can be ordered and cut before projection: sort keys are outputs or independent of them."""
    is_plain = query.having is None and not query.distinct
    nested = any(isinstance(each, ir.Output) for key in query.order for each in _inside(key.expr))
    is_cut = query.limit is not None or query.offset is not None
    return is_plain and is_cut and not nested and not _can_fail(query)


def streams(query: ir.QueryIR) -> bool:
    """Return whether matched, ordered rows can be projected in batches.

    No operator may need all projected rows, and an expression that can fail must not be cut off. Rankings of text or
    vectors read whole types, so they are computed once.
    """
    if query.is_aggregate or query.distinct or query.having is not None or _searches(query):
        return False
    nested = any(isinstance(each, ir.Output) for key in query.order for each in _inside(key.expr))
    is_plain = not query.order and query.limit is None and query.offset is None
    return is_plain or not (nested or _can_fail(query))


def sort_key(query: ir.QueryIR, key: ir.OrderKey) -> ir.Expr:
    """Return the expression of a sort key: that of the output which it names, or the key itself."""
    if isinstance(key.expr, ir.Output):
        name = key.expr.name
        return next(column.expr for column in query.outputs if column.name == name)
    return key.expr


def _inside(expr: ir.Expr) -> Iterator[ir.Expr]:
    for child in ir.children(expr):
        yield from ir.walk(child)


def _searches(query: ir.QueryIR) -> bool:
    exprs = [*(column.expr for column in query.outputs), *(key.expr for key in query.order)]
    kinds = (ir.Nearest, ir.Bm25, ir.Rrf, ir.TextMatch)
    return any(isinstance(each, kinds) for expr in exprs for each in ir.walk(expr))


def _can_fail(query: ir.QueryIR) -> bool:
    return any(isinstance(each, (ir.Arithmetic, ir.Negate)) for expr in _exprs(query) for each in ir.walk(expr))


def _exprs(query: ir.QueryIR) -> Iterator[ir.Expr]:
    yield from (column.expr for column in query.outputs)
    yield from (key.expr for key in query.order)
    for block in ir.blocks(query.pattern):
        yield from block.filters
