"""Preparing a write again when the branch moved under it."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from typing import TypeVar

from omnigraph.errors import ConflictError, DataError, NotFound

T = TypeVar("T")
_REPREPARE_LIMIT = 32


def reprepared(attempt: Callable[[bool], T], *, fresh_first: bool) -> T:
    """Inserts and upserts mean the same on a branch that moved: validate and stage again, a bounded number of times.

    An insert may begin with a state that is some seconds old, because the publish repeats its checks; what such a
    state refuses is asked again of the newest.
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
