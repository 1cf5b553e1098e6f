"""The canonical text of queries: `ast -> text`, the inverse of the parser.

One clause a line, four spaces, a blank line between queries. Comments are no part of the ast and do not survive. A
formatted text parses to an equal tree.
"""

from __future__ import annotations

import datetime as dt

from omnigraph.query import ast

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# From loosest to tightest; an operand that binds looser than its operator takes parentheses.
_LEVELS = {"or": 1, "and": 2, "not": 3, "test": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "unary": 7, "leaf": 8}


def format_file(file: ast.QueryFile) -> str:
    """Return all queries of a file in canonical form."""
    return "\n".join(format_query(each) for each in file.queries)


def format_query(query: ast.Query) -> str:
    """Return one query in canonical form.

    >>> from omnigraph.query.parser import parse_queries
    >>> print(format_query(parse_queries("query q(){match{$p:Person}return{$p.name}}").queries[0]), end="")
    query q() {
        match {
            $p: Person
        }
        return {
            $p.name
        }
    }
    """
    params = ", ".join(f"${each.name.text}: {each.type}" for each in query.params)
    lines = [f"query {query.name.text}({params})"]
    notes = (("description", query.description), ("instruction", query.instruction))
    lines += [f"    @{name}({string_text(text)})" for name, text in notes if text is not None]
    lines = [*lines, "{"] if len(lines) > 1 else [f"{lines[0]} {{"]
    body = _read(query.body) if isinstance(query.body, ast.Read) else _mutation(query.body)
    return "\n".join([*lines, *(f"    {line}" for line in body), "}", ""])


def _read(read: ast.Read) -> list[str]:
    lines = ["match {", *_clauses(read.clauses), "}"]
    lines += [f"return{' distinct' if read.distinct else ''} {{"]
    lines += [f"    {_projection(each)}{'' if each is read.projections[-1] else ','}" for each in read.projections]
    lines += ["}"]
    if read.having:
        lines.append(f"having {{ {', '.join(expression_text(each) for each in read.having)} }}")
    if read.order:
        lines.append(f"order {{ {', '.join(_order(each) for each in read.order)} }}")
    lines += [f"{word} {_count(n)}" for word, n in (("offset", read.offset), ("limit", read.limit)) if n is not None]
    return lines


def _projection(each: ast.Projection) -> str:
    return expression_text(each.expression) + (f" as {each.alias.text}" if each.alias else "")


def _order(each: ast.OrderItem) -> str:
    word = {None: "", True: " desc", False: " asc"}[each.descending]
    return expression_text(each.expression) + word


def _count(written: int | ast.Name) -> str:
    return f"${written.text}" if isinstance(written, ast.Name) else str(written)


def _clauses(clauses: tuple[ast.Clause, ...]) -> list[str]:
    lines: list[str] = []
    for each in clauses:
        match each:
            case ast.Binding():
                matches = ", ".join(f"{m.name.text}: {_operand(m.value, 5)}" for m in each.matches)
                lines.append(f"    ${each.var.text}: {each.type.text}{f' {{ {matches} }}' if matches else ''}")
            case ast.Traversal():
                lines.append(f"    {_traversal(each)}")
            case ast.Filter():
                # A bare Bool parameter is a clause only inside parentheses.
                text = expression_text(each.expression)
                lines.append(f"    {f'({text})' if _opens_like_a_pattern(each.expression) else text}")
            case ast.NotBlock() | ast.OptionalBlock():
                word = "not" if isinstance(each, ast.NotBlock) else "optional"
                lines += [f"    {word} {{", *(f"    {line}" for line in _clauses(each.clauses)), "    }"]
    return lines


def _opens_like_a_pattern(node: ast.Expression) -> bool:
    """Return whether the text of a filter starts with a bare variable, which the parser may take for a node."""
    match node:
        case ast.Var():
            return True
        case ast.Binary():
            return _opens_like_a_pattern(node.left)
        case ast.NullTest():
            return _opens_like_a_pattern(node.operand)
        case ast.Logic():
            return _opens_like_a_pattern(node.operands[0])
        case _:
            return False


