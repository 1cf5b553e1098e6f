"""Staging: effects become detached table versions and the `TableChange`s of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from omnigraph.storage.apply_effects import Staged, apply_effect, durable_files, write_and_apply
from omnigraph.storage.digests import Digests, move_to_ledger
from omnigraph.storage.effects import (
    AppendRows,
    Compacted,
    Effect,
    MaskRows,
    OverwriteRows,
    ReplaceRows,
    Reshape,
    UnwrittenRows,
    WrittenFragment,
)
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.indexes import high_water
from omnigraph.storage.layout import CHANGES, detached_file, fnv1a64, pin_file
from omnigraph.storage.needed_files import needed_files
from omnigraph.storage.tables import Table
from omnigraph.versioning.plan import UNSTAGED, TableChange
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import GraphStore

MAX_INLINE_NAMES = 100


def open_table(store: GraphStore, entry: TableEntry) -> Table:
    """The table at an entry's pin."""
    return store.tables.open(entry.location, entry.staged_version)


def entry_at_birth(store: GraphStore, table: Table, table_key: str, type_id: str, commit_id: str) -> TableEntry:
    """The pin of a new, empty table."""
    digest = store.tables.digester.record(f"{table.path}/{pin_file(table.version)}")
    return TableEntry(
        table_key=table_key, type_id=type_id, location=table.path, table_version=1, staged_version=table.version,
        content_version=commit_id, row_count=0, commit_id=commit_id, digests=Digests(digest),
    )  # fmt: skip


def stage_change(
    store: GraphStore, entry: TableEntry, effect: Effect, commit_id: str, *, beside: Executor | None = None
) -> TableChange:
    """Apply an effect to a pin. Called again, with the same effect, when the pin moved before the publish.

    `beside` is a pool of which the caller is not a worker.
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
    files = tuple(durable_files(staged))
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
        files=files,
        digests=_digests(store, entry, table, files, effect),
    )


def unstaged_change(entry: TableEntry, effect: Effect) -> TableChange:
    """An effect that the publisher will apply to the pin that it finds."""
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
    """A `TableChange` for a physical version that storage has already made from an entry's pin."""
    base = open_table(store, entry)
    old = {*base.data_files(), *base.index_files()}
    fresh = [name for name in (*table.data_files(), *table.index_files()) if name not in old]
    files = tuple(f"{table.path}/{name}" for name in (*fresh, detached_file(table.version)))
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
        files=files,
        digests=_digests(store, entry, table, files, effect),
    )


def extend_digests(
    store: GraphStore, digests: Digests, table: Table, files: Sequence[str], *, has_fewer: bool = False
) -> Digests:
    """The digests of a version, from those of the pin it was made from and the files that are new in it.

    `has_fewer`: some files of the pin may not be needed any more.
    """
    digester = store.tables.digester
    if not digester.is_recording or not files:
        return digests
    own = pin_file(table.version)
    added = digester.record_all(table.path, (name.removeprefix(f"{table.path}/") for name in files))
    extended = digests.extended(added.pop(own), added)
    if has_fewer or extended.is_long:
        return move_to_ledger(store.objects, extended, table.path, table.version, frozenset(needed_files(table)))
    return extended


def _digests(store: GraphStore, entry: TableEntry, table: Table, files: Sequence[str], effect: Effect) -> Digests:
    for fragment in _fragments(effect):
        if fragment.digest is not None:
            store.tables.digester.learn(f"{table.path}/data/{fragment.file}", fragment.digest)
    has_fewer = isinstance(effect, Reshape | Compacted | OverwriteRows)
    return extend_digests(store, entry.digests, table, files, has_fewer=has_fewer)


def _fragments(effect: Effect) -> tuple[WrittenFragment, ...]:
    match effect:
        case AppendRows(fragments) | ReplaceRows(_, fragments) | OverwriteRows(fragments):
            return fragments
        case MaskRows():
            return effect.fragments
        case Reshape() | UnwrittenRows() | Compacted():
            return ()


def _summary(
    store: GraphStore, entry: TableEntry, staged: Staged, commit_id: str, *, physical: bool
) -> Mapping[str, Any]:
    """For the change feed: files added, fragments removed or masked, ids deleted. Long lists go to an object."""
    if physical:
        return {"base": str(entry.staged_version)}
    full: dict[str, Any] = {
        "base": str(entry.staged_version),
        "added": list(staged.added_files),
        "removed": list(staged.removed_fragments),
        "masked": list(staged.masked_fragments),
    }
    if staged.deleted_ids is not None:
        full["deleted_ids"] = list(staged.deleted_ids)
    if sum(len(v) for v in full.values() if isinstance(v, list)) <= MAX_INLINE_NAMES:
        return full
    # The staged version is in the name: a restaged change has another list.
    path = f"{CHANGES}/{commit_id}/{fnv1a64(entry.table_key)}-{staged.table.version}.json"
    store.objects.put_new_json(path, full)
    hit(Point.CHANGES_WRITTEN)
    return {"base": full["base"], "file": path}
