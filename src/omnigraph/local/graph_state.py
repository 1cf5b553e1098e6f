"""The state of one open graph in a process: the store, its repository, the executor and the compiled queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.api.progress import Listener
from omnigraph.api.service import Request
from omnigraph.api.target import Target
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore

if TYPE_CHECKING:
    from omnigraph.execution.arrow.data import GraphData
    from omnigraph.execution.arrow.engine import ArrowExecutor
    from omnigraph.local.query_cache import CompiledQueries
    from omnigraph.maintenance.optimize import Pace


class LocalGraph:
    """One open graph. Handlers read it; engines stage and publish through its repository."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.repository = Repository(store)

    @cached_property
    def executor(self) -> ArrowExecutor:
        """The executor of this process, imported on the first query."""
        from omnigraph.execution.arrow.engine import ArrowExecutor

        return ArrowExecutor(self.store)

    @cached_property
    def queries(self) -> CompiledQueries:
        """The cache of compiled queries."""
        from omnigraph.local.query_cache import CompiledQueries

        return CompiledQueries()

    @cached_property
    def pace(self) -> Pace:
        """The times of the last optimization of tables."""
        from omnigraph.maintenance.optimize import Pace

        return Pace()

    def data(self, at: Target) -> GraphData:
        """Return the columns and topologies of a target, read on first use."""
        state = self.repository.resolve(at)
        return self.executor.data(state.snapshot, self.store.catalog(state.schema_hash))


Handler = Callable[[LocalGraph, Any, Listener | None], Any]
"""Handles requests of one class."""
Handlers = Mapping[type[Request[Any]], Handler]
