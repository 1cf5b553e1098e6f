"""Whether the engine's rows are a right answer, given what the interpreter says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from omnigraph.query import ir
from omnigraph.schema.catalog import Catalog
from tests.reference.data import NodeRef, PlainGraph
from tests.reference.expressions import as_key
from tests.reference.interpreter import Outcome, is_shortest_path

Rows = list[dict[str, Any]]


def difference(query: ir.QueryIR, found: Rows, expected: Outcome, graph: PlainGraph, catalog: Catalog) -> str | None:
    """What is wrong with the engine's rows, in a line; None when nothing is."""
    wrong_columns = [list(row) for row in found if list(row) != expected.columns]
    if wrong_columns:
        return f"columns {wrong_columns[0]}, expected {expected.columns}"
    seen = [_comparable(query, row, graph, catalog) for row in found]
    wanted = [_comparable(query, row, graph, catalog) for row in expected.rows]
    everything = [_comparable(query, row, graph, catalog) for row in expected.all_rows]
    if len(seen) != len(wanted):
        return f"{len(seen)} rows, expected {len(wanted)}"
    if is_total(query):
        return None if seen == wanted else "rows or their order differ"
    if len(wanted) == len(everything):
        if Counter(seen) != Counter(wanted):
            return "rows differ"
    elif Counter(seen) - Counter(everything):
        return "rows that the query does not have"
    return None if is_sorted(query, found) else "rows are not in order"


def is_total(query: ir.QueryIR) -> bool:
    """Whether order leaves no choice: rows have ids to break ties; groups and distinct rows only their columns."""
    if not query.order:
        return False
    if not query.is_aggregate and not query.distinct:
        return True
    sorted_by = {key.expr.name for key in query.order if isinstance(key.expr, ir.Output)}
    needed = {each.name for each in query.outputs if query.distinct or not ir.has_aggregate(each.expr)}
    return needed <= sorted_by


def is_sorted(query: ir.QueryIR, rows: Rows) -> bool:
    """Whether rows follow the leading order keys that are columns."""
    keys = []
    for key in query.order:
        if not isinstance(key.expr, ir.Output):
            break
        keys.append((key.expr.name, key.descending))
    seen = [[row[name] for name, _ in keys] for row in rows]
    wanted = seen
    for at, (_, descending) in reversed(list(enumerate(keys))):
        wanted = sorted(wanted, key=lambda each, at=at: (each[at] is not None, each[at]), reverse=descending)
    return seen == wanted


def null_columns(query: ir.QueryIR, rows: Rows) -> list[str]:
    """Columns that hold a null although their type says they cannot."""
    return [
        each.name for each in query.outputs if not each.type.nullable and any(row[each.name] is None for row in rows)
    ]


def _comparable(query: ir.QueryIR, row: dict[str, Any], graph: PlainGraph, catalog: Catalog) -> tuple[Any, ...]:
    return tuple(_cell(query, each.expr, row[each.name], graph, catalog) for each in query.outputs)


def _cell(query: ir.QueryIR, expr: ir.Expr, value: Any, graph: PlainGraph, catalog: Catalog) -> Any:
    if value is None:
        return None
    if isinstance(expr, ir.PathNodes):
        return _path(query, expr, value, graph, catalog)
    if isinstance(expr, ir.Aggregate) and expr.function == "collect":
        return ("bag", *sorted(_number(each) for each in value))
    return as_key(_number(value))


def _path(query: ir.QueryIR, expr: ir.PathNodes, ids: list[str], graph: PlainGraph, catalog: Catalog) -> Any:
    """Any shortest path is as good as another between the same ends."""
    edge = next(each for block in _blocks(query.pattern) for each in block.edges if each.path_var == expr.var)
    ends = [catalog.edges[name] for name in edge.edge_types]
    if edge.direction == "in":
        first, last = ends[0].target, ends[0].source
    else:
        first, last = ends[0].source, ends[0].target
    nodes = [NodeRef(last if at == len(ids) - 1 else first, each) for at, each in enumerate(ids)]
    return ("path", ids[0], ids[-1], len(ids), is_shortest_path(graph, catalog, edge, nodes, None))


def _blocks(block: ir.Block) -> Iterator[ir.Block]:
    yield block
    for each in (*block.optionals, *block.negations):
        yield from _blocks(each)


def _number(value: Any) -> Any:
    """Floats that differ by the order of additions only are one."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_number(each) for each in value]
    if isinstance(value, dict):
        return {name: _number(each) for name, each in value.items()}
    return value
