"""Small values computed from pins that are asked for again and again: least recently used first out, by bytes.

Pins are immutable, so nothing here goes stale. What is asked for once only need not be made for all rows of a table:
`is_wanted` says when it is time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

_MAX_BYTES = 64 * 2**20
_MAX_ASKED = 4096
_OFTEN = 2
Array = np.ndarray[Any, np.dtype[Any]]


class Kept:
    """Arrays by key. Safe to share between threads."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._arrays: OrderedDict[Hashable, Array] = OrderedDict()
        self._asked: OrderedDict[Hashable, int] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Array | None:
        """An array that was made before."""
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
            return found

    def get(self, key: Hashable, make: Callable[[], Array]) -> Array:
        """An array, made when it is not there. Nobody may change it."""
        found = self.find(key)
        if found is None:
            found = make()
            found.setflags(write=False)
            self._put(key, found)
        return found

    def is_wanted(self, key: Hashable) -> bool:
        """Whether something is asked for often enough to be made for good. Counts as asking."""
        with self._lock:
            if key in self._arrays:
                return True
            times = self._asked[key] = self._asked.pop(key, 0) + 1
            while len(self._asked) > _MAX_ASKED:
                self._asked.popitem(last=False)
            return times > _OFTEN

    def _put(self, key: Hashable, array: Array) -> None:
        with self._lock:
            if array.nbytes > self._max_bytes // 4 or key in self._arrays:
                return
            self._arrays[key] = array
            self._bytes += array.nbytes
            while self._bytes > self._max_bytes:
                self._bytes -= self._arrays.popitem(last=False)[1].nbytes
