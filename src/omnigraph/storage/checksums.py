"""Checksums of control objects, so that damage is found when an object is read and not by its consequences.

A JSON control object is stored as `{"sha256":"<digest>","value":<compact JSON>}`. The digest covers the exact bytes of
the value: one flipped bit anywhere makes the object unreadable instead of different.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from omnigraph.errors import CorruptGraph

_HEAD = b'{"sha256":"'
_MIDDLE = b'","value":'
_DIGEST_LENGTH = 64
_VALUE_AT = len(_HEAD) + _DIGEST_LENGTH + len(_MIDDLE)


def seal_json(value: Any) -> bytes:
    """A value as compact JSON with its checksum."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join((_HEAD, _digest(body), _MIDDLE, body, b"}"))


def open_json(sealed: bytes, path: str) -> Any:
    """The value of a sealed object. Raises `CorruptGraph` when a single bit differs from the written bytes."""
    body = sealed[_VALUE_AT:-1]
    head = sealed[: len(_HEAD)], sealed[len(_HEAD) + _DIGEST_LENGTH : _VALUE_AT], sealed[-1:]
    if head != (_HEAD, _MIDDLE, b"}") or _digest(body) != sealed[len(_HEAD) : len(_HEAD) + _DIGEST_LENGTH]:
        raise damaged_object(path)
    try:
        return json.loads(body)
    except ValueError as error:
        raise damaged_object(path) from error


def damaged_object(path: str) -> CorruptGraph:
    """The error for a control object whose bytes are not those that were written."""
    return CorruptGraph(
        f"{path} is damaged: its checksum does not match its content",
        hint=f"restore {path} from a copy of the store; `omnigraph fsck` lists everything that is damaged",
    )


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
