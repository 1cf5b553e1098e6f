"""Algorithms of `graph.analytics` with their kernels run by Spark tasks.

Blocks of the topology are cut once and left in the graph's scratch space; each superstep is one Spark job whose tasks
map their block and the vectors of the step into memory, apply the kernel and leave their part there: only names pass
through the JVM. Results are equal to those of one process, bit for bit, because a node's value is computed inside one
block.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.execution.analytics.blocks import Block, Kernel, Values
from omnigraph.execution.analytics.view import GraphView
from omnigraph.execution.spark.workers import store_of
from omnigraph.graph import Graph
from omnigraph.handles.analytics import Edges
from omnigraph.pipeline.spark_session import require_tasks
from omnigraph.storage.layout import STAGING
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Target
from omnigraph.versioning.store import mint

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

_EDGES_PER_BLOCK = 2 << 20


class SparkAnalytics:
    """The methods of `graph.analytics`, run on a cluster; results are DataFrames."""

    def __init__(self, spark: SparkSession, graph: Graph) -> None:
        require_tasks(spark)
        self._spark = spark
        self._graph = graph

    def degrees(self, edges: Edges, at: Target = None) -> DataFrame:
        """Edges out of, into and at each node."""
        return self._frame(lambda a: a.degrees(edges, at))

    def pagerank(self, edges: Edges, at: Target = None, **options: Any) -> DataFrame:
        """The PageRank of each node; options as in `graph.analytics.pagerank`."""
        return self._frame(lambda a: a.pagerank(edges, at, **options))

    def components(self, edges: Edges, at: Target = None) -> DataFrame:
        """Weakly connected components."""
        return self._frame(lambda a: a.components(edges, at))

    def communities(self, edges: Edges, at: Target = None, *, iterations: int = 10) -> DataFrame:
        """Communities by label propagation."""
        return self._frame(lambda a: a.communities(edges, at, iterations=iterations))

    def triangles(self, edges: Edges, at: Target = None) -> DataFrame:
        """Triangles that each node is a corner of."""
        return self._frame(lambda a: a.triangles(edges, at))

    def shortest_paths(self, edges: Edges, sources: Sequence[str], at: Target = None, **options: Any) -> DataFrame:
        """Hops from each source to every node it reaches."""
        return self._frame(lambda a: a.shortest_paths(edges, sources, at, **options))

    def write(self, result: DataFrame, column: str, property: str | None = None, branch: str = MAIN, **who: Any) -> Any:
        """Keep a column of a result as a property of its nodes, in one commit."""
        return self._graph.analytics.write(result.toArrow(), column, property, branch, **who)

    def _frame(self, ask: Any) -> DataFrame:
        runners: list[SparkRunner] = []

        def runner(view: GraphView) -> SparkRunner:
            runners.append(SparkRunner(self._spark, self._graph, view))
            return runners[-1]

        try:
            table: pa.Table = ask(self._graph.analytics.on(runner))
        finally:
            for each in runners:
                each.close()
        return self._spark.createDataFrame(table)


class SparkRunner:
    """Runs kernels as Spark tasks, one per block."""

    def __init__(self, spark: SparkSession, graph: Graph, view: GraphView) -> None:
        self._context = spark.sparkContext
        self._uri = graph.uri
        self._objects = store_of(graph.uri).objects
        self._view = view
        self._scratch = f"{STAGING}/analytics-{mint()}"
        self._cut: dict[str, RDD[str]] = {}

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Values for all nodes, in node order."""
        blocks = self._blocks(direction)
        step = f"{self._scratch}/step-{mint()}"
        given = [f"{step}/in-{number}.npy" for number in range(len(vectors))]
        for path, vector in zip(given, vectors, strict=True):
            self._objects.put_new(path, _packed(vector), flush=False)
        uri = self._uri

        def task(path: str) -> str:
            found = kernel(_block_at(uri, path), *(_array_at(uri, each) for each in given))
            answer = f"{step}/out-{path.rpartition('/')[2]}"
            store_of(uri).objects.put_new(answer, _packed(found), flush=False)  # a second attempt finds the same there
            return answer

        try:
            answers = blocks.map(task).collect()
            return np.concatenate([_array_at(uri, answer) for answer in answers])
        finally:
            self._objects.delete_prefix(f"{step}/")

    def close(self) -> None:
        """Remove the blocks."""
        self._objects.delete_prefix(self._scratch)

    def _blocks(self, direction: str) -> RDD[str]:
        """The paths of the blocks of a direction, a task each."""
        if direction not in self._cut:
            rows = self._view.rows(direction)
            enough = max(self._context.defaultParallelism, -(-len(rows.neighbours) // _EDGES_PER_BLOCK))
            paths: list[str] = []
            for number, block in enumerate(rows.blocks(enough)):
                path = f"{self._scratch}/{direction}-{number}.npy"
                header = np.array([block.begin, len(block.starts)], np.int64)
                body = np.concatenate([header, block.starts, block.neighbours])
                self._objects.put_new(path, _packed(body), flush=False)
                paths.append(path)
            self._cut[direction] = self._context.parallelize(paths, len(paths))
        return self._cut[direction]


def _block_at(uri: str, path: str) -> Block:
    """A block of the scratch space."""
    data = _array_at(uri, path)
    begin, length = int(data[0]), int(data[1])
    return Block(begin, data[2 : 2 + length], data[2 + length :])


def _array_at(uri: str, path: str) -> Values:
    """An array of the scratch space; on a local disk it is mapped, not read."""
    store = store_of(uri)
    if store.root.is_local:
        found: Values = np.load(os.path.join(store.root.uri, path), mmap_mode="r")
        return found
    return _unpacked(store.objects.get(path) or b"")


def _packed(values: Values) -> bytes:
    body = io.BytesIO()
    np.save(body, values)
    return body.getvalue()


def _unpacked(body: bytes) -> Values:
    found: Values = np.load(io.BytesIO(body))
    return found
