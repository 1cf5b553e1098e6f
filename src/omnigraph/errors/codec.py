"""Values of errors as JSON and back, without loss: how an error leaves a process.

Values that JSON has stay as they are. Others are objects of one member, whose name says what they are:
`{"$date": ...}`, `{"$Violation": {...}}`. What is none of these is sent as the text that a message would show.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

_PARTS: dict[str, type] = {}
T = TypeVar("T")


def error_part(cls: type[T]) -> type[T]:
    """Class decorator: a frozen dataclass that errors hold, and that travels with them."""
    _PARTS[cls.__name__] = cls
    return cls


def encode_value(value: Any) -> Any:
    """A value that `json.dumps` takes and `decode_value` makes the same value of."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, Mapping):
        return _encode_mapping(value)
    if isinstance(value, list):
        return [encode_value(each) for each in value]
    if isinstance(value, tuple):
        return {"$tuple": [encode_value(each) for each in value]}
    return _encode_scalar(value)


def _encode_mapping(value: Mapping[Any, Any]) -> Any:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: encode_value(each) for key, each in value.items()}
    return {"$dict": [[encode_value(key), encode_value(each)] for key, each in value.items()]}


def _encode_scalar(value: Any) -> Any:
    from omnigraph.errors.base import shown

    if isinstance(value, dt.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"$date": value.isoformat()}
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    name = type(value).__name__
    if dataclasses.is_dataclass(value) and _PARTS.get(name) is type(value):
        return {f"${name}": {each.name: encode_value(getattr(value, each.name)) for each in dataclasses.fields(value)}}
    return shown(value, 200)


_SCALARS: Mapping[str, Any] = {
    "$float": float,
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$bytes": b64decode,
    "$decimal": Decimal,
}


def decode_value(value: Any) -> Any:
    """The value that `encode_value` was given. A part that this process has no class for stays a mapping."""
    if isinstance(value, list):
        return [decode_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value)) if len(value) == 1 else ""
    inner: Any = value.get(tag)
    if tag in _SCALARS:
        return _SCALARS[tag](inner)
    if tag == "$tuple":
        return tuple(decode_value(each) for each in inner)
    if tag == "$dict":
        return {decode_value(key): decode_value(each) for key, each in inner}
    decoded = {name: decode_value(each) for name, each in (inner if tag.startswith("$") else value).items()}
    part = _PARTS.get(tag[1:]) if tag.startswith("$") else None
    return decoded if part is None else part(**decoded)
