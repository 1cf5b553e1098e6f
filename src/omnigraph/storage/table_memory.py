"""Facts that a process has read of one version of a table. They save reading again and change no answer.

Versions are immutable, so every fact stays true. Threads share the memory of a version: each fact is set whole under
the lock, and two threads that read the same fact set equal values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lance.fragment import FragmentMetadata

if TYPE_CHECKING:
    from omnigraph.storage.tables import Table

Places = np.ndarray[Any, np.dtype[np.int64]]
Fragments = dict[int, FragmentMetadata]


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Fragments whose ids this process has in memory, and all of those ids."""

    fragments: frozenset[int]
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A segment of an index: the fragments it claims, and the bytes of its files."""

    uuid: str
    fragments: frozenset[int]
    size_bytes: int


Indexes = Mapping[str, tuple[IndexPart, ...]]


class TableMemory:
    """The facts about one version. `home` is the version whose indexes are used for it; None is the version itself."""

    def __init__(self, home: Table | None = None, fragments: Fragments | None = None) -> None:
        self._lock = threading.Lock()
        self._home = home
        self._fragments = fragments
        self._indexes: Indexes | None = None
        self._coverage: Mapping[str, frozenset[int]] = {}
        self._known_ids: KnownIds | None = None
        self._located: tuple[Sequence[str], Any] | None = None
        self._deleted: dict[int, Places] = {}
        self._lookups = 0

    @property
    def home(self) -> Table | None:
        """The version whose indexes are used."""
        return self._home

    def move_home(self) -> None:
        """Use the version's own indexes from now on."""
        with self._lock:
            self._home = None

    def fragments(self, read: Callable[[], Fragments]) -> Fragments:
        """Live fragments by id."""
        found = self._fragments
        if found is None:
            found = read()
            with self._lock:
                self._fragments = found
        return found

    def indexes(self, read: Callable[[], Indexes]) -> Indexes:
        """Segments by the name of their index."""
        found = self._indexes
        if found is None:
            found = read()
            coverage = {name: frozenset(i for part in parts for i in part.fragments) for name, parts in found.items()}
            with self._lock:
                self._coverage, self._indexes = coverage, found
        return found

    def coverage(self, read: Callable[[], Indexes]) -> Mapping[str, frozenset[int]]:
        """The fragments that each index claims."""
        self.indexes(read)
        return self._coverage

    def known_ids(self, make: Callable[[], KnownIds]) -> KnownIds:
        """The ids that are known without reading."""
        found = self._known_ids
        if found is None:
            found = make()
            self.learn_ids(found)
        return found

    def learn_ids(self, known: KnownIds) -> None:
        """Keep the ids that are known."""
        with self._lock:
            self._known_ids = known

    def located(self, ids: Sequence[str]) -> Any:
        """The answer to the last lookup, if it was for the same ids."""
        last = self._located
        return last[1] if last is not None and last[0] == ids else None

    def remember_located(self, ids: Sequence[str], answer: Any) -> None:
        """Keep only the last answer: while no write happens, any number of lookups may be made in one version."""
        with self._lock:
            self._located = (ids, answer)

    def deleted(self, fragment_id: int) -> Places | None:
        """Offsets, in order, of the deleted rows of a fragment; None where they were not read."""
        return self._deleted.get(fragment_id)

    def learn_deleted(self, fragment_id: int, offsets: Places) -> None:
        """Keep which rows of a fragment are deleted."""
        with self._lock:
            self._deleted[fragment_id] = offsets

    def count_lookup(self) -> int:
        """Count a lookup in the key index; returns how many there were."""
        with self._lock:
            self._lookups += 1
            return self._lookups
