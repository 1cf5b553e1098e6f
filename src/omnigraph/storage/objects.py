"""Small write-once control objects, on local disk and S3 alike.

Local stores have put-if-absent but no conditional update, so a state change is always a new object. JSON objects carry
a checksum, which is verified whenever one is read. A probe that fails is an error, never an answer: an object is absent
only if the store itself says so.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, S3Store

from omnigraph.errors import (
    InvalidArgument,
    MissingData,
    StorageError,
    StoreUnavailable,
    Unsupported,
)
from omnigraph.storage import requests
from omnigraph.storage.calls import record
from omnigraph.storage.checksums import open_json, seal_json
from omnigraph.storage.durability import Durability
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.options import client_timeout

_PUT_ATTEMPTS = 4
_PUT_PAUSE = 0.05
_COPY_BYTES = 8 << 20
_LIST_PAGE = _DELETED_TOGETHER = 1_000
_TEMPORARY = re.compile(r"#\d+$")
"""Names that a local store gives to unfinished puts: listings hide them and they cannot be addressed."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as listed. `modified` is by the store's own clock."""

    path: str
    size: int
    modified: dt.datetime


class ObjectStore:
    """Control objects below a graph root."""

    def __init__(self, root: GraphRoot, options: dict[str, str], durability: Durability) -> None:
        self.root = root
        self._durability = durability
        if root.is_local and Path(root.uri).is_file():
            raise InvalidArgument(
                f"{root.uri} is a file, not a directory", hint="a graph is a directory: check the path"
            )
        with translate_faults(f"opening the store {root.uri}"):
            if root.is_local:
                # Reading must not create the directory: opening a missing graph leaves no trace.
                self._store: LocalStore | S3Store | None = LocalStore(root.uri) if Path(root.uri).is_dir() else None
            else:
                requests.watch()
                parts = urlsplit(root.uri)
                timeout = dt.timedelta(seconds=client_timeout(options))
                self._store = S3Store(
                    parts.netloc,
                    prefix=parts.path.strip("/"),
                    config=_obstore_config(options),
                    client_options={"timeout": timeout, "connect_timeout": timeout},
                    retry_config={"max_retries": 3, "retry_timeout": timeout},
                )

    def create_root(self) -> None:
        """Make sure the root directory of a local store exists."""
        if self._store is None:
            try:
                Path(self.root.uri).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreUnavailable(
                    f"{self.root.uri} cannot be created: {error.strerror or error}",
                    hint="choose a location you may write",
                ) from error
            self._store = LocalStore(self.root.uri)

    @property
    def _opened(self) -> LocalStore | S3Store:
        if self._store is None:
            raise MissingData(f"{self.root.uri} does not exist")
        return self._store

    @property
    def exists_root(self) -> bool:
        """False for a local directory that is not there."""
        return self._store is not None

    def put_new(self, path: str, body: bytes | pa.Buffer, *, flush: bool = True) -> bool:
        """Create an object; False when another one of that name exists.

        An object that holds exactly this body counts as created here: on an object store the answer to a put may be
        lost, and the client then meets its own object when it repeats the put. Callers that must be told apart have to
        write different bodies. Unflushed, a power loss may take the object away.
        """
        record("object put")
        _require_addressable(path)
        # A buffer is passed without a copy; obstore wants unsigned bytes.
        given = obstore.Bytes(memoryview(body).cast("B")) if isinstance(body, pa.Buffer) else body
        created = self._create_local(path, given) if self.root.is_local else self._create_remote(path, given)
        if created and flush:
            self._durability.sync_files((path,))
        return created

    def _create_local(self, path: str, body: Any) -> bool:
        with translate_faults(f"writing {path}"):
            try:
                try:
                    self._put(path, body)
                except FileNotFoundError:  # cleanup has removed the empty directory between its making and the put
                    self._put(path, body)
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def _create_remote(self, path: str, body: Any) -> bool:
        """Repeat a put whose answer was lost, and read the object there before concluding anything."""
        for attempt in range(_PUT_ATTEMPTS):
            try:
                with translate_faults(f"writing {path}"):
                    try:
                        self._put(path, body)
                        return True
                    except (AlreadyExistsError, PreconditionError):
                        found = self.get(path)
                        if found is not None:
                            return found == bytes(body)
            except StoreUnavailable:
                if attempt + 1 == _PUT_ATTEMPTS:
                    raise
            time.sleep(random.random() * _PUT_PAUSE * 2**attempt)
        raise StoreUnavailable(f"writing {path} failed: the store keeps contradicting itself", hint="try again")

    def _put(self, path: str, body: Any) -> None:
        self._sends("put")
        obstore.put(self._opened, path, body, mode="create", use_multipart=False)

    def _sends(self, kind: str, count: int = 1) -> None:
        """Count requests that follow, or were made. Calls to a local disk are none."""
        if not self.root.is_local:
            requests.sent(kind, count)

    def put_new_json(self, path: str, value: Any, *, flush: bool = True) -> bool:
        """`put_new` of compact JSON with its checksum."""
        return self.put_new(path, seal_json(value), flush=flush)

    def get(self, path: str) -> bytes | None:
        """The bytes of an object, or None when there is none."""
        if self._store is None:
            return None
        record("object get")
        hit(Point.OBJECT_BEFORE_READ)
        self._sends("get")
        with translate_faults(f"reading {path}"):
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except FileNotFoundError:
                return None

    def get_range(self, path: str, begin: int, end: int) -> pa.Buffer:
        """The bytes `begin` to `end` of an object, not copied."""
        self._sends("get")
        with translate_faults(f"reading {path}"):
            return pa.py_buffer(obstore.get_range(self._opened, path, start=begin, end=end))

    def get_json(self, path: str) -> Any | None:
        """The value of a JSON object, or None; one whose checksum does not match is `CorruptGraph`."""
        body = self.get(path)
        return None if body is None else open_json(body, path)

    def modified(self, path: str) -> dt.datetime | None:
        """When an object was written, by the store's clock; None when it does not exist."""
        found = self._head(path)
        return None if found is None else found.modified

    def identity(self, path: str) -> str | None:
        """A text that changes when the object is replaced; None when it does not exist."""
        found = self._head(path)
        return None if found is None else found.identity

    def exists(self, path: str) -> bool:
        """True when there is an object of exactly that name or, for a name ending in `/`, any object below it."""
        if path.endswith("/"):
            return self.holds_any(path)
        return self._head(path) is not None

    def _head(self, path: str) -> _Head | None:
        """The store's answer about one object. Only its own "not found" makes an object absent; other failures are
        raised.
        """
        if self._store is None or _TEMPORARY.search(path):
            return None
        record("object probe")
        hit(Point.OBJECT_BEFORE_PROBE)
        with translate_faults(f"probing {path}"):
            try:
                if self.root.is_local:
                    facts = os.stat(f"{self.root.uri}/{path}")
                    if not stat.S_ISREG(facts.st_mode):
                        return None
                    modified = dt.datetime.fromtimestamp(facts.st_mtime, dt.UTC)
                    return _Head(modified, f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}")
                self._sends("head")
                found = obstore.head(self._store, path)
                return _Head(found["last_modified"], found["e_tag"] or str(found["last_modified"]))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, prefix: str) -> list[str]:
        """Names of the objects directly below a prefix that is known to be small; cheap on a local disk."""
        if not self.root.is_local:
            return [info.path.removeprefix(prefix) for info in self.list(prefix)]
        record("object list")
        with translate_faults(f"listing {prefix}"):
            try:
                return [name for name in os.listdir(f"{self.root.uri}/{prefix}") if not _TEMPORARY.search(name)]
            except FileNotFoundError:
                return []

    def list(self, prefix: str) -> list[ObjectInfo]:
        """Every object below a prefix, by name."""
        if self._store is None:
            return []
        record("object list")
        self._sends("list")
        with translate_faults(f"listing {prefix}"):
            try:
                batches = [entry for batch in obstore.list(self._store, prefix) for entry in batch]
            except FileNotFoundError:
                return []
        self._sends("list", max(0, len(batches) - 1) // _LIST_PAGE)  # pages after the first
        found = [ObjectInfo(e["path"], e["size"], e["last_modified"]) for e in batches]
        return sorted(found, key=lambda info: info.path)

    def holds_any(self, prefix: str) -> bool:
        """Whether there is any object below a prefix: one request, however many there are."""
        if self._store is None:
            return False
        record("object list")
        with translate_faults(f"listing {prefix}"):
            try:
                self._sends("list")
                return any(len(batch) > 0 for batch in obstore.list(self._store, prefix, chunk_size=1))
            except FileNotFoundError:
                return False

    def copy_to(self, path: str, other: ObjectStore, target: str) -> bool:
        """Copy an object into another store, a piece at a time; False when it no longer exists.

        It appears there whole, in place of an earlier one. `sync_files` of the other store makes it durable.
        """
        record("object copy")
        self._sends("get")
        other._sends("put")
        with translate_faults(f"copying {path}"):
            try:
                pieces = obstore.get(self._opened, path).stream(min_chunk_size=_COPY_BYTES)
            except FileNotFoundError:
                return False
            writer = obstore.open_writer(other._opened, target, buffer_size=_COPY_BYTES)
            for piece in pieces:
                writer.write(piece)
            writer.close()  # only now does it appear; a copy that fails before leaves nothing of that name
        return True

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make objects durable that were copied here."""
        self._durability.sync_files(paths)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is already gone is fine."""
        names = list(paths)
        if not names:
            return
        record("object delete")
        with translate_faults(f"deleting {names[0]}"):
            if not self.root.is_local:
                self._sends("delete", 1 + (len(names) - 1) // _DELETED_TOGETHER)
                obstore.delete(self._opened, names)
                return
            for name in names:
                (Path(self.root.uri) / name).unlink(missing_ok=True)
                hit(Point.OBJECT_REMOVED)

    def probe_put_if_absent(self, path: str) -> None:
        """Refuse a store without put-if-absent, on which everything here relies."""
        try:
            first = self.put_new(path, b"1")
            second = self.put_new(path, b"2")
        except StoreUnavailable:
            raise
        except (StorageError, BaseError) as error:
            raise StoreUnavailable(
                f"{self.root.uri} cannot be written: {error}", hint="check that the location exists and is writable"
            ) from error
        finally:
            if self._store is not None:
                with translate_faults(f"deleting {path}"):
                    self.delete([path])
        if not first or second:
            raise Unsupported(
                f"{self.root.uri} does not support put-if-absent",
                hint="use a local disk or an S3 store with conditional writes (If-None-Match)",
            )

    def move(self, path: str, target: str) -> None:
        """Move the bytes of an object to another name."""
        body = self.get(path)
        if body is not None:
            self.put_new(target, body)
            self.delete([path])

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object below a prefix, and on a local disk its directories and unfinished puts as well."""
        self.delete([info.path for info in self.list(prefix)])
        if not self.root.is_local:
            return
        with translate_faults(f"deleting {prefix}"):
            for folder, _, names in os.walk(f"{self.root.uri}/{prefix.rstrip('/')}", onerror=_raise_unless_gone):
                for name in names:
                    with suppress(FileNotFoundError):
                        os.unlink(f"{folder}/{name}")
        self.remove_empty_directories([prefix.rstrip("/")])

    def remove_empty_directories(self, paths: Iterable[str]) -> None:
        """Remove directories of a local store, with those below them, where nothing is left in them.

        Only for directories whose names are never used again, or whose users create them again.
        """
        if not self.root.is_local:
            return
        for path in paths:
            for folder, _, _ in os.walk(f"{self.root.uri}/{path}", topdown=False):
                with suppress(OSError):  # not empty, or gone: both are fine
                    os.rmdir(folder)


@dataclass(frozen=True, slots=True)
class _Head:
    modified: dt.datetime
    identity: str


def _require_addressable(path: str) -> None:
    if _TEMPORARY.search(path):
        raise InvalidArgument(f"{path!r} ends like an unfinished put", hint="choose a name without '#' and digits")


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def _obstore_config(options: dict[str, str]) -> Any:
    return {k: v for k, v in options.items() if k.startswith("aws_")} | (
        {"aws_allow_http": options["allow_http"]} if "allow_http" in options else {}
    )
