"""Records of CSV: what is read, what is torn, and on which line, against a reader that looks at each character."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.errors import DataError
from omnigraph.write.inputs.csv_dialect import PLAIN, CsvDialect, resolve_dialect
from omnigraph.write.inputs.csv_files import csv_columns, csv_tables
from omnigraph.write.validation import Findings
from omnigraph.write.validation.findings import by_place

Row = tuple[int, list[str | None]]


def read(
    body: bytes, dialect: CsvDialect = PLAIN, block_bytes: int | None = None
) -> tuple[list[Row], list[tuple[int, str, str]]]:
    """The rows with their lines, and the torn ones with line, text and message."""
    found = Findings(10**6)
    rows: list[Row] = []
    for table, lines in csv_tables(lambda: io.BytesIO(body), dialect, "p.csv", found, block_bytes):
        columns = [column.to_pylist() for column in table.columns]
        rows += [(line, list(values)) for line, values in zip(lines, zip(*columns, strict=True), strict=True)]
    return rows, [(int(each.row or 0), str(each.value), each.message) for each in by_place(found)]


def slow_records(text: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The records and the torn lines of a text, character by character."""
    records, torn, at, line = [], [], 0, 1
    while at < len(text):
        end, begin = _record_end(text, at), at
        if end is None:
            stop = _torn_stop(text, at)
            torn.append((line, text[begin:stop]))
            line, at = line + text.count("\n", begin, stop) + 1, stop + 1
            continue
        if text[begin:end]:
            records.append((line, text[begin:end]))
        line, at = line + text.count("\n", begin, end) + 1, end + 1
    return records, torn


def _value_end(text: str, at: int) -> int | None:
    """Where a value ends; None where its quotes are wrong."""
    if text[at : at + 1] != '"':
        while at < len(text) and text[at] not in ",\n":
            at += 1
        return at
    at += 1
    while at < len(text):
        if text[at] == '"':
            if text[at + 1 : at + 2] != '"':
                return at + 1 if text[at + 1 : at + 2] in ("", ",", "\n") else None
            at += 1
        at += 1
    return None


def _record_end(text: str, at: int) -> int | None:
    while True:
        end = _value_end(text, at)
        if end is None:
            return None
        if end == len(text) or text[end] == "\n":
            return end
        at = end + 1


def _torn_stop(text: str, at: int) -> int:
    """The end of the line in which the wrong value begins."""
    while (end := _value_end(text, at)) is not None:
        at = end + 1
    stop = text.find("\n", at)
    return len(text) if stop < 0 else stop


@pytest.mark.parametrize("seed", range(3))
def test_texts_made_of_quotes(seed: int) -> None:
    generator = random.Random(seed)
    signs = ['"', '"', '""', ",", ",", "\n", "a", "é"]
    for _ in range(500):
        body = "".join(generator.choice(signs) for _ in range(generator.randrange(1, 24)))
        block_bytes = generator.choice([1, 3, 7, 1 << 20])
        records, torn = slow_records(body)
        dialect = replace(PLAIN, header=False, names=("a", "b"))
        rows, found = read(body.encode(), replace(dialect, encoding="utf-8", delimiter=","), block_bytes)
        wrong = [(line, text) for line, text, message in found if "quote" in message]
        ragged = [(line, text) for line, text, message in found if "values" in message]
        assert wrong == torn, repr(body)
        assert sorted([line for line, _ in rows] + [line for line, _ in ragged]) == [line for line, _ in records], repr(
            body
        )


def test_lines_are_those_of_an_editor() -> None:
    body = 'a,b\n\n"x\ny",1\n\r\nz,2"\n"open,3\nq\n\xff,4\nw,"6"x\nlast,7'.encode("latin-1")
    rows, torn = read(body)
    assert rows == [(3, ["x\ny", "1"]), (6, ["z", '2"']), (11, ["last", "7"])]
    assert [(line, text) for line, text, _ in torn] == [(7, '"open,3'), (8, "q"), (9, "\ufffd,4"), (10, 'w,"6"x')]
    assert torn[2][2] == "byte 0xff is no UTF-8"
    assert read(b"a,b\r1,2\r3,4\r")[0] == [(2, ["1", "2"]), (3, ["3", "4"])]
    assert read(b'a,b\r\n1,""\r\n3,\r\n')[0] == [(2, ["1", ""]), (3, ["3", None])]


def test_escapes_and_no_quotes() -> None:
    assert read(b'a,b\n"x\\"y",1\n', CsvDialect(escape="\\"))[0] == [(2, ['x"y', "1"])]
    assert read(b'a,b\n"x,1\n', CsvDialect(quote=""))[0] == [(2, ['"x', "1"])]


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        (b"a;b\n1;2\n", "p.csv", {"delimiter": ";"}),
        (b"a\tb\n1\t2\n", "p.csv", {"delimiter": "\t"}),
        (b"a|b\n1|2\nx\n3|4", "p.csv", {"delimiter": "|"}),
        (b"a\tb\n1\t2\n", "p.tsv.gz", {}),
        (b"a,b;c\n1,2;3\n", "p.csv", {}),
        (b"a;b|c\n1;2|3\n", "p.csv", {}),
        (b"a;b\n1\n2\n3\n", "p.csv", {}),
        (b'"a;b"\n1\n', "p.csv", {}),
        (b"\xef\xbb\xbfa;b\n1;2\n", "p.csv", {"delimiter": ";"}),
        ("a,b\n1,2\n".encode("utf-16"), "p.csv", {"encoding": "utf-16"}),
        ("a;b\n1;2\n".encode("utf-16-le"), "p.csv", {"encoding": "utf-16-le", "delimiter": ";"}),
        ("a,b\n1,2\n".encode("utf-16-be"), "p.csv", {"encoding": "utf-16-be"}),
        ("a,b\n1,2\n".encode("utf-32"), "p.csv", {"encoding": "utf-32"}),
        (b"", "p.csv", {}),
    ],
)
def test_what_the_first_bytes_say(body: bytes, path: str, expected: dict[str, str]) -> None:
    dialect, sniffed = resolve_dialect(PLAIN, body, path)
    assert sniffed == expected
    if sniffed:
        assert csv_columns(lambda: io.BytesIO(body), dialect)[:2] == ["a", "b"]
    assert resolve_dialect(CsvDialect(delimiter=":", encoding="latin-1"), body, path)[1] == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'"a,b\n1,2\n', "p.csv:1: the header cannot be read: a quoted value is not closed"),
        (b"a,\xff\n1,2\n", "p.csv:1: the header cannot be read: byte 0xff is no UTF-8"),
        (b"a\0b\n1\n", "the file is no text in UTF-8"),
    ],
)
def test_headers_that_cannot_be_read(body: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(body)


@pytest.mark.parametrize(
    "options",
    [{"date_format": "day"}, {"date_format": "%Q"}, {"datetime_format": "%H"}, {"delimiter": ""}, {"encoding": "x"}],
)
def test_dialects_that_cannot_be(options: dict[str, Any]) -> None:
    from omnigraph.errors import InvalidArgument

    with pytest.raises(InvalidArgument):
        CsvDialect(**options)
