"""A stable, readable text of an IR: an indented tree, one fact a line.                        (ir -> EXPLAIN)"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from omnigraph.query import ir
from omnigraph.query.format import string_text


def explain_ir(query: ir.QueryIR | ir.MutationIR) -> str:
    """Return the whole IR as text. Equal IRs have equal text."""
    return "\n".join(_mutation(query) if isinstance(query, ir.MutationIR) else _query(query)) + "\n"


def _query(query: ir.QueryIR) -> Iterator[str]:
    yield _head("query", query)
    yield from _notes(query)
    yield "  match"
    yield from _block(query.pattern, "    ")
    words = [word for word, is_set in (("distinct", query.distinct), ("grouped", query.is_aggregate)) if is_set]
    yield " ".join(("  return", *words))
    for column in query.outputs:
        yield f"    {column.name}: {column.type} = {expr_text(column.expr)}"
    if query.having is not None:
        yield f"  having {expr_text(query.having)}"
    for key in query.order:
        yield f"  order {expr_text(key.expr)} {'desc' if key.descending else 'asc'}"
    if query.offset is not None:
        yield f"  offset {_number(query.offset)}"
    if query.limit is not None:
        yield f"  limit {_number(query.limit)}"


def _mutation(query: ir.MutationIR) -> Iterator[str]:
    yield _head("mutation", query)
    yield from _notes(query)
    for each in query.statements:
        word = type(each).__name__.lower()
        yield f"  {word} {each.type_kind}:{each.type_name}"
        if not isinstance(each, ir.Delete):
            for name, value in each.assignments:
                yield f"    set {name} = {expr_text(value)}"
        if not isinstance(each, ir.Insert):
            yield f"    where {expr_text(each.where)}"


def _head(word: str, query: ir.QueryIR | ir.MutationIR) -> str:
    params = ", ".join(f"${each.name}: {each.type}" for each in query.params)
    return f"{word} {query.name}({params})"


def _notes(query: ir.QueryIR | ir.MutationIR) -> Iterator[str]:
    for word, text in (("description", query.description), ("instruction", query.instruction)):
        if text is not None:
            yield f"  {word} {_literal(text)}"


def _block(block: ir.Block, pad: str) -> Iterator[str]:
    for node in block.nodes:
        yield f"{pad}node ${node.var}: {'|'.join(node.types)}{'' if node.declared else ' (implied)'}"
    for edge in block.edges:
        yield f"{pad}edge {edge_text(edge)}"
    for each in block.filters:
        yield f"{pad}filter {expr_text(each)}"
    for word, inner in (("optional", block.optionals), ("not", block.negations)):
        for each_block in inner:
            yield f"{pad}{word}"
            yield from _block(each_block, f"{pad}  ")


def edge_text(edge: ir.EdgePattern) -> str:
    """A traversal: its ends, direction, types, hops."""
    arrow = {"out": "->", "in": "<-", "both": "--"}[edge.direction]
    text = f"${edge.source} {arrow} ${edge.target}: {'|'.join(edge.edge_types)}"
    if edge.edge_var is not None:
        text += f" as ${edge.edge_var}"
    if (edge.min_hops, edge.max_hops) != (1, 1):
        text += f" hops {_number(edge.min_hops)}..{'' if edge.max_hops is None else _number(edge.max_hops)}"
    return f"{text} shortest ${edge.path_var}" if edge.path_var is not None else text


def _number(number: ir.Expr | int) -> str:
    return str(number) if isinstance(number, int) else expr_text(number)


def expr_text(expr: ir.Expr) -> str:
    """One expression, fully parenthesised; literals and parameters with their types."""
    match expr:
        case ir.Const():
            return f"{_literal(expr.value)}:{expr.type}"
        case ir.Param():
            return f"${expr.name}:{expr.type}"
        case ir.Prop() | ir.EntityId() | ir.Entity() | ir.PathLength() | ir.PathNodes() | ir.Output() | ir.Now():
            return _leaf(expr)
        case ir.TextMatch() | ir.Bm25() | ir.Nearest() | ir.Rrf() | ir.Aggregate():
            return _call(expr)
        case ir.Arithmetic() | ir.Compare() | ir.TextTest():
            text = f"({expr_text(expr.left)} {expr.op} {expr_text(expr.right)})"
            return f"{text}:{expr.type}" if isinstance(expr, ir.Arithmetic) else text
        case ir.Member():
            return f"({expr_text(expr.item)} in {expr_text(expr.items)})"
        case _:
            return _logic(expr)


def _logic(expr: ir.And | ir.Or | ir.Not | ir.Negate | ir.IsNull) -> str:
    match expr:
        case ir.And() | ir.Or():
            word = " and " if isinstance(expr, ir.And) else " or "
            return f"({word.join(expr_text(each) for each in expr.operands)})"
        case ir.Not():
            return f"(not {expr_text(expr.operand)})"
        case ir.Negate():
            return f"(- {expr_text(expr.operand)}):{expr.type}"
        case ir.IsNull():
            return f"({expr_text(expr.operand)} is {'not ' if expr.negated else ''}null)"


def _leaf(
    expr: ir.Prop | ir.EntityId | ir.Entity | ir.PathLength | ir.PathNodes | ir.Output | ir.Now,
) -> str:
    match expr:
        case ir.Prop():
            return f"${expr.var}.{expr.name}" if expr.var else expr.name
        case ir.EntityId():
            return f"${expr.var}.@id"
        case ir.Entity():
            return f"${expr.var}"
        case ir.PathLength():
            return f"length(${expr.var})"
        case ir.PathNodes():
            return f"nodes(${expr.var})"
        case ir.Output():
            return f"[{expr.name}]"
        case ir.Now():
            return "now()"


def _call(expr: ir.TextMatch | ir.Bm25 | ir.Nearest | ir.Rrf | ir.Aggregate) -> str:
    match expr:
        case ir.TextMatch():
            edits = "" if expr.max_edits is None else f", {expr_text(expr.max_edits)}"
            return f"{expr.kind}(${expr.var}.{expr.property}, {expr_text(expr.query)}{edits})"
        case ir.Bm25():
            return f"bm25(${expr.var}.{expr.property}, {expr_text(expr.query)})"
        case ir.Nearest():
            return f"nearest(${expr.var}.{expr.property}, {expr_text(expr.query)}, {expr.metric})"
        case ir.Rrf():
            return f"rrf({expr_text(expr.left)}, {expr_text(expr.right)}, {expr_text(expr.k)})"
        case ir.Aggregate():
            operand = "*" if expr.operand is None else expr_text(expr.operand)
            return f"{expr.function}({'distinct ' if expr.distinct else ''}{operand})"


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case tuple():
            return f"[{', '.join(_literal(each) for each in value)}]"
        case str():
            return string_text(value)
        case dt.date():
            return value.isoformat()
        case _:
            return repr(value)
