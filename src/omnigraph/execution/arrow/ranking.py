"""Ordering by relevance: what a ranking function as first sort key does to the rows before they are sorted.

Rows that a ranking does not rank are dropped: no vector, no matching word. Fusion ranks the entities twice, each time
among those that the pattern left, keeps the best `limit` of each, and adds up what their places are worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.rank import ranks
from omnigraph.query import ir

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
        """The rows that are ranked, and their score or distance."""
        score = self._first_key()
        if score is None or self._query.is_aggregate:
            return frame, {}
        values = self._fused(score, frame) if isinstance(score, ir.Rrf) else self._values(score, frame)
        is_distance = isinstance(score, ir.Nearest)
        kept = pc.is_valid(values) if is_distance else pc.fill_null(pc.greater(values, 0.0), False)
        mask = kept.to_numpy(zero_copy_only=False)
        return frame.keep(mask), {score: values.filter(kept)}

    def _first_key(self) -> ir.Nearest | ir.Bm25 | ir.Rrf | None:
        if not self._query.order:
            return None
        expr = self._query.order[0].expr
        if isinstance(expr, ir.Output):
            expr = next(c.expr for c in self._query.outputs if c.name == expr.name)
        return expr if isinstance(expr, (ir.Nearest, ir.Bm25, ir.Rrf)) else None

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
        total = np.zeros(len(entities))
        for arm in (score.left, score.right):
            total += self._worth(arm, distinct, entities, constant)
        return pa.array(total[which])

    def _worth(self, arm: ir.Nearest | ir.Bm25, distinct: Frame, entities: Ints, constant: float) -> Floats:
        """1 / (constant + place + 1) for the best of one ranking, 0 for the others."""
        values = self._values(arm, distinct)
        known = pc.is_valid(values).to_numpy(zero_copy_only=False)
        numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
        if isinstance(arm, ir.Bm25):
            known &= numbers > 0
            numbers = -numbers
        rows = np.flatnonzero(known)
        if self._limit and self._limit < len(rows):
            # Whatever their ids, rows behind the last place that counts need no order.
            last = np.partition(numbers[rows], self._limit - 1)[self._limit - 1]
            rows = rows[numbers[rows] <= last]
        ids = ranks(self._data.take(self._scope.nodes[arm.var], "id", entities[rows]))
        best = rows[np.lexsort((ids, numbers[rows]))][: self._limit]
        worth = np.zeros(len(entities))
        worth[best] = 1.0 / (constant + np.arange(len(best)) + 1.0)
        return worth
