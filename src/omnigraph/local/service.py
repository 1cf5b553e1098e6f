"""The service over a store in this process.                               (request -> handler -> result)

Every class of request has one handler; the modules of this package hold them by topic.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Literal, TypeVar, cast

from omnigraph.api.progress import Listener
from omnigraph.api.service import Request
from omnigraph.errors import InvalidArgument, Unsupported
from omnigraph.local.graph_state import Handler, Handlers, LocalGraph
from omnigraph.storage.layout import GraphRoot
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.store import GraphStore, Settings

R = TypeVar("R")


TOPICS: Mapping[str, str] = {
    **dict.fromkeys(("RunQuery", "StreamQuery", "ExplainQuery"), "queries"),
    **dict.fromkeys(
        (
            "ReadRows", "ReadEntity", "ReadSnapshot", "ReadCatalog", "LocateTable", "ExportRows", "GetBlob", "StatBlob",
        ),
        "reads",
    ),
    **dict.fromkeys(
        (
            "ListBranches", "GetBranch", "CreateBranch", "DeleteBranch", "ListTags", "CreateTag", "DeleteTag",
            "ListCommits", "GetCommit", "GetHead", "CommitChanges", "DiffTargets", "PollChanges", "ExportHistory",
        ),
        "history",
    ),
    **dict.fromkeys(("ShowSchema", "PlanSchema", "ApplySchema"), "schema"),
    **dict.fromkeys(
        (
            "LoadRows", "RunMutation", "DeleteEntities", "MergeBranch", "RevertCommit", "CherryPick", "RestoreTarget",
        ),
        "writes",
    ),
    **dict.fromkeys(
        (
            "EnsureIndices", "GetIndexStatus", "OptimizeTables", "BackUp", "RepairGraph", "CheckGraph", "GetStats",
            "CleanUp", "RunRecovery", "DiscardIntent", "AuditRecovery", "ListIntents",
        ),
        "maintenance",
    ),
    **dict.fromkeys(
        (
            "Degrees", "PageRank", "Components", "Communities", "Triangles", "ShortestPaths", "WriteColumn",
        ),
        "algorithms",
    ),
}  # fmt: skip
"""The module of this package that holds the handler of each request, imported on first use."""


@cache
def handler_of(request: str) -> Handler:
    """Return the handler of a class of requests, by its name."""
    if request not in TOPICS:
        raise Unsupported(f"a local graph does not answer {request}")
    handlers: Handlers = import_module(f"omnigraph.local.{TOPICS[request]}").HANDLERS
    return next(handler for each, handler in handlers.items() if each.__name__ == request)


class LocalService:
    """A graph on a local path, `file://` or `s3://`, served by this process."""

    def __init__(self, graph: LocalGraph) -> None:
        self._graph = graph

    @classmethod
    def create(cls, uri: str | os.PathLike[str], schema: str, *, path: str | None, actor: str | None) -> LocalService:
        """Create a graph from a schema text."""
        from omnigraph.write.create import create_graph

        return cls(LocalGraph(create_graph(GraphRoot.parse(uri), schema, schema_path=path, actor=actor)))

    @classmethod
    def open(
        cls, uri: str | os.PathLike[str], mode: Literal["rw", "ro"] = "rw", settings: Settings | None = None
    ) -> LocalService:
        """Open an existing graph. Expired intents of other writers are resolved first, unless it is read only."""
        graph = LocalGraph(GraphStore(GraphRoot.parse(uri), read_only=mode == "ro", settings=settings))
        graph.repository.head(MAIN)
        if mode == "rw":
            graph.repository.recovery.run()
        return cls(graph)

    @classmethod
    def clone(
        cls, source: str | os.PathLike[str], target: str | os.PathLike[str], progress: Listener | None = None
    ) -> LocalService:
        """Copy a graph to an empty place, and open the copy."""
        from omnigraph.maintenance.backup import copy_graph

        found = cls.open(source, "ro")
        copy_graph(found._graph.repository, GraphRoot.parse(target), fresh=True, progress=progress)
        return cls.open(target)

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self._graph.store.root.uri

    @property
    def is_read_only(self) -> bool:
        """Whether writes are refused."""
        return self._graph.store.read_only

    @property
    def is_local(self) -> bool:
        """Whether the graph lies on a disk of this machine."""
        return self._graph.store.root.is_local

    def call(self, request: Request[R], progress: Listener | None = None) -> R:
        """Execute one request."""
        if self._graph.store.is_closed:
            raise InvalidArgument(f"{self.uri} was closed", hint="open it again")
        return cast("R", handler_of(type(request).__name__)(self._graph, request, progress))

    def close(self) -> None:
        """End the threads of the graph and release its memory."""
        self._graph.store.close()

    def local_graph(self) -> LocalGraph:
        """The graph in this process, for engines that stage and publish by themselves."""
        return self._graph
