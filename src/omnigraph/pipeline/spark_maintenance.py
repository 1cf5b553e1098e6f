"""Run `optimize` and index builds with the work in Spark tasks; the driver plans and publishes.

Tasks merge fragments and sort index segments of the version that the driver planned on. Their files are unreferenced
until the driver's one maintenance commit, which adapts to tables that writers moved meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.api.reports import IndexReport, OptimizeReport
from omnigraph.execution.spark.workers import store_of
from omnigraph.graph import Graph
from omnigraph.maintenance import indices as index_upkeep
from omnigraph.maintenance import optimize as table_upkeep
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.storage.compaction import TARGET_ROWS
from omnigraph.storage.maintenance_tasks import TaskPool, Work, perform
from omnigraph.storage.tables import TableStore
from omnigraph.versioning.refs import MAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Perform = Callable[[TableStore, Work], Any]


def optimize(
    spark: SparkSession, graph: Graph, branch: str = MAIN, *, actor: str | None = None, target_rows: int = TARGET_ROWS
) -> OptimizeReport:
    """`graph.maintenance.optimize` with fragments merged and indexes sorted by tasks; one commit, or none."""
    pool = spark_pool(spark, graph.uri)
    return table_upkeep.optimize(graph.repository, branch, actor=actor, target_rows=target_rows, pool=pool)


def build_indices(spark: SparkSession, graph: Graph, branch: str = MAIN, *, actor: str | None = None) -> IndexReport:
    """`graph.maintenance.ensure_indices` with segments built by tasks; one commit, or none."""
    pool = spark_pool(spark, graph.uri)
    return index_upkeep.ensure_indices(graph.repository, branch, actor=actor, pool=pool)


def spark_pool(spark: SparkSession, uri: str, how: Perform = perform) -> TaskPool:
    """A pool of tasks, one for each piece of work."""
    runner = TaskRunner(spark, f"maintain {uri}")

    def do(_: TableStore, works: Sequence[Work]) -> list[Any]:
        return runner.map(lambda work: how(store_of(uri).tables, work), works, "merge fragments and build indexes")

    return TaskPool(do, runner.parallelism)
