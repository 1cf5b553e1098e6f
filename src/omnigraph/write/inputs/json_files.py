"""Reading JSON that is not one object per line: an array of objects, or objects one after another, in any layout.

Read as a stream of objects, so that memory holds one of them and not the file. Rows are counted from 1.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

from omnigraph.errors import DataError, LimitExceeded, Violation
from omnigraph.write.jsonl import MalformedLine, parse_line
from omnigraph.write.validation import Findings

_CHUNK = 1 << 20
MAX_OBJECT = 64 << 20
_LONGEST_SIGN = 12  # `\\ud83d\\ude00`, one character
_BLANK = " \t\r\n"


def json_objects(stream: Any, path: str, found: Findings) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with their numbers. An element that is no object is noted and left out.

    After text that is not JSON nothing more can be read: that raises a `DataError`.
    """
    text = _Text(stream, path)
    in_array = text.take_if("[")
    ends = in_array and text.take_if("]")
    row = 0
    while not ends and not (text.at_end and not in_array):
        row += 1
        piece = text.value(row)
        try:
            yield row, parse_line(piece)
        except MalformedLine as error:
            found.add(Violation(rule="syntax", message=str(error).replace("the line", "the element"), value=piece,
                                path=path, row=row, hint=error.hint))  # fmt: skip
            if found.full:
                return
        ends = in_array and text.take_if("]")
        if in_array and not ends:
            text.require(",", row)
    if not text.at_end:
        raise text.error("there is more after the end of the array", row)


class _Text:
    """The text of a stream, decoded as far as it is needed."""

    def __init__(self, stream: Any, path: str) -> None:
        self._stream = stream
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._is_over = False

    def error(self, message: str, row: int) -> DataError:
        return DataError(f"{self._path}: object {row}: {message}", path=self._path, row=row,
                         hint="the file holds an array of objects, or objects one after another")  # fmt: skip

    def _more(self) -> bool:
        """Read on, as much as there is already: so an object of any size is parsed a few times only."""
        if self._is_over:
            return False
        data = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        self._is_over = not data
        try:
            self._text = self._text[self._at :] + self._decoder.decode(data, final=self._is_over)
        except UnicodeDecodeError as error:
            raise DataError(f"{self._path}: the file is not valid UTF-8", path=self._path) from error
        self._at = 0
        return True

    def _skip_blank(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                sign = self._text[self._at]
                if sign not in _BLANK:
                    return sign
                self._at += 1
            if not self._more():
                return ""

    @property
    def at_end(self) -> bool:
        return not self._skip_blank()

    def take_if(self, sign: str) -> bool:
        if self._skip_blank() != sign:
            return False
        self._at += 1
        return True

    def require(self, sign: str, row: int) -> None:
        if not self.take_if(sign):
            raise self.error(f"{sign!r} or the end of the array is missing after it", row)

    def value(self, row: int) -> str:
        """The text of the next JSON value."""
        self._skip_blank()
        while True:
            try:
                _, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._may_be_cut(error) and self._more():
                    self._require_bounded(row)
                    continue
                raise self.error(f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}", row) from error
            except (RecursionError, ValueError) as error:
                raise self.error("the value is nested too deeply or has a number of too many digits", row) from error
            if end == len(self._text) and self._more():  # a number may go on
                continue
            piece, self._at = self._text[self._at : end], end
            return piece

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether the value may be valid but not read to its end."""
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _LONGEST_SIGN

    def _require_bounded(self, row: int) -> None:
        if len(self._text) - self._at > MAX_OBJECT:
            raise LimitExceeded(
                f"{self._path}: object {row} is longer than {MAX_OBJECT >> 20} MiB, or is no JSON",
                hint="large binary values belong in Parquet or Arrow files",
            )


_DECODER = json.JSONDecoder()
