"""The planner: applies the rules of this package, one file each, to a query.              (QueryIR -> QueryPlan)"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.query import ir
from omnigraph.query.ir_text import expr_text
from omnigraph.query.plan.counting import counting_roots
from omnigraph.query.plan.cutting import cuts_first, stops_early, streams
from omnigraph.query.plan.liveness import live_variables
from omnigraph.query.plan.model import CountPaths, Finish, QueryPlan, Sizes
from omnigraph.query.plan.ordering import BlockOrder


def plan_query(query: ir.QueryIR, sizes: Sizes) -> QueryPlan:
    """Plan a query for tables of given sizes. Equal inputs give equal plans."""
    match, rows = BlockOrder(query.pattern, {}, frozenset(), 1.0, sizes).steps()
    roots = counting_roots(query)
    types = {n.var: n.types for n in query.pattern.nodes}
    count = CountPaths(roots, float(min((sizes.of(types[r]) for r in roots), default=0))) if roots else None
    finish = tuple(_finish(query, rows))
    return QueryPlan(
        query, match, count, stops_early(query), cuts_first(query), finish, live_variables(query, match), streams(query)
    )


def _finish(query: ir.QueryIR, rows: float) -> Iterator[Finish]:
    first = query.order[0].expr if query.order else None
    if isinstance(first, ir.Output):
        first = next(c.expr for c in query.outputs if c.name == first.name)
    if isinstance(first, (ir.Nearest, ir.Bm25, ir.Rrf)) and not query.is_aggregate:
        yield Finish("rank", expr_text(first), rows)
    if query.is_aggregate:
        keys = [c for c in query.outputs if not ir.has_aggregate(c.expr)]
        rows = max(1.0, rows * 0.1) if keys else 1.0
        yield Finish("group", ", ".join(c.name for c in keys), rows)
    yield Finish("project", ", ".join(c.name for c in query.outputs), rows)
    if query.having is not None:
        rows *= 0.5
        yield Finish("having", expr_text(query.having), rows)
    if query.distinct:
        yield Finish("distinct", "", rows)
    if query.order:
        keys_text = ", ".join(f"{expr_text(k.expr)} {'desc' if k.descending else 'asc'}" for k in query.order)
        yield Finish("sort", keys_text, rows)
    if query.limit is not None or query.offset is not None:
        limit = query.limit if isinstance(query.limit, int) else None
        yield Finish("cut", _bounds(query), rows if limit is None else min(rows, float(limit)))


def _bounds(query: ir.QueryIR) -> str:
    parts = []
    for word, bound in (("offset", query.offset), ("limit", query.limit)):
        if bound is not None:
            parts.append(f"{word} {bound if isinstance(bound, int) else expr_text(bound)}")
    return " ".join(parts)
