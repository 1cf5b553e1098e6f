"""OmniGraph: a versioned property-graph lakehouse on Lance and Spark.

Names are imported on first use, so that a program which only prints help does not load the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph import errors
from omnigraph.errors import OmnigraphError

if TYPE_CHECKING:
    from omnigraph.api.changes import EntityChange
    from omnigraph.api.commits import Branch, GraphCommit, Tag
    from omnigraph.api.conflicts import Conflict
    from omnigraph.api.progress import Progress
    from omnigraph.api.results import LoadResult, MergeResult, MutationResult
    from omnigraph.graph import Graph
    from omnigraph.versioning.snapshot import Snapshot
    from omnigraph.write.inputs.file_options import FileOptions

__version__ = "0.1.0"

_HOMES = {
    "Branch": "omnigraph.api.commits",
    "Conflict": "omnigraph.api.conflicts",
    "EntityChange": "omnigraph.api.changes",
    "FileOptions": "omnigraph.write.inputs.file_options",
    "Graph": "omnigraph.graph",
    "GraphCommit": "omnigraph.api.commits",
    "LoadResult": "omnigraph.api.results",
    "MutationResult": "omnigraph.api.results",
    "MergeResult": "omnigraph.api.results",
    "Progress": "omnigraph.api.progress",
    "Snapshot": "omnigraph.versioning.snapshot",
    "Tag": "omnigraph.api.commits",
}

__all__ = [
    "Branch", "Conflict", "EntityChange", "FileOptions", "Graph", "GraphCommit", "LoadResult", "MergeResult",
    "MutationResult", "OmnigraphError", "Progress", "Snapshot", "Tag", "__version__", "errors",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    return getattr(import_module(home), name)
