"""Applying effects: fragments are written once, then committed detached on a pin. Nothing becomes visible here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np
import pyarrow as pa
from lance import Index, LanceDataset, LanceOperation
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import CorruptGraph, Unsupported
from omnigraph.storage.calls import record
from omnigraph.storage.effects import (
    AppendRows,
    Compacted,
    Effect,
    MaskRows,
    OverwriteRows,
    ReplaceRows,
    Reshape,
    Rewritten,
    UnwrittenRows,
    WrittenFragment,
)
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import detached_file
from omnigraph.storage.lookup import locate, remember_append, remember_written
from omnigraph.storage.table_memory import TableMemory
from omnigraph.storage.tables import NO_PLACES, Masked, Table, TableStore, data_file
from omnigraph.storage.tail import Tail, pack_hashes


@dataclass(frozen=True, slots=True)
class Staged:
    """The result of staging one effect. `table` can be opened by its number only: no HEAD leads to it.

    `deleted_ids` None: too many to list.
    """

    table: Table
    added_files: tuple[str, ...] = ()
    removed_fragments: tuple[int, ...] = ()
    masked_fragments: tuple[int, ...] = ()
    deleted_ids: tuple[str, ...] | None = ()
    new_fragments: tuple[int, ...] = ()
    new_index_files: tuple[str, ...] = ()


MAX_HASHED_ROWS = 256
_ROWS_AT_ONCE = 8192
MAX_MASKED = 4096
"""With more masked rows than this, skipping them costs each write more than loading the indexes again."""
_FIRST_DETACHED = 2**63


def write_rows(store: TableStore, base: Table, rows: pa.Table | pa.RecordBatchReader) -> tuple[WrittenFragment, ...]:
    """Write data files for later effects. They are garbage until a version names them."""
    few = isinstance(rows, pa.Table) and rows.num_rows <= MAX_HASHED_ROWS
    ids = rows["id"].to_pylist() if few else []
    hashes = pack_hashes(ids) if few else None
    record("table write")
    with translate_faults(f"writing rows of {base.path}"):
        if few and rows.num_rows and rows.schema.equals(base.dataset.schema):
            written = [store.files.write(base.dataset, base.path, rows)]
        else:  # the handle, not its URI: one request instead of three on an object store
            written = write_fragments(rows, base.dataset, storage_options=store.options)
    if few and len(written) == 1:
        remember_written(data_file(written[0]), ids)
    hit(Point.ROWS_WRITTEN)
    return tuple(_described(store, base, f, hashes) for f in written)


def _described(store: TableStore, base: Table, written: FragmentMetadata, hashes: str | None) -> WrittenFragment:
    name = data_file(written)
    digest = store.digester.record(f"{base.path}/data/{name}")
    return WrittenFragment(written, name, written.physical_rows, hashes, digest)


def read_rows(store: TableStore, base: Table, fragments: Sequence[WrittenFragment], columns: Sequence[str]) -> pa.Table:
    """Read some columns of rows that were written for a table and that no version of it names yet."""
    kinds = pa.schema([base.schema.field(name) for name in columns])
    with translate_faults(f"reading rows of {base.path}"):
        files = [f"{base.dataset.uri}/data/{fragment.file}" for fragment in fragments]
        readers = [LanceFileReader(file, storage_options=store.options, columns=list(columns)) for file in files]
        tables = [reader.read_all().to_table() for reader in readers]
    return pa.concat_tables([kinds.empty_table(), *(table.select(kinds.names).cast(kinds) for table in tables)])


def row_batches(store: TableStore, base: Table, fragments: Sequence[WrittenFragment]) -> Iterator[pa.RecordBatch]:
    """Whole rows that were written for a table and that no version of it names yet, in the order of writing."""
    schema = base.dataset.schema
    with translate_faults(f"reading rows of {base.path}"):
        for fragment in fragments:
            reader = LanceFileReader(f"{base.dataset.uri}/data/{fragment.file}", storage_options=store.options)
            for batch in reader.read_all(batch_size=_ROWS_AT_ONCE).to_batches():
                yield batch.select(schema.names).cast(schema)


def write_and_apply(
    store: TableStore, base: Table, effect: UnwrittenRows, tail: Tail, beside: Executor | None = None
) -> tuple[AppendRows | ReplaceRows, Staged]:
    """`apply_effect` of rows that are in no file yet; returns the effect with its rows in files as well.

    The rows are written on the `beside` pool while the rows they replace are masked.
    """
    if not (effect.ids and effect.rows.num_rows and beside):
        fragments = write_rows(store, base, effect.rows) if effect.rows.num_rows else ()
        known = ReplaceRows(effect.ids, fragments) if effect.ids else AppendRows(fragments)
        return known, apply_effect(store, base, known, tail)
    writing = beside.submit(write_rows, store, base, effect.rows)
    try:
        mask = _mask(base, effect.ids, tail)
    finally:
        writing.exception()  # waits, so that no write is left running
    replaced = ReplaceRows(effect.ids, writing.result())
    return replaced, _update(store, base, replaced.fragments, mask)


def apply_effect(store: TableStore, base: Table, effect: Effect, tail: Tail) -> Staged:
    """Commit an effect, detached, on top of `base`."""
    match effect:
        case AppendRows(fragments):
            return _append(store, base, fragments)
        case ReplaceRows(ids, fragments):
            return _update(store, base, fragments, _mask(base, ids, tail))
        case MaskRows():
            return _masked(store, base, effect)
        case OverwriteRows(fragments):
            return _update(store, base, fragments, _Mask(removed=tuple(base.fragments)))
        case UnwrittenRows():
            raise Unsupported(f"rows of {base.path} are in no file yet")
        case Compacted():
            return Staged(
                commit_compaction(store, base, effect),
                new_fragments=tuple(f.id for g in effect.groups for f in g.new),
                new_index_files=tuple(f"_indices/{s.uuid}/{file.path}" for s in effect.segments for file in s.files),
            )
        case Reshape(note):
            raise Unsupported(f"{note} belongs to one version of {base.path} and cannot be applied to another")
        case _:
            assert_never(effect)


def commit_compaction(store: TableStore, base: Table, effect: Compacted) -> Table:
    """The version after a compaction; `fits` says of which tables that can be made."""
    table = commit_indexes(store, base, dropped=effect.dropped)
    table = commit_rewrite(store, table, effect.groups)
    return commit_indexes(store, table, effect.segments)


def commit_indexes(store: TableStore, base: Table, added: Sequence[Index] = (), dropped: Sequence[Index] = ()) -> Table:
    """The table with some index segments added and dropped; the same table if there are none."""
    if not added and not dropped:
        return base
    return commit_detached(store, base, LanceOperation.CreateIndex(list(added), list(dropped)), keeps_indexes=False)


def commit_rewrite(store: TableStore, base: Table, groups: Sequence[Rewritten]) -> Table:
    """The table with fragments replaced by others that hold the same rows; the same table if there are none."""
    if not groups:
        return base
    replaced = [LanceOperation.RewriteGroup([base.fragments[f.id] for f in g.old], list(g.new)) for g in groups]
    return commit_detached(store, base, LanceOperation.Rewrite(replaced, []), keeps_indexes=False)


def fits(base: Table, effect: Compacted) -> bool:
    """Whether a table still has the merged fragments unchanged, and has not used the new ids."""
    now = base.fragments
    for fragment in (f for group in effect.groups for f in group.old):
        if fragment.id not in now or now[fragment.id].deletion_file != fragment.deletion_file:
            return False
    fresh = [fragment.id for group in effect.groups for fragment in group.new]
    if fresh and min(fresh) <= max(now, default=0):
        return False
    wanted = {str(index.uuid) for index in effect.dropped}
    if not wanted:
        return True
    with translate_faults(f"reading the indexes of {base.path}"):
        live = {str(segment.uuid) for index in base.dataset.describe_indices() for segment in index.segments}
    return wanted <= live


def commit_detached(
    store: TableStore,
    base: Table,
    operation: LanceOperation.BaseOperation,
    *,
    keeps_indexes: bool,
    known: dict[int, FragmentMetadata] | None = None,
    added: int = 0,
    masked: Masked | None = None,
) -> Table:
    """Commit a detached version: the only place where a table version is made. No HEAD moves.

    `keeps_indexes`: only rows were added or removed; `masked` are those removed since the indexes were read. `known`:
    all fragments of the new version but the `added` ones, where the caller has them.
    """
    record("table commit")
    with translate_faults(f"staging a version of {base.path}"):
        dataset = LanceDataset.commit(
            base.dataset, operation, read_version=base.version, detached=True, storage_options=store.options
        )
    hit(Point.TABLE_STAGED)
    fragments = None if known is None else _with_added(dataset, known, added)
    gone = base.masked if masked is None else masked
    if not keeps_indexes or sum(map(len, gone.values())) > MAX_MASKED:
        memory = TableMemory(fragments=fragments)
        return store.remember(_with_deletions(Table(base.path, dataset, store.shared, memory=memory), base, gone))
    memory = TableMemory(base.index_home, fragments)
    return store.remember(Table(base.path, dataset, store.shared, gone, memory))


def _with_deletions(table: Table, base: Table, masked: Masked) -> Table:
    """A version with indexes of its own and the known deletions of its base, extended by `masked`.

    A fragment whose deletions changed by other rows than those in `masked` has no known deletions.
    """
    home = base.index_home
    for fragment_id, fragment in table.fragments.items():
        if fragment.deletion_file is not None and fragment_id in base.fragments:
            if fragment_id not in masked and fragment.deletion_file != base.fragments[fragment_id].deletion_file:
                continue
            before = home.deleted_offsets(fragment_id) if fragment_id in home.fragments else NO_PLACES
            if before is not None:
                gone = np.union1d(before, list(masked.get(fragment_id, ()))).astype(np.int64)
                table.memory.learn_deleted(fragment_id, gone)
    return table


def _with_added(
    dataset: LanceDataset, known: dict[int, FragmentMetadata], added: int
) -> dict[int, FragmentMetadata] | None:
    """Known fragments with the added ones after them; None where storage has numbered the added ones in another way."""
    first = max(known, default=-1) + 1
    fresh = [dataset.get_fragment(i) for i in range(first, first + added)]
    if None in fresh:
        return None
    return {**known, **{f.fragment_id: f.metadata for f in fresh}}


def durable_files(staged: Staged) -> list[str]:
    """Every file, relative to the graph root, that must be on disk before this version may be published."""
    table = staged.table
    if table.version < _FIRST_DETACHED:  # nothing changed: the version is the table's birth
        return []
    if not (
        staged.added_files or staged.masked_fragments or staged.removed_fragments
    ):  # a compaction: data files and indexes it brought
        fresh = [f.path for i in staged.new_fragments for f in table.fragments[i].files]
        found = [*(f"data/{name}" for name in fresh), *staged.new_index_files, detached_file(table.version)]
        return [f"{table.path}/{name}" for name in found]
    files = [f"{table.path}/data/{name}" for name in staged.added_files]
    for fragment_id in staged.masked_fragments:
        deletions = table.fragments[fragment_id].deletion_file
        if deletions is not None:
            files.append(f"{table.path}/{deletions.path(fragment_id)}")
    return [*files, f"{table.path}/{detached_file(table.version)}"]


def _append(store: TableStore, base: Table, fragments: Sequence[WrittenFragment]) -> Staged:
    operation = LanceOperation.Append(_as_written(fragments))
    table = commit_detached(
        store, base, operation, keeps_indexes=True, known=base.fragments, added=len(fragments), masked=base.masked
    )
    staged = _staged(base, table, fragments)
    remember_append(base, table, staged.new_fragments, staged.added_files)
    return staged


@dataclass(frozen=True, slots=True)
class _Mask:
    """Rows to remove: fragments that lose all rows, fragments that lose some, the offsets of those, their ids."""

    removed: tuple[int, ...]
    updated: tuple[FragmentMetadata, ...] = ()
    offsets: Mapping[int, set[int]] = field(default_factory=dict)
    ids: tuple[str, ...] = ()


def _mask(base: Table, ids: Sequence[str], tail: Tail) -> _Mask:
    """Write the deletion files of the rows with some ids, where they exist."""
    found = locate(base, ids, tail)
    positions: dict[int, set[int]] = {}
    for address in found.addresses:
        positions.setdefault(address >> 32, set()).add(address & 0xFFFFFFFF)
    updated: list[FragmentMetadata] = []
    removed: list[int] = []
    for fragment_id, offsets in positions.items():
        after = mask_rows(base, fragment_id, sorted(offsets))
        if after is None:
            removed.append(fragment_id)
        else:
            updated.append(after)
    return _Mask(tuple(removed), tuple(updated), positions, found.ids)


def mask_rows(base: Table, fragment_id: int, offsets: Sequence[int]) -> FragmentMetadata | None:
    """Write the deletion file of a fragment without the rows at some offsets. None: none of its rows is left."""
    with translate_faults(f"masking rows of {base.path}"):
        before = base.fragments[fragment_id]
        after: FragmentMetadata | None = base.dataset.get_fragment(fragment_id).delete_rows(offsets)
        lost = before.num_rows - (0 if after is None else after.num_rows)
        if lost != len(offsets):
            raise CorruptGraph(
                f"{len(offsets)} rows of {base.path} were to be masked and {lost} are there",
                hint="`omnigraph fsck` checks the graph",
            )
    return after


def _masked(store: TableStore, base: Table, effect: MaskRows) -> Staged:
    """A version without rows whose deletion files are written already. Only those files say which rows these are."""
    if base.version != effect.version:
        raise Unsupported(f"rows of version {effect.version} of {base.path} cannot be masked in {base.version}")
    operation = LanceOperation.Update(
        removed_fragment_ids=list(effect.removed),
        updated_fragments=list(effect.updated),
        new_fragments=_as_written(effect.fragments),
    )
    changed = {f.id for f in effect.updated}
    known = {i: offsets for i, offsets in base.masked.items() if i not in changed}
    table = commit_detached(store, base, operation, keeps_indexes=False, masked=known)
    staged = _staged(base, table, effect.fragments)
    return replace(staged, removed_fragments=effect.removed, masked_fragments=tuple(sorted(changed)), deleted_ids=None)


def _update(store: TableStore, base: Table, fragments: Sequence[WrittenFragment], mask: _Mask) -> Staged:
    if not mask.removed and not mask.updated:
        return _append(store, base, fragments) if fragments else Staged(base)
    operation = LanceOperation.Update(
        removed_fragment_ids=list(mask.removed),
        updated_fragments=list(mask.updated),
        new_fragments=_as_written(fragments),
    )
    gone = frozenset(mask.removed)
    changed = {f.id: f for f in mask.updated}
    known = {i: changed.get(i, f) for i, f in base.fragments.items() if i not in gone}
    masked = {**base.masked, **{i: base.masked.get(i, frozenset()) | mask.offsets[i] for i in changed}}
    table = commit_detached(
        store, base, operation, keeps_indexes=True, known=known, added=len(fragments), masked=masked
    )
    staged = _staged(base, table, fragments)
    if base.covered_fragments.issuperset((*changed, *gone)):
        remember_append(base, table, staged.new_fragments, staged.added_files)
    return Staged(
        table=table,
        added_files=staged.added_files,
        new_fragments=staged.new_fragments,
        removed_fragments=mask.removed,
        masked_fragments=tuple(changed),
        deleted_ids=mask.ids,
    )


def _staged(base: Table, table: Table, fragments: Sequence[WrittenFragment]) -> Staged:
    before = base.fragments
    return Staged(
        table=table,
        added_files=tuple(f.file for f in fragments),
        new_fragments=tuple(i for i in table.fragments if i not in before),
    )


def _as_written(fragments: Iterable[WrittenFragment]) -> list[FragmentMetadata]:
    return [f.metadata for f in fragments]
