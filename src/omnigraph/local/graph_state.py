"""What a process holds of one open graph: the store, its repository, the executor and the compiled queries."""

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
    """One open graph. Requests are answered from it; engines stage and publish through its repository."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.repository = Repository(store)

    @cached_property
    def executor(self) -> ArrowExecutor:
        """What runs queries in this process. A program that asks none does not import it."""
        from omnigraph.execution.arrow.engine import ArrowExecutor

        return ArrowExecutor(self.store)

    @cached_property
    def queries(self) -> CompiledQueries:
        """Queries that were compiled before."""
        from omnigraph.local.query_cache import CompiledQueries

        return CompiledQueries()

    @cached_property
    def pace(self) -> Pace:
        """When tables were optimized last."""
        from omnigraph.maintenance.optimize import Pace

        return Pace()

    def data(self, at: Target) -> GraphData:
        """The columns and topologies of a target, read when they are first used."""
        state = self.repository.resolve(at)
        return self.executor.data(state.snapshot, self.store.catalog(state.schema_hash))


Handler = Callable[[LocalGraph, Any, Listener | None], Any]
"""Answers requests of one class."""
Handlers = Mapping[type[Request[Any]], Handler]
