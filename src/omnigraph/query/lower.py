"""`CheckedQuery -> QueryIR`, `CheckedMutation -> MutationIR`.                     (ast -> typecheck -> LOWER -> ir)

Braces become filters, conjunctions become several filters, `search(...) = true` becomes `search(...)`; the executors
see one form of each thing.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.errors import TypeCheckError
from omnigraph.query import ast, ir
from omnigraph.query import value_types as vt
from omnigraph.query.check_pattern import CheckedBlock, CheckedMatch
from omnigraph.query.typecheck import CheckedMutation, CheckedQuery


def lower(checked: CheckedQuery | CheckedMutation) -> ir.QueryIR | ir.MutationIR:
    """Return the IR of a checked query. Refuses a mutation that both writes and deletes (D2)."""
    query = checked.query
    if isinstance(checked, CheckedMutation):
        _refuse_mix(query)
        return ir.MutationIR(query.name.text, checked.params, checked.statements, query.description, query.instruction)
    result = checked.result
    return ir.QueryIR(
        name=query.name.text,
        params=checked.params,
        pattern=_block(checked.pattern),
        outputs=result.columns,
        distinct=checked.distinct,
        having=result.having,
        order=result.order,
        offset=result.offset,
        limit=result.limit,
        description=query.description,
        instruction=query.instruction,
    )


def _block(block: CheckedBlock) -> ir.Block:
    matches = (_match(each) for each in block.matches)
    filters = (part for each in block.filters for part in _conjuncts(each))
    return ir.Block(
        nodes=tuple(ir.NodePattern(each.name, each.types, each.declared) for each in block.nodes),
        edges=tuple(
            ir.EdgePattern(
                edge_types=tuple(edge.name for edge in each.edges),
                source=each.source,
                target=each.target,
                direction=each.direction,
                edge_var=each.edge_var,
                min_hops=each.min_hops,
                max_hops=each.max_hops,
                path_var=each.path_var,
            )
            for each in block.traversals
        ),
        filters=(*matches, *filters),
        optionals=tuple(_block(each) for each in block.optionals),
        negations=tuple(_block(each) for each in block.negations),
    )


def _match(match: CheckedMatch) -> ir.Expr:
    yields = vt.nullable(vt.BOOL, match.prop.type.nullable or match.value.type.nullable)
    if vt.is_list(match.prop.type):
        return ir.Member(match.value, match.prop, yields)
    return ir.Compare("=", match.prop, match.value, yields)


def _conjuncts(expr: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(expr, ir.And):
        for each in expr.operands:
            yield from _conjuncts(each)
    else:
        yield _plain_search(expr)


def _plain_search(expr: ir.Expr) -> ir.Expr:
    """Rewrite `search(...) = true` to `search(...)`, `= false` and `!= true` to its negation."""
    match expr:
        case ir.Compare(op="=" | "!=" as op, left=ir.TextMatch() as search, right=ir.Const(value=bool() as wanted)):
            pass
        case ir.Compare(op="=" | "!=" as op, left=ir.Const(value=bool() as wanted), right=ir.TextMatch() as search):
            pass
        case _:
            return expr
    return search if (op == "=") == wanted else ir.Not(search, vt.BOOL)


def _refuse_mix(query: ast.Query) -> None:
    """Refuse a mutation that both writes and deletes: its result would depend on which applies to a row first."""
    assert isinstance(query.body, ast.Mutation)
    deletes = [each for each in query.body.statements if isinstance(each, ast.Delete)]
    if deletes and len(deletes) < len(query.body.statements):
        raise TypeCheckError(
            "D2: one query cannot mix inserts/updates and deletes",
            span=deletes[0].span,
            source=query.source,
            path=query.path,
            hint="split into separate mutations",
            rule="D2",
        )
