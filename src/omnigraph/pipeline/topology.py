"""Topologies too large for one process: built by tasks from the fragments of tables, and kept in scratch space.

The driver sees descriptions only: fragments, names of files and, for each file, where ranges of nodes begin in it. A
topology serves all algorithms over its pins until another one is requested.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.errors import OmnigraphError
from omnigraph.execution.analytics.algorithms import IN, OUT
from omnigraph.execution.analytics.view import GraphView
from omnigraph.graph import Graph
from omnigraph.pipeline.scratch_arrays import BlockFile
from omnigraph.pipeline.screening_driver import grouped_fragments
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.pipeline.topology_tasks import (
    ArcRange,
    Arcs,
    BlockWork,
    EdgeRange,
    TableSplit,
    TopologyJob,
    build_block,
    resolve,
    resolve_alone,
)
from omnigraph.storage.layout import STAGING
from omnigraph.storage.objects import ObjectStore
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import mint, ticks

if TYPE_CHECKING:
    from weakref import WeakKeyDictionary

_REUSED_SECONDS = 3600.0
"""Long before a collector treats scratch space as abandoned."""


class ScratchTopology:
    """The arcs of one view in scratch space, and the blocks requested so far. Deleted with its last reference."""

    def __init__(self, graph: Graph, view: GraphView, runner: TaskRunner) -> None:
        self._job, splits = _described(graph, view)
        self._blocks: dict[str, list[BlockFile]] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _remove, graph.repository.store.objects, self._job.scratch, os.getpid())
        settings = graph.repository.store.settings
        self._block_edges = settings.analytics_block_edges
        self._arcs = _resolved(self._job, splits, runner, settings.analytics_few_rows)
        self.built = ticks()

    @property
    def scratch(self) -> str:
        """Return the prefix of its objects' names."""
        return self._job.scratch

    def blocks(self, direction: str, runner: TaskRunner) -> list[BlockFile]:
        """Return the blocks of a direction: equally many per slot, and each small enough to hold."""
        with self._lock:
            if direction not in self._blocks:
                work = list(_block_work(self._job, self._arcs, direction, runner.parallelism, self._block_edges))
                build = partial(build_block, self._job)
                self._blocks[direction] = runner.map(build, work, f"build the topology, {direction}")
            return self._blocks[direction]


def _resolved(job: TopologyJob, splits: Sequence[TableSplit], runner: TaskRunner, few_rows: int) -> Arcs:
    """Few nodes and edges are resolved by one task: several would wait for each other longer than they work."""
    if job.node_count + job.edge_count > few_rows:
        return resolve(job, splits, runner.map, runner.parallelism)
    [arcs] = runner.map(resolve_alone, [(job, splits)], "find the ends of edges")
    return list(arcs)


def _remove(objects: ObjectStore, scratch: str, owner: int) -> None:
    """Delete the objects; the collector removes those of a failure. A forked process leaves them to its parent."""
    if os.getpid() == owner:
        with contextlib.suppress(OmnigraphError):
            objects.delete_prefix(scratch)


def _described(graph: Graph, view: GraphView) -> tuple[TopologyJob, list[TableSplit]]:
    store, snapshot, catalog = graph.repository.store, view.data.snapshot, view.data.catalog
    edges, total = [], 0
    firsts = {f"node:{name}": offset for name, offset in view.offsets.items()}
    for edge in map(catalog.edge, view.edge_types):
        edges.append(EdgeRange(edge.name, edge.source, edge.target, total))
        firsts[edge.table_key] = total
        total += view.data.edges[edge.name].count
    tables = {key: snapshot.table(key) for key in firsts}
    job = TopologyJob(
        uri=graph.uri, scratch=f"{STAGING}/analytics-{mint()}", schema_hash=snapshot.schema_hash,
        pins={key: (entry.location, entry.staged_version) for key, entry in tables.items()}, edges=tuple(edges),
        node_count=view.node_count, edge_count=total, weight=view.weight,
    )  # fmt: skip
    splits: list[TableSplit] = []
    for key, entry in tables.items():
        first = firsts[key]
        rows = {i: f.num_rows for i, f in open_table(store, entry).fragments.items()}
        for fragments in grouped_fragments(rows):
            splits.append(TableSplit(key, fragments, first))
            first += sum(rows[i] for i in fragments)
    return job, splits


def _block_work(job: TopologyJob, arcs: Arcs, direction: str, slots: int, most_edges: int) -> Iterator[BlockWork]:
    """Return ranges of nodes with about equally many neighbours each."""
    outgoing = [out for out, _ in arcs] if direction != IN else []
    incoming = [into for _, into in arcs] if direction != OUT else []
    bins = job.bins
    filled = np.zeros(len(bins), np.int64)
    for file in (*outgoing, *incoming):
        filled += file.bounds
    count = max(1, -(-int(filled[-1]) // (most_edges * slots))) * slots
    weight = filled + bins  # nodes cost something as well
    cuts = np.searchsorted(weight, np.linspace(0, int(weight[-1]), count + 1)[1:-1])
    for first, last in itertools.pairwise(np.unique([0, *cuts, len(bins) - 1]).tolist()):
        sides = [
            tuple(
                ArcRange(file.path, file.rows, int(file.bounds[first]), int(file.bounds[last]))
                for file in files
                if file.bounds[first] < file.bounds[last]
            )
            for files in (outgoing, incoming)
        ]
        yield BlockWork(direction, int(bins[first]), int(bins[last]), *sides)


_KEPT: WeakKeyDictionary[Graph, tuple[Any, ScratchTopology]] = weakref.WeakKeyDictionary()
"""The last used topology of each open graph."""


def topology_of(graph: Graph, view: GraphView, runner: TaskRunner) -> ScratchTopology:
    """Return the topology of a view: the kept one, or a new one."""
    tables = [f"node:{name}" for name in view.node_types] + [f"edge:{name}" for name in view.edge_types]
    entries = [view.data.snapshot.table(key) for key in tables]
    key = (view.weight, [(entry.location, entry.staged_version) for entry in entries])
    kept = _KEPT.get(graph)
    if kept is None or kept[0] != key or ticks() - kept[1].built > _REUSED_SECONDS:
        kept = _KEPT[graph] = (key, ScratchTopology(graph, view, runner))
    return kept[1]


def forget(graph: Graph) -> None:
    """Release the topology that is kept of a graph."""
    _KEPT.pop(graph, None)
