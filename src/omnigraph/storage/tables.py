"""Lance tables, opened at a pin and never moved: a table's linear HEAD stays where its creation left it."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.storage import fork_guard
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.caches import open_session
from omnigraph.storage.calls import record
from omnigraph.storage.data_files import DataFiles
from omnigraph.storage.digests import FileDigester
from omnigraph.storage.durability import Durability
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.index_pages import IndexPages
from omnigraph.storage.layout import GraphRoot, version_file
from omnigraph.storage.table_memory import Fragments, Indexes, IndexPart, Places, TableMemory

GUARD_TAG = "omnigraph-guard"
BIRTH_VERSION = 2
KEY_INDEX = "id_idx"
_MAX_HANDLES = 512
Masked = Mapping[int, frozenset[int]]
"""Offsets of rows, by fragment."""
NO_PLACES: Places = np.empty(0, np.int64)
_INDEX_FILES = {"BTree": ("page_data.lance", "page_lookup.lance"), "IVF_FLAT": ("auxiliary.idx", "index.idx")}
"""Names of the files of a segment, by the kind of its index."""


def data_file(fragment: FragmentMetadata) -> str:
    """The name of a fragment's first data file. Lance's own `path` creates a class at each access."""
    return str(fragment.files[0]._path)


def segment_files(uuid: str, kind: str) -> list[str]:
    """Paths, relative to the table, of the files of an index segment."""
    return [f"_indices/{uuid}/{name}" for name in _INDEX_FILES[kind]]


class SharedIndexes:
    """Facts about index segments that a graph's tables share: bounds of pages, and segments the session has read."""

    def __init__(self, pages: IndexPages) -> None:
        self.pages = pages
        self._prefetched: set[str] = set()
        self._lock = threading.Lock()

    def not_prefetched(self, segments: Set[str]) -> set[str]:
        """Those of some segments that the session's cache has not read whole."""
        with self._lock:
            return set(segments) - self._prefetched

    def add_prefetched(self, segments: Set[str]) -> None:
        """Segments that the session's cache has read whole."""
        with self._lock:
            self._prefetched |= segments


