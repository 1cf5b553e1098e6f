"""Prefetching key indexes into memory, before lookups need them.

Storage reads a page of an index when a lookup first needs it, which takes longer than the lookup, and a table of a
million keys has hundreds of pages. After a few lookups in a version, more are likely: then all pages are read in the
background, in the time of some ten lookups. So are the positions of deleted rows, which in-memory key sets need to
answer a lookup.
"""

from __future__ import annotations

import logging
import threading

from omnigraph.errors import StorageError
from omnigraph.storage.calls import record
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.tables import KEY_INDEX, Table

_log = logging.getLogger(__name__)


class IndexPrefetch:
    """Reads key indexes that are used often, on a local disk, each segment once into the cache of an open graph.

    `patience`: lookups in one version before its index is worth reading. Segments of up to `few` rows are not read, nor
    is any segment of an index of more than `many` rows.
    """

    def __init__(self, *, patience: int = 32, few: int = 16_384, many: int = 4_000_000) -> None:
        self._patience = patience
        self._few = few
        self._many = many
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()

    def looked_up(self, home: Table) -> None:
        """Count a lookup in the key index of a version; starts the background read when it is due."""
        with self._lock:
            if self._reader is not None and self._reader.is_alive():
                return
            if home.memory.count_lookup() != self._patience or not home.is_local:
                return
            rows = sum(home.fragments[i].physical_rows for i in home.indexed_fragments)
            if rows <= self._many and (rows > self._few or _unread_deletions(home)):
                self._reader = threading.Thread(target=self._warm, args=(home,), name="omnigraph-index")
                self._reader.start()

    def wait(self) -> None:
        """Wait until nothing is being read in the background."""
        reader = self._reader
        if reader is not None:
            reader.join()

    def _warm(self, home: Table) -> None:
        try:
            with translate_faults(f"reading the key index of {home.path}"):
                fresh = self._unread(home)
                if fresh:
                    record("index read")
                    home.dataset.prewarm_index(KEY_INDEX)
                    home.shared.add_prefetched(fresh)
            for fragment_id in _unread_deletions(home):
                home.read_deletions(fragment_id)
        except StorageError as error:  # no caller waits for it: lookups read the pages they need
            _log.debug("the key index of %s was not read: %s", home.path, error)

    def _unread(self, home: Table) -> set[str]:
        """Segments worth reading that have not been read. Small ones, as folds add, are not."""
        rows = {i: f.physical_rows for i, f in home.fragments.items()}
        segments = [s for index in home.dataset.describe_indices() if index.name == KEY_INDEX for s in index.segments]
        large = {str(s.uuid) for s in segments if sum(rows.get(i, 0) for i in s.fragment_ids) > self._few}
        return home.shared.not_prefetched(large)


def _unread_deletions(home: Table) -> list[int]:
    return [i for i in home.indexed_fragments if home.deleted_offsets(i) is None]
