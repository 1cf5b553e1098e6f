"""Index builds and compaction as detached versions. Physical only: no answer ever changes.

Two rules are easily broken here. A new fragment of a `Rewrite` must carry an id that was never used (above the
high-water mark), or index lookups lose rows silently. And a key index is extended by a segment of the same name that
covers exactly the fragments it lacked.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from lance import Index
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionTask

from omnigraph.storage.apply_effects import commit_indexes, commit_rewrite
from omnigraph.storage.effects import Compacted, Rewritten
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, BuildSegment, TaskPool, segments_over
from omnigraph.storage.tables import Table, TableStore

SMALL_FRAGMENT_ROWS = 65_536
SMALL_FRAGMENT_BYTES = 16 << 20
MAX_SEGMENTS = 4
_ID_GAP = 256
"""New fragment ids leave room for this many appends by other writers while the fold runs."""


def index_name(column: str) -> str:
    """The name of the BTREE of a column; for `id`, that of the key index."""
    return f"{column}_idx"


def missing_segments(
    store: TableStore,
    table: Table,
    columns: Sequence[str],
    pool: TaskPool = LOCAL_POOL,
    more: Sequence[BuildSegment] = (),
) -> list[Index]:
    """Build segments, in no version yet, for what the BTREEs of some columns lack, and those of `more`."""
    coverage = table.index_coverage()
    counts = {segments[0].name: len(segments) for segments in index_segments(table, columns) if segments}
    works = list(more)
    for column in columns:
        name = index_name(column)
        lacking = [i for i in table.fragments if i not in coverage.get(name, frozenset())]
        # A lookup searches every segment, so work is not cut into more of them than an index may have.
        pieces = max(1, min(pool.pieces, MAX_SEGMENTS - counts.get(name, 0)))
        works += segments_over(table, column, name, lacking, pieces)
    return pool.do(store, works) if works else []


def index_segments(table: Table, columns: Sequence[str]) -> list[list[Index]]:
    """The segments of the BTREEs of some columns, a list for each index, in the form in which a commit drops them."""
    names = {index_name(column) for column in columns}
    with translate_faults(f"reading the indexes of {table.path}"):
        return [
            [
                Index(
                    uuid=str(segment.uuid),
                    name=index.name,
                    fields=list(index.fields),
                    dataset_version=int(segment.dataset_version_at_last_update),
                    fragment_ids=segment.fragment_ids,
                    index_version=int(segment.index_version),
                )
                for segment in index.segments
            ]
            for index in table.dataset.describe_indices()
            if index.name in names
        ]


def fold_tail(
    store: TableStore, base: Table, columns: Sequence[str], known_high_water: int, pool: TaskPool = LOCAL_POOL
) -> tuple[Table, Compacted] | None:
    """Merge the small fragments of one-row writes and cover them with the BTREEs of `columns`.

    Returns the folded table, and the fold as an effect that follows a moving one; None when nothing is left to fold.
    """
    dropped = _crowding_segments(base, columns)
    table = commit_indexes(store, base, dropped=dropped)
    groups = _merged_small(table, high_water(base, known_high_water) + _ID_GAP)
    table = commit_rewrite(store, table, groups)
    hit(Point.FOLD_COMPACTED)
    segments = missing_segments(store, table, columns, pool)
    table = commit_indexes(store, table, segments)
    hit(Point.FOLD_INDEXED)
    return None if table is base else (table, Compacted(tuple(groups), tuple(dropped), tuple(segments)))


def _crowding_segments(base: Table, columns: Sequence[str]) -> list[Index]:
    """Index segments that cover small fragments only, once there are many of them.

    Without them the compaction planner treats their fragments alike and merges them into one, under one new segment.
    """
    small = {i for i, f in base.fragments.items() if f.num_rows < SMALL_FRAGMENT_ROWS}
    live = set(base.fragments)
    crowded = [segments for segments in index_segments(base, columns) if len(segments) > MAX_SEGMENTS]
    return [s for segments in crowded for s in segments if live.intersection(s.fragment_ids) <= small]


def _merged_small(table: Table, after: int) -> list[Rewritten]:
    """Merge small fragments: each group with the larger fragments that replace it."""
    with translate_faults(f"compacting {table.path}"):
        plan = Compaction.plan(
            table.dataset, {"target_rows_per_fragment": SMALL_FRAGMENT_ROWS, "materialize_deletions": False}
        )
        tasks = [task for task in plan.tasks if _is_worthwhile(task)]
        return number_fragments(table, tasks, [task.execute(table.dataset).new_fragments for task in tasks], after)


def number_fragments(
    table: Table, tasks: Sequence[CompactionTask], merged: Sequence[Sequence[FragmentMetadata]], after: int
) -> list[Rewritten]:
    """The results of a compaction's tasks, with fragment ids above a given one."""
    ids = itertools.count(after + 1)
    return [
        Rewritten(
            tuple(table.fragments[f.id] for f in task.fragments),
            tuple(dataclasses.replace(fragment, id=next(ids)) for fragment in fragments),
        )
        for task, fragments in zip(tasks, merged, strict=True)
    ]


def high_water(table: Table, known: int) -> int:
    """The largest fragment id ever used: live, claimed by an index, or remembered by the pin."""
    claimed = (i for ids in table.index_coverage().values() for i in ids)
    return max(known, *table.fragments, *claimed, 0)


def _is_worthwhile(task: CompactionTask) -> bool:
    """Whether a task is worth its data: few rows can be much data (long texts, vectors), which is not rewritten."""
    sizes = [sum(file.file_size_bytes or 0 for file in fragment.files) for fragment in task.fragments]
    return sum(sizes) < SMALL_FRAGMENT_BYTES * len(sizes)
