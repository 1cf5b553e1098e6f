"""Staging: effects become detached table versions and the `TableChange`s of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from omnigraph.storage.effects import (
    AppendRows,
    Compacted,
    Effect,
    OverwriteRows,
    ReplaceRows,
    Reshape,
    UnwrittenRows,
    WrittenFragment,
)
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.indexes import high_water
from omnigraph.storage.layout import CHANGES, detached_file, fnv1a64
from omnigraph.storage.staged import Staged, apply_effect, durable_files, write_and_apply
from omnigraph.storage.tables import Table
from omnigraph.versioning.plan import UNSTAGED, TableChange
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import GraphStore

MAX_INLINE_NAMES = 100


def open_table(store: GraphStore, entry: TableEntry) -> Table:
    """The table at an entry's pin."""
    return store.tables.open(entry.location, entry.staged_version)


def stage_change(
    store: GraphStore, entry: TableEntry, effect: Effect, commit_id: str, *, beside: Executor | None = None
) -> TableChange:
    """Apply an effect to a pin. Called again, with the same effect, when the pin moved before the publish.

    `beside` is a pool that the caller is not a worker of.
    """
    base = open_table(store, entry)
    if isinstance(effect, UnwrittenRows):
        effect, staged = write_and_apply(store.tables, base, effect, entry.tail, beside)
    else:
        staged = apply_effect(store.tables, base, effect, entry.tail)
    table = staged.table
    tail = entry.tail
    for fragment_id, fragment in zip(staged.new_fragments, _fragments(effect), strict=False):
        tail = tail.extended(fragment_id, fragment.hashes)
    return TableChange(
        table_key=entry.table_key,
        location=entry.location,
        effect=effect,
        base_version=entry.staged_version,
        staged_version=table.version,
        row_count=table.row_count,
        high_water=high_water(table, entry.high_water),
        changes=_summary(store, entry, staged, commit_id, physical=isinstance(effect, Compacted)),
        tail=tail.restricted(table.uncovered_fragments),
        files=tuple(durable_files(staged)),
    )


def unstaged_change(entry: TableEntry, effect: Effect) -> TableChange:
    """An effect that the publisher will apply to whatever pin it finds."""
    return TableChange(
        table_key=entry.table_key,
        location=entry.location,
        effect=effect,
        base_version=entry.staged_version,
        staged_version=UNSTAGED,
        row_count=entry.row_count,
        high_water=entry.high_water,
    )


def stage_reshape(store: GraphStore, entry: TableEntry, table: Table, effect: Reshape | Compacted) -> TableChange:
    """A `TableChange` for a physical version that storage has already made of an entry's pin."""
    base = open_table(store, entry)
    old = {*base.data_files(), *base.index_files()}
    fresh = [name for name in (*table.data_files(), *table.index_files()) if name not in old]
    return TableChange(
        table_key=entry.table_key,
        location=entry.location,
        effect=effect,
        base_version=entry.staged_version,
        staged_version=table.version,
        row_count=table.row_count,
        high_water=high_water(table, entry.high_water),
        changes={"base": str(entry.staged_version)},
        tail=entry.tail.restricted(table.uncovered_fragments),
        files=tuple(f"{table.path}/{name}" for name in (*fresh, detached_file(table.version))),
    )


def _fragments(effect: Effect) -> tuple[WrittenFragment, ...]:
    match effect:
        case AppendRows(fragments) | ReplaceRows(_, fragments) | OverwriteRows(fragments):
            return fragments
        case Reshape() | UnwrittenRows() | Compacted():
            return ()


def _summary(
    store: GraphStore, entry: TableEntry, staged: Staged, commit_id: str, *, physical: bool
) -> Mapping[str, Any]:
    """What the change feed needs: files added, fragments removed or masked, ids deleted. Long lists go to an object."""
    if physical:
        return {"base": str(entry.staged_version)}
    full: dict[str, Any] = {
        "base": str(entry.staged_version),
        "added": list(staged.added_files),
        "removed": list(staged.removed_fragments),
        "masked": list(staged.masked_fragments),
        "deleted_ids": list(staged.deleted_ids),
    }
    if sum(len(v) for v in full.values() if isinstance(v, list)) <= MAX_INLINE_NAMES:
        return full
    # The staged version is in the name: a restaged change is another list.
    path = f"{CHANGES}/{commit_id}/{fnv1a64(entry.table_key)}-{staged.table.version}.json"
    store.objects.put_new_json(path, full)
    hit(Point.CHANGES_WRITTEN)
    return {"base": full["base"], "file": path}
