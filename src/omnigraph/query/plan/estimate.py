"""Rule: estimate the rows that an operator leaves, from table sizes and the shape of conditions alone."""

from __future__ import annotations

from omnigraph.query import ir
from omnigraph.query.plan.model import Sizes

_EQUAL = 0.1
_RANGE = 0.3
_UNKNOWN = 0.5
_FAR = 6
"""Hops after which an estimate stops growing."""


def selectivity(condition: ir.Expr) -> float:
    """Estimate the share of rows that a condition keeps."""
    match condition:
        case ir.Compare("="):
            return _EQUAL
        case ir.Compare("!="):
            return 1 - _EQUAL
        case ir.Compare():
            return _RANGE
        case ir.Member(_, ir.Const(value)) if isinstance(value, tuple):
            return min(1.0, _EQUAL * len(value))
        case ir.TextTest() | ir.TextMatch():
            return _EQUAL / 2
        case ir.IsNull(_, negated):
            return 1 - _EQUAL if negated else _EQUAL
        case ir.And(operands):
            return _product([selectivity(o) for o in operands])
        case ir.Or(operands):
            return 1 - _product([1 - selectivity(o) for o in operands])
        case ir.Not(operand):
            return 1 - selectivity(operand)
        case _:
            return _UNKNOWN


def estimate_scan(types: tuple[str, ...], filters: tuple[ir.Expr, ...], *, sought: bool, sizes: Sizes) -> float:
    """Estimate the rows of a scan with its own filters; a key lookup finds one."""
    if sought:
        return float(min(1, sizes.of(types)))
    return sizes.of(types) * _product([selectivity(f) for f in filters])


def fan_out(edge: ir.EdgePattern, near_types: tuple[str, ...], sizes: Sizes) -> float:
    """Estimate the rows per input row when an edge pattern is followed from one end."""
    edges = sizes.edges_of(edge.edge_types) * (2 if edge.direction == "both" else 1)
    one = edges / max(1, sizes.of(near_types))
    if (edge.min_hops, edge.max_hops) == (1, 1):
        return one
    hops = edge.max_hops if isinstance(edge.max_hops, int) else _FAR
    return min(sum(max(one, 0.01) ** i for i in range(1, min(hops, _FAR) + 1)), float(sum(sizes.nodes.values())))


def _product(parts: list[float]) -> float:
    total = 1.0
    for part in parts:
        total *= part
    return total
