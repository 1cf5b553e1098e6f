"""One cache class for everything that a process keeps: least recently used first out, by count, by bytes, or by both.

Caches of one graph share a `CacheBudget`: together they hold at most so many bytes, and the least recently used value
goes first, whichever cache holds it. Cached values are immutable or belong to immutable versions, so nothing here goes
stale: a value that was dropped is read again.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_OVERHEAD = 64
_clock = itertools.count()


class CacheBudget:
    """Bytes that several caches may hold together."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.lock = threading.RLock()
        self._caches: list[BoundedCache[Any, Any]] = []

    @property
    def held(self) -> int:
        """Bytes that all caches hold now."""
        return sum(cache.held for cache in self._caches)

    def add(self, cache: BoundedCache[Any, Any]) -> None:
        """Count a cache's bytes in this budget."""
        with self.lock:
            self._caches.append(cache)

    def make_room(self) -> None:
        """Drop the least recently used values until the bytes fit."""
        while self.held > self.capacity:
            filled = [cache for cache in self._caches if len(cache)]
            if not filled:
                return
            min(filled, key=lambda cache: cache.last_use_of_oldest).drop_oldest()

    def clear(self) -> None:
        """Drop everything."""
        with self.lock:
            for cache in self._caches:
                cache.clear()


@dataclasses.dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    size: int
    used: int


class BoundedCache(Generic[K, V]):
    """Values by key. Safe to share between threads.

    `most` bounds the number of values, `most_bytes` their size as `size_of` measures it; a `budget` bounds the bytes of
    several caches together.
    """

    def __init__(
        self, most: int | None = None, *, most_bytes: int | None = None, budget: CacheBudget | None = None,
        size_of: Callable[[V], int] | None = None,
    ) -> None:  # fmt: skip
        self._most = most
        self._most_bytes = most_bytes
        self._budget = budget
        self._size_of = size_of
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._lock = budget.lock if budget is not None else threading.RLock()
        self.held = 0
        if budget is not None:
            budget.add(self)

    def get(self, key: K) -> V | None:
        """The cached value, or None; marks it as used."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            entry.used = next(_clock)
            self._entries.move_to_end(key)
            return entry.value

    def put(self, key: K, value: V) -> V:
        """Cache a value, in place of an earlier one of the same key."""
        size = self._size_of(value) if self._size_of is not None else 0
        with self._lock:
            self._remove(key)
            self._entries[key] = _Entry(value, size, next(_clock))
            self.held += size
            while self._is_too_full():
                self.drop_oldest()
            if self._budget is not None:
                self._budget.make_room()
        return value

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made when it is not there. Two threads may make it; the first one is kept."""
        found = self.get(key)
        if found is not None:
            return found
        made = make()
        with self._lock:
            found = self.get(key)
            return self.put(key, made) if found is None else found

    def drop_oldest(self) -> None:
        """Drop the least recently used value."""
        with self._lock:
            _, entry = self._entries.popitem(last=False)
            self.held -= entry.size

    @property
    def last_use_of_oldest(self) -> int:
        """When the least recently used value was used, counted in uses of any cache."""
        return next(iter(self._entries.values())).used

    def clear(self) -> None:
        """Drop every value."""
        with self._lock:
            self._entries.clear()
            self.held = 0

    def _is_too_full(self) -> bool:
        if self._most is not None and len(self._entries) > self._most:
            return True
        return self._most_bytes is not None and self.held > self._most_bytes and len(self._entries) > 1

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.held -= entry.size

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._entries))


def memory_of(value: Any) -> int:
    """Bytes of the arrays that a value holds, except those of files that are mapped into memory."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) if _is_owned(value) else _OVERHEAD
    if isinstance(value, Mapping):
        return sum(map(memory_of, value.values())) + _OVERHEAD
    if isinstance(value, list | tuple):
        return sum(map(memory_of, value)) + _OVERHEAD
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return sum(memory_of(getattr(value, each.name, None)) for each in dataclasses.fields(value)) + _OVERHEAD
    return _OVERHEAD


def _is_owned(array: np.ndarray[Any, Any]) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return False
        if base.base is None:
            return True
        base = base.base
    return not type(base).__name__.startswith(("mmap", "memoryview", "Buffer"))
