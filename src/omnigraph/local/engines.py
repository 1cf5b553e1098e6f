"""Engines that execute requests outside this process, found by entry point and imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from omnigraph.api.progress import Listener
from omnigraph.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from omnigraph.api.results import LoadResult
    from omnigraph.api.write_requests import LoadRows
    from omnigraph.local.graph_state import LocalGraph
    from omnigraph.query.plan import QueryPlan
    from omnigraph.schema.catalog import Catalog
    from omnigraph.storage.maintenance_tasks import TaskPool
    from omnigraph.versioning.snapshot import Snapshot
    from omnigraph.versioning.store import GraphStore
    from omnigraph.write.merge_compare import Comparing

GROUP = "omnigraph.engines"
_BUILT_IN = {"spark": EntryPoint("spark", "omnigraph.pipeline.engine", GROUP)}
"""Engines of this package, for copies without installed entry points, such as the archives of `spark-submit`."""


class Engine(Protocol):
    """The interface of a module that is registered as an entry point of the group `omnigraph.engines`."""

    def load(self, graph: LocalGraph, request: LoadRows, progress: Listener | None) -> LoadResult:
        """Write the rows of a request as one commit."""

    def execute(
        self, store: GraphStore, plan: QueryPlan, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]
    ) -> pa.Table:
        """Answer a plan from a snapshot."""

    def pool(self, uri: str, progress: Listener | None) -> TaskPool:
        """Return the task pool that merges fragments and sorts indexes."""

    def comparing(self, progress: Listener | None) -> Comparing:
        """Return the comparison of rows for a merge."""

    def view(self, graph: Any) -> Any:
        """Return the namespace of the engine on a `Graph`."""


@cache
def find_engine(name: str) -> Engine:
    """Return the engine of a name."""
    known = _BUILT_IN | {each.name: each for each in entry_points(group=GROUP)}
    if name not in known:
        raise InvalidArgument(f"engine {name!r} is unknown", hint=f"use 'auto', 'arrow' or {', '.join(sorted(known))}")
    try:
        return cast("Engine", known[name].load())
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("omnigraph"):
            raise
        raise Unsupported(f"{error.name} is not installed", hint=f"pip install 'omnigraph[{name}]'") from error


def holds_spark_frames(data: Any) -> bool:
    """Return whether some source of a load is a Spark DataFrame."""
    return isinstance(data, Mapping) and any(type(v).__module__.startswith("pyspark.") for v in data.values())
