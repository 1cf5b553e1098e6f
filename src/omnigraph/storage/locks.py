"""A best-effort queue between processes on one local disk. It lowers latency; correctness does not need it.

The wait is bounded: a process that was stopped while holding the lock delays others by a moment and never blocks them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator

from omnigraph.storage.layout import LOCKS, GraphRoot, fnv1a64

MAX_WAIT_SECONDS = 2.0
_HEADER = struct.Struct("<II")


@contextlib.contextmanager
def advisory_lock(root: GraphRoot, name: str, meanwhile: Callable[[], None] | None = None) -> Iterator[LockFile | None]:
    """Hold the lock of `name`, or go on without it after a short wait or where locks are not supported.

    `meanwhile` runs first if the lock is held by another process.
    """
    descriptor = _open(root, name)
    if descriptor is None:
        yield None
        return
    try:
        _acquire(descriptor, meanwhile)
        yield LockFile(descriptor)
    finally:
        os.close(descriptor)


class LockFile:
    """Content that holders of a lock leave in its file for other processes. It may be lost, and is never partial."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, body: bytes) -> None:
        """Replace the content."""
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _HEADER.pack(len(body), zlib.crc32(body)) + body, 0)


def read_lock_file(root: GraphRoot, name: str) -> bytes | None:
    """Read the content of the lock file of `name`; None if it is empty or incomplete. The lock need not be held."""
    if not root.is_local:
        return None
    try:
        with open(_path(root, name), "rb") as file:
            content = file.read()
    except OSError:
        return None
    if len(content) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(content)
    body = content[_HEADER.size : _HEADER.size + length]
    return body if len(body) == length and zlib.crc32(body) == checksum else None


def lock_path(name: str) -> str:
    """The lock file of a name, relative to the root."""
    return f"{LOCKS}/{fnv1a64(name)}.lock"


def _path(root: GraphRoot, name: str) -> str:
    return f"{root.uri}/{lock_path(name)}"


def _open(root: GraphRoot, name: str) -> int | None:
    if not root.is_local:
        return None
    path = _path(root, name)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
    return None


def _acquire(descriptor: int, meanwhile: Callable[[], None] | None) -> None:
    """Wait in the kernel, up to the limit. A free lock is taken without queueing: strict order is slower."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if meanwhile is not None:
            meanwhile()
        acquired = threading.Event()
        # A duplicate shares the lock until the last is closed, so a waiter that is given up on does no harm.
        threading.Thread(target=_wait, args=(os.dup(descriptor), acquired), daemon=True).start()
        acquired.wait(MAX_WAIT_SECONDS)
    except OSError:
        return


def _wait(descriptor: int, acquired: threading.Event) -> None:
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        acquired.set()
    finally:
        os.close(descriptor)
