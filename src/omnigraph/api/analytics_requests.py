"""Requests for algorithms over the whole of one snapshot, and for keeping their results as properties.

`edges` names the edge types that are followed. Each table has a row for every node at their ends: `type`, `id` and the
values. `weight` names a numeric property of the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from omnigraph.api.arguments import AtLeast, Count, EntityId
from omnigraph.api.requests import MAIN
from omnigraph.api.results import LoadResult
from omnigraph.api.service import Request
from omnigraph.api.target import Target


@dataclass(frozen=True, kw_only=True)
class Algorithm(Request[pa.Table]):
    """The fields that the request of every algorithm has."""

    edges: Sequence[str]
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class Degrees(Algorithm):
    """Edges out of, into and at each node; with `weight` also the weights added up."""

    weight: str | None = None


@dataclass(frozen=True, kw_only=True)
class PageRank(Algorithm):
    """The PageRank of each node. With `sources` walks start again at these nodes of `type` alone."""

    damping: float = 0.85
    iterations: Count = 20
    tolerance: float | None = None
    weight: str | None = None
    sources: Sequence[EntityId] | None = None
    type: str | None = None


@dataclass(frozen=True, kw_only=True)
class Components(Algorithm):
    """Weakly connected components."""


@dataclass(frozen=True, kw_only=True)
class Communities(Algorithm):
    """Communities by label propagation."""

    iterations: Count = 10
    weight: str | None = None


@dataclass(frozen=True, kw_only=True)
class Triangles(Algorithm):
    """Triangles that each node is a corner of."""


@dataclass(frozen=True, kw_only=True)
class ShortestPaths(Algorithm):
    """Hops, or the least sum of weights, from each source to every node it reaches."""

    sources: Sequence[EntityId]
    type: str | None = None
    max_hops: Annotated[int, AtLeast(0)] | None = None
    weight: str | None = None


@dataclass(frozen=True, kw_only=True)
class WriteColumn(Request[LoadResult]):
    """Keep a column of a result as a property of its nodes, in one commit."""

    result: pa.Table
    column: str
    property: str | None = None
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
