"""Rule: a query that only counts the matches of a tree-shaped pattern counts them without making their rows."""

from __future__ import annotations

from omnigraph.query import ir


def counting_roots(query: ir.QueryIR) -> frozenset[str]:
    """Return the variable that all other output refers to, all variables when the query only counts, or none."""
    block = query.pattern
    simple_edges = all((e.min_hops, e.max_hops) == (1, 1) and e.path_var is None for e in block.edges)
    if not query.is_aggregate or not block.edges or block.optionals or block.negations or not simple_edges:
        return frozenset()
    if not _is_tree(block) or any(len(ir.variables(f)) > 1 for f in block.filters):
        return frozenset()
    exprs = [*(c.expr for c in query.outputs), *(k.expr for k in query.order)]
    if query.having is not None:
        exprs.append(query.having)
    if not _only_counts(exprs):
        return frozenset()
    used = frozenset().union(*(_outside_aggregates(expr) for expr in exprs))
    edge_vars = {e.edge_var for e in block.edges}
    if len(used) > 1 or used & edge_vars or any(ir.variables(f) & edge_vars for f in block.filters):
        return frozenset()
    return used or frozenset(node.var for node in block.nodes)


def _only_counts(exprs: list[ir.Expr]) -> bool:
    aggregates = [each for expr in exprs for each in ir.walk(expr) if isinstance(each, ir.Aggregate)]
    return all(a.function == "count" and not a.distinct and isinstance(a.operand, ir.Entity | None) for a in aggregates)


def _is_tree(block: ir.Block) -> bool:
    """Return whether the pattern is connected and has no cycle."""
    group = {node.var: node.var for node in block.nodes}
    for edge in block.edges:
        if edge.source not in group or edge.target not in group or group[edge.source] == group[edge.target]:
            return False
        old, new = group[edge.source], group[edge.target]
        group = {var: new if g == old else g for var, g in group.items()}
    return len(set(group.values())) == 1


def _outside_aggregates(expr: ir.Expr) -> frozenset[str]:
    if isinstance(expr, ir.Aggregate):
        return frozenset()
    own = frozenset({expr.var}) if hasattr(expr, "var") else frozenset()
    return own.union(*(_outside_aggregates(child) for child in ir.children(expr)))
