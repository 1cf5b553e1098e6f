"""What a process holds of one open graph: the store, its repository, the executor and the compiled queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.api.service import ProgressListener, Request
from omnigraph.api.target import Target
from omnigraph.execution.arrow.data import GraphData
from omnigraph.execution.arrow.engine import ArrowExecutor
from omnigraph.local.compiled import CompiledQueries
from omnigraph.maintenance.optimize import Pace
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore


class LocalGraph:
    """One open graph. Requests are answered from it; engines stage and publish through its repository."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.repository = Repository(store)
        self.executor = ArrowExecutor(store)
        self.queries = CompiledQueries()
        self.pace = Pace()

    def data(self, at: Target) -> GraphData:
        """The columns and topologies of a target, read when they are first used."""
        state = self.repository.resolve(at)
        return self.executor.data(state.snapshot, self.store.catalog(state.schema_hash))


Handler = Callable[[LocalGraph, Any, ProgressListener | None], Any]
"""Answers requests of one class."""
Handlers = Mapping[type[Request[Any]], Handler]
