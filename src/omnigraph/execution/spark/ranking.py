"""Order by relevance on Spark: rows without a rank are dropped, and two rankings are fused.

In a fusion only the best of each ranking score, as many as the result may have rows. Only those are collected; the
embedded engine's code computes their scores, which are joined to the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.execution.arrow.evaluate import Request
from omnigraph.execution.arrow.governor import Governor
from omnigraph.execution.arrow.ranking import fusion_score, ranking_key
from omnigraph.execution.spark.columns import id_of, is_of_node, search_of, type_of
from omnigraph.execution.spark.match import Bound, checkpoint_rows, filter_rows
from omnigraph.execution.spark.search import constant_value
from omnigraph.execution.spark.versions import create_frame
from omnigraph.query import ir

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def rank_rows(bound: Bound, query: ir.QueryIR, request: Request, limit: int | None, governor: Governor) -> Bound:
    """Return the rows that the ranking function of the first sort key ranks; all rows where there is none."""
    score = ranking_key(query)
    if score is None or query.is_aggregate:
        return bound
    if isinstance(score, ir.Rrf):
        return _fused(bound, score, request, limit, governor)
    assert bound.rows is not None
    if is_of_node(score):
        return Bound(bound.rows.where(_is_ranked(score)), bound.kinds)
    has_value = ir.IsNull(score, True, ir.ExprType(None, "value"))
    return filter_rows(bound, [has_value], request)


def _is_ranked(score: ir.Nearest | ir.Bm25) -> Column:
    column = F.col(search_of(score))
    return column.isNotNull() if isinstance(score, ir.Nearest) else column > 0.0


def _fused(bound: Bound, score: ir.Rrf, request: Request, limit: int | None, governor: Governor) -> Bound:
    bound = checkpoint_rows(bound)
    assert bound.rows is not None
    name, var, arms = search_of(score), score.left.var, (score.left, score.right)
    node = [type_of(var), id_of(var)]
    columns = list(dict.fromkeys([*node, *map(search_of, arms)]))
    candidates = bound.rows.select(*columns).dropDuplicates(node)
    best = _best(candidates, score.left, node, limit).union(_best(candidates, score.right, node, limit))
    # In order of types, as the embedded engine orders nodes of one id.
    table = best.dropDuplicates(node).toArrow().sort_by([(node[0], "ascending"), (node[1], "ascending")])
    governor.check_rows(table.num_rows, len(columns))
    constant = float(constant_value(score.k, request))
    ids = table[node[1]].combine_chunks()
    total = np.zeros(table.num_rows)
    for arm in arms:
        values = table[search_of(arm)].combine_chunks()
        total += fusion_score(arm, values, lambda rows: ids.take(pa.array(rows)), limit, constant)
    scores = pa.table({node[0]: table[node[0]], node[1]: ids, name: total})
    fused = create_frame(bound.rows.sparkSession, scores)
    return Bound(bound.rows.join(F.broadcast(fused), on=node), {**bound.kinds, name: pa.float64()})


def _best(candidates: DataFrame, arm: ir.Nearest | ir.Bm25, node: list[str], limit: int | None) -> DataFrame:
    """Return the best nodes of one ranking."""
    value = F.col(search_of(arm))
    order = value.asc() if isinstance(arm, ir.Nearest) else value.desc()
    rows = candidates.where(_is_ranked(arm)).orderBy(order, F.col(node[1]).asc(), F.col(node[0]).asc())
    return rows if limit is None else rows.limit(limit)
