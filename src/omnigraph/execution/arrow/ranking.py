"""Order by relevance: apply a ranking function that is the first sort key, before rows are sorted.

Rows without a rank are dropped: no vector, no matching word. Fusion ranks the entities that the pattern left twice,
keeps the best `limit` of each ranking, and adds up the scores of their ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.rank import ranks
from omnigraph.query import ir
from omnigraph.query.plan.cutting import sort_key

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Ranking:
    """Applies the ranking function of a query's first sort key, if it has one."""

    def __init__(self, query: ir.QueryIR, data: GraphData, scope: Scope, request: Request, limit: int | None) -> None:
        self._query = query
        self._data = data
        self._scope = scope
        self._request = request
        self._limit = limit

    def apply(self, frame: Frame) -> tuple[Frame, dict[ir.Expr, pa.Array]]:
        """Return the ranked rows, and their score or distance."""
        score = ranking_key(self._query)
        if score is None or self._query.is_aggregate:
            return frame, {}
        values = self._fused(score, frame) if isinstance(score, ir.Rrf) else self._values(score, frame)
        is_distance = isinstance(score, ir.Nearest)
        kept = pc.is_valid(values) if is_distance else pc.fill_null(pc.greater(values, 0.0), False)
        mask = kept.to_numpy(zero_copy_only=False)
        return frame.keep(mask), {score: values.filter(kept)}

    def _values(self, score: ir.Nearest | ir.Bm25, frame: Frame) -> pa.Array:
        return Evaluator(self._data, self._scope, self._request, frame).array(score)

    def _fused(self, score: ir.Rrf, frame: Frame) -> pa.Array:
        var = score.left.var
        entities = frame.numbers[var]
        which: Ints | slice = slice(None)
        if not (entities[1:] > entities[:-1]).all():
            entities, which = np.unique(entities, return_inverse=True)
        distinct = Frame(len(entities), {var: entities})
        constant = float(Evaluator(self._data, self._scope, self._request, Frame(1)).scalar(score.k).as_py())
        types = self._scope.nodes[var]
        total = np.zeros(len(entities))
        for arm in (score.left, score.right):
            values = self._values(arm, distinct)
            total += fusion_score(
                arm, values, lambda rows: self._data.take(types, "id", entities[rows]), self._limit, constant
            )
        return pa.array(total[which])


def ranking_key(query: ir.QueryIR) -> ir.Nearest | ir.Bm25 | ir.Rrf | None:
    """Return the ranking function that is the first sort key of a result."""
    if not query.order:
        return None
    expr = sort_key(query, query.order[0])
    return expr if isinstance(expr, (ir.Nearest, ir.Bm25, ir.Rrf)) else None


def fusion_score(
    arm: ir.Nearest | ir.Bm25, values: pa.Array, ids: Callable[[Ints], pa.Array], limit: int | None, constant: float
) -> Floats:
    """Return 1 / (constant + place + 1) for the best of one ranking, 0 for the others. Ties are ordered by ids."""
    known = pc.is_valid(values).to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    if isinstance(arm, ir.Bm25):
        known &= numbers > 0
        numbers = -numbers
    rows = np.flatnonzero(known)
    if limit and limit < len(rows):
        # Rows behind the last place that counts need no order, whatever their ids.
        last = np.partition(numbers[rows], limit - 1)[limit - 1]
        rows = rows[numbers[rows] <= last]
    best = rows[np.lexsort((ranks(ids(rows)), numbers[rows]))][:limit]
    worths = np.zeros(len(values))
    worths[best] = 1.0 / (constant + np.arange(len(best)) + 1.0)
    return worths
