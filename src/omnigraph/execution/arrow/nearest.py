"""The nearest nodes of a whole type, from candidates of its vector index.

Applies only to a query for the nearest nodes of one type, alone or fused with the best text matches: the indexes give a
few candidates, which are then ranked exactly. With a filter, all nodes that pass it are compared: that is exact, while
the index would give candidates that the filter drops.
"""

from __future__ import annotations

import numpy as np

from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.query import ir
from omnigraph.query.plan.model import QueryPlan, Scan
from omnigraph.schema.catalog import NodeType
from omnigraph.storage.search_indexes import nearest, partitions

MAX_LIMIT = 1000
SPARE = 10
"""Additional candidates, so that equal distances are ordered by id and not by chance."""


def indexed_candidates(
    plan: QueryPlan, data: GraphData, scope: Scope, request: Request, wanted: int | None
) -> tuple[str, Ints] | None:
    """Return the variable and the candidate nodes of its vector index; None when the index cannot answer."""
    first = plan.query.order[0] if plan.query.order else None
    if first is None or not wanted or wanted > MAX_LIMIT or len(plan.match) != 1:
        return None
    score, scan = _resolved(plan.query, first.expr), plan.match[0]
    arms = (score.left, score.right) if isinstance(score, ir.Rrf) else (score,)
    nearest_arms = [arm for arm in arms if isinstance(arm, ir.Nearest)]
    if not nearest_arms or (isinstance(score, ir.Nearest) and first.descending):
        return None
    if not isinstance(scan, Scan) or scan.filters or scan.var != nearest_arms[0].var or len(scan.types) != 1:
        return None
    node = data.catalog.node(scan.types[0])
    columns = [node.property(arm.property).column for arm in nearest_arms]
    table = data.loaded(node).table
    is_plain = not (plan.query.is_aggregate or plan.query.distinct) and data.topologies.expansion != "csr"
    if not is_plain or not all(map(table.has_index, columns)):
        return None
    evaluator = Evaluator(data, scope, request, Frame(1))
    if any(ir.variables(arm.query) or evaluator.scalar(arm.query).as_py() is None for arm in nearest_arms):
        return None
    found = [_nearest(arm, node, data, evaluator, wanted) for arm in nearest_arms]
    found += [_fitting(arm, node, data, evaluator, wanted) for arm in arms if isinstance(arm, ir.Bm25)]
    return scan.var, np.unique(np.concatenate(found)) + data.nodes[node.name].offset


def _nearest(arm: ir.Nearest, node: NodeType, data: GraphData, evaluator: Evaluator, wanted: int) -> Ints:
    """Return the candidate places of the vector index."""
    table = data.loaded(node).table
    vector = evaluator.wanted_vector(arm.var, arm.property, arm.query)
    probes = max(20, partitions(table.row_count) // 8)
    data.note(f"vector index, {probes} probes")
    column = node.property(arm.property).column
    places, _ = nearest(table, column, vector, wanted + SPARE, metric=arm.metric, probes=probes)
    return places


def _fitting(arm: ir.Bm25, node: NodeType, data: GraphData, evaluator: Evaluator, wanted: int) -> Ints:
    """Return the places of the best text matches, with all that tie with the last of them."""
    scores = data.text_index(node, arm.property).bm25(evaluator.scalar(arm.query).as_py() or "")
    places: Ints = np.flatnonzero(scores > 0)
    if wanted < len(places):
        last = -np.partition(-scores[places], wanted - 1)[wanted - 1]
        places = places[scores[places] >= last]
    return places


def _resolved(query: ir.QueryIR, expr: ir.Expr) -> ir.Expr:
    if isinstance(expr, ir.Output):
        return next(c.expr for c in query.outputs if c.name == expr.name)
    return expr
