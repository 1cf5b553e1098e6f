"""Derived state: arrays that could be computed again from pins, stored so that a new process need not compute them.

Each object is written once under a name that says what it was derived from, and is never changed. Any of them may be
missing, or be deleted at any time: readers then compute. The header and each array have a checksum, verified once when
the object is opened, and a damaged object counts as missing. On a local disk it is flushed before it gets its name, and
its arrays are mapped into memory instead of being read.

::

    8 bytes magic | 8 bytes length of the header | 8 bytes checksum of the header | header: JSON, which has a checksum
    of each array | arrays, each beginning at a multiple of 64 bytes
"""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnigraph.errors import StorageError
from omnigraph.storage.decode import as_integer, as_object, decoding, parse_json
from omnigraph.storage.layout import DERIVED
from omnigraph.storage.objects import ObjectInfo, ObjectStore

_MAGIC = b"OGDERIV2"
_PREFIX = struct.Struct("<8sQQ")
_ALIGNMENT = 64
_ABANDONED = dt.timedelta(hours=1)
_KINDS = frozenset({"int32", "int64", "float32", "float64", "uint8"})
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Derived:
    """One stored object: the facts it was derived from, and its arrays."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, Array]


class DerivedStore:
    """Reads and writes derived state below a graph root. It is only a cache, so storage errors are never raised."""

    def __init__(self, objects: ObjectStore, *, enabled: bool = True, writable: bool = True) -> None:
        self._objects = objects
        self._root = Path(objects.root.uri) if objects.root.is_local else None
        self.enabled = enabled
        self.writable = enabled and writable

    def read(self, path: str) -> Derived | None:
        """An object, or None when it is missing, damaged, cut short or of another format."""
        if not self.enabled:
            return None
        try:
            body = self._mapped(path) if self._root is not None else self._fetched(path)
            with decoding(path):
                return None if body is None else _decoded(body)
        except (OSError, ValueError, StorageError):
            return None

    def write(self, path: str, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bool:
        """Store arrays under a name. False when they cannot be written; on an object store also when they exist."""
        if not self.writable:
            return False
        try:
            if self._root is None:
                return self._objects.put_new(f"{DERIVED}/{path}", b"".join(_encoded(facts, arrays)))
            return self._write_local(self._root / DERIVED / path, facts, arrays)
        except (OSError, StorageError):
            return False

    def newest(self, prefix: str, limit: int) -> list[str]:
        """The names of the most recently written objects below a prefix."""
        if not self.enabled:
            return []
        try:
            found = self._listed(prefix)
        except (OSError, StorageError):
            return []
        return [info.path.removeprefix(f"{DERIVED}/") for info in found if not _is_temporary(info)][:limit]

    def prune(self, prefix: str, keep: int) -> None:
        """Delete all but the most recently written objects below a prefix. Mapped arrays stay readable."""
        if not self.writable:
            return
        with suppress(OSError, StorageError):
            found = self._listed(prefix)
            named = [info for info in found if not _is_temporary(info)]
            # Temporary files of a killed writer are deleted after a while.
            now = max((info.modified for info in found), default=None)
            left = [i for i in found if _is_temporary(i) and now is not None and now - i.modified > _ABANDONED]
            self._objects.delete([info.path for info in (*named[keep:], *left)])

    def _listed(self, prefix: str) -> list[ObjectInfo]:
        return sorted(self._objects.list(f"{DERIVED}/{prefix}"), key=lambda info: info.modified, reverse=True)

    def _mapped(self, path: str) -> Array | None:
        assert self._root is not None, f"{path} is on an object store and cannot be mapped"
        file = self._root / DERIVED / path
        try:
            return np.memmap(file, np.uint8, mode="r")
        except FileNotFoundError:
            return None

    def _fetched(self, path: str) -> Array | None:
        body = self._objects.get(f"{DERIVED}/{path}")
        return None if body is None else np.frombuffer(body, np.uint8)

    @staticmethod
    def _write_local(file: Path, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bool:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as out:
                for part in _encoded(facts, arrays):
                    out.write(part)
                out.flush()
                # A file gets its name only when a power loss cannot take its bytes away.
                os.fsync(out.fileno())
            # Replacing is safe, since every writer of this name writes the same arrays, and it repairs a damaged file.
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
        return True


def _is_temporary(info: ObjectInfo) -> bool:
    return info.path.rsplit("/", 1)[-1].startswith(".")


def _encoded(facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> list[Any]:
    bodies = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listed = {name: [str(a.dtype), len(a), zlib.crc32(_bytes(a))] for name, a in bodies.items()}
    text = json.dumps({"facts": dict(facts), "arrays": listed}, separators=(",", ":")).encode()
    head = text + b" " * (-(len(text) + _PREFIX.size) % _ALIGNMENT)
    parts: list[Any] = [_PREFIX.pack(_MAGIC, len(head), zlib.crc32(head)), head]
    for body in bodies.values():
        parts += [_bytes(body), b"\0" * (-body.nbytes % _ALIGNMENT)]
    return parts


def _bytes(array: Array) -> memoryview:
    return array.view(np.uint8).data


def _decoded(body: Array) -> Derived | None:
    if len(body) < _PREFIX.size:
        return None
    magic, length, checksum = _PREFIX.unpack(bytes(body[: _PREFIX.size]))
    at = _PREFIX.size + length
    if magic != _MAGIC or at > len(body):
        return None
    head = bytes(body[_PREFIX.size : at])
    if zlib.crc32(head) != checksum:
        return None
    header = as_object(parse_json(head), "a header")
    arrays: dict[str, Array] = {}
    for name, (kind, count, checksum) in as_object(header["arrays"], "a list of arrays").items():
        if kind not in _KINDS:
            return None
        size = np.dtype(kind).itemsize * as_integer(count, "a length", high=len(body))
        stored = np.asarray(body[at : at + size])
        if len(stored) != size or zlib.crc32(stored.data) != checksum:
            return None
        arrays[name] = stored.view(kind)
        at += size + (-size % _ALIGNMENT)
    # Every byte must be there: an object that was cut short counts as missing.
    return Derived(as_object(header["facts"], "facts"), arrays) if at == len(body) else None
