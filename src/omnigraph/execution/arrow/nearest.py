"""The nearest few of a whole type, proposed by its vector index.

Only for a query that asks for nothing but the nearest nodes of one type: there the index names a few candidates, and
they are ranked exactly like any others. With a filter, all that pass it are compared: that is exact, while the index
would propose nodes that the filter drops.
"""

from __future__ import annotations

from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.query import ir
from omnigraph.query.plan.model import QueryPlan, Scan
from omnigraph.storage.search_indexes import nearest, partitions

MAX_LIMIT = 1000
SPARE = 10
"""Candidates beyond those asked for, so that equal distances are ordered by id and not by chance."""


def indexed_candidates(
    plan: QueryPlan, data: GraphData, scope: Scope, request: Request, wanted: int | None
) -> tuple[str, Ints] | None:
    """The variable and the nodes that its vector index proposes; None when the index cannot answer."""
    first = plan.query.order[0] if plan.query.order else None
    if first is None or wanted is None or wanted > MAX_LIMIT or first.descending or len(plan.match) != 1:
        return None
    score, scan = _resolved(plan.query, first.expr), plan.match[0]
    if not isinstance(score, ir.Nearest) or not isinstance(scan, Scan) or scan.filters or scan.var != score.var:
        return None
    if len(scan.types) != 1 or plan.query.is_aggregate or plan.query.distinct or not wanted:
        return None
    node = data.catalog.node(scan.types[0])
    column = node.property(score.property).column
    table = data.loaded(node).table
    if data.topologies.expansion == "csr" or not table.has_index(column):
        return None
    vector = Evaluator(data, scope, request, Frame(1)).wanted_vector(score.var, score.property, score.query)
    probes = max(20, partitions(table.row_count) // 10)
    data.note(f"vector index, {probes} probes")
    places, _ = nearest(table, column, vector, wanted + SPARE, metric=score.metric, probes=probes)
    places.sort()
    return scan.var, places + data.nodes[node.name].offset


def _resolved(query: ir.QueryIR, expr: ir.Expr) -> ir.Expr:
    if isinstance(expr, ir.Output):
        return next(c.expr for c in query.outputs if c.name == expr.name)
    return expr
