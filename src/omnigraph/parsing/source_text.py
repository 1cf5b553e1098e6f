"""Limits that hold for every text of both languages, checked before a text is read."""

from __future__ import annotations

import re

from omnigraph.errors import ParseError, Span

MAX_CHARACTERS = 4 << 20
"""Far beyond any schema or query that people or programs write."""
MAX_NAME = 200
"""A type is a file of an export, a property is a column: file systems allow names of 255 bytes."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def require_readable(text: str, path: str | None) -> None:
    """Refuse a text that is too long, or that no file could hold."""
    if len(text) > MAX_CHARACTERS:
        raise ParseError(
            f"the text has {len(text)} characters, the limit is {MAX_CHARACTERS}", path=path,
            hint="split it into several files",
        )  # fmt: skip
    found = _SURROGATE.search(text)
    if found is not None:
        line_start = text.rfind("\n", 0, found.start()) + 1
        span = Span(text.count("\n", 0, found.start()) + 1, found.start() - line_start + 1)
        raise ParseError("half of a surrogate pair is not a character", span=span, source=text, path=path,
                         hint="save the text as UTF-8")  # fmt: skip


def name_is_too_long(name: str) -> str | None:
    """What to say about a name that no file or column can have; None about any other.

    >>> name_is_too_long("person")
    """
    if len(name) <= MAX_NAME:
        return None
    return f"the name `{name[:40]}...` has {len(name)} characters, the limit is {MAX_NAME}"


def word_before(text: str) -> str:
    """The word that a text ends with; empty where it ends with something else. Looks at that word only.

    >>> word_before("node Person")
    'Person'
    """
    start = len(text)
    while start and (text[start - 1] == "_" or (text[start - 1].isascii() and text[start - 1].isalnum())):
        start -= 1
    return text[start:].lstrip("0123456789")
