"""Preparing a compaction: fragments merged and their indexes extended, as one effect that follows a moving table.

The work (reading, writing, sorting) is done once, against the pin it began with. The result is data: which fragments
were replaced by which, and index segments that name the new ones by ids far above those that other writers take
meanwhile. Applying it to a newer pin is two or three small commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance import Index
from lance.optimize import Compaction

from omnigraph.storage.apply_effects import commit_indexes, commit_rewrite
from omnigraph.storage.effects import Compacted, Rewritten
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.indexes import MAX_SEGMENTS, high_water, index_segments, missing_segments, number_fragments
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, MergeFragments, TaskPool
from omnigraph.storage.search_indexes import WantedIndex, crowding_vectors, vector_work
from omnigraph.storage.tables import Table, TableStore

TARGET_ROWS = 1 << 20
DELETED_SHARE = 0.1
_ID_GAP = 1024
"""New fragment ids leave room for this many appends by other writers while the compaction runs."""


@dataclass(frozen=True, slots=True)
class CompactionStats:
    """How many fragments were merged into how many."""

    removed: int
    added: int


def prepare(
    store: TableStore, base: Table, columns: Sequence[str], known_high_water: int, *, target_rows: int = TARGET_ROWS,
    pool: TaskPool = LOCAL_POOL, vectors: Sequence[WantedIndex] = (),
) -> tuple[Compacted, CompactionStats] | None:  # fmt: skip
    """Compact a table with the BTREEs of some columns and its vector indexes; None if there is nothing to do."""
    if not base.fragments:
        return None
    table, dropped, is_crowded = _without_segments_in_the_way(store, base, columns, target_rows, vectors)
    groups = _rewritten(store, table, high_water(base, known_high_water) + _ID_GAP, target_rows, pool)
    if not groups and not is_crowded:  # dropping them made no fragments mergeable
        table, dropped = base, []
    table = commit_rewrite(store, table, groups)
    segments = missing_segments(store, table, columns, pool, [w for v in vectors for w in vector_work(table, v)[0]])
    if not groups and not segments:
        return None
    stats = CompactionStats(sum(len(g.old) for g in groups), sum(len(g.new) for g in groups))
    return Compacted(tuple(groups), tuple(dropped), tuple(segments)), stats


def _rewritten(store: TableStore, table: Table, after: int, target_rows: int, pool: TaskPool) -> list[Rewritten]:
    with translate_faults(f"compacting {table.path}"):
        handle = store.private_handle(table)
        plan = Compaction.plan(
            handle,
            {
                "target_rows_per_fragment": target_rows,
                "materialize_deletions": True,
                "materialize_deletions_threshold": DELETED_SHARE,
            },
        )
    merged = pool.do(store, [MergeFragments(table.path, table.version, task) for task in plan.tasks])
    return number_fragments(table, plan.tasks, merged, after)


def _without_segments_in_the_way(
    store: TableStore, base: Table, columns: Sequence[str], target_rows: int, vectors: Sequence[WantedIndex]
) -> tuple[Table, list[Index], bool]:
    """The table without segments that prevent merging: only fragments that the same segments cover are merged.

    Dropped are the segments of small fragments, where there are several to merge, and all segments of an index that has
    too many, since a lookup searches each. The last value says whether there was such an index.
    """
    small = {i for i, f in base.fragments.items() if f.num_rows < target_rows // 2}
    live = set(base.fragments)
    doomed = crowding_vectors(base, vectors)
    is_crowded = bool(doomed)
    for segments in index_segments(base, columns):
        crowded = len(segments) > MAX_SEGMENTS
        if crowded or len(small) > 1:
            is_crowded |= crowded
            doomed += [s for s in segments if crowded or live.intersection(s.fragment_ids) <= small]
    return commit_indexes(store, base, dropped=doomed), doomed, is_crowded
