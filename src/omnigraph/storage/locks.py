"""A polite queue between processes on one local disk. It lowers latency and is needed for nothing else.

The wait is bounded: a process that was stopped while holding the lock delays others by a moment and never blocks them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator

from omnigraph.storage.layout import LOCKS, GraphRoot, fnv1a64

MAX_WAIT_SECONDS = 2.0


@contextlib.contextmanager
def advisory_lock(root: GraphRoot, name: str, meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of `name`, or go on without it after a short wait or where locks cannot be had.

    `meanwhile` is done first where there is somebody to wait for.
    """
    descriptor = _open(root, name)
    if descriptor is None:
        yield
        return
    try:
        _acquire(descriptor, meanwhile)
        yield
    finally:
        os.close(descriptor)


def _open(root: GraphRoot, name: str) -> int | None:
    if not root.is_local:
        return None
    folder = f"{root.uri}/{LOCKS}"
    path = f"{folder}/{fnv1a64(name)}.lock"
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
    return None


def _acquire(descriptor: int, meanwhile: Callable[[], None] | None) -> None:
    """Wait in the kernel, not longer than the limit. Who comes while it is free goes first: strict order is slower."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if meanwhile is not None:
            meanwhile()
        acquired = threading.Event()
        # A duplicate shares the lock: whoever closes last releases it, so a waiter that is given up harms nobody.
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
