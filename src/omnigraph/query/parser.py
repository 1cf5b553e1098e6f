"""`.gq` text -> `ast.QueryFile`, or one `ParseError` that points at the mistake.  (text -> PARSER -> ast -> typecheck)

Parses queries, patterns and statements; `parse_expressions` parses the expressions inside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from omnigraph.query import ast
from omnigraph.query.lexer import QueryCursor
from omnigraph.query.parse_expressions import Expressions
from omnigraph.query.parse_pattern import Patterns
from omnigraph.query.parse_types import parameter
from omnigraph.schema.names import nearest

_Item = TypeVar("_Item")
_NOTES = ("description", "instruction")


def parse_queries(text: str, path: str | None = None) -> ast.QueryFile:
    """Parse all queries of a text. The grammar is checked here, the meaning in `typecheck`.

    >>> parse_queries("query all() { match { $p: Person } return { $p.name } }").queries[0].name.text
    'all'
    """
    cursor = QueryCursor(text, path)
    queries: list[ast.Query] = []
    while not cursor.at_kind("END"):
        queries.append(_QueryParser(cursor).query())
    return ast.QueryFile(tuple(queries), text, path)


class _QueryParser:
    """Reads one query at a cursor."""

    def __init__(self, cursor: QueryCursor) -> None:
        self.cursor = cursor
        self.expressions = Expressions(cursor)
        self.patterns = Patterns(cursor, self.expressions)

    def query(self) -> ast.Query:
        cursor = self.cursor
        self._start()
        if not cursor.at_kind("IDENT"):
            hint = "write `query name() { ... }`; names start in lower case"
            cursor.unexpected("a query needs a name", hint)
        name = cursor.name()
        cursor.expect("(", "after the query's name", f"write `query {name.text}()` even without parameters")
        params: list[ast.ParamDecl] = []
        while not cursor.at(")"):
            params.append(parameter(cursor))
            if not cursor.take(","):
                break
        cursor.expect(")", "after the parameters", "separate parameters with `,`")
        notes = self._notes()
        cursor.expect("{", "to open the query")
        body = self._body()
        if not cursor.at("}"):
            self._after_body(body)
        cursor.advance()
        return ast.Query(
            name, tuple(params), body, notes.get("description"), notes.get("instruction"), cursor.text, cursor.path
        )

    def _start(self) -> None:
        cursor = self.cursor
        if cursor.take("query"):
            return
        word = cursor.peek().text
        if cursor.at("}"):
            cursor.fail("this `}` closes nothing", cursor.here(), "remove it, or look for a `}` too many above")
        if cursor.at("match", "insert", "update", "delete", "return"):
            hint = f"put it into `query name() {{ {word} ... }}`"
            cursor.fail(f"`{word}` stands outside a query", cursor.here(), hint)
        close = nearest(word, ("query",)) if word else None
        cursor.unexpected("a file holds queries", "write `query`" if close else "write `query name() { ... }`")

    def _notes(self) -> dict[str, str]:
        cursor = self.cursor
        notes: dict[str, str] = {}
        while cursor.at("@"):
            start = cursor.advance().start
            word = cursor.peek().text
            if word not in _NOTES:
                close = nearest(word, _NOTES)
                hint = f"did you mean `@{close}`?" if close else "a query takes `@description` and `@instruction`"
                cursor.fail(f"unknown annotation `@{word}`", cursor.here(), hint)
            cursor.advance()
            if word in notes:
                cursor.fail(f"`@{word}` is given twice", cursor.span_from(start), "keep one of them")
            cursor.expect("(", f"after `@{word}`", f'write `@{word}("...")`')
            if not cursor.at_kind("STRING"):
                cursor.unexpected(f"`@{word}` takes a text", f'write `@{word}("...")`')
            notes[word] = cursor.string()
            cursor.expect(")", f"to close `@{word}(`")
        return notes

    def _body(self) -> ast.Read | ast.Mutation:
        cursor = self.cursor
        if cursor.at("match"):
            return self._read()
        if cursor.at("insert", "update", "delete"):
            statements: list[ast.Statement] = []
            while cursor.at("insert", "update", "delete"):
                statements.append(self._statement())
            return ast.Mutation(tuple(statements))
        if cursor.at("}"):
            cursor.fail("this query is empty", cursor.here(), "write `match { ... } return { ... }` or a statement")
        if cursor.at("return"):
            cursor.fail("`match` is missing", cursor.here(), "write `match { ... }` before `return`")
        return cursor.unexpected(
            "a query starts with `match`, `insert`, `update` or `delete`", "write `match { ... } return { ... }`"
        )

    def _after_body(self, body: ast.Read | ast.Mutation) -> NoReturn:
        cursor = self.cursor
        if isinstance(body, ast.Mutation) and cursor.at("match", "return"):
            word = cursor.peek().text
            hint = "write two queries: one that reads, one that writes"
            cursor.fail(f"a query that writes has no `{word}`", cursor.here(), hint)
        if isinstance(body, ast.Read) and cursor.at("insert", "update", "delete"):
            hint = "write two queries: one that reads, one that writes"
            cursor.fail(f"a query that reads has no `{cursor.peek().text}`", cursor.here(), hint)
        if isinstance(body, ast.Read) and cursor.at("match"):
            cursor.fail("a query has one `match`", cursor.here(), "put all clauses into the first")
        cursor.unexpected("expected `}` to close the query", "close it with `}`")

    # --- reads ----------------------------------------------------------------------------------------------------

    def _read(self) -> ast.Read:
        cursor = self.cursor
        cursor.advance()
        clauses = self.patterns.block("match")
        if not cursor.at("return"):
            if cursor.at("}") or cursor.at_kind("END"):
                cursor.fail("`return` is missing", cursor.here(), "write `return { $p.name }` after `match { ... }`")
            if cursor.at("order", "limit", "offset", "having"):
                word = cursor.peek().text
                cursor.fail(f"`return` must come before `{word}`", cursor.here(), "write `return { ... }` first")
            cursor.unexpected("expected `return` after the pattern", "write `return { $p.name }`")
        cursor.advance()
        distinct = cursor.take("distinct") is not None
        self.expressions.words = True
        projections = self._items("return", self._projection)
        tail = self._tail()
        self.expressions.words = False
        return ast.Read(
            clauses,
            projections,
            distinct,
            having=tail.having,
            order=tail.order,
            offset=tail.offset,
            limit=tail.limit,
        )

    def _tail(self) -> _Tail:
        cursor = self.cursor
        tail = _Tail()
        seen: set[str] = set()
        while cursor.at("having", "order", "offset", "limit"):
            word = cursor.peek().text
            if word in seen:
                cursor.fail(f"`{word}` is given twice", cursor.here(), "keep one of them")
            seen.add(word)
            cursor.advance()
            match word:
                case "having":
                    tail.having = self._items("having", self.expressions.expression)
                case "order":
                    tail.order = self._items("order", self._order_item, commas=True)
                case "offset":
                    tail.offset = self._count("offset")
                case _:
                    tail.limit = self._count("limit")
        return tail

    def _items(self, owner: str, item: Callable[[], _Item], commas: bool = False) -> tuple[_Item, ...]:
        cursor = self.cursor
        cursor.expect("{", f"after `{owner}`", f"write `{owner} {{ ... }}`")
        items: list[_Item] = []
        while not cursor.at("}"):
            if cursor.at_kind("END"):
                cursor.fail(f"`{owner}` is never closed", cursor.here(), "close it with `}`")
            if cursor.at("order", "having") and cursor.at("{", ahead=1):
                cursor.fail(f"`{owner}` is never closed", cursor.here(), "close it with `}` first")
            items.append(item())
            if not cursor.take(",") and commas and not cursor.at("}"):
                cursor.unexpected(f"expected `,` or `}}` in `{owner}`", "separate the keys with `,`")
        if not items:
            cursor.fail(f"`{owner}` is empty", cursor.here(), f"write `{owner} {{ $p.name }}`")
        cursor.advance()
        return tuple(items)

    def _projection(self) -> ast.Projection:
        cursor = self.cursor
        start = cursor.peek().start
        if cursor.at("distinct") and not cursor.at("as", ",", "}", ahead=1):
            cursor.fail("`distinct` is about whole rows", cursor.here(), "write `return distinct { ... }`")
        expression = self.expressions.expression()
        alias: ast.Name | None = None
        if cursor.take("as"):
            if not cursor.at_kind("IDENT"):
                word = cursor.peek().text.strip('"')
                hint = (
                    f"write `as {word[:1].lower()}{word[1:]}`"
                    if cursor.at_kind("TYPE", "STRING")
                    else "write `as name`"
                )
                cursor.fail("a column name is a bare word in lower case", cursor.here(), hint)
            alias = cursor.name()
        return ast.Projection(expression, alias, cursor.span_from(start))

    def _order_item(self) -> ast.OrderItem:
        cursor = self.cursor
        start = cursor.peek().start
        expression = self.expressions.expression()
        descending: bool | None = None
        if cursor.at("asc", "desc"):
            if isinstance(expression, ast.Call) and expression.function == "nearest":
                word = cursor.peek().text
                cursor.fail(
                    f"`nearest` takes no `{word}`", cursor.here(), "the nearest always come first; leave it out"
                )
            descending = cursor.advance().text == "desc"
        return ast.OrderItem(expression, descending, cursor.span_from(start))

    def _count(self, owner: str) -> int | ast.Name:
        cursor = self.cursor
        if cursor.at_kind("VAR"):
            return cursor.name()
        if not cursor.at_kind("INT"):
            cursor.unexpected(f"`{owner}` takes a whole number or a parameter", f"write `{owner} 10` or `{owner} $n`")
        token = cursor.peek()
        value = int(token.text[:30])
        if value >= 2**63:
            cursor.fail(f"this {owner} is too large", cursor.span_of(token), "it must fit 63 bits")
        cursor.advance()
        return value

    # --- mutations ------------------------------------------------------------------------------------------------

    def _statement(self) -> ast.Statement:
        cursor = self.cursor
        start = cursor.peek().start
        word = cursor.advance().text
        if not cursor.at_kind("TYPE"):
            hint = f"write `{word} Person ...`; type names start with a capital"
            cursor.unexpected(f"`{word}` needs a node or edge type", hint)
        type_name = cursor.name()
        if word == "insert":
            assignments = self._assignments("insert")
            if cursor.at("where"):
                cursor.fail("an insert has no `where`", cursor.here(), "write `update Type set { ... } where ...`")
            return ast.Insert(type_name, assignments, cursor.span_from(start))
        if word == "update":
            cursor.expect(
                "set", f"after `update {type_name.text}`", f"write `update {type_name.text} set {{ ... }} where ...`"
            )
            self.expressions.words = True
            assignments = self._assignments("set")
            where = self._where(f"update {type_name.text} set {{ ... }}")
            return ast.Update(type_name, assignments, where, cursor.span_from(start))
        where = self._where(f"delete {type_name.text}")
        return ast.Delete(type_name, where, cursor.span_from(start))

    def _assignments(self, owner: str) -> tuple[ast.Assignment, ...]:
        cursor = self.cursor
        cursor.expect("{", f"after `{owner}`" if owner == "set" else "after the type", "write `{ name: $name, ... }`")
        found: list[ast.Assignment] = []
        while not cursor.at("}"):
            if not cursor.at_kind("IDENT"):
                cursor.unexpected("expected a property", "write `property: value`")
            name = cursor.name()
            if cursor.at("="):
                cursor.fail("a property is given with `:`", cursor.here(), f"write `{name.text}: ...`")
            cursor.expect(":", f"after `{name.text}`", f"write `{name.text}: ...`")
            found.append(ast.Assignment(name, self.expressions.sum()))
            cursor.take(",")
        cursor.advance()
        return tuple(found)

    def _where(self, owner: str) -> ast.Expression:
        cursor = self.cursor
        cursor.expect("where", f"after `{owner}`", f"write `{owner} where name = $name`")
        self.expressions.words, self.expressions.text_tests = True, False
        found = self.expressions.expression()
        self.expressions.words, self.expressions.text_tests = False, True
        return found


class _Tail:
    """The clauses that may follow `return`, in any order."""

    having: tuple[ast.Expression, ...] = ()
    order: tuple[ast.OrderItem, ...] = ()
    offset: int | ast.Name | None = None
    limit: int | ast.Name | None = None
