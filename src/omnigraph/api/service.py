"""The interface of a graph: a service takes a request and returns the result that the request's class names.

`Graph` and the command line call a service and nothing below it. The engine over a store, a client of a server, and a
wrapper that checks permissions are all services.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from omnigraph.api.progress import Listener

R = TypeVar("R")


class Request(Generic[R]):
    """A request to a graph. Each verb has a frozen dataclass of its own; `R` is the class of its result."""


class GraphService(Protocol):
    """Executes requests on one graph."""

    @property
    def uri(self) -> str:
        """Return the location of the graph: a path, a URI of a store, or that of a server."""

    @property
    def is_read_only(self) -> bool:
        """Return whether writes are refused."""

    @property
    def is_local(self) -> bool:
        """Return whether the graph lies on a disk of this machine."""

    def call(self, request: Request[R], progress: Listener | None = None) -> R:
        """Execute one request and return its result. Raises the `OmnigraphError` that prevents it."""

    def close(self) -> None:
        """Release the resources of the service; no request may follow."""

    def local_graph(self) -> Any:
        """Return the graph in this process, for engines that stage and publish. Raises `Unsupported` where remote."""
