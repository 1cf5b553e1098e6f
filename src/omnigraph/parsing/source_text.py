"""Limits of every text of both languages, checked before the text is parsed."""

from __future__ import annotations

import re

from omnigraph.errors import ParseError, Span

MAX_CHARACTERS = 4 << 20
"""The longest text, far beyond real schemas and queries."""
MAX_NAME = 200
"""The longest name: an export has a file per type, and file systems allow names of 255 bytes."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def require_readable(text: str, path: str | None) -> None:
    """Refuse a text that is too long, or that cannot be encoded."""
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
    """Return the message for a name that is too long for a file or column; None for any other.

    >>> name_is_too_long("person")
    """
    if len(name) <= MAX_NAME:
        return None
    return f"the name `{name[:40]}...` has {len(name)} characters, the limit is {MAX_NAME}"


def word_before(text: str) -> str:
    """Return the word that a text ends with, or "". Reads that word only.

    >>> word_before("node Person")
    'Person'
    """
    start = len(text)
    while start and (text[start - 1] == "_" or (text[start - 1].isascii() and text[start - 1].isalnum())):
        start -= 1
    return text[start:].lstrip("0123456789")
