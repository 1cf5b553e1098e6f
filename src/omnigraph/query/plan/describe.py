"""Render a plan as text: one operator a line, with its estimates.                                (plan -> EXPLAIN)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.query import ir
from omnigraph.query.ir_text import edge_text, expr_text
from omnigraph.query.plan.model import CountPaths, Expand, Filter, Optional, QueryPlan, Scan, Step, Without


@dataclass(frozen=True)
class Line:
    """One operator: its name, its operands, its depth, and the plan's own object for it."""

    operator: str
    detail: str
    depth: int
    rows: float
    step: object


def describe(plan: QueryPlan, *, counted: bool | None = None) -> Iterator[Line]:
    """Return the operators in order. `counted` is whether the count operator ran; None shows the first choice."""
    if plan.count is not None and counted is not False:
        yield from _steps((plan.count,), 0)
    else:
        yield from _steps(plan.match, 0)
    for finish in plan.finish:
        yield Line(finish.name, finish.detail, 0, finish.rows, finish)


def _steps(steps: tuple[Step, ...], depth: int) -> Iterator[Line]:
    for step in steps:
        operator, detail = _words(step)
        yield Line(operator, detail, depth, step.rows, step)
        if isinstance(step, (Optional, Without)):
            yield from _steps(step.steps, depth + 1)


def _words(step: Step) -> tuple[str, str]:
    match step:
        case Scan():
            return _scan(step)
        case Expand(edge):
            word = "shortest" if edge.path_var is not None else ("close" if step.closes else "expand")
            return word, f"{edge_text(edge)}, from ${step.near}{_where(step.own)}"
        case Filter(condition):
            return "filter", expr_text(condition)
        case Optional():
            return "optional", ""
        case Without():
            return "without", ""
        case CountPaths(roots):
            return "count paths", "per node of " + " or ".join(f"${var}" for var in sorted(roots))


def _scan(scan: Scan) -> tuple[str, str]:
    name = f"${scan.var}: {'|'.join(scan.types)}"
    if scan.seek is not None:
        rest = tuple(f for f in scan.filters if f != scan.seek.condition)
        return "seek", f"{name} by {expr_text(scan.seek.condition)}{_where(rest)}"
    return "scan", f"{name}{_where(scan.filters)}"


def _where(filters: tuple[ir.Expr, ...]) -> str:
    return " where " + " and ".join(map(expr_text, filters)) if filters else ""
