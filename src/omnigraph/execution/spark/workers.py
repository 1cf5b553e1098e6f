"""Open graphs of a Spark worker process, kept between tasks. Lance is imported here, after the fork."""

from __future__ import annotations

from omnigraph.storage.layout import GraphRoot
from omnigraph.versioning.store import GraphStore

_stores: dict[str, GraphStore] = {}


def store_of(uri: str) -> GraphStore:
    """Return the store of a graph, opened once per process."""
    found = _stores.get(uri)
    if found is None:
        found = _stores[uri] = GraphStore(GraphRoot.parse(uri))
    return found
