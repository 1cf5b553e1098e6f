"""What a Spark worker process keeps between tasks: open graphs. Lance is loaded here, after the fork."""

from __future__ import annotations

from omnigraph.storage.layout import GraphRoot
from omnigraph.versioning.store import GraphStore

_stores: dict[str, GraphStore] = {}


def store_of(uri: str) -> GraphStore:
    """One open store per graph and process."""
    found = _stores.get(uri)
    if found is None:
        found = _stores[uri] = GraphStore(GraphRoot.parse(uri))
    return found
