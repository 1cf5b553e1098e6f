"""OmniGraph: a versioned property-graph lakehouse on Lance and Spark."""

from __future__ import annotations

from omnigraph import errors
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.versioning.commits import GraphCommit
from omnigraph.versioning.refs import Branch
from omnigraph.versioning.snapshot import Snapshot
from omnigraph.versioning.tags import Tag
from omnigraph.write.load import LoadResult

__version__ = "0.1.0"

__all__ = ["Branch", "Graph", "GraphCommit", "LoadResult", "OmnigraphError", "Snapshot", "Tag", "__version__", "errors"]