def _traversal(each: ast.Traversal) -> str:
    edges = "|".join(name.text for name in each.edges)
    edges = f"<{edges}>" if each.undirected else edges
    path = f"${each.path_var.text}: shortest " if each.path_var else ""
    edge_var = f"${each.edge_var.text}:" if each.edge_var else ""
    hops = ""
    if each.hops is not None:
        hops = f"{{{_count(each.hops.low)},{'' if each.hops.high is None else _count(each.hops.high)}}}"
    return f"{path}${each.source.text} {edge_var}{edges}{hops} ${each.target.text}"


def _mutation(mutation: ast.Mutation) -> list[str]:
    lines = []
    for each in mutation.statements:
        where = "" if isinstance(each, ast.Insert) else f" where {expression_text(each.where)}"
        if isinstance(each, ast.Delete):
            lines.append(f"delete {each.type.text}{where}")
            continue
        values = ", ".join(f"{a.name.text}: {_operand(a.value, 5)}" for a in each.assignments)
        values = f"{{ {values} }}" if values else "{ }"
        lines.append(
            f"insert {each.type.text} {values}" if not where else f"update {each.type.text} set {values}{where}"
        )
    return lines


# --- expressions ----------------------------------------------------------------------------------------------------


def expression_text(node: ast.Expression) -> str:
    """Return one expression in canonical form, with no more parentheses than it needs."""
    match node:
        case ast.Literal():
            return literal_text(node.value)
        case ast.ListLiteral():
            return f"[{', '.join(expression_text(each) for each in node.items)}]"
        case ast.Var():
            return f"${node.name}"
        case ast.PropertyRef():
            return f"${node.var.text}.{node.name.text}"
        case ast.IdRef():
            return f"${node.var.text}.@id"
        case ast.Word():
            return node.text
        case ast.Call():
            inside = "*" if node.star else ", ".join(expression_text(each) for each in node.arguments)
            return f"{node.function}({'distinct ' if node.distinct else ''}{inside})"
        case _:
            return _operation(node)


def _operation(node: ast.Unary | ast.Binary | ast.NullTest | ast.Logic) -> str:
    level = _level(node)
    match node:
        case ast.Unary(op="not"):
            return f"not {_operand(node.operand, level)}"
        case ast.Unary():
            return f"-{_operand(node.operand, level, tight=isinstance(node.operand, ast.Unary))}"
        case ast.NullTest():
            return f"{_operand(node.operand, level + 1)} is {'not ' if node.negated else ''}null"
        case ast.Logic():
            return f" {node.op} ".join(_operand(each, level + 1) for each in node.operands)
        case ast.Binary():
            # Comparisons do not chain; arithmetic is left-associative.
            left = _operand(node.left, level if level > 4 else level + 1)
            return f"{left} {node.op} {_operand(node.right, level + 1)}"


def _level(node: ast.Expression) -> int:
    match node:
        case ast.Logic():
            return _LEVELS[node.op]
        case ast.Unary():
            return _LEVELS["not"] if node.op == "not" else _LEVELS["unary"]
        case ast.NullTest():
            return _LEVELS["test"]
        case ast.Binary():
            return _LEVELS.get(node.op, _LEVELS["test"])
        case _:
            return _LEVELS["leaf"]


def _operand(node: ast.Expression, level: int, tight: bool = False) -> str:
    # `-(1)` is the operator on a literal, `-1` the literal.
    is_number = isinstance(node, ast.Literal) and isinstance(node.value, int | float) and level == _LEVELS["unary"]
    text = expression_text(node)
    return f"({text})" if tight or is_number or _level(node) < level else text


def literal_text(value: ast.Value) -> str:
    """Return one literal as it is written in a query."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return f'datetime("{value.isoformat()}")'
        case dt.date():
            return f'date("{value.isoformat()}")'
        case str():
            return string_text(value)
        case float():
            text = repr(value)
            return text if "." in text or "e" in text else f"{text}.0"
        case _:
            return str(value)


def string_text(text: str) -> str:
    """Return a text as a double-quoted literal."""
    return '"' + "".join(_ESCAPES.get(c, c) for c in text) + '"'
