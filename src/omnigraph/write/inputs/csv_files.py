"""The one reader of CSV. All values are text: what they mean is decided by the property that they are for."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from omnigraph.errors import DataError, InvalidArgument, Violation
from omnigraph.write.validation import Findings

BLOCK_BYTES = 8 << 20
_LONGEST_VALUE = 2**31 - 1
_HINT = "a value that holds the delimiter or a line end stands in quotes"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a CSV file is written. An empty field is null, as the `null_values` are; in quotes they are text.

    A quote inside quotes is doubled, or stands behind `escape`. Without a header, columns are called `names`, or
    `_c0`, `_c1` ... `quote` may be empty: then no sign is special but the delimiter.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    header: bool = True
    names: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ()
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for name, text in (("delimiter", self.delimiter), ("quote", self.quote), ("escape", self.escape)):
            may_be_empty = name != "delimiter"
            if not (len(text) == 1 and text.isascii() and text not in "\r\n\0") and not (may_be_empty and not text):
                article = "an" if name == "escape" else "a"
                raise InvalidArgument(f"{article} {name} is one character of ASCII, not {text!r}")
        signs = [sign for sign in (self.delimiter, self.quote, self.escape) if sign]
        if len(set(signs)) != len(signs):
            raise InvalidArgument("delimiter, quote and escape are different characters")
        if self.names and self.header:
            raise InvalidArgument("`names` are for files without a header", hint="add `header: false`")
        if len(set(self.names)) != len(self.names):
            raise InvalidArgument("`names` has a name twice")
        if not _is_text_encoding(self.encoding):
            raise InvalidArgument(f"encoding {self.encoding!r} is unknown", hint="use utf-8, utf-16, latin-1 ...")

    @property
    def first_row(self) -> int:
        """The number of the first row: a header is row 1."""
        return 2 if self.header else 1


def _is_text_encoding(name: str) -> bool:
    try:
        "".encode(codecs.lookup(name).name)
    except (LookupError, ValueError, TypeError, UnicodeError):
        return False
    return True


PLAIN = CsvDialect()


class _CheckedText:
    """The bytes of a stream, refused where they are no UTF-8: pyarrow cannot name a torn row that is no text.

    `quotes` counts the quotes that were read.
    """

    def __init__(self, stream: Any, quote: str) -> None:
        self._stream = stream
        self._quote = quote.encode()
        self.quotes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._offset = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises `ValueError` where they are no text."""
        data = bytes(self._stream.read(size))
        try:
            self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            at = max(self._offset + error.start, 0)
            raise ValueError(f"byte {at} is no UTF-8; if the file has another encoding, name it") from None
        self._offset += len(data)
        self.quotes += data.count(self._quote) if self._quote else 0
        return data

    def close(self) -> None:
        """Nothing: whoever opened the stream closes it."""
        self.closed = True


def _checked(stream: Any, dialect: CsvDialect) -> Any:
    """Other encodings than UTF-8 are decoded, and thereby checked, before pyarrow parses them."""
    return _CheckedText(stream, dialect.quote) if codecs.lookup(dialect.encoding).name == "utf-8" else stream


def csv_tables(
    opened: Callable[[], Any], dialect: CsvDialect, path: str, found: Findings
) -> Iterator[tuple[pa.Table, Sequence[int]]]:
    """The rows of a file and their numbers. Rows with too many or too few values are noted and left out."""
    names = csv_columns(opened, dialect)
    if not names:
        return
    torn: set[int] = set()

    def note(row: Any) -> str:
        torn.add(row.number)
        message = f"the row has {row.actual_columns} values, not {row.expected_columns}"
        found.add(Violation(rule="syntax", message=message, value=row.text, path=path, row=row.number, hint=_HINT))
        return "skip"

    with opened() as stream:
        text = _checked(stream, dialect)
        reader = pacsv.open_csv(
            text,
            read_options=_read_options(dialect, names),
            parse_options=_parse_options(dialect, note),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True,
                null_values=["", *dialect.null_values], quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        row = dialect.first_row
        for batch in reader:
            numbers, row = _numbers(row, batch.num_rows, torn)
            yield pa.Table.from_batches([batch]), numbers
    if isinstance(text, _CheckedText) and text.quotes % 2 and not dialect.escape:
        _require_closed_quotes(opened, dialect, path)


def _require_closed_quotes(opened: Callable[[], Any], dialect: CsvDialect, path: str) -> None:
    """Refuse a file that ends inside a quoted value: pyarrow takes all that follows the quote for the value.

    An odd quote may also stand inside a value without quotes, where it is a character like others.
    """
    limit = csv.field_size_limit(_LONGEST_VALUE)
    row = 1
    try:
        with opened() as stream:
            lines = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            for _ in csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote, strict=True):
                row += 1
    except csv.Error as error:
        if "unexpected end of data" not in str(error):
            return
        raise DataError(
            f"{path}:{row}: a quoted value is not closed before the file ends", path=path, row=row,
            hint="close the quote; a quote inside a quoted value is written twice",
        ) from None  # fmt: skip
    finally:
        csv.field_size_limit(limit)


def csv_columns(opened: Callable[[], Any], dialect: CsvDialect) -> list[str]:
    """The columns of a file; none where it is empty."""
    if dialect.names:
        return list(dialect.names)
    with opened() as stream:
        if _is_blank(stream, dialect):
            return []
    with opened() as stream:
        options = _parse_options(dialect, lambda _: "skip")
        text = _checked(stream, dialect)
        with pacsv.open_csv(text, read_options=_read_options(dialect, []), parse_options=options) as reader:
            names: list[str] = reader.schema.names
    return names if dialect.header else [f"_c{number}" for number in range(len(names))]


def _is_blank(stream: Any, dialect: CsvDialect) -> bool:
    head = b""
    while more := stream.read(1 << 16):
        head += more
        if _text(head, dialect).strip("\ufeff \t\r\n"):
            return False
    return True


def _text(head: bytes, dialect: CsvDialect) -> str:
    return head.decode(dialect.encoding, errors="replace")


def _read_options(dialect: CsvDialect, names: list[str]) -> pacsv.ReadOptions:
    # One thread: only then rows that are torn have numbers. Several are not faster, as all columns stay text.
    return pacsv.ReadOptions(
        block_size=BLOCK_BYTES, use_threads=False, encoding=codecs.lookup(dialect.encoding).name,
        column_names=None if dialect.header or not names else names,
        autogenerate_column_names=not dialect.header and not names,
    )  # fmt: skip


def _parse_options(dialect: CsvDialect, note: Callable[[Any], str]) -> pacsv.ParseOptions:
    return pacsv.ParseOptions(
        delimiter=dialect.delimiter, quote_char=dialect.quote or False, double_quote=bool(dialect.quote),
        escape_char=dialect.escape or False, newlines_in_values=True, invalid_row_handler=note,
    )  # fmt: skip


def _numbers(first: int, count: int, torn: set[int]) -> tuple[Sequence[int], int]:
    """The numbers of the next rows that are whole, and the one after them."""
    last = first + count
    if not any(number >= first for number in torn):
        return range(first, last), last
    numbers: list[int] = []
    number = first
    while len(numbers) < count:
        if number not in torn:
            numbers.append(number)
        number += 1
    return numbers, number
