"""Writing a few rows as one data file, and reading column sizes from the footer of a data file.

Lance's `write_fragments` begins by planning how any number of rows is split over files, which for a single row takes a
third of the time. Rows that certainly fit in one file, and have exactly the columns of a dataset, are written directly.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from lance import LanceDataset
from lance.file import LanceFileSession
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.layout import GraphRoot

_MAX_KNOWN = 1024


class DataFiles:
    """Writes data files below one root."""

    def __init__(self, root: GraphRoot, options: dict[str, str] | None) -> None:
        self._root = root
        self._options = options
        self._sizes: BoundedCache[str, tuple[int, ...]] = BoundedCache(_MAX_KNOWN)

    @cached_property
    def _session(self) -> LanceFileSession:
        return LanceFileSession(self._root.uri, storage_options=self._options)

    def _open_writer(self, path: str, name: str, schema: pa.Schema, version: str) -> Any:
        if "%" not in path:
            return self._session.open_writer(f"{path}/data/{name}", schema=schema, version=version)
        # A session escapes `%` in the paths below it, but not in its own: a branch `a/b` lies at `a%2Fb`.
        own = LanceFileSession(self._root.join(path), storage_options=self._options)
        return own.open_writer(f"data/{name}", schema=schema, version=version)

    def write(self, dataset: LanceDataset, path: str, rows: pa.Table) -> FragmentMetadata:
        """Write rows, which have the columns of a dataset at `path`, and describe the file as Lance would."""
        name = f"{uuid.uuid4().hex}.lance"
        version = dataset.data_storage_version
        writer = self._open_writer(path, name, rows.schema, version)
        writer.write_batch(rows)
        writer.close()
        leaves = list(_leaves(dataset.lance_schema.fields()))
        major, minor = map(int, version.split("."))
        file = DataFile(name, leaves, list(range(len(leaves))), major, minor, writer.size_bytes)
        return FragmentMetadata(id=0, files=[file], physical_rows=rows.num_rows)

    def column_bytes(self, dataset: LanceDataset, path: str, fragment: FragmentMetadata, column: str) -> int:
        """The bytes that a column (no list) has in a fragment of a dataset at `path`, from the footer of its file."""
        wanted = dataset.lance_schema.field(column).id()
        for file in fragment.files:
            if wanted in file.fields:
                sizes = self._column_sizes(f"{path}/data/{file._path}")
                return int(sizes[file.column_indices[file.fields.index(wanted)]])
        return 0  # added to the schema after the fragment was written: null everywhere

    def _column_sizes(self, file: str) -> tuple[int, ...]:
        def read() -> tuple[int, ...]:
            return tuple(each.size_bytes for each in self._session.open_reader(file).file_statistics().columns)

        return self._sizes.get_or_make(file, read)


def _leaves(fields: Iterable[Any]) -> Iterator[int]:
    """Ids of the columns of a file: a list has one for its items and none of its own."""
    for field in fields:
        children = field.children()
        if children:
            yield from _leaves(children)
        else:
            yield field.id()