@dataclass(frozen=True, eq=False)
class Table:
    """One table at one version. Every effect gives another `Table`; facts read from it are kept in its memory.

    Rows change more often than indexes do. The version at which the indexes were last read or built, `index_home`, is
    used for lookups in all later ones, so that a new version does not have to load them again. Fragments are immutable
    but for their deletions, and every version since that home was made in this process: `masked` are the rows that were
    removed meanwhile, known without reading a deletion file.
    """

    path: str
    dataset: LanceDataset
    shared: SharedIndexes
    masked: Masked = field(default_factory=dict)
    memory: TableMemory = field(default_factory=TableMemory)

    @cached_property
    def version(self) -> int:
        """The Lance version."""
        return int(self.dataset.version)

    @property
    def index_home(self) -> Table:
        """The version whose indexes are used for this one."""
        return self.memory.home or self

    @property
    def pages(self) -> IndexPages:
        """The bounds of pages of indexes."""
        return self.shared.pages

    @property
    def row_count(self) -> int:
        """Live rows, from metadata."""
        with translate_faults(f"counting the rows of {self.path}"):
            return int(self.dataset.count_rows())

    @property
    def schema(self) -> pa.Schema:
        """Physical columns."""
        with translate_faults(f"reading the schema of {self.path}"):
            return self.dataset.schema

    @property
    def fragments(self) -> dict[int, FragmentMetadata]:
        """Live fragments by id."""
        return self.memory.fragments(self._read_fragments)

    def _read_fragments(self) -> Fragments:
        with translate_faults(f"reading {self.path}"):
            return {f.fragment_id: f.metadata for f in self.dataset.get_fragments()}

    @property
    def covered_fragments(self) -> frozenset[int]:
        """Fragments that the key index covers, dead ones included."""
        return self.index_coverage().get(KEY_INDEX, frozenset())

    @property
    def indexed_fragments(self) -> list[int]:
        """Live fragments that the key index covers."""
        covered = self.covered_fragments
        return [i for i in self.fragments if i in covered]

    @property
    def uncovered_fragments(self) -> list[int]:
        """Live fragments that a keyed lookup must search one by one."""
        covered = self.covered_fragments
        return [i for i in self.fragments if i not in covered]

    def still_holds(self, address: int) -> bool:
        """Whether a row found in the version of the indexes is in this one too."""
        fragment = address >> 32
        return fragment in self.fragments and address & 0xFFFFFFFF not in self.masked.get(fragment, ())

    def deleted_offsets(self, fragment_id: int) -> Places | None:
        """Offsets, in order, of the deleted rows of a fragment; None if they were not read."""
        if self.fragments[fragment_id].deletion_file is None:
            return NO_PLACES
        return self.memory.deleted(fragment_id)

    def read_deletions(self, fragment_id: int) -> Places:
        """Read which rows of a fragment are deleted, and keep that."""
        record("deletions read")
        with translate_faults(f"reading deletions of {self.path}"):
            chosen = [self.dataset.get_fragment(fragment_id)]
            rows = self.dataset.scanner(columns=[], with_row_id=True, include_deleted_rows=True, fragments=chosen)
            gone = np.flatnonzero(rows.to_table()["_rowid"].is_null().to_numpy())
        self.memory.learn_deleted(fragment_id, gone)
        return gone

    def move_home(self) -> None:
        """Use the indexes of this version from now on. `masked` stays: later versions may rely on it."""
        self.memory.move_home()

    def index_coverage(self) -> Mapping[str, frozenset[int]]:
        """Fragment ids claimed by each index."""
        home = self.index_home
        return home.memory.coverage(home._read_indexes)

    def index_parts(self, column: str) -> tuple[IndexPart, ...]:
        """The segments of the index of a column."""
        home = self.index_home
        return home.memory.indexes(home._read_indexes).get(f"{column}_idx", ())

    def _read_indexes(self) -> Indexes:
        with translate_faults(f"reading the indexes of {self.path}"):
            return {
                index.name: tuple(
                    IndexPart(str(part.uuid), frozenset(part.fragment_ids), part.size_bytes or 0)
                    for part in index.segments
                )
                for index in self.dataset.describe_indices()
            }

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        fragments: Sequence[int] | None = None,
    ) -> pa.Table:
        """Rows as one Arrow table, filtered by an SQL predicate over physical columns; of some fragments only."""
        record("table scan")
        with translate_faults(f"reading {self.path}"):
            chosen = None if fragments is None else [self.dataset.get_fragment(i) for i in fragments]
            return self.dataset.scanner(
                columns=list(columns) if columns is not None else None, filter=where, fragments=chosen
            ).to_table()

    def scan_addresses(self, columns: Sequence[str], fragments: Sequence[int]) -> pa.Table:
        """Rows of some fragments with the address of each, in the column `_rowaddr`: its fragment, then its offset."""
        record("table scan")
        with translate_faults(f"reading {self.path}"):
            chosen = [self.dataset.get_fragment(i) for i in fragments]
            return self.dataset.scanner(columns=list(columns), fragments=chosen, with_row_address=True).to_table()

    @property
    def layout(self) -> list[list[str | int]]:
        """The table's rows in scan order, as files: data file, deletion file, live rows of each fragment.

        Files are immutable, so a version whose layout begins with the layout of another one begins with its rows.
        """
        return [
            [data_file(f), f.deletion_file.path(i) if f.deletion_file is not None else "", f.num_rows]
            for i, f in self.fragments.items()
        ]

    def find(self, where: str, columns: Sequence[str] = (), *, by_index: bool = True) -> tuple[Places, pa.Table]:
        """Places (numbers in scan order) of the rows that a predicate matches, and some columns of them.

        Scalar indexes are used for what they cover, unless `by_index` is False.
        """
        with translate_faults(f"searching {self.path}"):
            rows = self.dataset.scanner(
                columns=list(columns), filter=where, with_row_address=True, use_scalar_index=by_index
            ).to_table()
        return self.places(rows["_rowaddr"].to_numpy().astype(np.uint64)), rows.select(list(columns))

    def places(self, addresses: np.ndarray[Any, np.dtype[np.uint64]]) -> Places:
        """The places of rows that are known by their addresses."""
        owners = (addresses >> np.uint64(32)).astype(np.int64)
        offsets = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
        found = np.empty(len(addresses), np.int64)
        before = 0
        wanted = set(owners.tolist())
        for fragment_id, fragment in self.fragments.items():
            if fragment_id in wanted:
                mine = owners == fragment_id
                gone = self.deleted_offsets(fragment_id)
                if gone is None:
                    gone = self.read_deletions(fragment_id)
                found[mine] = before + offsets[mine] - np.searchsorted(gone, offsets[mine])
            before += fragment.num_rows
        return found

    def take(self, places: Places | Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows at given places, in that order."""
        with translate_faults(f"reading rows of {self.path}"):
            return self.dataset.take(np.asarray(places).tolist(), columns=list(columns))

    def rows_at(self, fragment_id: int, offsets: Sequence[int], columns: list[str]) -> pa.Table:
        """Some columns of rows of one fragment, by their offsets in order. None of them may be deleted."""
        gone = self.deleted_offsets(fragment_id)
        if gone is None:
            gone = self.read_deletions(fragment_id)
        live = (np.asarray(offsets) - np.searchsorted(gone, offsets)).tolist()
        with translate_faults(f"reading rows of {self.path}"):
            return self.dataset.get_fragment(fragment_id).take(live, columns=columns)

    @property
    def stored_rows(self) -> int:
        """Live rows, from the fragments in memory."""
        return sum(f.num_rows for f in self.fragments.values())

    @property
    def is_local(self) -> bool:
        """Whether it lies on a disk of this machine."""
        return "://" not in self.dataset.uri

    def has_index(self, column: str) -> bool:
        """Whether an index of a column covers most of the rows."""
        covered = self.index_coverage().get(f"{column}_idx", frozenset())
        inside = sum(f.num_rows for i, f in self.fragments.items() if i in covered)
        return bool(2 * inside > self.stored_rows)

    def index_plan(self, where: str) -> str:
        """Lance's plan for a predicate, as text."""
        with translate_faults(f"explaining a filter of {self.path}"):
            text: str = self.dataset.scanner(columns=[], filter=where, with_row_address=True).explain_plan()
        return text

    def batches(
        self, columns: Sequence[str] | None = None, *, where: str | None = None, fragments: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows as a stream, of some fragments or all; `where` is SQL over physical columns."""
        with translate_faults(f"reading {self.path}"):
            chosen = None if fragments is None else [self.dataset.get_fragment(i) for i in fragments]
            wanted = list(columns) if columns is not None else None
            yield from self.dataset.scanner(columns=wanted, filter=where, fragments=chosen).to_batches()

    def data_files(self) -> list[str]:
        """Paths, relative to the table, of every data file this version needs."""
        return [f"data/{file.path}" for fragment in self.fragments.values() for file in fragment.files]

    def index_files(self) -> list[str]:
        """Paths, relative to the table, of every file of every index segment this version needs."""
        with translate_faults(f"reading the indexes of {self.path}"):
            return [
                name
                for index in self.dataset.describe_indices()
                for segment in index.segments
                for name in segment_files(str(segment.uuid), index.index_type)
            ]


class TableStore:
    """Opens and creates tables below one root with one shared cache."""

    def __init__(self, root: GraphRoot, options: dict[str, str], durability: Durability) -> None:
        fork_guard.begin()
        self.root = root
        self.options = options or None
        self.durability = durability
        self.files = DataFiles(root, self.options)
        self.digester = FileDigester(root)
        self.shared = SharedIndexes(IndexPages(root, self.options))
        self.session = open_session()
        self._handles: BoundedCache[tuple[str, int], Table] = BoundedCache(_MAX_HANDLES)

    def open(self, path: str, version: int) -> Table:
        """The table at a pin; a pin seen before costs nothing."""
        found = self._handles.get((path, version))
        if found is not None:
            return found
        record("table open")
        with translate_faults(f"opening {path} at version {version}"):
            dataset = lance.dataset(
                self.root.join(path), version=version, storage_options=self.options, session=self.session
            )
        return self.remember(Table(path, dataset, self.shared))

    def known(self, path: str, version: int) -> Table | None:
        """The table at a pin, if it is open."""
        return self._handles.get((path, version))

    def private_handle(self, table: Table) -> LanceDataset:
        """A handle on a table's version that no other code shares."""
        with translate_faults(f"opening {table.path} at version {table.version}"):
            return lance.dataset(
                self.root.join(table.path), version=table.version, storage_options=self.options, session=self.session
            )

    def remember(self, table: Table) -> Table:
        """Keep a handle, so that the next use of its pin opens nothing."""
        return self._handles.put((table.path, table.version), table)

    def create(self, path: str, schema: pa.Schema) -> Table:
        """Create an empty table: two attached versions and a guard tag, the only attached commits it ever gets.

        The tag makes a foreign cleanup of the older version stop with an error, but guarantees nothing.
        """
        with translate_faults(f"creating {path}"):
            dataset = lance.write_dataset(
                schema.empty_table(),
                self.root.join(path),
                mode="create",
                enable_stable_row_ids=True,
                storage_options=self.options,
                session=self.session,
            )
            if self.root.is_local:
                _write_guard_tag(Path(self.root.uri) / path)
            else:
                dataset.tags.create(GUARD_TAG, 1)
            dataset = LanceDataset.commit(
                dataset,
                LanceOperation.Overwrite(schema, []),
                read_version=1,
                max_retries=0,
                storage_options=self.options,
            )
        files = [f"{path}/{version_file(1)}", f"{path}/{version_file(BIRTH_VERSION)}"]
        self.durability.sync_files([*files, f"{path}/_refs/tags/{GUARD_TAG}.json"])
        self.durability.sync_ancestors(path)
        hit(Point.TABLE_CREATED)
        return self.remember(Table(path, dataset, self.shared))

    def head_version(self, path: str) -> int:
        """The version of the table's linear HEAD: anything above the versions of its creation is foreign drift."""
        with translate_faults(f"probing {path}"):
            return int(lance.dataset(self.root.join(path), storage_options=self.options, session=self.session).version)


def _write_guard_tag(table: Path) -> None:
    """Write the guard tag as Lance does. Lance itself would also leave a directory with a percent-encoded name beside a
    root whose path has anything but plain letters in it.
    """
    now = dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "Z")
    size = (table / version_file(1)).stat().st_size
    body: dict[str, Any] = {
        "branch": None,
        "version": 1,
        "createdAt": now,
        "updatedAt": now,
        "manifestSize": size,
        "metadata": {},
    }
    tag = table / "_refs" / "tags" / f"{GUARD_TAG}.json"
    tag.parent.mkdir(parents=True)
    with tag.open("x", encoding="utf-8") as file:
        json.dump(body, file)
