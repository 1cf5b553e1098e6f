"""`stats`: how large a graph is, how its rows are laid out and, on request, what a cleanup would free.

Reads one listing and the newest state of a branch, whatever the number of versions behind it. To find what a cleanup
would free, a preview of it reads every version, so it is made only on request.
"""

from __future__ import annotations

from omnigraph.api.reports import GraphStats, TableStats
from omnigraph.maintenance.cleanup import CleanupPolicy, cleanup
from omnigraph.maintenance.indices import TEXT, index_status
from omnigraph.storage.needed_files import TableListing, files_of, is_named, listings_of
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table

KEPT = 10
"""Garbage is what `cleanup --keep 10` would free."""


def stats(repository: Repository, branch: str = MAIN, *, garbage: bool = False) -> GraphStats:
    """Measure a graph as seen from one branch. With `garbage`, preview a cleanup too, which reads every version."""
    state = repository.head(branch)
    coverage: dict[str, list[float]] = {}
    for status in index_status(repository, branch):
        if status.kind != TEXT:
            coverage.setdefault(status.table_key, []).append(status.covered_rows / status.rows if status.rows else 1.0)
    everything = repository.store.objects.list("")
    listings = listings_of(everything, {entry.location for entry in state.tables.values()})
    tables = tuple(
        _table(repository, entry, listings[entry.location], min(coverage.get(key, [1.0])))
        for key, entry in sorted(state.tables.items())
    )
    manifests = [info for info in everything if info.path.startswith("__manifest/")]
    return GraphStats(
        branch=branch,
        tables=tables,
        branches=len(repository.refs.list()),
        tags=len(repository.tags.list()),
        history_depth=len(state.commits) + sum(extent.count for extent in state.extents),
        history_files=len(state.extents),
        manifest_versions=sum(info.path.endswith(".manifest") for info in manifests),
        manifest_bytes=sum(info.size for info in manifests),
        live_bytes=sum(table.live_bytes for table in tables),
        bytes=sum(info.size for info in everything),
        garbage_bytes=cleanup(repository, CleanupPolicy(keep=KEPT)).bytes_removed if garbage else None,
    )


def _table(repository: Repository, entry: TableEntry, listing: TableListing, coverage: float) -> TableStats:
    table = open_table(repository.store, entry)
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
