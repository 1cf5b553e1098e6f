"""The keys of immutable data files in memory: they answer without a read whether a key is new, or which row has it.

An insert checks whether its key exists, and nearly always it does not. Sorted 64-bit hashes of a file's keys prove
that; a hash that is present proves nothing. Where the ids themselves are kept beside the hashes, they decide, and the
index is not used. Deleted rows are included: a file is the same for every version and branch that has it, and the
deletions belong to each version.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.datatypes import whole
from omnigraph.errors import StorageError
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.calls import record
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.hashes import Hashes, hashes_of, text_hashes
from omnigraph.storage.table_memory import Places
from omnigraph.storage.tables import Table, data_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileKeys:
    """The keys of one data file: their hashes in order, the row of each, and the ids by row. The last two may be left
    out where they are too large.
    """

    hashes: Hashes
    rows: np.ndarray[Any, np.dtype[np.uint32]] | None = None
    ids: pa.Array | None = None

    @classmethod
    def of(cls, ids: pa.Array, room: int) -> FileKeys:
        """The keys of a column of ids. Rows and ids are kept if everything fits in `room` bytes."""
        hashes = text_hashes(ids)
        order = np.argsort(hashes).astype(np.uint32)
        if hashes.nbytes + order.nbytes + ids.nbytes > room:
            return cls(hashes[order])
        return cls(hashes[order], order, ids)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        ids, rows = self.ids, self.rows
        return self.hashes.nbytes + (ids.nbytes if ids is not None else 0) + (rows.nbytes if rows is not None else 0)

    def holds_any(self, wanted: Hashes) -> bool:
        """Whether one of some hashes is among the file's."""
        return bool((self.hashes.searchsorted(wanted) < self.hashes.searchsorted(wanted, "right")).any())

    def find(self, texts: Sequence[str], wanted: Hashes) -> Iterator[tuple[str, int]]:
        """The ids, of some given with their hashes, that the file holds, each with its row."""
        if self.rows is None or self.ids is None:
            return
        first = self.hashes.searchsorted(wanted).tolist()
        after = self.hashes.searchsorted(wanted, "right").tolist()
        for text, begin, end in zip(texts, first, after, strict=True):
            for row in self.rows[begin:end].tolist():
                if self.ids[row].as_py() == text:
                    yield text, row


class KeySets:
    """Keys by data file. Files of few rows are read on the first lookup, others in the background.

    `patience`: how often a large file is looked up before it is worth reading. `many`: rows of a table above which it
    never is. `capacity`: bytes kept at most, half of it of one table.
    """

    def __init__(
        self, *, few: int = 4_096, patience: int = 8, many: int = 4_000_000, capacity: int = 128_000_000
    ) -> None:
        self._few = few
        self._patience = patience
        self._many = many
        self._capacity = capacity
        self._known: BoundedCache[str, FileKeys] = BoundedCache(most_bytes=capacity, size_of=lambda keys: keys.size)
        self._asked: Counter[str] = Counter()
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()

    def certainly_new(self, table: Table, ids: Sequence[str]) -> bool:
        """Whether the indexed part of a table certainly holds none of some ids. False: the index has to be searched."""
        files = _indexed_files(table)
        if not self._is_known(table, files):
            return False
        wanted = hashes_of(ids)
        sets = [self._known.get(file) for file in files]
        return not any(known is None or known.holds_any(wanted) for known in sets)

    def locate(self, table: Table, ids: Sequence[str]) -> list[tuple[str, int]] | None:
        """The ids that the indexed part of a table holds, with their addresses. None: the index has to be searched."""
        files = _indexed_files(table)
        if not self._is_known(table, files):
            return None
        sets = [(i, self._known.get(file)) for file, i in files.items()]
        home, wanted = table.index_home, hashes_of(ids)
        found: list[tuple[str, int]] = []
        for fragment_id, known in sets:
            deleted = home.deleted_offsets(fragment_id)
            if known is None or known.ids is None or deleted is None:
                return None
            masked = table.masked.get(fragment_id, frozenset())
            for text, row in known.find(ids, wanted):
                if row not in masked and not _is_among(deleted, row):
                    found.append((text, fragment_id << 32 | row))
        return found

    def wait(self) -> None:
        """Wait until nothing is being read in the background."""
        reader = self._reader
        if reader is not None:
            reader.join()

    def _is_known(self, table: Table, files: dict[str, int]) -> bool:
        """Whether the keys of all files are in memory. A few missing rows, as after a fold, are read at once."""
        unknown = {file: i for file, i in files.items() if file not in self._known}
        if unknown and _rows(table, unknown) > self._few:
            self._ask_for(table, files, unknown)
            return False
        if unknown:
            self._read(table, unknown)
        return True

    def _ask_for(self, table: Table, files: dict[str, int], unknown: dict[str, int]) -> None:
        """Start reading often used files in the background, if that is cheap and all of the table fits."""
        if _rows(table, files) > self._many or "://" in table.dataset.uri:
            return
        with self._lock:
            self._asked.update(unknown.keys())
            due = any(self._asked[file] >= self._patience for file in unknown)
            if not due or (self._reader is not None and self._reader.is_alive()):
                return
            for file in unknown:
                del self._asked[file]
            self._reader = threading.Thread(target=self._read_quietly, args=(table, unknown), name="omnigraph-keys")
            self._reader.start()

    def _read_quietly(self, table: Table, files: dict[str, int]) -> None:
        try:
            self._read(table, files)
        except StorageError as error:  # no caller waits for it: lookups go on using the index
            _log.debug("keys of %s were not read: %s", table.path, error)

    def _read(self, table: Table, files: dict[str, int]) -> None:
        room = self._capacity // 2
        for file, fragment_id in files.items():
            keys = FileKeys.of(whole(_all_ids(table, fragment_id)), room)
            room -= keys.size
            self._known.put(file, keys)


def _indexed_files(table: Table) -> dict[str, int]:
    """Data files that the key index covers, each with its fragment."""
    return {data_file(table.fragments[i]): i for i in table.indexed_fragments}


def _rows(table: Table, files: dict[str, int]) -> int:
    return sum(table.fragments[i].physical_rows for i in files.values())


def _all_ids(table: Table, fragment_id: int) -> pa.ChunkedArray:
    """The ids of a fragment, of deleted rows too."""
    record("table scan")
    with translate_faults(f"reading ids of {table.path}"):
        chosen = [table.dataset.get_fragment(fragment_id)]
        return table.dataset.scanner(
            columns=["id"], fragments=chosen, with_row_id=True, include_deleted_rows=True
        ).to_table()["id"]


def _is_among(ordered: Places, value: int) -> bool:
    return bool(ordered.searchsorted(value) < ordered.searchsorted(value, "right"))
