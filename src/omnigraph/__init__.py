"""OmniGraph: a versioned property-graph lakehouse on Lance and Spark.

Names are loaded when they are first used, so that a program which only asks for help does not wait for the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph import errors
from omnigraph.errors import OmnigraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.versioning.changes import EntityChange
    from omnigraph.versioning.commits import GraphCommit
    from omnigraph.versioning.refs import Branch
    from omnigraph.versioning.snapshot import Snapshot
    from omnigraph.versioning.tags import Tag
    from omnigraph.write.inputs.file_options import FileOptions
    from omnigraph.write.load import LoadResult
    from omnigraph.write.merge import MergeResult
    from omnigraph.write.merge_conflicts import Conflict
    from omnigraph.write.mutate import MutationResult

__version__ = "0.1.0"

_HOMES = {
    "Branch": "omnigraph.versioning.refs",
    "Conflict": "omnigraph.write.merge_conflicts",
    "EntityChange": "omnigraph.versioning.changes",
    "FileOptions": "omnigraph.write.inputs.file_options",
    "Graph": "omnigraph.graph",
    "GraphCommit": "omnigraph.versioning.commits",
    "LoadResult": "omnigraph.write.load",
    "MutationResult": "omnigraph.write.mutate",
    "MergeResult": "omnigraph.write.merge",
    "Snapshot": "omnigraph.versioning.snapshot",
    "Tag": "omnigraph.versioning.tags",
}

__all__ = [
    "Branch", "Conflict", "EntityChange", "FileOptions", "Graph", "GraphCommit", "LoadResult", "MergeResult",
    "MutationResult", "OmnigraphError", "Snapshot", "Tag", "__version__", "errors",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    return getattr(import_module(home), name)
