"""The keys of immutable data files in memory, as sorted 64-bit hashes: what says without a read that a key is new.

An insert asks whether its key exists, and nearly always it does not. Hashes of what a file holds prove that; a hash
that is there proves nothing, and then the index is asked. Rows that were deleted count as held: a file is the same for
every version and branch that has it, whatever they deleted.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.storage.calls import record
from omnigraph.storage.faults import translated
from omnigraph.storage.hashes import Hashes, text_hashes
from omnigraph.storage.tables import Table, data_file

_log = logging.getLogger(__name__)


class KeySets:
    """Hashes by data file. Tables of few rows are read when they are asked about, others in the background.

    `patience`: how often a large file is asked about before it is worth reading. `capacity`: hashes kept at most.
    """

    def __init__(self, *, few: int = 4_096, patience: int = 16, capacity: int = 8_000_000) -> None:
        self._few = few
        self._patience = patience
        self._capacity = capacity
        self._known: OrderedDict[str, Hashes] = OrderedDict()
        self._asked: Counter[str] = Counter()
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()

    def certainly_new(self, table: Table, ids: Sequence[str]) -> bool:
        """Whether the indexed part of a table certainly holds none of some ids. False: the index has to be asked."""
        fragments = table.fragments
        files = {data_file(fragments[i]): i for i in table.covered_fragments if i in fragments}
        with self._lock:
            unknown = {file: i for file, i in files.items() if file not in self._known}
        if unknown:
            # What a fold adds to a table that is known is read at once, as a small table is.
            if sum(fragments[i].physical_rows for i in unknown.values()) > self._few:
                self._ask_for(table, unknown, sum(fragments[i].physical_rows for i in files.values()))
                return False
            self._read(table, unknown)
        wanted = text_hashes(pa.array(ids, pa.string()))
        with self._lock:
            sets = [self._known.get(file) for file in files]
        return not any(known is None or _holds_any(known, wanted) for known in sets)

    def wait(self) -> None:
        """Until nothing is being read in the background."""
        reader = self._reader
        if reader is not None:
            reader.join()

    def _ask_for(self, table: Table, files: dict[str, int], rows: int) -> None:
        """Have files read that are asked about often. Only where reading is cheap, and where all of it has room."""
        if rows > self._capacity // 2 or "://" in table.dataset.uri:
            return
        with self._lock:
            self._asked.update(files.keys())
            due = any(self._asked[file] >= self._patience for file in files)
            if not due or (self._reader is not None and self._reader.is_alive()):
                return
            for file in files:
                del self._asked[file]
            self._reader = threading.Thread(target=self._read_quietly, args=(table, files), name="omnigraph-keys")
            self._reader.start()

    def _read_quietly(self, table: Table, files: dict[str, int]) -> None:
        try:
            self._read(table, files)
        except StorageError as error:  # nobody waits for it: the index goes on answering
            _log.debug("keys of %s were not read: %s", table.path, error)

    def _read(self, table: Table, files: dict[str, int]) -> None:
        for file, fragment_id in files.items():
            hashes = np.sort(text_hashes(_all_ids(table, fragment_id)))
            with self._lock:
                self._known[file] = hashes
                while sum(map(len, self._known.values())) > self._capacity:
                    self._known.popitem(last=False)


def _all_ids(table: Table, fragment_id: int) -> pa.ChunkedArray:
    """The ids of a fragment, of deleted rows too."""
    record("table scan")
    with translated(f"reading ids of {table.path}"):
        chosen = [table.dataset.get_fragment(fragment_id)]
        return table.dataset.scanner(
            columns=["id"], fragments=chosen, with_row_id=True, include_deleted_rows=True
        ).to_table()["id"]


def _holds_any(known: Hashes, wanted: Hashes) -> bool:
    places = np.searchsorted(known, wanted)
    inside = places < len(known)
    return bool((known[places[inside]] == wanted[inside]).any())
