"""The engine "spark" of the facade: the calls of the in-process engine, executed on the current session."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.api.arguments import checked
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.api.target import Target
from omnigraph.api.write_requests import LoadRows
from omnigraph.execution.arrow.governor import Limits
from omnigraph.execution.spark.engine import SparkExecutor
from omnigraph.execution.spark.versions import clone_session, frame_on
from omnigraph.graph import Graph
from omnigraph.local.graph_state import LocalGraph
from omnigraph.local.service import LocalService
from omnigraph.pipeline.api import load as bulk_load
from omnigraph.pipeline.load_plan import with_options
from omnigraph.pipeline.s3_settings import s3_access
from omnigraph.pipeline.spark_analytics import SparkAnalytics
from omnigraph.pipeline.spark_maintenance import spark_pool
from omnigraph.pipeline.spark_merge import spark_comparing
from omnigraph.pipeline.spark_session import frame_of, plain_session, session, work_session
from omnigraph.pipeline.sql_reads import run_sql
from omnigraph.pipeline.views import read_type, register_views
from omnigraph.query.plan import QueryPlan
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.maintenance_tasks import TaskPool
from omnigraph.versioning.snapshot import Snapshot
from omnigraph.versioning.store import GraphStore
from omnigraph.write.inputs.file_options import NO_OPTIONS
from omnigraph.write.merge_compare import Comparing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(graph: LocalGraph, request: LoadRows, progress: Listener | None) -> LoadResult:
    """`graph.load(..., engine="spark")`."""
    spark, data = plain_session(progress=progress), request.data
    if request.options not in (None, NO_OPTIONS):
        data = with_options(data, request.options, s3_access(spark))
    target = Graph(LocalService(graph))
    nodes, edges, files = _sorted(target, data, request.branch, request.from_branch)
    return bulk_load(
        spark, target, nodes, edges, request.mode, request.branch, data=files, from_branch=request.from_branch,
        actor=request.actor, message=request.message, max_errors=request.max_errors, dry_run=request.dry_run,
        progress=progress, expect_head=request.expect_head, idempotency_key=request.idempotency_key,
        ignore_unknown=request.ignore_unknown, dedupe_edges=request.dedupe_edges,
    )  # fmt: skip


def execute(
    store: GraphStore, plan: QueryPlan, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]
) -> pa.Table:
    """`graph.query(..., engine="spark")`."""
    settings = store.settings
    limits = Limits(settings.query_max_rows, settings.query_max_memory, settings.query_max_seconds)
    return SparkExecutor(work_session(plain_session()), store.root.uri, limits).execute(plan, snapshot, catalog, params)


def _sorted(
    graph: Graph, data: Any, branch: str, from_branch: str | None
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Sort sources into those of node types, of edge types, and files of envelopes."""
    if not isinstance(data, Mapping):
        return {}, {}, data
    catalog = graph.catalog(from_branch or branch)
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    for given, value in data.items():
        kind, _, name = str(given).rpartition(":")
        is_edge = kind == "edge" if kind else name in catalog.edges and name not in catalog.nodes
        (edges if is_edge else nodes)[name] = value
    return nodes, edges, None


def pool(uri: str, progress: Listener | None = None) -> TaskPool:
    """`graph.maintenance.optimize(engine="spark")`."""
    return spark_pool(plain_session(progress=progress), uri)


def comparing(progress: Listener | None = None) -> Comparing:
    """`graph.branches.merge(engine="spark")`."""
    return spark_comparing(plain_session(progress=progress))


@checked
class SparkView:
    """`graph.spark`: the graph as DataFrames, SQL views and distributed analytics."""

    def __init__(self, graph: Graph, spark: SparkSession | None = None) -> None:
        self._graph = graph
        self._given = spark

    @property
    def session(self) -> SparkSession:
        """The Spark session in use; started if there is none."""
        return self._given or session()

    def table(
        self, type_name: str, at: Target = None, columns: Sequence[str] | None = None, filter: str | None = None
    ) -> DataFrame:
        """A node or edge type as a DataFrame; `filter` is a condition of the query language, decided in storage."""
        return read_type(self.session, self._graph, type_name, at, columns, filter)

    def views(self, at: Target = None, *, prefix: str = "") -> list[str]:
        """Register one SQL view per type, all of one snapshot; return their names."""
        return register_views(self.session, self._graph, at, prefix=prefix)

    def sql(self, query: str, at: Target = None) -> DataFrame:
        """Execute one SQL query over the views of a snapshot, and the views of the session.

        The views are registered on a copy of the session, with its settings. Only the columns and rows that Spark's
        plan of the query uses are read.
        """
        return frame_on(self.session, run_sql(clone_session(self.session), self._graph, query, at))

    def query(
        self, text: str | os.PathLike[str], name: str | None = None, params: Mapping[str, Any] | None = None,
        at: Target = None,
    ) -> DataFrame:  # fmt: skip
        """Execute a `.gq` query like `graph.query(..., engine="spark")`; return its rows in order as a DataFrame."""
        found = self._graph.query(text, name, params, snapshot=at, engine="spark")
        return frame_of(self.session, found.to_arrow())

    @property
    def analytics(self) -> SparkAnalytics:
        """Whole-graph algorithms, run by tasks."""
        return SparkAnalytics(self.session, self._graph)


def view(graph: Graph) -> SparkView:
    """`graph.spark`."""
    return SparkView(graph)
