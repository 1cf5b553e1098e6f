"""A parsed query against a schema: `ast.Query -> CheckedQuery | CheckedMutation`.   (ast -> TYPECHECK -> lower -> ir)

Raises the first `TypeCheckError`. Its `rule` is the code that starts the message:

===  ==========================================================================================================
T1   a binding names no node type or interface
T2   a property in braces does not exist
T3   a property in braces cannot have that value
T4   no edge type of that name
T5   a variable's type fits neither end of the edge
T6   access to what an unbound variable or its type does not have
T7   values that do not meet: comparison, arithmetic, assignment
T8   an aggregate over something it does not work on
T9   a block without connection to the pattern around it; a column that is neither group nor aggregate
T10  a mutation of an unknown type, or without assignments
T11  a mutation names an unknown property, or tests a blob
T12  an insert lacks a required property or an end
T13  a property is assigned twice
T14  a mutation uses an undeclared parameter
T15  impossible hops; operands of `nearest`
T16  an update moves the end of an edge
T17  order by `nearest` without `limit`
T18  order by `nearest` beside a column name
T19  operands of `search` and `fuzzy`
T20  operands of `match_text` and `bm25`
T21  operands of `rrf`; order by it without `limit`
T22  an undirected traversal of an edge whose ends differ
T23  an edge variable used as a node or a value
T24  a blob as a value of a read
===  ==========================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.query import ast, ir
from omnigraph.query.check_mutation import check_statement
from omnigraph.query.check_pattern import CheckedBlock, check_block
from omnigraph.query.check_return import CheckedReturn, check_return
from omnigraph.query.scope import Checks, Scope
from omnigraph.schema.catalog import Catalog


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A read in which every name and type is resolved."""

    query: ast.Query
    params: tuple[ir.ParamDecl, ...]
    pattern: CheckedBlock
    result: CheckedReturn
    distinct: bool


@dataclass(frozen=True, slots=True)
class CheckedMutation:
    """A write in which every name and type is resolved."""

    query: ast.Query
    params: tuple[ir.ParamDecl, ...]
    statements: tuple[ir.Statement, ...]


def check_query(query: ast.Query, catalog: Catalog) -> CheckedQuery | CheckedMutation:
    """Check one query against a catalog."""
    checks = Checks(query, catalog)
    params = tuple(ir.ParamDecl(name, written) for name, written in checks.params.items())
    if isinstance(query.body, ast.Mutation):
        return CheckedMutation(query, params, tuple(check_statement(checks, each) for each in query.body.statements))
    scope = Scope()
    pattern = check_block(checks, query.body.clauses, scope)
    return CheckedQuery(query, params, pattern, check_return(checks, query.body, scope), query.body.distinct)
