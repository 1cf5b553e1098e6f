"""Run the algorithms of `graph.analytics` with kernels in Spark tasks.

Tasks build the topology from fragments and write it to scratch space as blocks (`topology.py`). Each superstep is one
Spark job: its tasks map their blocks and the vectors of the step into memory, apply the kernel and write their part
there. The driver holds a few vectors over the nodes and no edges. Results are equal to those of one process, bit for
bit, because a node's value is computed inside one block.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa

from omnigraph.api.analytics_requests import Algorithm
from omnigraph.api.arguments import AtLeast, Count, EntityId, checked
from omnigraph.api.target import Target
from omnigraph.execution.analytics.blocks import Kernel, Values
from omnigraph.execution.analytics.view import GraphView
from omnigraph.execution.spark.workers import store_of
from omnigraph.graph import Graph
from omnigraph.handles.analytics import Edges
from omnigraph.local.algorithms import run_algorithm
from omnigraph.pipeline.scratch_arrays import BlockFile, read_array, read_block, read_vector, write_array
from omnigraph.pipeline.spark_session import frame_of
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.pipeline.topology import topology_of
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.store import mint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@checked
class SparkAnalytics:
    """The methods of `graph.analytics`, run on a cluster; results are DataFrames."""

    def __init__(self, spark: SparkSession, graph: Graph) -> None:
        self._spark = spark
        self._graph = graph

    def degrees(self, edges: Edges, at: Target = None, *, weight: str | None = None) -> DataFrame:
        """Edges out of, into and at each node, counted, and added up by their `weight`."""
        return self._frame(lambda a: a.degrees(edges, at, weight=weight))

    def pagerank(
        self, edges: Edges, at: Target = None, *, damping: float = 0.85, iterations: Count = 20,
        tolerance: float | None = None, weight: str | None = None, sources: Sequence[EntityId] | None = None,
        type: str | None = None,
    ) -> DataFrame:  # fmt: skip
        """The PageRank of each node."""
        options = {"damping": damping, "iterations": iterations, "tolerance": tolerance}
        return self._frame(lambda a: a.pagerank(edges, at, weight=weight, sources=sources, type=type, **options))

    def components(self, edges: Edges, at: Target = None) -> DataFrame:
        """Weakly connected components."""
        return self._frame(lambda a: a.components(edges, at))

    def communities(
        self, edges: Edges, at: Target = None, *, iterations: Count = 10, weight: str | None = None
    ) -> DataFrame:
        """Communities by label propagation."""
        return self._frame(lambda a: a.communities(edges, at, iterations=iterations, weight=weight))

    def triangles(self, edges: Edges, at: Target = None) -> DataFrame:
        """Triangles that each node is a corner of."""
        return self._frame(lambda a: a.triangles(edges, at))

    def shortest_paths(
        self, edges: Edges, sources: Sequence[EntityId], at: Target = None, *, type: str | None = None,
        max_hops: Annotated[int, AtLeast(0)] | None = None, weight: str | None = None,
    ) -> DataFrame:  # fmt: skip
        """Hops, or the least sum of weights, from each source to every node it reaches."""
        return self._frame(lambda a: a.shortest_paths(edges, sources, at, type=type, max_hops=max_hops, weight=weight))

    def write(
        self, result: DataFrame, column: str, property: str | None = None, branch: str = MAIN,
        actor: str | None = None, message: str | None = None,
    ) -> Any:  # fmt: skip
        """Keep a column of a result as a property of its nodes, in one commit."""
        return self._graph.analytics.write(result.toArrow(), column, property, branch, actor, message)

    def _frame(self, ask: Any) -> DataFrame:
        def make_runner(view: GraphView) -> SparkRunner:
            return SparkRunner(self._spark, self._graph, view)

        def run(request: Algorithm) -> pa.Table:
            return run_algorithm(self._graph.local, request, make_runner)

        table: pa.Table = ask(self._graph.analytics.on(run))
        return frame_of(self._spark, table)


class SparkRunner:
    """Runs kernels in tasks, over blocks of the topology."""

    def __init__(self, spark: SparkSession, graph: Graph, view: GraphView) -> None:
        self._runner = TaskRunner(spark, f"compute over {graph.uri}")
        self._uri = graph.uri
        self._topology = topology_of(graph, view, self._runner)
        self._steps = itertools.count(1)

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Return values for all nodes, in node order."""
        return self._superstep(direction, _Step.apply, kernel, vectors, np.concatenate)

    def add_up(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Return the sum of the kernel's results for each pair of blocks: a task adds up those of its first block."""
        return self._superstep(direction, _Step.apply_to_pairs, kernel, vectors, _added)

    def whole(self, direction: str) -> None:
        """Return None: no process has all nodes as one block."""

    def _superstep(
        self, direction: str, apply: Any, kernel: Kernel, vectors: Sequence[Values],
        join: Callable[[list[Values]], Values],
    ) -> Values:  # fmt: skip
        blocks = self._topology.blocks(direction, self._runner)
        name = f"{self._topology.scratch}/step-{mint()}"
        given = tuple(f"{name}-in-{index}.npy" for index in range(len(vectors)))
        step = _Step(self._uri, kernel, given, tuple(blocks), name)
        try:
            for path, vector in zip(given, vectors, strict=True):
                write_array(self._uri, path, vector)
            answers = self._runner.map(partial(apply, step), range(len(blocks)), f"superstep {next(self._steps)}")
            return join([read_array(self._uri, answer) for answer in answers])
        finally:
            store_of(self._uri).objects.delete([*given, *map(step.answer, range(len(blocks)))])


@dataclass(frozen=True, slots=True)
class _Step:
    """One application of a kernel: its vectors, and the prefix of its answers' names."""

    uri: str
    kernel: Kernel
    given: tuple[str, ...]
    blocks: tuple[BlockFile, ...]
    name: str

    def apply(self, number: int) -> str:
        """Apply the kernel to one block, and write the values to scratch space."""
        return self._left(number, self.kernel(read_block(self.uri, self.blocks[number]), *self._vectors()))

    def apply_to_pairs(self, number: int) -> str:
        """Apply the kernel to one block with each, and write the sum."""
        block, vectors = read_block(self.uri, self.blocks[number]), self._vectors()
        return self._left(number, _added(self.kernel(block, read_block(self.uri, b), *vectors) for b in self.blocks))

    def _vectors(self) -> list[Values]:
        return [read_vector(self.uri, each) for each in self.given]

    def _left(self, number: int, values: Values) -> str:
        write_array(self.uri, self.answer(number), values)
        return self.answer(number)

    def answer(self, number: int) -> str:
        """Return the name of the values of a block."""
        return f"{self.name}-out-{number}.npy"


def _added(parts: Iterable[Values]) -> Values:
    """Return the sum of vectors, of which few are in memory at a time."""
    return functools.reduce(np.add, parts)
