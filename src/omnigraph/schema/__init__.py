"""The `.pg` schema language: text in, `Catalog` out. (text -> parser -> ast -> checks -> catalog)"""

from __future__ import annotations

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property, build_catalog, compile_schema
from omnigraph.schema.format import format_schema
from omnigraph.schema.lint import lint_schema
from omnigraph.schema.parser import parse_schema

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
