"""Expressions of the query language, by recursive descent over the rules of `grammar`.  (tokens -> EXPRESSIONS -> ast)

`words` is the meaning of a bare name in the place at hand: a column in `return`, a property in a mutation, nothing in
`match`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable

from omnigraph.datatypes import TooPrecise
from omnigraph.parsing.cursor import Token
from omnigraph.query import ast
from omnigraph.query.grammar import COMPARISONS, FUNCTIONS, INFIX_WORDS, TEXT_TESTS
from omnigraph.query.lexer import QueryCursor
from omnigraph.query.syntax_hints import bare_word, unknown_function
from omnigraph.schema.resolve import utc

# Far beyond any real expression, and well within the recursion limit of the interpreter.
MAX_DEPTH = 40
MAX_OPERATORS = 100
# Python refuses to parse integers of thousands of digits; no real query comes near.
MAX_DIGITS = 400

_Rule = Callable[[], ast.Expression]


class Expressions:
    """Reads expressions at a cursor."""

    def __init__(self, cursor: QueryCursor) -> None:
        self.cursor = cursor
        self.words = False
        # Mutations test single rows by value; text predicates on patterns belong to reads.
        self.text_tests = True
        self._depth = 0
        self._operators = 0

    def expression(self) -> ast.Expression:
        """`a or b`: the whole of an expression."""
        if self._depth == 0:
            self._operators = 0
        return self._deeper(lambda: self._logic("or", lambda: self._logic("and", self._not)))

    def sum(self) -> ast.Expression:
        """`a + b`: an expression without comparison, as values of properties are."""
        return self._chain(("+", "-"), lambda: self._chain(("*", "/", "%"), self._unary))

    def _deeper(self, rule: _Rule) -> ast.Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.cursor.fail(
                "this expression is nested too deeply", self.cursor.here(), "split it into several filters"
            )
        found = rule()
        self._depth -= 1
        return found

    def _logic(self, op: str, operand: _Rule) -> ast.Expression:
        start = self.cursor.peek().start
        operands = [operand()]
        while self._at_infix(op):
            self.cursor.advance()
            operands.append(operand())
        return operands[0] if len(operands) == 1 else ast.Logic(op, tuple(operands), self.cursor.span_from(start))

    def _not(self) -> ast.Expression:
        token = self.cursor.peek()
        if not self.cursor.at("not") or self.cursor.at(":", ahead=1) or self._names_a_column():
            return self._test()
        self.cursor.advance()
        if self.cursor.at("{"):
            hint = "write `not { ... }` as a clause of its own in `match`"
            self.cursor.fail("a `not { }` block is no value", self.cursor.span_of(token), hint)
        operand = self._deeper(self._not)
        return ast.Unary("not", operand, self.cursor.span_from(token.start))

    def _test(self) -> ast.Expression:
        start = self.cursor.peek().start
        found = self.sum()
        if self._at_infix("is"):
            found = self._null_test(found, start)
        elif self._at_comparison():
            op = self.cursor.advance().text
            found = ast.Binary(op, found, self.sum(), self.cursor.span_from(start))
        if self._at_comparison() or self._at_infix("is"):
            hint = "join two comparisons with `and`, or put one in parentheses"
            if isinstance(found, ast.Binary) and isinstance(found.right, ast.Binary) and found.right.op == "-":
                # Clauses have no separator, so a minus continues the clause before it.
                hint += "; a clause that begins with `-` needs parentheses: `(-$x < 1)`"
            self.cursor.fail("comparisons cannot be chained", self.cursor.here(), hint)
        if self.cursor.at("not") and self.cursor.at("in", ahead=1):
            self.cursor.fail("there is no `not in`", self.cursor.here(), "write `not ($p.name in [...])`")
        return found

    def _null_test(self, operand: ast.Expression, start: int) -> ast.Expression:
        self.cursor.advance()
        negated = self.cursor.take("not") is not None
        if not self.cursor.take("null"):
            self.cursor.unexpected(
                "`is` tests for null only", "write `is null` or `is not null`, `=` for anything else"
            )
        return ast.NullTest(operand, negated, self.cursor.span_from(start))

    def _at_comparison(self) -> bool:
        if not (self.cursor.at(*COMPARISONS) or self._at_infix("in", *TEXT_TESTS)):
            return False
        if self.cursor.at(*TEXT_TESTS) and not self.text_tests:
            word = self.cursor.peek().text
            hint = "find the rows with a read first, then name them by value"
            self.cursor.fail(f"`{word}` does not work in the `where` of a mutation", self.cursor.here(), hint)
        return True

    def _at_infix(self, *words: str) -> bool:
        # Behind a word stands `:` when it is the name of the next assignment.
        return self.cursor.at(*words) and not self.cursor.at(":", ahead=1)

    def _chain(self, ops: tuple[str, ...], operand: _Rule) -> ast.Expression:
        start = self.cursor.peek().start
        found = operand()
        while self.cursor.at(*ops):
            self._operators += 1
            if self._operators > MAX_OPERATORS:
                self.cursor.fail("this expression is too long", self.cursor.here(), "split it into several filters")
            op = self.cursor.advance().text
            found = ast.Binary(op, found, operand(), self.cursor.span_from(start))
        return found

    def _unary(self) -> ast.Expression:
        start = self.cursor.peek()
        if not self.cursor.take("-"):
            found = self._primary()
            if self.cursor.at("["):
                hint = "a list is read whole: there are no single elements; columns are separated by `,`"
                self.cursor.fail("nothing is taken out of a list by `[ ]`", self.cursor.here(), hint)
            return found
        if self.cursor.at_kind("INT", "FLOAT"):
            return self._number(start)
        operand = self._deeper(self._unary)
        return ast.Unary("-", operand, self.cursor.span_from(start.start))

    def _primary(self) -> ast.Expression:
        token = self.cursor.peek()
        match token.kind:
            case "INT" | "FLOAT":
                return self._number(None)
            case "STRING":
                return ast.Literal(self.cursor.string(), self.cursor.span_of(token))
            case "VAR":
                return self._variable()
            case "IDENT":
                return self._word()
            case "TYPE" if self.cursor.at("(", ahead=1) and token.text.lower() in FUNCTIONS:
                return self._call()
            case "TYPE":
                self.cursor.refuse_foreign()
                message, hint = bare_word(token.text, "", "")
                self.cursor.fail(message, self.cursor.span_of(token), hint)
            case "MARK" if token.text == "[":
                return self._list()
            case "MARK" if token.text == "(":
                return self._group()
        return self.cursor.unexpected(
            "expected a value", "a value is a literal, a `$variable`, `$p.name` or a function"
        )

    def _group(self) -> ast.Expression:
        self.cursor.advance()
        if self.cursor.at_kind("IDENT") and self.cursor.at(":", ahead=1):
            name = self.cursor.peek().text
            hint = f"write `${name}: Type`, and `$a knows $b` for an edge"
            self.cursor.fail("patterns are not drawn with parentheses and arrows", self.cursor.here(), hint)
        found = self.expression()
        self.cursor.expect(")", "to close the parenthesis")
        return found

    def _variable(self) -> ast.Expression:
        token = self.cursor.peek()
        name = self.cursor.name()
        if not self.cursor.take("."):
            return ast.Var(name.text, name.span)
        if self.cursor.take("@"):
            if not self.cursor.take("id"):
                self.cursor.unexpected("only `@id` follows `.`", "write `$p.@id` for the id, `$p.name` for a property")
            return ast.IdRef(name, self.cursor.span_from(token.start))
        if not self.cursor.at_kind("IDENT"):
            hint = "property names start in lower case" if self.cursor.at_kind("TYPE") else "write `$p.name`"
            self.cursor.fail(f"expected a property after `{token.text}.`", self.cursor.here(), hint)
        return ast.PropertyRef(name, self.cursor.name(), self.cursor.span_from(token.start))

    def _word(self) -> ast.Expression:
        token = self.cursor.peek()
        span = self.cursor.span_of(token)
        if token.text in ("true", "false", "null"):
            self.cursor.advance()
            return ast.Literal(None if token.text == "null" else token.text == "true", span)
        if self.cursor.at("(", ahead=1) and token.text != "not":
            return self._call()
        if token.text in INFIX_WORDS and not self._names_a_column():
            self.cursor.fail(f"expected a value before `{token.text}`", span, "an operator stands between two values")
        if not self.words or self.cursor.at(".", ahead=1):
            slip = bare_word(token.text, self.cursor.peek(1).text, self.cursor.peek(2).text)
            self.cursor.fail(slip[0], span, slip[1])
        self.cursor.advance()
        return ast.Word(token.text, span)

    def _names_a_column(self) -> bool:
        """Return whether an operator's word is the name of a column: then no operand follows it."""
        return self.words and self.cursor.at(",", "}", "asc", "desc", ahead=1)

    def _call(self) -> ast.Expression:
        token = self.cursor.advance()
        if token.text not in FUNCTIONS:
            return self._unknown_call(token)
        self.cursor.advance()
        if token.text in ("date", "datetime"):
            return self._moment(token)
        star = self.cursor.take("*") is not None
        # `distinct` may also be the name of a column: then only a comma or the parenthesis follows it.
        distinct = self.cursor.at("distinct") and not self.cursor.at(")", ",", ahead=1)
        if distinct:
            self.cursor.advance()
        arguments: list[ast.Expression] = []
        while not self.cursor.at(")") and not star:
            arguments.append(self.expression())
            if not self.cursor.take(","):
                break
        self.cursor.expect(")", f"to close `{token.text}(`")
        return ast.Call(token.text, tuple(arguments), self.cursor.span_from(token.start), distinct, star)

    def _unknown_call(self, token: Token) -> ast.Call:
        """Return a call that only the check of its query refuses, so that the other queries of the file stay usable."""
        depth = 1
        self.cursor.advance()
        while depth:
            if self.cursor.at_kind("END"):
                message, hint = unknown_function(token.text)
                self.cursor.fail(message, self.cursor.span_of(token), hint)
            depth += self.cursor.at("(") - self.cursor.at(")")
            self.cursor.advance()
        return ast.Call(token.text, (), self.cursor.span_of(token))

    def _moment(self, function: Token) -> ast.Literal:
        if not self.cursor.at_kind("STRING"):
            shown = '"2024-01-31"' if function.text == "date" else '"2024-01-31T12:00:00Z"'
            hint = f"write `{function.text}({shown})`, or a parameter of that type"
            self.cursor.unexpected(f"`{function.text}` takes a literal text", hint)
        token = self.cursor.peek()
        text = self.cursor.string()
        try:
            value = dt.date.fromisoformat(text) if function.text == "date" else utc(text)
        except TooPrecise as error:
            self.cursor.fail(f"`{text}` {error}", self.cursor.span_of(token), "write at most three digits of a second")
        except ValueError:
            hint = 'write it like "2024-01-31"' if function.text == "date" else 'write it like "2024-01-31T12:00:00Z"'
            self.cursor.fail(f"`{text}` is not a valid {function.text}", self.cursor.span_of(token), hint)
        self.cursor.expect(")", f"to close `{function.text}(`")
        return ast.Literal(value, self.cursor.span_from(function.start))

    def _list(self) -> ast.ListLiteral:
        start = self.cursor.advance().start
        items: list[ast.Literal | ast.ListLiteral] = []
        while not self.cursor.at("]"):
            token = self.cursor.peek()
            item = self._deeper(self._unary)
            if not isinstance(item, ast.Literal | ast.ListLiteral):
                hint = "pass the whole list as a parameter, for example `$names: [String]`"
                self.cursor.fail("a list holds literals only", self.cursor.span_from(token.start), hint)
            items.append(item)
            if not self.cursor.take(","):
                break
        self.cursor.expect("]", "to close the list")
        return ast.ListLiteral(tuple(items), self.cursor.span_from(start))

    def _number(self, minus: Token | None) -> ast.Literal:
        token = self.cursor.advance()
        digits = ("-" if minus else "") + token.text
        span = self.cursor.span_from((minus or token).start)
        if len(digits) > MAX_DIGITS or not math.isfinite(float(digits)):
            self.cursor.fail("this number is too large", span, "no type could hold it")
        if token.kind == "FLOAT":
            return ast.Literal(float(digits), span)
        value = int(digits)
        if not -(2**63) <= value < 2**64:
            self.cursor.fail("this whole number does not fit 64 bits", span, "write it with a decimal point")
        return ast.Literal(value, span)
