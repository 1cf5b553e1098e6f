"""Preparing a write: small ones of many threads one after another, and again when the branch moved meanwhile."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from omnigraph.errors import ConflictError, DataError, NotFound
from omnigraph.versioning.store import GraphStore

T = TypeVar("T")
_REPREPARE_LIMIT = 32


@contextlib.contextmanager
def serialize_preparation(store: GraphStore, is_small: bool) -> Iterator[None]:
    """Serialize the preparation of small writes, which is mostly Python: few rows, on a local disk.

    Threads that do it at the same time take the interpreter from each other, and from the one that publishes.
    Correctness does not need this lock of the graph: a writer that has waited for `prepare_wait` seconds goes on
    without it.
    """
    is_first = is_small and store.root.is_local and store.preparing.acquire(timeout=store.settings.prepare_wait)
    try:
        yield
    finally:
        if is_first:
            store.preparing.release()


def retry_on_conflict(attempt: Callable[[bool], T], *, fresh_first: bool) -> T:
    """Prepare inserts and upserts again, a bounded number of times: on a branch that moved their result is the same.

    An insert may begin with a state that is some seconds old, because the publish repeats its checks; if such a state
    refuses it, it is tried again on the newest.
    """
    if not fresh_first:
        with contextlib.suppress(DataError, ConflictError, NotFound):
            return attempt(False)
    for tried in range(_REPREPARE_LIMIT):
        try:
            return attempt(True)
        except ConflictError as error:
            if not error.retryable:
                raise
            time.sleep(random.random() * min(0.25, 0.005 * 2**tried))
    return attempt(True)
