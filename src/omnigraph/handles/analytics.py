"""`graph.analytics`: algorithms over the whole of one snapshot, and their results as properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import pyarrow as pa

from omnigraph.api.analytics_requests import (
    Algorithm,
    Communities,
    Components,
    Degrees,
    PageRank,
    ShortestPaths,
    Triangles,
    WriteColumn,
)
from omnigraph.api.arguments import AtLeast, Count, EntityId, checked
from omnigraph.api.requests import MAIN
from omnigraph.api.results import LoadResult
from omnigraph.api.service import GraphService
from omnigraph.api.target import Target

Edges = str | Sequence[str]


@checked
class Analytics:
    """Each method answers with a table of `type`, `id` and a value for every node at the ends of some edge types.

    `edges` names the edge types; `at` is a branch, tag, commit or manifest version, main's head by default.
    """

    def __init__(self, service: GraphService, run: Callable[[Algorithm], pa.Table] | None = None) -> None:
        self._service = service
        self._run = run or service.call

    def on(self, run: Callable[[Algorithm], pa.Table]) -> Analytics:
        """Return the same namespace with requests executed by another service."""
        return Analytics(self._service, run)

    def degrees(self, edges: Edges, at: Target = None, *, weight: str | None = None) -> pa.Table:
        """Edges out of, into and at each node: columns `out_degree`, `in_degree` and `degree`.

        With the name of a numeric property also the weights of edges added up: `out_weight`, `in_weight`, `weight`.
        """
        return self._run(Degrees(edges=_names(edges), at=at, weight=weight))

    def pagerank(
        self, edges: Edges, at: Target = None, *, damping: float = 0.85, iterations: Count = 20,
        tolerance: float | None = None, weight: str | None = None, sources: Sequence[EntityId] | None = None,
        type: str | None = None,
    ) -> pa.Table:  # fmt: skip
        """The PageRank of each node: column `pagerank`, adding up to 1.

        `weight` names a numeric property by which edges are followed. With `sources`, ids of nodes (of a `type`, where
        ids are shared), walks start again there and nowhere else: personalised PageRank.
        """
        return self._run(
            PageRank(
                edges=_names(edges), at=at, damping=damping, iterations=iterations, tolerance=tolerance, weight=weight,
                sources=sources, type=type,
            )
        )  # fmt: skip

    def components(self, edges: Edges, at: Target = None) -> pa.Table:
        """Weakly connected components: column `component`, a number that members of one component share."""
        return self._run(Components(edges=_names(edges), at=at))

    def communities(
        self, edges: Edges, at: Target = None, *, iterations: Count = 10, weight: str | None = None
    ) -> pa.Table:
        """Communities by label propagation: column `community`. Edges vote by the property `weight`."""
        return self._run(Communities(edges=_names(edges), at=at, iterations=iterations, weight=weight))

    def triangles(self, edges: Edges, at: Target = None) -> pa.Table:
        """Triangles that each node is a corner of, directions and parallel edges ignored: column `triangles`."""
        return self._run(Triangles(edges=_names(edges), at=at))

    def shortest_paths(
        self, edges: Edges, sources: Sequence[EntityId], at: Target = None, *, type: str | None = None,
        max_hops: Annotated[int, AtLeast(0)] | None = None, weight: str | None = None,
    ) -> pa.Table:  # fmt: skip
        """Hops from each source to every node it reaches: columns `type`, `id`, `source`, `distance`.

        With the name of a numeric property of the edges: the least sum of it along a path.
        """
        return self._run(
            ShortestPaths(edges=_names(edges), sources=sources, at=at, type=type, max_hops=max_hops, weight=weight)
        )

    def write(
        self, result: pa.Table, column: str, property: str | None = None, branch: str = MAIN,
        actor: str | None = None, message: str | None = None,
    ) -> LoadResult:  # fmt: skip
        """Keep a column of a result as a property of its nodes, in one commit. Types without the property are left out.

        Nodes that were removed or changed since the result was computed: the property of those that are still there is
        set, everything else of them stays as the branch has it.
        """
        return self._service.call(
            WriteColumn(
                result=result, column=column, property=property, branch=branch, actor=actor, message=message
            )
        )  # fmt: skip


def _names(edges: Edges) -> tuple[str, ...]:
    return (edges,) if isinstance(edges, str) else tuple(edges)
