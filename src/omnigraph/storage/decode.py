"""Checks for values that are read from a store, applied where they enter the program.

A store can be damaged, or belong to another program: a name in it may be a path that leads out of the graph, a number
may be a list. Each parser of a control object runs inside `decoding` and takes its values through the functions below.
A value without the expected shape raises one `CorruptGraph` that names the object.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph.errors import CorruptGraph, OmnigraphError
from omnigraph.storage.layout import (
    CHANGE_LIST,
    COMMIT_ID,
    DATA_OBJECT,
    HISTORY_FILE,
    INCARNATION,
    LEDGER,
    SCHEMA_HASH,
    TABLE_KEY,
    TABLE_LOCATION,
    is_name,
)

MAX_VERSION = 2**64 - 1
_RESTORE = "nothing was changed; restore the object from a copy of the store, or run `omnigraph fsck`"
_SHOWN = 120


class Malformed(ValueError):
    """A value from a store has the wrong shape. Never leaves `decoding`."""


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Parse one object of a store; any error in its content is raised as a `CorruptGraph` about `what`."""
    try:
        yield
    except OmnigraphError:
        raise
    except KeyError as error:
        raise CorruptGraph(f"{what} is damaged: {_shown(error.args[0])} is missing", hint=_RESTORE) from error
    except (
        ValueError,  # also JSON, UTF-8 and Arrow
        TypeError,
        AttributeError,
        IndexError,
        ArithmeticError,
        RecursionError,
        NotImplementedError,
        struct.error,
        zlib.error,
    ) as error:
        reason = str(error).split("\n", 1)[0][:_SHOWN]
        raise CorruptGraph(f"{what} is damaged: {reason}", hint=_RESTORE) from error


def parse_json(body: str | bytes) -> Any:
    """The value of a JSON text; for use inside `decoding`."""
    return json.loads(body)


def as_text(value: Any, what: str, pattern: re.Pattern[str] | None = None) -> str:
    """A text that can be encoded, of the given form."""
    if not isinstance(value, str) or (pattern is not None and pattern.fullmatch(value) is None):
        raise Malformed(f"{_shown(value)} is not {what}")
    if not value.isascii():
        value.encode()  # a lone surrogate is no text
    return value


def as_optional_text(value: Any, what: str) -> str | None:
    """A text, or None."""
    return None if value is None else as_text(value, what)


def as_integer(value: Any, what: str, low: int = 0, high: int = MAX_VERSION) -> int:
    """A whole number within bounds; versions are stored as digits, because they exceed what JSON readers keep."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Malformed(f"{_shown(value)} is not {what}")
    return value


def as_number(value: Any, what: str) -> float:
    """A number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Malformed(f"{_shown(value)} is not {what}")
    return float(value)


def as_flag(value: Any, what: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Malformed(f"{_shown(value)} is not {what}")
    return value


def as_object(value: Any, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise Malformed(f"{_shown(value)} is not {what}")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """A JSON array."""
    if not isinstance(value, list):
        raise Malformed(f"{_shown(value)} is not {what}")
    return value


def as_texts(value: Any, what: str, pattern: re.Pattern[str] | None = None) -> tuple[str, ...]:
    """An array of texts."""
    return tuple(as_text(each, what, pattern) for each in as_list(value, what))


def as_commit_id(value: Any) -> str:
    """The id of a commit, which also names objects."""
    return as_text(value, "a commit id", COMMIT_ID)


def as_optional_commit_id(value: Any) -> str | None:
    """The id of a commit, or None."""
    return None if value is None else as_commit_id(value)


def as_schema_hash(value: Any) -> str:
    """The hash that names a schema contract."""
    return as_text(value, "a schema hash", SCHEMA_HASH)


def as_table_key(value: Any) -> str:
    """`node:Type` or `edge:Type`."""
    return as_text(value, "a table key", TABLE_KEY)


def as_table_location(value: Any) -> str:
    """The location of a table of this graph."""
    return as_text(value, "the location of a table", TABLE_LOCATION)


def as_history_file(value: Any) -> str:
    """The location of archived commits."""
    return as_text(value, "a history file", HISTORY_FILE)


def as_change_list(value: Any) -> str:
    """The location of a long change list."""
    return as_text(value, "a change list", CHANGE_LIST)


def as_ledger(value: Any) -> str:
    """The location of a ledger of checksums."""
    return as_text(value, "a ledger of checksums", LEDGER)


def as_data_object(value: Any) -> str:
    """A file of a table, or a change list, relative to the root."""
    return as_text(value, "a file of this graph", DATA_OBJECT)


def as_name(value: Any) -> str:
    """The name of a branch or a tag."""
    if not isinstance(value, str) or not is_name(value):
        raise Malformed(f"{_shown(value)} is not a name")
    return value


def as_native_branch(value: Any) -> str | None:
    """An incarnation of a branch, `<name>.<unique suffix>`; None is main's."""
    if value is None:
        return None
    name, _, incarnation = as_text(value, "an incarnation of a branch").rpartition(".")
    as_name(name)
    as_text(incarnation, "the suffix of a branch", INCARNATION)
    return f"{name}.{incarnation}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
