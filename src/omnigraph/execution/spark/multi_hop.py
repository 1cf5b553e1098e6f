"""Expand several hops as repeated joins: every node at its shortest distance from a start.

Each level joins the frontier with the edges and removes the nodes reached before. A start node is reached again only
over a self-loop. Lineage is cut at every level, so that plans stay small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from omnigraph.execution.spark.scans import FAR, FAR_TYPE, NEAR, NEAR_TYPE
from omnigraph.execution.spark.versions import local_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START, START_TYPE, PATH = "start", "start_type", "path"
_PAIR = [START_TYPE, START, FAR_TYPE, FAR]


def reach_nodes(starts: DataFrame, steps: DataFrame, low: int, high: int | None, *, paths: bool) -> DataFrame:
    """Return pairs of a start and a node between `low` and `high` hops away, with one shortest path on request.

    `starts` has the columns `start_type` and `start`. Among paths of one length the least, by ids, is returned.
    """
    starts = starts.distinct()
    frontier = starts.select(
        START_TYPE, START, F.col(START_TYPE).alias(NEAR_TYPE), F.col(START).alias(NEAR),
        F.array(F.col(START)).alias(PATH),
    )  # fmt: skip
    steps = local_checkpoint(steps.select(NEAR_TYPE, NEAR, FAR_TYPE, FAR), eager=True)
    met = starts.select(START_TYPE, START, F.col(START_TYPE).alias(FAR_TYPE), F.col(START).alias(FAR))
    found: list[DataFrame] = []
    depth = 0
    while high is None or depth < high:
        depth += 1
        fresh = _one_level(frontier, steps, paths=paths)
        if depth > 1:
            fresh = fresh.join(met, on=_PAIR, how="left_anti")
        fresh = local_checkpoint(fresh, eager=True)
        if fresh.isEmpty():
            found.append(fresh)
            break
        if depth >= low:
            found.append(fresh)
        met = met.unionByName(fresh.select(*_PAIR))
        frontier = fresh.withColumnsRenamed({FAR_TYPE: NEAR_TYPE, FAR: NEAR})
    if not found:
        found.append(fresh.limit(0))
    result = found[0]
    for each in found[1:]:
        result = result.unionByName(each)
    return result


def _one_level(frontier: DataFrame, steps: DataFrame, *, paths: bool) -> DataFrame:
    joined = frontier.join(steps, on=[NEAR_TYPE, NEAR])
    if not paths:
        return joined.select(*_PAIR, F.lit(None).cast("array<string>").alias(PATH)).dropDuplicates(_PAIR)
    longer = F.concat(F.col(PATH), F.array(F.col(FAR)))
    return joined.select(*_PAIR, longer.alias(PATH)).groupBy(*_PAIR).agg(F.min(PATH).alias(PATH))
