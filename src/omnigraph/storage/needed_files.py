"""The files that versions of a table need, and the files that exist: the facts by which a collector decides.

Lance's own cleanup works on a table's linear HEAD and would destroy detached versions, so this module reads the
versions that are kept and names their files. Nothing is deleted here.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import CorruptGraph, MissingData
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.objects import ObjectInfo, ObjectStore
from omnigraph.storage.tables import Table, TableStore

_DETACHED = re.compile(r"/_versions/d(\d+)\.manifest$")
_TEMPORARY = re.compile(r"#\d+$")
_KEPT_PARTS = ("_refs/",)


@dataclass(frozen=True, slots=True)
class TableListing:
    """All objects of one table directory. `detached` maps each detached version to its file."""

    path: str
    objects: tuple[ObjectInfo, ...]
    detached: dict[int, ObjectInfo]

    @property
    def other(self) -> Iterator[ObjectInfo]:
        """Everything but version files and references."""
        for info in self.objects:
            inner = info.path[len(self.path) + 1 :]
            if not inner.startswith(("_versions/", *_KEPT_PARTS)):
                yield info


def list_table(objects: ObjectStore, path: str) -> TableListing:
    """One table directory."""
    return _listing(path, tuple(objects.list(f"{path}/")))


def listings_of(everything: Iterable[ObjectInfo], paths: Collection[str]) -> dict[str, TableListing]:
    """Some table directories, out of a listing of the whole graph."""
    found: dict[str, list[ObjectInfo]] = {path: [] for path in paths}
    for info in everything:
        path = "/".join(info.path.split("/")[:2])
        if path in found:
            found[path].append(info)
    return {path: _listing(path, tuple(objects)) for path, objects in found.items()}


def _listing(path: str, found: tuple[ObjectInfo, ...]) -> TableListing:
    detached = {int(match[1]): info for info in found if (match := _DETACHED.search(info.path))}
    return TableListing(path, found, detached)


def table_paths(objects: ObjectStore) -> list[str]:
    """Every table directory, live or not."""
    found = {"/".join(info.path.split("/")[:2]) for kind in ("nodes", "edges") for info in objects.list(f"{kind}/")}
    return sorted(found)


def files_of(store: TableStore, path: str, version: int) -> frozenset[str]:
    """Every object, relative to the root, that one version needs. Indexes count by directory: a name ending in `/`."""
    table = store.open(path, version)
    found = {f"{path}/{name}" for name in table.data_files()}
    found.update(_deletions(table))
    with translate_faults(f"reading the indexes of {path}"):
        for index in table.dataset.describe_indices():
            found.update(f"{path}/_indices/{segment.uuid}/" for segment in index.segments)
    return frozenset(found)


def needed_files(table: Table) -> list[str]:
    """Every file of one version but its own, index files by name, relative to the table."""
    deletions = (name.removeprefix(f"{table.path}/") for name in _deletions(table))
    with translate_faults(f"reading the indexes of {table.path}"):
        return [*table.data_files(), *deletions, *table.index_files()]


def readable_files_of(store: TableStore, path: str, version: int) -> frozenset[str] | None:
    """`files_of`, or None for a version that cannot be read any more."""
    try:
        return files_of(store, path, version)
    except (MissingData, CorruptGraph):
        return None


def _deletions(table: Table) -> Iterator[str]:
    for fragment_id, fragment in table.fragments.items():
        if fragment.deletion_file is not None:
            yield f"{table.path}/{fragment.deletion_file.path(fragment_id)}"


def is_named(path: str, files: Container[str]) -> bool:
    """Whether an object is one of some files, or lies in one of their index directories."""
    if path in files:
        return True
    parts = path.split("/_indices/")
    return len(parts) == 2 and f"{parts[0]}/_indices/{parts[1].split('/', 1)[0]}/" in files


def half_written(objects: ObjectStore) -> Iterator[ObjectInfo]:
    """Files of puts that a killed process did not finish. Listings hide them; only a local disk has any."""
    if not objects.root.is_local:
        return
    root = Path(objects.root.uri)
    for folder, _, names in os.walk(root):
        for name in names:
            if _TEMPORARY.search(name):
                file = Path(folder) / name
                try:
                    facts = file.stat()
                except FileNotFoundError:
                    continue
                modified = dt.datetime.fromtimestamp(facts.st_mtime, dt.UTC)
                yield ObjectInfo(file.relative_to(root).as_posix(), facts.st_size, modified)
