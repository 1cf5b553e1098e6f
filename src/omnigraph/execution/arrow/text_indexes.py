"""Full-text indexes by pin: from memory, from derived state, or built from their column and kept.

The index is built here because tokenizing, folding and stemming are part of the query language: an index with other
rules would find other rows.
"""

from __future__ import annotations

import hashlib

from omnigraph.execution.arrow.pin_cache import LoadedTable, PinCache
from omnigraph.execution.arrow.text_index import TextIndex
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import GraphStore

_KEPT = 4
_LISTED = 64
_WORTH_KEEPING = 10
"""Text costs more to index than edges, so its indexes are stored from a smaller number of rows on."""


def text_name(entry: TableEntry) -> str:
    """Return the name of the text indexes of a pin, in the folder of each column."""
    return hashlib.sha256(str(entry.staged_version).encode()).hexdigest()[:40]


def text_folder(entry: TableEntry, column: str) -> str:
    """Return the folder of the text indexes of a column."""
    return f"text/{entry.location.replace('/', '-')}/{column}/"


def is_worth_keeping(store: GraphStore, entry: TableEntry) -> bool:
    """Return whether a text index is stored for other processes, or built by each that needs it."""
    return entry.row_count * _WORTH_KEEPING >= store.settings.derived_min_rows


def is_stored(store: GraphStore, entry: TableEntry, column: str) -> bool:
    """Return whether the text index of a column at a pin is in the store. Lists names, reads no file."""
    return text_folder(entry, column) + text_name(entry) in store.derived.newest(text_folder(entry, column), _LISTED)


class Texts:
    """Text indexes of one graph. Safe to share between threads."""

    def __init__(self, store: GraphStore, cache: PinCache) -> None:
        self._store = store
        self._cache = cache

    def index(self, entry: TableEntry, column: str, loaded: LoadedTable) -> TextIndex:
        """Return the inverted index of a String column at a pin."""
        folder = text_folder(entry, column)
        path = folder + text_name(entry)

        def load() -> TextIndex:
            stored = self._store.derived.read(path)
            if stored is not None and stored.facts.get("rows") == entry.row_count:
                return TextIndex.from_arrays(stored.arrays)
            built = TextIndex.build(loaded.column(column))
            if is_worth_keeping(self._store, entry):
                self._store.workers.submit(self._keep, folder, path, entry.row_count, built)
            return built

        found: TextIndex = self._cache.derived(("text", entry.location, entry.staged_version, column), load)
        return found

    def _keep(self, folder: str, path: str, rows: int, built: TextIndex) -> None:
        if self._store.derived.write(path, {"rows": rows}, built.arrays()):
            self._store.derived.prune(folder, _KEPT)
