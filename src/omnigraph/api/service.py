"""The one interface of a graph: a request goes in, the result that its class names comes out.

`Graph` and the command line speak to a service and to nothing below it. The engine over a store, a client of a server,
and a wrapper that decides who may do what: all are services.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from omnigraph.api.progress import Listener

R = TypeVar("R")


class Request(Generic[R]):
    """What is asked of a graph. Each verb has a frozen dataclass of its own; `R` is what answers it."""


class GraphService(Protocol):
    """Answers requests about one graph."""

    @property
    def uri(self) -> str:
        """Where the graph is: a path, a URI of a store, or that of a server."""

    @property
    def is_read_only(self) -> bool:
        """Whether writes are refused."""

    @property
    def is_local(self) -> bool:
        """Whether the graph lies on a disk of this machine."""

    def call(self, request: Request[R], progress: Listener | None = None) -> R:
        """Answer one request, or raise the `OmnigraphError` that says why not."""

    def close(self) -> None:
        """Release what the service holds; it answers nothing afterwards."""

    def local_graph(self) -> Any:
        """The graph in this process, for engines that stage and publish by themselves; `Unsupported` where remote."""
