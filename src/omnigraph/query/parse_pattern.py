"""The clauses of `match`: bindings, traversals, paths, filters, blocks.             (tokens -> PATTERN -> ast)"""

from __future__ import annotations

from omnigraph.query import ast
from omnigraph.query.grammar import COMPARISONS, INFIX_WORDS, edge_word
from omnigraph.query.lexer import QueryCursor
from omnigraph.query.parse_expressions import Expressions

# Far beyond any readable query, and well within the recursion limit of the interpreter.
MAX_BLOCKS = 20


class Patterns:
    """Reads clauses at a cursor."""

    def __init__(self, cursor: QueryCursor, expressions: Expressions) -> None:
        self.cursor = cursor
        self.expressions = expressions
        self._depth = 0

    def block(self, owner: str) -> tuple[ast.Clause, ...]:
        """`{ clause ... }`, never empty."""
        cursor = self.cursor
        if self._depth >= MAX_BLOCKS:
            cursor.fail("blocks are nested too deeply", cursor.here(), "split the query")
        self._depth += 1
        opened = cursor.here()
        cursor.expect("{", f"after `{owner}`", f"write `{owner} {{ $p: Person }}`")
        clauses: list[ast.Clause] = []
        while not cursor.at("}"):
            if cursor.at_kind("END"):
                cursor.fail(f"`{owner}` is never closed", opened, "close it with `}`")
            if cursor.at("return") and cursor.at("{", "distinct", ahead=1):
                cursor.fail(f"`{owner}` is never closed", opened, "close it with `}` before `return`")
            if clauses and cursor.at(","):
                cursor.fail("clauses are not separated by `,`", cursor.here(), "put each on its own line")
            clauses.append(self._clause())
        if not clauses:
            cursor.fail(f"`{owner}` is empty", cursor.here(), f"write `{owner} {{ $p: Person }}`")
        cursor.advance()
        self._depth -= 1
        return tuple(clauses)

    def _clause(self) -> ast.Clause:
        cursor = self.cursor
        start = cursor.peek().start
        for word, block in (("not", ast.NotBlock), ("optional", ast.OptionalBlock)):
            if cursor.at(word) and cursor.at("{", ahead=1):
                cursor.advance()
                clauses = self.block(word)
                return block(clauses, cursor.span_from(start))
        if cursor.at_kind("VAR"):
            if cursor.at(":", ahead=1):
                return self._declaration()
            if self._is_traversal():
                return self._traversal(None, start)
        self._refuse_slips()
        is_bare = cursor.at_kind("VAR")
        expression = self.expressions.expression()
        if is_bare and isinstance(expression, ast.Var):
            self._lone_variable(expression)
        return ast.Filter(expression, cursor.span_from(start))

    def _declaration(self) -> ast.Clause:
        cursor = self.cursor
        start = cursor.peek().start
        if cursor.at("shortest", ahead=2) and cursor.at_kind("VAR", ahead=3):
            path_var = cursor.name()
            cursor.advance()
            cursor.advance()
            return self._traversal(path_var, start)
        var = cursor.name()
        cursor.advance()
        if not cursor.at_kind("TYPE"):
            if cursor.at_kind("IDENT"):
                word = cursor.peek().text
                hint = f"write `${var.text}: {word[:1].upper()}{word[1:]}`"
                cursor.fail(f"the type name `{word}` does not start with a capital", cursor.here(), hint)
            cursor.unexpected(f"expected a node type after `${var.text}:`", f"write `${var.text}: Person`")
        type_name = cursor.name()
        return ast.Binding(var, type_name, self._matches(), cursor.span_from(start))

    def _matches(self) -> tuple[ast.InlineMatch, ...]:
        cursor = self.cursor
        if not cursor.take("{"):
            return ()
        found: list[ast.InlineMatch] = []
        while not cursor.at("}"):
            if not cursor.at_kind("IDENT"):
                cursor.unexpected("expected a property", "write `{ name: $name }`")
            name = cursor.name()
            if cursor.at(*COMPARISONS):
                hint = f"write `{name.text}: value` here, or a filter such as `$p.{name.text} > 1` below"
                cursor.fail("inside the braces a property is matched with `:`", cursor.here(), hint)
            cursor.expect(":", f"after `{name.text}`", f"write `{name.text}: value`")
            found.append(ast.InlineMatch(name, self.expressions.sum()))
            if not cursor.take(",") and not cursor.at("}"):
                cursor.unexpected("expected `,` or `}`", "separate the properties with `,`")
        cursor.advance()
        return tuple(found)

    # --- traversals -----------------------------------------------------------------------------------------------

    def _is_traversal(self) -> bool:
        """Return whether a clause that starts with a variable is a traversal, not a filter."""
        cursor = self.cursor
        if cursor.at_kind("VAR", ahead=1) or cursor.at_kind("TYPE", ahead=1):
            return cursor.at_kind("TYPE", ahead=1) or cursor.at(":", ahead=2)
        if cursor.at("<", ahead=1):
            # `$a <knows> $b` and `$a < $b` differ in what follows the mark.
            return cursor.at_kind("IDENT", "TYPE", ahead=2) and cursor.at(">", "|", ahead=3)
        if not cursor.at_kind("IDENT", ahead=1):
            return False
        if not cursor.at(*INFIX_WORDS, ahead=1):
            return True
        if not cursor.at_kind("VAR", ahead=2):
            return cursor.at("|", "{", ahead=2)
        return not cursor.at(".", *COMPARISONS, *INFIX_WORDS, "+", "*", "/", "%", ahead=3)

    def _traversal(self, path_var: ast.Name | None, start: int) -> ast.Traversal:
        cursor = self.cursor
        source = cursor.name()
        edge_var: ast.Name | None = None
        if cursor.at_kind("VAR") and cursor.at(":", ahead=1):
            edge_var = cursor.name()
            cursor.advance()
        undirected = cursor.take("<") is not None
        edges = [self._edge()]
        while cursor.take("|"):
            edges.append(self._edge())
        if undirected:
            cursor.expect(">", "to close the undirected edge", f"write `<{edges[0].text}>`")
        hops = self._hops() if cursor.at("{") else None
        last = edges[-1].text
        if not cursor.at_kind("VAR"):
            word = cursor.peek().text if cursor.at_kind("IDENT", "TYPE") else "f"
            hint = f"write `${source.text} {last} ${word[:1].lower()}{word[1:]}`, or `$_` if it does not matter"
            if last == "not" or last in ("like", "exists"):
                cursor.fail(f"`{last}` is no edge", edges[-1].span, "a filter is an expression such as `$p.age > 30`")
            cursor.unexpected(f"expected a variable after `{last}`", hint)
        target = cursor.name()
        span = cursor.span_from(start)
        return ast.Traversal(source, tuple(edges), target, undirected, edge_var, hops, path_var, span)

    def _edge(self) -> ast.Name:
        cursor = self.cursor
        if cursor.at_kind("TYPE"):
            word = cursor.peek().text
            cursor.refuse_foreign()
            hint = f"write `{edge_word(word)}`"
            cursor.fail(f"the edge `{word}` does not start in lower case", cursor.here(), hint)
        if not cursor.at_kind("IDENT"):
            cursor.unexpected("expected an edge", "write `$a knows $b`")
        return cursor.name()

    def _hops(self) -> ast.Hops:
        cursor = self.cursor
        start = cursor.advance().start
        low = self._bound()
        if cursor.at("}"):
            shown = low if isinstance(low, int) else f"${low.text}"
            cursor.fail(
                "hops need both bounds", cursor.here(), f"write `{{{shown},{shown}}}`, or `{{{shown},}}` for no upper"
            )
        cursor.expect(",", "between the hop bounds", "write `{1,3}`")
        high = None if cursor.at("}") else self._bound()
        cursor.expect("}", "after the hop bounds", "write `{1,3}`")
        return ast.Hops(low, high, cursor.span_from(start))

    def _bound(self) -> int | ast.Name:
        cursor = self.cursor
        if cursor.at_kind("VAR"):
            return cursor.name()
        if not cursor.at_kind("INT"):
            cursor.unexpected("a hop bound is a whole number or a parameter", "write `{1,3}` or `{1,$n}`")
        token = cursor.peek()
        value = int(token.text[:20])
        if value >= 2**32:
            cursor.fail("this hop bound is too large", cursor.span_of(token), "leave the upper bound out: `{1,}`")
        cursor.advance()
        return value

    # --- slips ----------------------------------------------------------------------------------------------------

    def _refuse_slips(self) -> None:
        cursor = self.cursor
        if cursor.at_kind("VAR") and cursor.at("-", ahead=1) and cursor.at(">", "[", "-", ahead=2):
            hint = "write `$a knows $b`, or `$a <knows> $b` for either direction"
            cursor.fail("edges are not drawn with arrows", cursor.span_of(cursor.peek(1)), hint)
        if not cursor.at_kind("IDENT"):
            return
        word = cursor.peek().text
        is_pattern = cursor.at_kind("IDENT", ahead=1) and cursor.at_kind("IDENT", "VAR", ahead=2)
        if not cursor.at(":", ahead=1):
            cursor.refuse_foreign()
        is_value = word in ("not", "optional", "true", "false", "null")
        if not is_value and (is_pattern or cursor.at(":", ahead=1)):
            cursor.fail(f"`{word}` is not a variable", cursor.here(), f"variables start with `$`: write `${word}`")
        if word == "optional":
            cursor.fail("an optional part takes braces", cursor.here(), "write `optional { $p knows $f }`")

    def _lone_variable(self, variable: ast.Var) -> None:
        shown = f"${variable.name}"
        hint = f"write `{shown}: Type`, `{shown} knows $f` or a filter such as `{shown}.age > 30`"
        self.cursor.fail(f"`{shown}` alone is no clause", variable.span, hint)
