"""Rule: a grouped query keeps only the variables that a later step or its result reads.

Rows that are not grouped keep all their variables: their ids decide the order of ties.
"""

from __future__ import annotations

from omnigraph.query import ir
from omnigraph.query.plan.model import Expand, Filter, Optional, Step, Without


def live_variables(query: ir.QueryIR, match: tuple[Step, ...]) -> tuple[frozenset[str], ...] | None:
    """Return the variables that are still read after each step; None when all of them are."""
    if not query.is_aggregate:
        return None
    exprs = [*(column.expr for column in query.outputs), *(key.expr for key in query.order)]
    if query.having is not None:
        exprs.append(query.having)
    read = frozenset[str]().union(*map(ir.variables, exprs))
    found = []
    for step in reversed(match):
        found.append(read)
        read |= _read_by(step)
    return tuple(reversed(found))


def _read_by(step: Step) -> frozenset[str]:
    match step:
        case Expand(_, near, far, _, closes):
            return frozenset({near, far}) if closes else frozenset({near})
        case Filter(condition):
            return ir.variables(condition)
        case Optional(block) | Without(block):
            return _of_block(block)
        case _:
            return frozenset()


def _of_block(block: ir.Block) -> frozenset[str]:
    found: set[str] = set()
    for each in ir.blocks(block):
        found |= {node.var for node in each.nodes}
        found |= {var for edge in each.edges for var in (edge.source, edge.target)}
        found |= {var for condition in each.filters for var in ir.variables(condition)}
    return frozenset(found)
