"""Strict reading of JSON lines: one object per line, in UTF-8, and every complaint says where.

LF and CRLF end a line, blank lines are skipped. What other readers let pass quietly is refused: a member that appears
twice, two values on a line, `NaN` and numbers that no double can hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from omnigraph.errors import DataError, DuplicateKey, OmnigraphError

STDIN_NAME = "<stdin>"
_BOM = "\ufeff"
_BLANK = " \t\r\n"
_ROW_PREFIX = re.compile(r"^row \d+(?:: | )")
_OTHER_ROW = re.compile(r"(?<= is also in )row (\d+)$")
_KINDS = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


class MalformedLine(DataError):
    """A line of the input is not one JSON object. `column` counts characters from 1, where it is known."""

    def __init__(
        self, message: str, *, path: str, line: int, column: int | None = None, hint: str | None = None
    ) -> None:
        place = f"{path}:{line}" if column is None else f"{path}:{line}:{column}"
        super().__init__(f"{place}: {message}", path=path, hint=hint)
        self.line = line
        self.column = column

    def details(self) -> dict[str, Any]:
        """The place in the file."""
        return super().details() | {"line": self.line} | ({} if self.column is None else {"column": self.column})


class RefusedRow(DataError):
    """The graph refused a row; the same error, with the line of the file it came from."""

    def __init__(self, cause: OmnigraphError, *, path: str, line: int | None, message: str | None = None) -> None:
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message or cause.message}", path=path, hint=cause.hint)
        self.cause = cause
        self.line = line

    def as_dict(self) -> dict[str, Any]:
        """The original error's fields and the place in the file."""
        place = {"path": self.path} | ({} if self.line is None else {"line": self.line})
        return self.cause.as_dict() | {"error": self.message} | place


@dataclass(slots=True)
class Rows:
    """The objects of a file, and the line each one stands on."""

    name: str
    values: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def place(self, error: DataError) -> RefusedRow:
        """An error about the n-th row as an error about a line."""
        if error.row is None or not 1 <= error.row <= len(self.lines):
            return RefusedRow(error, path=self.name, line=None)
        message = _ROW_PREFIX.sub("", error.message)
        if isinstance(error, DuplicateKey):
            message = _OTHER_ROW.sub(lambda found: f"line {self.lines[int(found[1]) - 1]}", message)
        return RefusedRow(error, path=self.name, line=self.lines[error.row - 1], message=message)

    def find(self, wanted: Callable[[dict[str, Any]], bool]) -> int | None:
        """The line of the first object that fits."""
        return next((line for value, line in zip(self.values, self.lines, strict=True) if wanted(value)), None)


def read_rows(lines: Iterable[bytes], name: str, on_bytes: Callable[[int], None] | None = None) -> Rows:
    """All objects of a stream of lines; `on_bytes` hears how many bytes each line had."""
    rows = Rows(name)
    for number, raw in enumerate(lines, start=1):
        if on_bytes is not None:
            on_bytes(len(raw))
        text = _decode(raw, name, number).rstrip(_BLANK)
        if text:
            rows.values.append(parse_line(text, name, number))
            rows.lines.append(number)
    return rows


def parse_line(text: str, name: str, line: int) -> dict[str, Any]:
    """The one object of a line."""
    if text.startswith(_BOM):
        raise MalformedLine(
            "the line begins with a byte order mark", path=name, line=line, column=1,
            hint="save the file as UTF-8 without a byte order mark",
        )  # fmt: skip
    try:
        value = _DECODER.decode(text)
    except _Refused as error:
        raise MalformedLine(str(error), path=name, line=line) from None
    except json.JSONDecodeError as error:
        raise _malformed(error, text, name, line) from None
    except ValueError:
        raise MalformedLine("a number has too many digits", path=name, line=line) from None
    except RecursionError:
        raise MalformedLine("the value is nested too deeply", path=name, line=line) from None
    if not isinstance(value, dict):
        raise MalformedLine(
            f"the line holds {_KINDS[type(value)]}, not an object", path=name, line=line,
            hint='{"type": "Person", "data": {...}} or {"edge": "Knows", "from": "a", "to": "b"}',
        )  # fmt: skip
    return value


class _Refused(Exception):
    """Valid for Python's reader, refused by ours."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Refused(f"the member {name!r} appears twice in one object")
            seen.add(name)
    return members


def _constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not JSON")


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Refused(f"the number {text[:40]} is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_constant, parse_float=_double)


def _decode(raw: bytes, name: str, line: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise MalformedLine(
            f"byte 0x{raw[error.start]:02x} is not valid UTF-8", path=name, line=line, column=column,
            hint="save the file as UTF-8",
        ) from None  # fmt: skip


def _malformed(error: json.JSONDecodeError, text: str, name: str, line: int) -> MalformedLine:
    def malformed(message: str, hint: str | None = None) -> MalformedLine:
        return MalformedLine(message, path=name, line=line, column=error.pos + 1, hint=hint)

    if error.msg == "Extra data":
        return malformed("more than one JSON value on a line", "write one object per line")
    if error.msg.startswith("Unterminated string"):
        return malformed("the text that begins here does not end on this line")
    if error.pos >= len(text):
        return malformed("the line ends inside a JSON value", "is the file cut off, or the object spread over lines?")
    return malformed(f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}")
