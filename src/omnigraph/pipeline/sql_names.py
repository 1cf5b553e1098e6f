"""Find the tables that a query of Spark SQL reads in its text: after FROM, JOIN, TABLE and the commas of a FROM.

Spark defines the meaning of a query; this module only finds, before Spark starts, the sources and steps that it names.
Names that the query defines itself (`WITH`) and functions of tables are none of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<quoted>`(?:``|[^`])*`)
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d\w*)
    |(?P<sign>\|>|.)""",
    re.VERBOSE | re.DOTALL,
)
_ENDS_FROM = frozenset(
    (
        "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "UNION", "EXCEPT",
        "MINUS", "INTERSECT", "WINDOW", "VIEW", "SELECT", "VALUES", "QUALIFY", "SET",
    )
)  # fmt: skip
_FROM_IN_CALLS = frozenset(("EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"))
_QUERY = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE", "("))
_WRITES = frozenset(("INSERT", "MERGE"))


@dataclass(frozen=True, slots=True)
class TableName:
    """A table that a query reads: the parts of its name, and the number of its first character."""

    parts: tuple[str, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")

    @property
    def name(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


@dataclass(slots=True)
class _Level:
    """One level of parentheses. `defines` is the name that its end defines."""

    wants_table: bool = False
    in_from: bool = False
    in_with: bool = False
    is_call: bool = False
    defines: str | None = None
    defined: set[str] = field(default_factory=set)


def is_query(sql: str) -> bool:
    """Return whether a text is one query: not several statements, and none that writes."""
    tokens = _tokens(sql)
    if not tokens or tokens[0].upper not in _QUERY:
        return False
    depth = 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        after = tokens[at + 1].upper if at + 1 < len(tokens) else ""
        if token.text == ";" and after:
            return False
        if depth == 0 and token.upper in _WRITES and after in ("INTO", "OVERWRITE"):
            return False
    return True


def table_names(sql: str) -> list[TableName]:
    """Return the tables that a query reads, once per occurrence."""
    return _Scan(_tokens(sql)).names()


def _tokens(sql: str) -> list[_Token]:
    matches = (match for match in _TOKEN.finditer(sql) if match.lastgroup != "skip")
    return [_Token(str(match.lastgroup), match.group(), match.start()) for match in matches]


class _Scan:
    """One walk over the tokens of a query."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._levels = [_Level()]
        self._pending: str | None = None
        self._found: list[TableName] = []

    def names(self) -> list[TableName]:
        at = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            if token.kind == "sign":
                self._sign(at, token.text)
            elif token.kind in ("text", "number"):
                self._level.wants_table = False
            elif token.is_name:
                at = self._word(at, token)
            at += 1
        return self._found

    @property
    def _level(self) -> _Level:
        return self._levels[-1]

    def _upper(self, at: int) -> str:
        return self._tokens[at].upper if 0 <= at < len(self._tokens) else ""

    def _sign(self, at: int, sign: str) -> None:
        level = self._level
        if sign == "(":
            defines = self._pending if self._upper(at - 1) == "AS" else None
            inner = _Level(level.wants_table, is_call=self._upper(at - 1) in _FROM_IN_CALLS, defines=defines)
            level.wants_table = False
            self._pending = None if defines is not None else self._pending
            self._levels.append(inner)
        elif sign == ")" and len(self._levels) > 1:
            done = self._levels.pop()
            if done.defines is not None:
                self._level.defined.add(done.defines)
        elif sign == ",":
            level.wants_table = level.in_from
        elif sign in ("|>", ";"):
            level.in_from = level.wants_table = False

    def _word(self, at: int, token: _Token) -> int:
        """Process one word; return the number of the last token that belongs to it."""
        level, word = self._level, token.upper
        if level.in_with and self._upper(at - 1) in ("WITH", "RECURSIVE", ",") and word != "RECURSIVE":
            self._pending = token.name
            if self._upper(at - 1) == "RECURSIVE":
                level.defined.add(token.name)
            return at
        if token.kind == "word" and self._keyword(at, word):
            return at
        if level.wants_table:
            level.wants_table = False
            return self._table(at)
        return at

    def _keyword(self, at: int, word: str) -> bool:
        level = self._level
        if word == "FROM":
            is_distinct = self._upper(at - 1) == "DISTINCT" and self._upper(at - 2) in ("IS", "NOT")
            if not (level.is_call or is_distinct):
                level.wants_table = level.in_from = True
                level.in_with = False
        elif word == "JOIN":
            level.wants_table = level.in_from = True
        elif word == "TABLE" and self._upper(at - 1) in ("", "(", ")", "ALL", *_ENDS_FROM, "|>"):
            level.wants_table, level.in_with = True, False
        elif word == "WITH":
            level.in_with, level.wants_table = True, False
        elif word in _ENDS_FROM:
            level.in_from = level.wants_table = False
            level.in_with = level.in_with and word not in ("SELECT", "VALUES")
        else:
            return word == "LATERAL"
        return True

    def _table(self, at: int) -> int:
        parts = [self._tokens[at].name]
        last = at
        while self._upper(last + 1) == "." and last + 2 < len(self._tokens) and self._tokens[last + 2].is_name:
            last += 2
            parts.append(self._tokens[last].name)
        is_call = self._upper(last + 1) == "("
        is_defined = len(parts) == 1 and any(parts[0] in level.defined for level in self._levels)
        if not (is_call or is_defined):
            self._found.append(TableName(tuple(parts), self._tokens[at].offset))
        return last
