"""Counting the calls that reach storage: those of a command, to show what it costs, and those of each write.

One call may be several requests: a commit of Lance puts a transaction and a version. The store itself counts the
requests that an object store receives.
"""

from __future__ import annotations

import contextvars
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from omnigraph.storage import fork_guard

T = TypeVar("T")
_counts: Counter[str] | None = None
_of_write: contextvars.ContextVar[Counter[str] | None] = contextvars.ContextVar("calls_of_write", default=None)
_lock = threading.Lock()


def record(kind: str) -> None:
    """Count one call of a kind. Refused in a process that cannot make any."""
    if fork_guard.is_forked:
        fork_guard.refuse()
    mine = _of_write.get()
    if _counts is not None or mine is not None:
        with _lock:
            for counts in (_counts, mine):
                if counts is not None:
                    counts[kind] += 1


def start() -> Counter[str]:
    """Count every call of the process from now on; the counter fills as calls are made."""
    global _counts
    _counts = Counter()
    return _counts


def stop() -> None:
    """Stop counting."""
    global _counts
    _counts = None


def begin_write() -> None:
    """Count the calls of the write that begins in this thread, and of the pools that work for it."""
    _of_write.set(Counter())


def calls_of_write() -> Mapping[str, int]:
    """The calls since the last write began in this thread. A thread that publishes for others counts those too."""
    return dict(_of_write.get() or {})


class CountedPool(ThreadPoolExecutor):
    """A thread pool whose calls count for the write that submitted the work."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """`submit` in the context of the caller."""
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)
