"""Values as JSON and back, without loss: the encoding of errors, requests and results between processes.

JSON values stay as they are. Others are objects of one member, whose name is the type of the value: `{"$date": ...}`,
`{"$Violation": {...}}`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

_PARTS: dict[str, type] = {}
T = TypeVar("T")


def error_part(cls: type[T]) -> type[T]:
    """Class decorator: register a frozen dataclass that errors contain, to be encoded with them."""
    _PARTS[cls.__name__] = cls
    return cls


_SCALARS: Mapping[str, Any] = {
    "$float": float,
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$bytes": b64decode,
    "$decimal": Decimal,
}


class ValueCodec:
    """Encodes plain values, and dataclasses registered by name.

    `encode_other` encodes every other value; `decoders` decode the tags that it emits.
    """

    def __init__(
        self, parts: Mapping[str, type], encode_other: Callable[[Any], Any],
        decoders: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:  # fmt: skip
        self._parts = parts
        self._encode_other = encode_other
        self._decoders = {**_SCALARS, **(decoders or {})}

    def encode(self, value: Any) -> Any:
        """Encode a value for `json.dumps`; `decode` returns an equal value."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
        if isinstance(value, Mapping):
            return self._encode_mapping(value)
        if isinstance(value, list):
            return [self.encode(each) for each in value]
        if isinstance(value, tuple):
            return {"$tuple": [self.encode(each) for each in value]}
        return self._encode_scalar(value)

    def _encode_mapping(self, value: Mapping[Any, Any]) -> Any:
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: self.encode(each) for key, each in value.items()}
        return {"$dict": [[self.encode(key), self.encode(each)] for key, each in value.items()]}

    def _encode_scalar(self, value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return {"$datetime": value.isoformat()}
        if isinstance(value, dt.date):
            return {"$date": value.isoformat()}
        if isinstance(value, bytes):
            return {"$bytes": b64encode(value).decode()}
        if isinstance(value, Decimal):
            return {"$decimal": str(value)}
        name = type(value).__name__
        if self._parts.get(name) is type(value):
            if dataclasses.is_dataclass(value):
                fields = [each.name for each in dataclasses.fields(value) if each.init]
                return {f"${name}": {each: self.encode(getattr(value, each)) for each in fields}}
            return {f"${name}": str(value)}  # a member of an enumeration of texts
        return str(value) if isinstance(value, str) else self._encode_other(value)

    def decode(self, value: Any) -> Any:
        """Decode the output of `encode`. A dataclass that is not registered in this process stays a mapping."""
        if isinstance(value, list):
            return [self.decode(each) for each in value]
        if not isinstance(value, dict):
            return value
        tag = next(iter(value)) if len(value) == 1 else ""
        inner: Any = value.get(tag)
        if tag in self._decoders:
            return self._decoders[tag](inner)
        if tag == "$tuple":
            return tuple(self.decode(each) for each in inner)
        if tag == "$dict":
            return {self.decode(key): self.decode(each) for key, each in inner}
        part = self._parts.get(tag[1:]) if tag.startswith("$") else None
        if part is not None and not isinstance(inner, dict):
            return part(inner)
        decoded = {name: self.decode(each) for name, each in (inner if tag.startswith("$") else value).items()}
        return decoded if part is None else part(**decoded)


def _shown(value: Any) -> str:
    from omnigraph.errors.base import show_value

    return show_value(value, 200)


_ERRORS = ValueCodec(_PARTS, _shown)
encode_value = _ERRORS.encode
"""The codec of errors. A value of an unregistered type is sent as the text that a message would show."""
decode_value = _ERRORS.decode


def known_parts() -> Mapping[str, type]:
    """Return the dataclasses that errors contain, by name."""
    return dict(_PARTS)
