"""`stats`: how large a graph is, how its rows lie, and what a cleanup would free. Reads metadata and listings only."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.maintenance.cleanup import CleanupPolicy, cleanup
from omnigraph.maintenance.indices import index_status
from omnigraph.storage.tracing import TableListing, files_of, is_named, list_table
from omnigraph.versioning.history import walk
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table

KEPT = 10
"""The garbage estimate is what `cleanup --keep 10` would free."""


@dataclass(frozen=True, slots=True)
class TableStats:
    """One table at the head of a branch. `live_bytes` is what this version needs, `bytes` all that lies there."""

    table_key: str
    rows: int
    deleted_rows: int
    fragments: int
    uncovered_fragments: int
    index_coverage: float
    versions: int
    live_bytes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GraphStats:
    """A graph. `history_depth` counts the commits of the branch, `history_files` those settled out of the manifest."""

    branch: str
    tables: tuple[TableStats, ...]
    branches: int
    tags: int
    history_depth: int
    history_files: int
    manifest_versions: int
    manifest_bytes: int
    live_bytes: int
    bytes: int
    garbage_bytes: int


def stats(repository: Repository, branch: str = MAIN) -> GraphStats:
    """Measure a graph as seen from one branch."""
    state = repository.head(branch)
    objects = repository.store.objects
    coverage: dict[str, list[float]] = {}
    for status in index_status(repository, branch):
        coverage.setdefault(status.table_key, []).append(status.covered_rows / status.rows if status.rows else 1.0)
    tables = tuple(
        _table(repository, entry, min(coverage.get(key, [1.0]))) for key, entry in sorted(state.tables.items())
    )
    manifests = objects.list("__manifest/")
    garbage = cleanup(repository, CleanupPolicy(keep=KEPT))
    return GraphStats(
        branch=branch,
        tables=tables,
        branches=len(repository.refs.list()),
        tags=len(repository.tags.list()),
        history_depth=sum(1 for _ in walk(objects, state)),
        history_files=len(state.extents),
        manifest_versions=sum(info.path.endswith(".manifest") for info in manifests),
        manifest_bytes=sum(info.size for info in manifests),
        live_bytes=sum(table.live_bytes for table in tables),
        bytes=sum(info.size for info in objects.list("")),
        garbage_bytes=garbage.bytes_removed,
    )


def _table(repository: Repository, entry: TableEntry, coverage: float) -> TableStats:
    table = open_table(repository.store, entry)
    listing = list_table(repository.store.objects, entry.location)
    fragments = table.fragments.values()
    return TableStats(
        table_key=entry.table_key,
        rows=entry.row_count,
        deleted_rows=sum(f.physical_rows - f.num_rows for f in fragments),
        fragments=len(fragments),
        uncovered_fragments=len(table.uncovered_fragments),
        index_coverage=coverage,
        versions=len(listing.detached),
        live_bytes=_live_bytes(repository, entry, listing),
        bytes=sum(info.size for info in listing.objects),
    )


def _live_bytes(repository: Repository, entry: TableEntry, listing: TableListing) -> int:
    needed = files_of(repository.store.tables, entry.location, entry.staged_version)
    pin = listing.detached.get(entry.staged_version)
    own = pin.size if pin is not None else 0
    return own + sum(info.size for info in listing.objects if is_named(info.path, needed))
