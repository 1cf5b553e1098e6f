"""Rule: when any rows will do, stop at enough of them; and do not compute what is cut off.

An expression that can fail must fail whichever rows are kept, so a query with arithmetic computes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.query import ir


def stops_early(query: ir.QueryIR) -> bool:
    """Whether the first rows found are as good as any: limited, and neither ordered, grouped nor made distinct."""
    is_plain = not (query.order or query.is_aggregate or query.distinct or query.having)
    return query.limit is not None and is_plain and not _can_fail(query)


def cuts_first(query: ir.QueryIR) -> bool:
    """Whether rows can be ordered and cut before they are projected: no sort key needs an output."""
    is_plain = query.having is None and not query.distinct and not query.is_aggregate
    names_output = any(isinstance(each, ir.Output) for key in query.order for each in ir.walk(key.expr))
    is_cut = query.limit is not None or query.offset is not None
    return is_plain and is_cut and not names_output and not _can_fail(query)


def _can_fail(query: ir.QueryIR) -> bool:
    return any(isinstance(each, (ir.Arithmetic, ir.Negate)) for expr in _exprs(query) for each in ir.walk(expr))


def _exprs(query: ir.QueryIR) -> Iterator[ir.Expr]:
    yield from (column.expr for column in query.outputs)
    yield from (key.expr for key in query.order)
    for block in ir.blocks(query.pattern):
        yield from block.filters
