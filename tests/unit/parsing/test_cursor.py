"""The cursor that both parsers read through: places, escapes, and tokens by a pattern of the parser's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ParseError, Span
from omnigraph.parsing.cursor import END, FOREIGN, Cursor
from omnigraph.query.lexer import QueryCursor


class Words(Cursor):
    """Words, numbers, strings and marks."""

    pattern = re.compile(
        r'(?P<BLANK>\s+)|(?P<IDENT>[a-z]+)|(?P<INT>[0-9]+)|(?P<STRING>"(?:\\(?:.|\n)|[^"\\])*")|(?P<MARK>[-,.])'
    )
    names = ("IDENT",)


def test_tokens_have_places() -> None:
    cursor = Words("one,\n  two 3", None)
    assert cursor.span_of(cursor.advance()) == Span(1, 1, 3)
    assert cursor.take(",") is not None
    assert cursor.at("two")
    assert cursor.at_kind("INT", ahead=1)
    token = cursor.advance()
    assert cursor.span_of(token) == Span(2, 3, 3)
    assert cursor.previous == token
    cursor.advance()
    assert cursor.span_from(token.start) == Span(2, 3, 5)
    assert (cursor.peek().kind, cursor.peek(5).kind, cursor.advance().kind) == (END, END, END)


def test_what_begins_no_token_stays_at_the_cursor() -> None:
    cursor = Words("a # b", None)
    cursor.advance()
    assert [cursor.peek(ahead).kind for ahead in (0, 1, 9)] == [FOREIGN] * 3
    assert cursor.advance().text == "#"
    assert cursor.peek().text == "#"
    assert cursor.here() == Span(1, 3, 1)


def test_a_parser_reads_tokens_of_its_own() -> None:
    cursor = Words("a in-progress, 2x", None)
    cursor.advance()
    assert cursor.peek(2).text == "progress"
    value = re.compile("[a-z0-9-]+")
    found = cursor.take_match("VALUE", value)
    assert found is not None
    assert (found.kind, found.text, found.start) == ("VALUE", "in-progress", 2)
    assert cursor.take_match("VALUE", value) is None
    assert cursor.take(",") is not None
    found = cursor.take_match("VALUE", value)
    assert found is not None
    assert found.text == "2x"
    assert cursor.at_kind(END)


@pytest.mark.parametrize("cursor", [Words, QueryCursor])
def test_strings_have_one_table_of_escapes(cursor: type[Cursor]) -> None:
    assert cursor(r'"a\"b\\c\nd\re\tf é"', None).string() == 'a"b\\c\nd\re\tf é'
    with pytest.raises(ParseError) as caught:
        cursor('  "ab\\q"', None).string()
    assert (caught.value.span, caught.value.message) == (Span(1, 6, 2), "unsupported escape sequence `\\q`")


def test_endless_names_are_refused_where_they_stand() -> None:
    cursor = Words(f"a {'b' * 201}", "x.pg")
    cursor.advance()
    with pytest.raises(ParseError, match="201 characters") as caught:
        cursor.require_short_name(cursor.peek())
    assert caught.value.span == Span(1, 3, 201)


def test_no_parser_is_generated() -> None:
    """Both languages are read by hand-written parsers over this cursor."""
    sources = Path(omnigraph.__file__).parent.rglob("*.py")
    assert not [path for path in sources if re.search(r"^\s*(from|import) (lark|ply|parsy)\b", path.read_text(), re.M)]
