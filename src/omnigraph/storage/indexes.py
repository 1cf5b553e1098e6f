"""Index builds and compaction as detached versions. Physical only: no answer ever changes.

Two traps live here. A new fragment of a `Rewrite` must carry an id that nothing ever used (the high-water mark), or
index lookups lose rows silently. And a key index is extended by a segment of the same name that covers exactly the
fragments it lacked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lance import Index, LanceOperation
from lance.optimize import Compaction, CompactionTask

from omnigraph.storage.crew import HERE, BuildSegment, Crew, segments_over
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translated
from omnigraph.storage.staged import commit_detached
from omnigraph.storage.tables import Table, TableStore

SMALL_FRAGMENT_ROWS = 65_536
SMALL_FRAGMENT_BYTES = 16 << 20
MAX_SEGMENTS = 4


def index_name(column: str) -> str:
    """The name of the BTREE of a column; `id` has the key index."""
    return f"{column}_idx"


def extend_btrees(store: TableStore, base: Table, columns: Sequence[str], crew: Crew = HERE) -> Table:
    """Cover every fragment that the BTREEs of some columns lack, in one version. A covered table stays as it is."""
    segments = missing_segments(store, base, columns, crew)
    if not segments:
        return base
    return commit_detached(store, base, LanceOperation.CreateIndex(segments, []), keeps_indexes=False)


def missing_segments(store: TableStore, table: Table, columns: Sequence[str], crew: Crew = HERE) -> list[Index]:
    """Segments, in no version yet, of what the BTREEs of some columns lack."""
    coverage = table.index_coverage()
    counts = {segments[0].name: len(segments) for segments in index_segments(table, columns) if segments}
    works: list[BuildSegment] = []
    for column in columns:
        name = index_name(column)
        lacking = [i for i in table.fragments if i not in coverage.get(name, frozenset())]
        # A lookup asks every segment, so work is not cut into more of them than an index may have.
        pieces = max(1, min(crew.pieces, MAX_SEGMENTS - counts.get(name, 0)))
        works += segments_over(table, column, name, lacking, pieces)
    return crew.do(store, works) if works else []


def index_segments(table: Table, columns: Sequence[str]) -> list[list[Index]]:
    """The segments of the BTREEs of some columns, a list for each index, in the form that a commit drops them by."""
    names = {index_name(column) for column in columns}
    with translated(f"reading the indexes of {table.path}"):
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


def drop_small_segments(store: TableStore, base: Table, columns: Sequence[str]) -> Table:
    """Forget index segments that cover small fragments only, once there are many of them.

    Their fragments then look alike to the compaction planner and become one fragment under one new segment.
    """
    small = {i for i, f in base.fragments.items() if f.num_rows < SMALL_FRAGMENT_ROWS}
    live = set(base.fragments)
    crowded = [segments for segments in index_segments(base, columns) if len(segments) > MAX_SEGMENTS]
    doomed = [s for segments in crowded for s in segments if live.intersection(s.fragment_ids) <= small]
    return commit_detached(store, base, LanceOperation.CreateIndex([], doomed), keeps_indexes=False) if doomed else base


def fold_tail(
    store: TableStore, base: Table, columns: Sequence[str], known_high_water: int, crew: Crew = HERE
) -> tuple[Table, int]:
    """Merge the small fragments that one-row writes left behind and cover them with the BTREEs of `columns`."""
    table = drop_small_segments(store, base, columns)
    table, mark = compact_small(store, table, known_high_water)
    hit(Point.FOLD_COMPACTED)
    table = extend_btrees(store, table, columns, crew)
    hit(Point.FOLD_INDEXED)
    return table, mark


def high_water(table: Table, known: int) -> int:
    """The largest fragment id ever used: live, claimed by an index, or remembered by the pin."""
    claimed = (i for ids in table.index_coverage().values() for i in ids)
    return max(known, *table.fragments, *claimed, 0)


def compact_small(store: TableStore, base: Table, known_high_water: int) -> tuple[Table, int]:
    """Merge small fragments into larger ones; the new high-water mark comes back with the table."""
    with translated(f"compacting {base.path}"):
        plan = Compaction.plan(
            base.dataset, {"target_rows_per_fragment": SMALL_FRAGMENT_ROWS, "materialize_deletions": False}
        )
        mark = high_water(base, known_high_water)
        groups = []
        for task in filter(_is_worthwhile, plan.tasks):
            result = task.execute(base.dataset)
            fresh = []
            for fragment in result.new_fragments:
                mark += 1
                fresh.append(dataclasses.replace(fragment, id=mark))
            groups.append(LanceOperation.RewriteGroup(task.fragments, fresh))
    if not groups:
        return base, mark
    return commit_detached(store, base, LanceOperation.Rewrite(groups, []), keeps_indexes=False), mark


def _is_worthwhile(task: CompactionTask) -> bool:
    """Few rows can be much data (long texts, vectors): such fragments are not rewritten for being short."""
    sizes = [sum(file.file_size_bytes or 0 for file in fragment.files) for fragment in task.fragments]
    return sum(sizes) < SMALL_FRAGMENT_BYTES * len(sizes)
