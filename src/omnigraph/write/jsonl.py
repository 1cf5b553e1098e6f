"""Strict reading of JSON lines: one object per line, in UTF-8, and every error names its line.

LF and CRLF end a line, blank lines are skipped. Input that other readers silently accept is refused: a member that
appears twice, two values on a line, `NaN` and numbers that no double can hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from omnigraph.errors import Violation
from omnigraph.write.validation import Findings

_BOM = "\ufeff"
_BLANK = " \t\r\n"
_KINDS = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


class MalformedLine(Exception):
    """A line of the input is not one JSON object. `column` counts characters from 1, where it is known."""

    def __init__(self, message: str, column: int | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.hint = hint


def parsed_lines(lines: Iterable[tuple[int, bytes]], path: str, found: Findings) -> Iterator[tuple[int, Any]]:
    """The objects of numbered lines; malformed lines are noted and left out."""
    for number, raw in lines:
        try:
            text = _decode(raw).rstrip(_BLANK)
            if text:
                yield number, parse_line(text)
        except MalformedLine as error:
            found.add(
                Violation(rule="syntax", message=str(error), path=path, row=number, column=error.column,
                          hint=error.hint)
            )  # fmt: skip
            if found.full:
                return


def parse_line(text: str) -> dict[str, Any]:
    """The one object of a line."""
    if text.startswith(_BOM):
        hint = "save the file as UTF-8 without a byte order mark"
        raise MalformedLine("the line begins with a byte order mark", 1, hint)
    try:
        value = _DECODER.decode(text)
    except _Refused as error:
        raise MalformedLine(str(error)) from None
    except json.JSONDecodeError as error:
        raise _malformed(error, text) from None
    except ValueError:
        raise MalformedLine("a number has too many digits") from None
    except RecursionError:
        raise MalformedLine("the value is nested too deeply") from None
    if not isinstance(value, dict):
        hint = '{"type": "Person", "data": {...}} or {"edge": "Knows", "from": "a", "to": "b"}'
        raise MalformedLine(f"the line holds {_KINDS[type(value)]}, not an object", hint=hint)
    return value


class _Refused(Exception):
    """Valid for Python's reader, refused here."""


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


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        text = f"byte 0x{raw[error.start]:02x} is not valid UTF-8"
        raise MalformedLine(text, column, "save the file as UTF-8") from None


def _malformed(error: json.JSONDecodeError, text: str) -> MalformedLine:
    column = error.pos + 1
    if error.msg == "Extra data":
        return MalformedLine("more than one JSON value on a line", column, "write one object per line")
    if error.msg.startswith("Unterminated string"):
        return MalformedLine("the text that begins here does not end on this line", column)
    if error.pos >= len(text):
        hint = "is the file cut off, or the object spread over lines?"
        return MalformedLine("the line ends inside a JSON value", column, hint)
    return MalformedLine(f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}", column)
