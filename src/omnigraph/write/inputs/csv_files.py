"""The one reader of CSV. All values are text: the property of a column decides how they are parsed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from omnigraph.errors import DataError, LimitExceeded, Violation
from omnigraph.write.inputs.csv_dialect import HEAD_BYTES, UTF_8, CsvDialect, resolve_dialect
from omnigraph.write.inputs.csv_records import MAX_RECORD_BYTES, Records, split_records, utf8_pieces
from omnigraph.write.validation import Findings

BLOCK_BYTES = 8 << 20
_HINT = "a value that holds the delimiter or a line end stands in quotes"


def csv_tables(
    opened: Callable[[], Any], dialect: CsvDialect, path: str, found: Findings, block_bytes: int | None = None
) -> Iterator[tuple[pa.Table, Sequence[int]]]:
    """The rows of a file and the line of each. Torn rows are noted and left out."""
    dialect = dialect_of_file(opened, dialect, path)
    with opened() as stream:
        for block in _one_ahead(_read_blocks(stream, dialect, path, block_bytes or BLOCK_BYTES)):
            for each in block.wrong:
                found.add(each)
            if block.table is not None:
                yield block.table, block.lines
            if found.full:
                return


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of some records with the line of each, and the errors of others. No table: no header yet."""

    table: pa.Table | None
    lines: Sequence[int]
    wrong: Sequence[Violation]


def _one_ahead(blocks: Iterator[_Block]) -> Iterator[_Block]:
    """The blocks in their order. While one is used, another thread reads the next."""
    with ThreadPoolExecutor(1, "omnigraph-read") as reader:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            yield block


def _read_blocks(stream: Any, dialect: CsvDialect, path: str, block_bytes: int) -> Iterator[_Block]:
    names: list[str] | None = None
    for records in _blocks(stream, dialect, path, block_bytes):
        if names is None:
            names, records = _columns(records, dialect, path)
        wrong = [
            Violation(rule="syntax", message=torn.message, value=torn.text, path=path, row=torn.line, hint=torn.hint)
            for torn in records.torn
        ]
        if names is None:
            yield _Block(None, (), wrong)
        else:
            table, lines = _parsed(records, names, dialect, path, wrong)
            yield _Block(table, lines, wrong)


def csv_columns(opened: Callable[[], Any], dialect: CsvDialect, path: str = "the file") -> list[str]:
    """The columns of a file; none where it is empty."""
    if dialect.names:
        return list(dialect.names)
    dialect = dialect_of_file(opened, dialect, path)
    with opened() as stream:
        for records in _blocks(stream, dialect, path, BLOCK_BYTES):
            names, _ = _columns(records, dialect, path)
            if names is not None:
                return names
    return []


def dialect_of_file(opened: Callable[[], Any], dialect: CsvDialect, path: str) -> CsvDialect:
    """The dialect with the delimiter and the encoding sniffed from the beginning of the file."""
    if dialect.delimiter is not None and dialect.encoding is not None:
        return dialect
    with opened() as stream:
        return resolve_dialect(dialect, bytes(stream.read(HEAD_BYTES)), path)[0]


def _blocks(stream: Any, dialect: CsvDialect, path: str, block_bytes: int) -> Iterator[Records]:
    """The records of a file, some megabytes at a time."""
    rest, line = b"", 1
    for piece in utf8_pieces(stream, dialect.encoding or UTF_8, block_bytes):
        block = rest + piece if rest else piece
        records = split_records(block, line, dialect, is_last=False)
        if not records.used and len(block) > 2 * MAX_RECORD_BYTES:
            raise LimitExceeded(f"{path}:{line}: the row is longer than {2 * MAX_RECORD_BYTES >> 20} MiB")
        rest, line = block[records.used :], line + records.line_count
        if records.used:
            yield records
    if rest:
        yield split_records(rest, line, dialect, is_last=True)


def _columns(records: Records, dialect: CsvDialect, path: str) -> tuple[list[str] | None, Records]:
    """The names of the columns, and the records without the header. None where there is no record yet."""
    if dialect.names:
        return list(dialect.names), records
    if not len(records.lines):
        if records.torn and dialect.header:
            raise _torn_header(records, path)
        return None, records
    if dialect.header and records.torn and records.torn[0].line < records.lines[0]:
        raise _torn_header(records, path)
    values, size = _first_record(records.data, dialect)
    if any("\0" in value for value in values):
        raise DataError(f"{path}: the file is no text in {(dialect.encoding or UTF_8).upper()}", path=path,
                        hint="a file of UTF-16 needs `encoding`; other formats need their name")  # fmt: skip
    if not dialect.header:
        return [f"_c{number}" for number in range(len(values))], records
    rest = Records(records.data[size:], records.lines[1:], records.torn, records.used, records.line_count)
    return values, rest


def _torn_header(records: Records, path: str) -> DataError:
    torn = records.torn[0]
    return DataError(
        f"{path}:{torn.line}: the header cannot be read: {torn.message}", path=path, row=torn.line, hint=torn.hint
    )


def _first_record(data: bytes, dialect: CsvDialect) -> tuple[list[str], int]:
    """The values of the first record that is not blank, and its length in bytes with everything before it."""
    limit = csv.field_size_limit(MAX_RECORD_BYTES * 2)
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for line in data.splitlines(keepends=True):
            size += len(line)
            yield line.decode()

    try:
        reader = csv.reader(
            lines(), delimiter=dialect.delimiter or ",", quotechar=dialect.quote or None,
            escapechar=dialect.escape or None, quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        )  # fmt: skip
        return next(values for values in reader if values), size
    finally:
        csv.field_size_limit(limit)


def _parsed(
    records: Records, names: list[str], dialect: CsvDialect, path: str, wrong: list[Violation]
) -> tuple[pa.Table, Sequence[int]]:
    """The records as a table of texts. Those with too many or too few values are noted and left out."""
    kinds = pa.schema([(f"c{number}", pa.string()) for number in range(len(names))])
    torn: list[int] = []

    def note(row: Any) -> str:
        torn.append(row.number - 1)
        message = f"the row has {row.actual_columns} values, not {row.expected_columns}"
        line = int(records.lines[row.number - 1]) if row.number <= len(records.lines) else None
        wrong.append(Violation(rule="syntax", message=message, value=row.text, path=path, row=line, hint=_HINT))
        return "skip"

    if not len(records.lines):
        return kinds.empty_table().rename_columns(names), []
    table = pacsv.read_csv(
        pa.BufferReader(records.data),
        # One thread: only then torn rows have numbers. Several are not faster, as all columns stay text.
        read_options=pacsv.ReadOptions(
            block_size=len(records.data) + 1, use_threads=False, column_names=kinds.names,
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=dialect.delimiter or ",", quote_char=dialect.quote or False, double_quote=bool(dialect.quote),
            escape_char=dialect.escape or False, newlines_in_values=True, invalid_row_handler=note,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=kinds, strings_can_be_null=True, null_values=["", *dialect.null_values],
            quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip
    is_read = np.ones(len(records.lines), bool)
    is_read[torn] = False
    lines: Any = records.lines[is_read]
    if len(lines) != table.num_rows:
        raise DataError(
            f"{path}: {len(records.lines)} rows begin and {table.num_rows + len(torn)} are read between the lines "
            f"{records.lines[0]} and {records.lines[-1]}", path=path, row=int(records.lines[0]),
            hint="check the quotes and the escape character",
        )  # fmt: skip
    return table.rename_columns(names), lines
