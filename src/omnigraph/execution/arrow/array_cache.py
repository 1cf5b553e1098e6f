"""Cache of small arrays computed from pins, bounded by bytes, least recently used out first.

Pins are immutable, so no entry goes stale. A value that is used once is not worth computing for all rows of a table:
`is_wanted` decides when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from omnigraph.storage.bounded_cache import BoundedCache, CacheBudget

_MAX_BYTES = 64 * 2**20
_MAX_ASKED = 4096
_OFTEN = 2
Array = np.ndarray[Any, np.dtype[Any]]


class ArrayCache:
    """Arrays by key. Safe to share between threads."""

    def __init__(self, max_bytes: int = _MAX_BYTES, budget: CacheBudget | None = None) -> None:
        self._max_bytes = max_bytes
        self._arrays: BoundedCache[Hashable, Array] = BoundedCache(
            most_bytes=max_bytes, budget=budget, size_of=lambda array: array.nbytes
        )
        self._asked: BoundedCache[Hashable, int] = BoundedCache(_MAX_ASKED)

    def find(self, key: Hashable) -> Array | None:
        """Return a cached array, or None."""
        return self._arrays.get(key)

    def get(self, key: Hashable, make: Callable[[], Array]) -> Array:
        """Return a cached array; compute it if absent. Callers must not change it."""
        found = self.find(key)
        if found is None:
            found = make()
            found.setflags(write=False)
            if found.nbytes <= self._max_bytes // 4:  # one array must not evict all others
                self._arrays.put(key, found)
        return found

    def is_wanted(self, key: Hashable) -> bool:
        """Return whether a value is requested often enough to compute it for all rows. Counts as a request."""
        if key in self._arrays:
            return True
        return self._asked.put(key, (self._asked.get(key) or 0) + 1) > _OFTEN
