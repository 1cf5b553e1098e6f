"""`.gq` text -> tokens with their places, and the cursor the parser reads them through. (text -> LEXER -> parser)"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NoReturn

from omnigraph.errors import ParseError, Span
from omnigraph.query import ast
from omnigraph.query.grammar import TOKEN
from omnigraph.query.slips import foreign_character, foreign_token
from omnigraph.schema.source_text import name_is_too_long, require_readable

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `kind` is VAR, TYPE, IDENT, FLOAT, INT, STRING, MARK or END."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset behind the token."""
        return self.start + len(self.text)


class Cursor:
    """A position in the tokens of one text; knows how to quote the text in an error."""

    def __init__(self, text: str, path: str | None) -> None:
        self.text = text
        self.path = path
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        require_readable(text, path)
        self._tokens = self._tokenise()
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the cursor; the last token is an END that never passes."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    @property
    def previous(self) -> Token | None:
        """The token just read."""
        return self._tokens[self._at - 1] if self._at else None

    def advance(self) -> Token:
        """Read one token."""
        token = self.peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def at(self, *texts: str, ahead: int = 0) -> bool:
        """Whether a word or mark stands at the cursor; text inside a string never counts."""
        token = self.peek(ahead)
        return token.text in texts and token.kind in ("IDENT", "MARK")

    def at_kind(self, *kinds: str, ahead: int = 0) -> bool:
        """Whether a token of one of these kinds stands at the cursor."""
        return self.peek(ahead).kind in kinds

    def take(self, *texts: str) -> Token | None:
        """Read a word or mark if it is there."""
        return self.advance() if self.at(*texts) else None

    def expect(self, text: str, where: str, hint: str | None = None) -> Token:
        """Read a word or mark, or fail saying where it was missed."""
        if not self.at(text):
            self.unexpected(f"expected `{text}` {where}", hint or f"write `{text}` here")
        return self.advance()

    def name(self) -> ast.Name:
        """Read a token as a name; a variable loses its `$`."""
        token = self.advance()
        return ast.Name(token.text.removeprefix("$"), self.span_of(token))

    def string(self) -> str:
        """Read a STRING and decode its escapes."""
        token = self.advance()

        def decode(found: re.Match[str]) -> str:
            if found[1] not in _ESCAPES:
                span = self.span(token.start + 1 + found.start(), token.start + 3 + found.start())
                shown = "\\n" if found[1] == "\n" else found[1]
                self.fail(f"unsupported escape sequence `\\{shown}`", span, r"use one of \" \\ \n \r \t")
            return _ESCAPES[found[1]]

        return re.sub(r"\\(.)", decode, token.text[1:-1], flags=re.DOTALL)

    def span_of(self, token: Token) -> Span:
        """The place of one token."""
        return self.span(token.start, token.end)

    def span_from(self, start: int) -> Span:
        """The place of everything from an offset to the token just read."""
        return self.span(start, self.previous.end if self.previous else start)

    def span(self, start: int, end: int) -> Span:
        """A place by offsets; one over several lines is cut at the end of its first."""
        line = bisect_right(self._lines, start)
        written = self.text[start:end].split("\n", 1)[0].rstrip()
        return Span(line, start - self._lines[line - 1] + 1, max(1, len(written)))

    def here(self) -> Span:
        """The place of the next token; at the end, just behind the last thing written."""
        token = self.peek()
        if token.kind == "END":
            return self.span(len(self.text.rstrip()), len(self.text))
        return self.span_of(token)

    def refuse_foreign(self) -> None:
        """Fail if the next token is a slip that explains itself in any place."""
        token = self.peek()
        slip = foreign_token(token.kind, token.text, self.peek(1).text)
        if slip is not None:
            self.fail(slip[0], self.here(), slip[1])

    def unexpected(self, message: str, hint: str | None) -> NoReturn:
        """Fail at the next token: by a slip that explains it in any place, or with this message."""
        self.refuse_foreign()
        token = self.peek()
        seen = "the text ends" if token.kind == "END" else f"found `{token.text.splitlines()[0]}`"
        self.fail(f"{message}, {seen}" if token.kind != "END" else f"{message}, but {seen}", self.here(), hint)

    def fail(self, message: str, span: Span, hint: str | None) -> NoReturn:
        """Raise a ParseError that quotes the text."""
        raise ParseError(message, span=span, source=self.text, path=self.path, hint=hint)

    def _tokenise(self) -> list[Token]:
        tokens: list[Token] = []
        offset = 0
        while offset < len(self.text):
            found = TOKEN.match(self.text, offset)
            if found is None:
                message, width, hint = foreign_character(self.text, offset)
                self.fail(message, self.span(offset, offset + width), hint)
            if found.lastgroup != "BLANK":
                tokens.append(Token(str(found.lastgroup), found[0], offset))
                self._require_possible(tokens[-1])
            offset = found.end()
        return [*tokens, Token("END", "", offset)]

    def _require_possible(self, token: Token) -> None:
        """Refuse what would be expensive to go on with: an endless name, a comment without an end."""
        if token.kind == "UNCLOSED":
            hint = "close it with `*/`; comments do not nest"
            self.fail("this comment is never closed", self.span(token.start, token.start + 1), hint)
        problem = name_is_too_long(token.text) if token.kind in ("VAR", "TYPE", "IDENT") else None
        if problem is not None:
            self.fail(problem, self.span_of(token), "choose a shorter name")
