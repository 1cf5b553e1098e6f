"""Checksums of the files of a table, recorded when they are committed and compared by `fsck --deep`.

Lance files carry no checksum of their own. On a local disk each pin therefore records the length and the CRC-32 of
every file that it needs: inline for recent files, in a ledger (a write-once control object) for older ones. Object
stores verify their objects, so nothing is recorded there.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph import logs
from omnigraph.errors import CorruptGraph
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.decode import as_ledger, as_object, as_text, decoding
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import DATA_FILE_PATH, LEDGERS, GraphRoot, pin_file
from omnigraph.storage.objects import ObjectStore

MAX_INLINE = 100
_WORTH_A_LEDGER = MAX_INLINE // 2
_FIRST_CHUNK = 1 << 14
_CHUNK = 1 << 20
_MAX_KNOWN = 8192
_TEXT = re.compile(r"[0-9a-f]{1,16}\.[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Digest:
    """Size and CRC-32 of a file. A CRC finds every damage within 32 bits, and all but one in 2**32 of any other."""

    size: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.size:x}.{self.checksum:08x}"

    @classmethod
    def parse(cls, text: str) -> Digest:
        """The inverse of `str`, checked; runs inside `decoding`."""
        size, _, checksum = as_text(text, "a digest", _TEXT).partition(".")
        return cls(int(size, 16), int(checksum, 16))


@dataclass(frozen=True, slots=True)
class Digests:
    """The recorded digests of a pin's files, by their paths below the table. `version` is of its version file.

    Values are texts: most of them are only carried from one pin to the next.
    """

    version: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    ledger: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Compact text form for the manifest row."""
        given = {"version": self.version, "ledger": self.ledger, "files": dict(self.files)}
        return {name: value for name, value in given.items() if value}

    @classmethod
    def from_json(cls, value: Any) -> Digests:
        """The inverse of `to_json`, each value checked; runs inside `decoding`."""
        given = as_object(value, "digests")
        if not given:
            return NO_DIGESTS
        version, ledger = given.get("version"), given.get("ledger")
        return cls(
            None if version is None else as_text(version, "a digest", _TEXT),
            _files_from_json(given.get("files", {})),
            None if ledger is None else as_ledger(ledger),
        )

    def extended(self, version: str | None, added: Mapping[str, str]) -> Digests:
        """The digests of a version that was made from this one by adding some files."""
        return replace(self, version=version, files={**self.files, **added})

    @property
    def is_long(self) -> bool:
        """Whether there are so many that the files still needed should be determined."""
        return len(self.files) > MAX_INLINE


NO_DIGESTS = Digests()


def move_to_ledger(
    objects: ObjectStore, digests: Digests, location: str, version: int, live: Collection[str]
) -> Digests:
    """The digests of the `live` files of a table, in a ledger where they are many."""
    needed = {name: text for name, text in digests.files.items() if name in live}
    if len(needed) == len(live):
        digests = replace(digests, ledger=None)
    if len(needed) <= _WORTH_A_LEDGER:
        return replace(digests, files=needed)
    path = f"{LEDGERS}/{location.replace('/', '-')}/{version}.json"
    kept = {name: text for name, text in {**_older(objects, digests), **needed}.items() if name in live}
    objects.put_new_json(path, {"files": kept})
    return replace(digests, files={}, ledger=path)


def _older(objects: ObjectStore, digests: Digests) -> Mapping[str, str]:
    """The digests in the ledger of a pin. A lost one stops no write: `fsck` reports it, and files without a digest."""
    if digests.ledger is None:
        return {}
    try:
        return read_ledger(objects, digests.ledger)
    except CorruptGraph as error:
        logs.event("ledger.lost", logging.WARNING, graph=objects.root.uri, message=error.message)
        return {}


def read_ledger(objects: ObjectStore, path: str) -> Mapping[str, str]:
    """The digests that a ledger holds."""
    value = objects.get_json(path)
    if value is None:
        raise CorruptGraph(
            f"{path} is missing: it holds the checksums of files",
            hint="restore it from a copy of the store; the files themselves are not affected",
        )
    with decoding(path):
        return _files_from_json(as_object(value, "a ledger")["files"])


def recorded_digests(objects: ObjectStore, digests: Digests, version: int) -> dict[str, Digest]:
    """All recorded digests of the files of a pin, by their paths below the table."""
    older = read_ledger(objects, digests.ledger) if digests.ledger is not None else {}
    own = {} if digests.version is None else {pin_file(version): digests.version}
    return {name: Digest.parse(text) for name, text in {**older, **digests.files, **own}.items()}


def _files_from_json(value: Any) -> dict[str, str]:
    given = as_object(value, "digests of files")
    return {as_text(n, "a file", DATA_FILE_PATH): as_text(d, "a digest", _TEXT) for n, d in given.items()}


class FileDigester:
    """Computes digests of files below a root. Names of table files are never reused: each is read once."""

    def __init__(self, root: GraphRoot) -> None:
        self._root = root.uri if root.is_local else None
        self._known: BoundedCache[str, str] = BoundedCache(_MAX_KNOWN)

    @property
    def is_recording(self) -> bool:
        """Whether digests are recorded here: on local disks."""
        return self._root is not None

    def record(self, path: str) -> str | None:
        """The digest of a file that was just written; None where none are recorded."""
        if self._root is None:
            return None
        known = self._known.get(path)
        if known is None:
            known = str(self.measure(path))
            self.learn(path, known)
        return known

    def measure(self, path: str) -> Digest:
        """The digest of a file on a local disk as it is now."""
        with translate_faults(f"reading {path}"):
            return digest_file(f"{self._root}/{path}")

    def record_all(self, location: str, names: Iterable[str]) -> dict[str, str]:
        """Digests of some files of a table that were just written, by their paths below it."""
        if self._root is None:
            return {}
        return {name: text for name in names if (text := self.record(f"{location}/{name}")) is not None}

    def learn(self, path: str, digest: str) -> None:
        """Cache a digest that was computed elsewhere."""
        self._known.put(path, digest)


def digest_file(file: str) -> Digest:
    """Size and checksum of a local file."""
    size = checksum = 0
    descriptor = os.open(file, os.O_RDONLY)
    try:
        while chunk := os.read(descriptor, _CHUNK if size else _FIRST_CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    finally:
        os.close(descriptor)
    return Digest(size, checksum)


def digest_bytes(body: bytes) -> Digest:
    """Size and checksum of an object that was read."""
    return Digest(len(body), zlib.crc32(body))
