"""Algorithms of `graph.analytics` with their kernels run by Spark tasks.

Blocks of the topology are cut once and left in the graph's scratch space. Each superstep is one Spark job: its tasks
map their blocks and the vectors of the step into memory, apply the kernel and leave their part there, so only names
pass between them and the driver. Results are equal to those of one process, bit for bit, because a node's value is
computed inside one block.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa

from omnigraph.execution.analytics.blocks import Block, Ints, Kernel, Values
from omnigraph.execution.analytics.view import GraphView
from omnigraph.execution.spark.workers import store_of
from omnigraph.graph import Graph
from omnigraph.handles.analytics import Edges
from omnigraph.handles.arguments import AtLeast, Count, EntityId, checked
from omnigraph.pipeline.spark_session import frame_of
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.storage.layout import STAGING
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.store import mint
from omnigraph.versioning.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EDGES_PER_BLOCK = 2 << 20
_BLOCKS_HELD = 16
"""How many blocks a worker process keeps between supersteps: those that are not mapped take its memory."""


@checked
class SparkAnalytics:
    """The methods of `graph.analytics`, run on a cluster; results are DataFrames."""

    def __init__(self, spark: SparkSession, graph: Graph) -> None:
        self._spark = spark
        self._graph = graph

    def degrees(self, edges: Edges, at: Target = None) -> DataFrame:
        """Edges out of, into and at each node."""
        return self._frame(lambda a: a.degrees(edges, at))

    def pagerank(
        self, edges: Edges, at: Target = None, *, damping: float = 0.85, iterations: Count = 20,
        tolerance: float | None = None,
    ) -> DataFrame:  # fmt: skip
        """The PageRank of each node."""
        return self._frame(lambda a: a.pagerank(edges, at, damping=damping, iterations=iterations, tolerance=tolerance))

    def components(self, edges: Edges, at: Target = None) -> DataFrame:
        """Weakly connected components."""
        return self._frame(lambda a: a.components(edges, at))

    def communities(self, edges: Edges, at: Target = None, *, iterations: Count = 10) -> DataFrame:
        """Communities by label propagation."""
        return self._frame(lambda a: a.communities(edges, at, iterations=iterations))

    def triangles(self, edges: Edges, at: Target = None) -> DataFrame:
        """Triangles that each node is a corner of."""
        return self._frame(lambda a: a.triangles(edges, at))

    def shortest_paths(
        self, edges: Edges, sources: Sequence[EntityId], at: Target = None, *, type: str | None = None,
        max_hops: Annotated[int, AtLeast(0)] | None = None,
    ) -> DataFrame:  # fmt: skip
        """Hops from each source to every node it reaches."""
        return self._frame(lambda a: a.shortest_paths(edges, sources, at, type=type, max_hops=max_hops))

    def write(
        self, result: DataFrame, column: str, property: str | None = None, branch: str = MAIN,
        actor: str | None = None, message: str | None = None,
    ) -> Any:  # fmt: skip
        """Keep a column of a result as a property of its nodes, in one commit."""
        return self._graph.analytics.write(result.toArrow(), column, property, branch, actor, message)

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
        return frame_of(self._spark, table)


class SparkRunner:
    """Runs kernels in tasks, over blocks of the topology."""

    def __init__(self, spark: SparkSession, graph: Graph, view: GraphView) -> None:
        self._runner = TaskRunner(spark, f"compute over {graph.uri}")
        self._uri = graph.uri
        self._objects = store_of(graph.uri).objects
        self._view = view
        self._scratch = f"{STAGING}/analytics-{mint()}"
        self._cut: dict[str, list[str]] = {}
        self._steps = itertools.count()

    def degrees(self, direction: str) -> Ints:
        """How many neighbours each node has: no work for tasks."""
        return self._view.rows(direction).degrees()

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Values for all nodes, in node order."""
        blocks = self._blocks(direction)
        number = next(self._steps)
        name = f"{self._scratch}/{number}-"
        given = tuple(f"{name}in-{number}.npy" for number in range(len(vectors)))
        try:
            for path, vector in zip(given, vectors, strict=True):
                self._objects.put_new(path, _packed(vector), flush=False)
            step = _Step(self._uri, kernel, given, name)
            answers = self._runner.map(step.apply, list(enumerate(blocks)), f"superstep {number + 1}")
            return np.concatenate([_array_at(self._uri, answer) for answer in answers])
        finally:
            self._objects.delete([*given, *(f"{name}out-{number}.npy" for number in range(len(blocks)))])

    def close(self) -> None:
        """Remove the blocks."""
        self._objects.delete_prefix(self._scratch)

    def _blocks(self, direction: str) -> list[str]:
        """The paths of the blocks of a direction: as many for each task, and none too large to hold."""
        if direction not in self._cut:
            rows = self._view.rows(direction)
            slots = self._runner.parallelism
            rounds = -(-len(rows.neighbours) // (_EDGES_PER_BLOCK * slots))
            paths: list[str] = []
            for number, block in enumerate(rows.blocks(max(1, rounds) * slots)):
                path = f"{self._scratch}/{direction}-{number}"
                header = np.array([block.begin], np.int64)
                self._objects.put_new(f"{path}-starts.npy", _packed(header, block.starts), flush=False)
                self._objects.put_new(f"{path}-neighbours.npy", _packed(block.neighbours), flush=False)
                paths.append(path)
            self._cut[direction] = paths
        return self._cut[direction]


@dataclass(frozen=True, slots=True)
class _Step:
    """One application of a kernel: the vectors it is given, and what the names of its answers begin with."""

    uri: str
    kernel: Kernel
    given: tuple[str, ...]
    name: str

    def apply(self, item: tuple[int, str]) -> str:
        """Apply the kernel to one block, and leave the values where the driver finds them."""
        number, path = item
        found = self.kernel(_block_at(self.uri, path), *(_array_at(self.uri, each) for each in self.given))
        answer = f"{self.name}out-{number}.npy"
        store_of(self.uri).objects.put_new(answer, _packed(found), flush=False)  # a second attempt finds the same
        return answer


@lru_cache(maxsize=_BLOCKS_HELD)
def _block_at(uri: str, path: str) -> Block:
    """A block of the scratch space."""
    begin, starts = np.split(_array_at(uri, f"{path}-starts.npy"), [1])
    return Block(int(begin[0]), starts, _array_at(uri, f"{path}-neighbours.npy"))


def _array_at(uri: str, path: str) -> Values:
    """An array of the scratch space; on a local disk it is mapped, not read."""
    store = store_of(uri)
    if store.root.is_local:
        return np.asarray(np.load(os.path.join(store.root.uri, path), mmap_mode="r"))
    body = io.BytesIO(store.objects.get(path) or b"")
    return np.asarray(np.load(body))


def _packed(*parts: Values) -> pa.Buffer:
    """Arrays of one kind, one after the other, as a file that numpy maps."""
    kind = np.dtype(parts[0].dtype)
    head = io.BytesIO()
    shape = (sum(map(len, parts)),)
    np.lib.format.write_array_header_1_0(
        head, {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    )
    body = pa.allocate_buffer(head.tell() + shape[0] * kind.itemsize)
    np.frombuffer(body, np.uint8, head.tell())[:] = np.frombuffer(head.getbuffer(), np.uint8)
    np.concatenate(parts, out=np.frombuffer(body, kind, offset=head.tell()))
    return body
