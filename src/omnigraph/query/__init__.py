"""The `.gq` query language: text in, IR out. (text -> parser -> ast -> typecheck -> lower -> ir)"""

from __future__ import annotations

from omnigraph.query.compile import compile_file, compile_query
from omnigraph.query.lint import lint_queries
from omnigraph.query.params import bind_params
from omnigraph.query.parser import parse_queries

__all__ = ["bind_params", "compile_file", "compile_query", "lint_queries", "parse_queries"]
