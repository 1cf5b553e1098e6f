"""The `.gq` query language: text in, IR out. (text -> parser -> ast -> typecheck -> lower -> ir)

The parser is imported on first use: programs that run no query do not load the grammar.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.query.params import bind_params

if TYPE_CHECKING:
    from omnigraph.query.compile import compile_file, compile_query
    from omnigraph.query.lint import lint_queries
    from omnigraph.query.parser import parse_queries

_HOMES = {
    "compile_file": "omnigraph.query.compile",
    "compile_query": "omnigraph.query.compile",
    "lint_queries": "omnigraph.query.lint",
    "parse_queries": "omnigraph.query.parser",
}

__all__ = ["bind_params", "compile_file", "compile_query", "lint_queries", "parse_queries"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
