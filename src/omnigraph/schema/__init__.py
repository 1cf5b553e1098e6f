"""The `.pg` schema language: text in, `Catalog` out. (text -> parser -> ast -> checks -> catalog)

The parser is imported on first use: tasks receive catalogs and do not load the grammar.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property, build_catalog, compile_schema
from omnigraph.schema.format import format_schema

if TYPE_CHECKING:
    from omnigraph.schema.lint import lint_schema
    from omnigraph.schema.parser import parse_schema

_HOMES = {"lint_schema": "omnigraph.schema.lint", "parse_schema": "omnigraph.schema.parser"}

__all__ = [
    "Catalog",
    "EdgeType",
    "NodeType",
    "Property",
    "build_catalog",
    "compile_schema",
    "format_schema",
    "lint_schema",
    "parse_schema",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
