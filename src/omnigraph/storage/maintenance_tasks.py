"""Maintenance cut into tasks that any process with the table's files can do: merge fragments, build an index segment.

A task is data: it names a version of a table, and its result is data too. Nothing of it is visible, so a task that
fails, or is done twice, leaves only files that no version names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, assert_never

from omnigraph.errors import MissingData
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.tables import Table, TableStore


@dataclass(frozen=True, slots=True)
class MergeFragments:
    """One task of a compaction plan; returns the new fragments, without ids."""

    path: str
    version: int
    task: Any


@dataclass(frozen=True, slots=True)
class BuildSegment:
    """The segment of an index over some fragments; returns its description."""

    path: str
    version: int
    column: str
    kind: str
    name: str
    extends: bool
    fragments: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


_AT_ONCE = 8
ROWS_PER_PIECE = 1 << 22
"""A lookup searches every segment of an index, so only large ones are cut."""
Work = MergeFragments | BuildSegment


@dataclass(frozen=True, slots=True)
class TaskPool:
    """Executes tasks. `pieces`: into how many segments an index over many fragments may be cut."""

    do: Callable[[TableStore, Sequence[Work]], list[Any]]
    pieces: int = 1


def perform(store: TableStore, work: Work) -> Any:
    """Do one task, with a handle of its own: building an index locks it, and others may be reading the table."""
    handle = store.private_handle(store.open(work.path, work.version))
    match work:
        case MergeFragments(path, _, task):
            with translate_faults(f"compacting {path}"):
                return list(task.execute(handle).new_fragments)
        case BuildSegment():
            try:
                return _build(handle, work)
            except MissingData:  # cleanup has removed the empty directory between its making and the first file in it
                return _build(handle, work)
        case _:
            assert_never(work)


def _build(handle: Any, work: BuildSegment) -> Any:
    with translate_faults(f"indexing {work.column} of {work.path}"):
        return handle.create_index_uncommitted(
            work.column, work.kind, name=work.name, replace=work.extends, fragment_ids=list(work.fragments),
            **work.options,
        )  # fmt: skip


def _here(store: TableStore, works: Sequence[Work]) -> list[Any]:
    # Merging holds rows in memory: one at a time. Segments are sorted in parallel.
    if len(works) < 2 or any(isinstance(work, MergeFragments) for work in works):
        return [perform(store, work) for work in works]
    with ThreadPoolExecutor(max_workers=min(len(works), _AT_ONCE)) as pool:
        return list(pool.map(lambda work: perform(store, work), works))


LOCAL_POOL = TaskPool(_here)
"""Runs the tasks in this process."""


def segments_over(table: Table, column: str, name: str, fragments: Sequence[int], pieces: int) -> list[BuildSegment]:
    """The tasks that cover fragments with a BTREE, at most `pieces` of about equal rows."""
    rows = sum(table.fragments[i].num_rows for i in fragments)
    pieces = min(pieces, rows // ROWS_PER_PIECE)
    groups: list[list[int]] = [[]]
    filled = 0
    for fragment_id in fragments:
        if groups[-1] and len(groups) < pieces and filled >= rows * len(groups) / pieces:
            groups.append([])
        groups[-1].append(fragment_id)
        filled += table.fragments[fragment_id].num_rows
    extends = name in table.index_coverage()
    return [
        BuildSegment(table.path, table.version, column, "BTREE", name, extends, tuple(group))
        for group in groups
        if group
    ]
