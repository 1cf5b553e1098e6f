"""The cursor over the tokens of a `.gq` text. (text -> LEXER -> parser)"""

from __future__ import annotations

from typing import NoReturn

from omnigraph.parsing.cursor import END, FOREIGN, Cursor, Token
from omnigraph.query import ast
from omnigraph.query.grammar import TOKEN
from omnigraph.query.syntax_hints import foreign_character, foreign_token


class QueryCursor(Cursor):
    """A position in the tokens of one text. Kinds are VAR, TYPE, IDENT, FLOAT, INT, STRING and MARK."""

    pattern = TOKEN
    names = ("VAR", "TYPE", "IDENT")

    def __init__(self, text: str, path: str | None) -> None:
        super().__init__(text, path)
        ahead = 0
        while (token := self.peek(ahead)).kind != END:
            self._require_possible(token)
            ahead += 1

    def expect(self, text: str, where: str, hint: str | None = None) -> Token:
        """Read a word or mark, or fail with a message that describes the context."""
        if not self.at(text):
            self.unexpected(f"expected `{text}` {where}", hint or f"write `{text}` here")
        return self.advance()

    def name(self) -> ast.Name:
        """Return a token as a name; a variable loses its `$`."""
        token = self.advance()
        return ast.Name(token.text.removeprefix("$"), self.span_of(token))

    def refuse_foreign(self) -> None:
        """Fail if the next token is a known slip that is wrong in any place."""
        token = self.peek()
        slip = foreign_token(token.kind, token.text, self.peek(1).text)
        if slip is not None:
            self.fail(slip[0], self.here(), slip[1])

    def unexpected(self, message: str, hint: str | None) -> NoReturn:
        """Fail at the next token: with the hint of a known slip if it is one, else with this message."""
        self.refuse_foreign()
        token = self.peek()
        seen = "the text ends" if token.kind == END else f"found `{token.text.splitlines()[0]}`"
        self.fail(f"{message}, {seen}" if token.kind != END else f"{message}, but {seen}", self.here(), hint)

    def _require_possible(self, token: Token) -> None:
        """Refuse tokens that no query holds and that are expensive to continue from: an overlong name or comment."""
        if token.kind == FOREIGN:
            message, width, hint = foreign_character(self.text, token.start)
            self.fail(message, self.span(token.start, token.start + width), hint)
        if token.kind == "UNCLOSED":
            hint = "close it with `*/`; comments do not nest"
            self.fail("this comment is never closed", self.span(token.start, token.start + 1), hint)
        self.require_short_name(token)
