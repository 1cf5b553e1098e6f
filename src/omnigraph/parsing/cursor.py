"""Tokens of a text with their places, and the cursor that parsers read them through.   (text -> CURSOR -> parser)

A parser tests the token at the cursor and consumes it. Tokens are made on demand, so a parser whose words depend on the
place can read its next token by a pattern of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from omnigraph.errors import ParseError, Span
from omnigraph.parsing.source_text import name_is_too_long, require_readable

ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
END, FOREIGN = "END", "FOREIGN"


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `kind` is a group of the language's pattern, END, or FOREIGN for a character that begins no token."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Return the offset behind the token."""
        return self.start + len(self.text)


class Cursor:
    """A position in the tokens of one text; quotes the text in errors."""

    pattern: ClassVar[re.Pattern[str]]
    """The tokens of the language, one named group for each kind. BLANK is left out."""
    names: ClassVar[tuple[str, ...]]
    """The kinds that are names, whose length is limited."""

    def __init__(self, text: str, path: str | None) -> None:
        self.text = text
        self.path = path
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        require_readable(text, path)
        self._tokens: list[Token] = []
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the token `ahead` of the cursor; past the last token, END."""
        wanted = self._at + ahead
        while len(self._tokens) <= wanted:
            if self._tokens and self._tokens[-1].kind in (END, FOREIGN):
                return self._tokens[-1]
            self._tokens.append(self._next_token(self._tokens[-1].end if self._tokens else 0))
        return self._tokens[wanted]

    @property
    def previous(self) -> Token | None:
        """Return the token just read."""
        return self._tokens[self._at - 1] if self._at else None

    def advance(self) -> Token:
        """Read one token."""
        token = self.peek()
        if token.kind not in (END, FOREIGN):
            self._at += 1
        return token

    def take_match(self, kind: str, pattern: re.Pattern[str]) -> Token | None:
        """Read the match of a pattern at the cursor as one token, instead of the language's own token."""
        start = self.peek().start
        found = pattern.match(self.text, start)
        if found is None:
            return None
        del self._tokens[self._at :]
        self._tokens.append(Token(kind, found[0], start))
        return self.advance()

    def at(self, *texts: str, ahead: int = 0) -> bool:
        """Return whether a word or mark stands at the cursor; text inside a string never counts."""
        token = self.peek(ahead)
        return token.text in texts and token.kind in ("IDENT", "MARK")

    def at_kind(self, *kinds: str, ahead: int = 0) -> bool:
        """Return whether a token of one of these kinds stands at the cursor."""
        return self.peek(ahead).kind in kinds

    def take(self, *texts: str) -> Token | None:
        """Read and return a word or mark if it is at the cursor."""
        return self.advance() if self.at(*texts) else None

    def string(self) -> str:
        """Read a STRING and decode its escapes."""
        token = self.advance()

        def decode(found: re.Match[str]) -> str:
            if found[1] not in ESCAPES:
                span = self.span(token.start + 1 + found.start(), token.start + 3 + found.start())
                shown = "\\n" if found[1] == "\n" else found[1]
                self.fail(f"unsupported escape sequence `\\{shown}`", span, r"use one of \" \\ \n \r \t")
            return ESCAPES[found[1]]

        return re.sub(r"\\(.)", decode, token.text[1:-1], flags=re.DOTALL)

    def span_of(self, token: Token) -> Span:
        """Return the place of one token."""
        return self.span(token.start, token.end)

    def span_from(self, start: int) -> Span:
        """Return the place from an offset to the end of the token just read."""
        return self.span(start, self.previous.end if self.previous else start)

    def span(self, start: int, end: int) -> Span:
        """Return a place by offsets; one over several lines is cut at the end of its first."""
        line = bisect_right(self._lines, start)
        written = self.text[start:end].split("\n", 1)[0].rstrip()
        return Span(line, start - self._lines[line - 1] + 1, max(1, len(written)))

    def here(self) -> Span:
        """Return the place of the next token; at the end, the place just behind the last one."""
        token = self.peek()
        if token.kind == END:
            return self.span(len(self.text.rstrip()), len(self.text))
        return self.span_of(token)

    def require_short_name(self, token: Token) -> None:
        """Refuse a name that no file or column can have."""
        problem = name_is_too_long(token.text) if token.kind in self.names else None
        if problem is not None:
            self.fail(problem, self.span_of(token), "choose a shorter name")

    def fail(self, message: str, span: Span, hint: str | None) -> NoReturn:
        """Raise a ParseError that quotes the text."""
        raise ParseError(message, span=span, source=self.text, path=self.path, hint=hint)

    def _next_token(self, offset: int) -> Token:
        while offset < len(self.text):
            found = self.pattern.match(self.text, offset)
            if found is None:
                return Token(FOREIGN, self.text[offset], offset)
            if found.lastgroup != "BLANK":
                return Token(str(found.lastgroup), found[0], offset)
            offset = found.end()
        return Token(END, "", offset)
