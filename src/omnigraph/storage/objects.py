"""Small write-once control objects, on local disk and S3 alike.

Local stores have put-if-absent but no conditional update, so a state change is always a new object.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, S3Store

from omnigraph.errors import InvalidArgument, MissingData, StorageError, StoreUnavailable, Unsupported
from omnigraph.storage.calls import record
from omnigraph.storage.decode import decoding, parse_json
from omnigraph.storage.durability import Durability
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translated
from omnigraph.storage.layout import GraphRoot

_RETRY: Any = {"max_retries": 3, "retry_timeout": dt.timedelta(seconds=15)}


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says of one object. `modified` is by the store's own clock."""

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
        with translated(f"opening the store {root.uri}"):
            if root.is_local:
                # Reading must not create the directory: opening a missing graph leaves no trace.
                self._store: LocalStore | S3Store | None = LocalStore(root.uri) if Path(root.uri).is_dir() else None
            else:
                parts = urlsplit(root.uri)
                self._store = S3Store(
                    parts.netloc, prefix=parts.path.strip("/"), config=_obstore_config(options), retry_config=_RETRY
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
        """Create an object; False when one of that name exists already. Unflushed, a power loss may take it away."""
        record("object put")
        # A buffer is handed over without a copy; obstore wants to see unsigned bytes.
        given = obstore.Bytes(memoryview(body).cast("B")) if isinstance(body, pa.Buffer) else body
        with translated(f"writing {path}"):
            try:
                obstore.put(self._opened, path, given, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
        if flush:
            self._durability.sync_files((path,))
        return True

    def put_new_json(self, path: str, value: Any, *, flush: bool = True) -> bool:
        """`put_new` of compact JSON."""
        return self.put_new(path, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), flush=flush)

    def get(self, path: str) -> bytes | None:
        """The bytes of an object, or None when there is none."""
        if self._store is None:
            return None
        record("object get")
        with translated(f"reading {path}"):
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except FileNotFoundError:
                return None

    def get_range(self, path: str, begin: int, end: int) -> pa.Buffer:
        """The bytes `begin` to `end` of an object, not copied."""
        with translated(f"reading {path}"):
            return pa.py_buffer(obstore.get_range(self._opened, path, start=begin, end=end))

    def get_json(self, path: str) -> Any | None:
        """The value of a JSON object, or None; a damaged one is an error."""
        body = self.get(path)
        if body is None:
            return None
        with decoding(path):
            return parse_json(body)

    def modified(self, path: str) -> dt.datetime | None:
        """When an object was written, by the store's clock; None when there is none."""
        if self._store is None:
            return None
        record("object probe")
        with translated(f"probing {path}"):
            try:
                if self.root.is_local:
                    return dt.datetime.fromtimestamp(os.stat(f"{self.root.uri}/{path}").st_mtime, dt.UTC)
                return obstore.head(self._store, path)["last_modified"]
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        """True when there is an object of exactly that name."""
        if self.root.is_local:
            record("object probe")
            return os.path.isfile(f"{self.root.uri}/{path}")
        return self.modified(path) is not None

    def list(self, prefix: str) -> list[ObjectInfo]:
        """Every object below a prefix, by name."""
        if self._store is None:
            return []
        record("object list")
        with translated(f"listing {prefix}"):
            try:
                batches = [entry for batch in obstore.list(self._store, prefix) for entry in batch]
            except FileNotFoundError:
                return []
        found = [ObjectInfo(e["path"], e["size"], e["last_modified"]) for e in batches]
        return sorted(found, key=lambda info: info.path)

    def holds_any(self, prefix: str) -> bool:
        """Whether there is any object below a prefix: one request, however many there are."""
        if self._store is None:
            return False
        record("object list")
        with translated(f"listing {prefix}"):
            try:
                return any(len(batch) > 0 for batch in obstore.list(self._store, prefix, chunk_size=1))
            except FileNotFoundError:
                return False

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is already gone is fine."""
        names = list(paths)
        if not names:
            return
        record("object delete")
        with translated(f"deleting {names[0]}"):
            if not self.root.is_local:
                obstore.delete(self._opened, names)
                return
            for name in names:
                (Path(self.root.uri) / name).unlink(missing_ok=True)
                hit(Point.OBJECT_REMOVED)

    def probe_put_if_absent(self, path: str) -> None:
        """Refuse a store that does not keep the one promise everything rests on."""
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
                with translated(f"deleting {path}"):
                    self.delete([path])
        if not first or second:
            raise Unsupported(
                f"{self.root.uri} does not support put-if-absent",
                hint="use a local disk or an S3 store with conditional writes (If-None-Match)",
            )

    def move(self, path: str, target: str) -> None:
        """Keep the bytes of an object under another name."""
        body = self.get(path)
        if body is not None:
            self.put_new(target, body)
            self.delete([path])

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object below a prefix."""
        self.delete([info.path for info in self.list(prefix)])


def _obstore_config(options: dict[str, str]) -> Any:
    return {k: v for k, v in options.items() if k != "allow_http"} | (
        {"aws_allow_http": options["allow_http"]} if "allow_http" in options else {}
    )
