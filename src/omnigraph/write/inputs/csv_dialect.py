"""The dialect of a CSV file: the caller's options, and what can safely be sniffed from its first bytes."""

from __future__ import annotations

import codecs
import datetime as dt
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.errors import InvalidArgument
from omnigraph.write.values import DateFormats

UTF_8 = "utf-8"
HEAD_BYTES = 1 << 16
_DELIMITERS = (",", ";", "\t", "|")
_TABBED = (".tsv", ".tab")
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_SAMPLE_LINES = 50
_MARKS = (  # the longer ones first: that of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The dialect of a CSV file. An empty field is null, as the `null_values` are; in quotes they are text.

    Without a `delimiter` or an `encoding` the file's first bytes decide: `sniffed`. A quote inside quotes is doubled,
    or follows `escape`. Without a header, columns are called `names`, or `_c0`, `_c1` ... `quote` may be empty: then no
    character is special but the delimiter. `date_format` and `datetime_format` are patterns of `strptime`.
    """

    delimiter: str | None = None
    quote: str = '"'
    escape: str = ""
    header: bool = True
    names: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ()
    encoding: str | None = None
    date_format: str | None = None
    datetime_format: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("delimiter", self.delimiter), ("quote", self.quote), ("escape", self.escape)):
            may_be_empty = name != "delimiter"
            if text is None or (may_be_empty and not text):
                continue
            if not (len(text) == 1 and text.isascii() and text not in "\r\n\0"):
                article = "an" if name == "escape" else "a"
                raise InvalidArgument(f"{article} {name} is one character of ASCII, not {text!r}")
        signs = [sign for sign in (self.delimiter, self.quote, self.escape) if sign]
        if len(set(signs)) != len(signs):
            raise InvalidArgument("delimiter, quote and escape are different characters")
        if self.names and self.header:
            raise InvalidArgument("`names` are for files without a header", hint="add `header: false`")
        if len(set(self.names)) != len(self.names):
            raise InvalidArgument("`names` has a name twice")
        if self.encoding is not None and not _is_text_encoding(self.encoding):
            raise InvalidArgument(f"encoding {self.encoding!r} is unknown", hint="use utf-8, utf-16, latin-1 ...")
        for name, pattern in (("date_format", self.date_format), ("datetime_format", self.datetime_format)):
            if pattern is not None and not _is_date_pattern(pattern):
                raise InvalidArgument(
                    f"{name} {pattern!r} is no pattern of a date", hint="write it as strptime does, such as %d.%m.%Y"
                )

    @property
    def dates(self) -> DateFormats:
        """How dates are written."""
        return DateFormats(self.date_format, self.datetime_format)

    @property
    def first_row(self) -> int:
        """The line of the first row: a header is line 1."""
        return 2 if self.header else 1


def _is_date_pattern(pattern: str) -> bool:
    moment = dt.datetime(2026, 1, 31, 13, 59, 58, tzinfo=dt.UTC)
    try:
        return dt.datetime.strptime(moment.strftime(pattern), pattern).date() == moment.date()
    except ValueError:
        return False


def _is_text_encoding(name: str) -> bool:
    try:
        "".encode(codecs.lookup(name).name)
    except (LookupError, ValueError, TypeError, UnicodeError):
        return False
    return True


PLAIN = CsvDialect()


def resolve_dialect(dialect: CsvDialect, head: bytes, path: str) -> tuple[CsvDialect, Mapping[str, str]]:
    """The dialect with a delimiter and an encoding, and those of them that were sniffed and are not the usual ones."""
    sniffed: dict[str, str] = {}
    if dialect.encoding is None:
        encoding = _encoding(head)
        dialect = replace(dialect, encoding=encoding)
        if encoding != UTF_8:
            sniffed["encoding"] = encoding
    if dialect.delimiter is None:
        named = "\t" if _is_tabbed(path) else None
        delimiter = named or _delimiter(head.decode(dialect.encoding or UTF_8, errors="replace"), dialect)
        dialect = replace(dialect, delimiter=delimiter)
        if delimiter != "," and named is None:
            sniffed["delimiter"] = delimiter
    return dialect, sniffed


def _is_tabbed(path: str) -> bool:
    stem, last = os.path.splitext(path.lower())
    return (os.path.splitext(stem)[1] if last in _COMPRESSED else last) in _TABBED


def _encoding(head: bytes) -> str:
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    pairs = head[: len(head) // 2 * 2]
    if len(pairs) >= 4 and pairs.count(0) * 5 > len(pairs) * 2:  # ASCII in two bytes: every other one is zero
        if not any(pairs[0::2]):
            return "utf-16-be"
        if not any(pairs[1::2]):
            return "utf-16-le"
    return UTF_8


def _delimiter(head: str, dialect: CsvDialect) -> str:
    """The character that splits the first line and most of the sample alike; a comma wherever there is doubt."""
    quote = re.escape(dialect.quote)
    text = re.sub(f"{quote}[^{quote}]*{quote}", "", head) if quote else head
    lines = [line for line in text.lstrip("\ufeff").splitlines()[:_SAMPLE_LINES] if line.strip()]
    taken = (dialect.quote, dialect.escape)
    if not lines or ("," in lines[0] and "," not in taken):
        return "," if "," not in taken else next(sign for sign in _DELIMITERS if sign not in taken)
    usual = [sign for sign in _DELIMITERS if sign in lines[0] and sign not in taken]
    if len(usual) == 1:
        count = lines[0].count(usual[0])
        if sum(line.count(usual[0]) == count for line in lines) * 2 > len(lines):
            return usual[0]
    return "," if "," not in taken else next(sign for sign in _DELIMITERS if sign not in taken)
