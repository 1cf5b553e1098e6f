"""Finding the rows that differ between two versions of a table, from their files.

Data files are immutable: a file that both versions hold, with the same deletions, cannot hold a changed row. So only
files that one version lacks are read, and of files whose deletions differ only the rows that were added or removed.
Compaction replaces files, but rows keep their row ids: where both versions are of one line, row ids identify equal rows
without reading any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph.storage.faults import translate_faults
from omnigraph.storage.tables import Table

FEW_ROWS = 4096
"""Up to this number, reading and comparing rows is cheaper than comparing their row ids."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that only the older version holds, and rows that only the newer one holds. An update is in both."""

    removed: pa.Table
    added: pa.Table


@dataclass(frozen=True, slots=True)
class _Held:
    fragment: int
    deletions: str | None


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Positions of rows in one version of a table: whole fragments, and single rows of others."""

    whole: tuple[int, ...] = ()
    some: Mapping[int, np.ndarray] = field(default_factory=dict)

    def count(self, table: Table) -> int:
        """How many rows these are."""
        return sum(self._sizes(table).values())

    def split(self, table: Table, rows: int) -> Iterator[RowPlaces]:
        """The same positions in parts of about so many rows, for readers in several processes."""
        sizes = self._sizes(table)
        mine: list[int] = []
        filled = 0
        for fragment, size in sizes.items():
            if mine and filled + size > rows:
                yield self._of(mine)
                mine, filled = [], 0
            mine.append(fragment)
            filled += size
        if mine:
            yield self._of(mine)

    def _sizes(self, table: Table) -> dict[int, int]:
        return {i: table.fragments[i].num_rows for i in self.whole} | {i: len(at) for i, at in self.some.items()}

    def _of(self, fragments: Sequence[int]) -> RowPlaces:
        whole = tuple(i for i in fragments if i not in self.some)
        return RowPlaces(whole, {i: self.some[i] for i in fragments if i in self.some})


def difference(
    base: Table | None, head: Table | None, base_columns: Sequence[str], head_columns: Sequence[str], *,
    by_row_id: bool = False, few_rows: int | None = None,
) -> Difference:  # fmt: skip
    """The rows that differ, each side with its own columns. None is a table that does not exist.

    `by_row_id`: one row id means one row in both versions. True only of a version and its descendants. Up to `few_rows`
    rows of files that differ, by default `FEW_ROWS`, are compared as a whole.
    """
    removed, added = differing_places(base, head, by_row_id=by_row_id, few_rows=few_rows)
    return Difference(read_places(base, base_columns, removed), read_places(head, head_columns, added))


def differing_places(
    base: Table | None, head: Table | None, *, by_row_id: bool = False, few_rows: int | None = None
) -> tuple[RowPlaces, RowPlaces]:
    """Positions of the rows that only the older version holds, and of those that only the newer does. Reads none."""
    if base is None or head is None or base.path != head.path:
        removed, added = (RowPlaces(tuple(table.fragments) if table else ()) for table in (base, head))
        return removed, added
    before, after = _held(base), _held(head)
    gone, came = _masked(base, head, before, after)
    lost = [held.fragment for file, held in before.items() if file not in after]
    fresh = [held.fragment for file, held in after.items() if file not in before]
    few = FEW_ROWS if few_rows is None else few_rows
    if by_row_id and min(_rows(base, lost), _rows(head, fresh)) > few:
        old, new = _row_ids(base, lost), _row_ids(head, fresh)
        gone |= _only_in(old, new)
        came |= _only_in(new, old)
        lost, fresh = [], []
    return RowPlaces(tuple(lost), gone), RowPlaces(tuple(fresh), came)


def everything(
    base: Table | None, head: Table | None, base_columns: Sequence[str], head_columns: Sequence[str]
) -> Difference:
    """All rows of both: exact whatever happened between the two, and the reference for the shorter way."""
    return Difference(_all(base, base_columns), _all(head, head_columns))


def _held(table: Table) -> dict[str, _Held]:
    """Fragments by the data file that holds their ids: later files only add columns."""
    return {
        fragment.files[0].path: _Held(i, fragment.deletion_file.path(i) if fragment.deletion_file else None)
        for i, fragment in table.fragments.items()
    }


def _masked(
    base: Table, head: Table, before: dict[str, _Held], after: dict[str, _Held]
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Positions, by fragment, of rows that were deleted and of rows that are back, in files of both versions."""
    gone: dict[int, np.ndarray] = {}
    came: dict[int, np.ndarray] = {}
    for file, old in before.items():
        new = after.get(file)
        if new is None or new.deletions == old.deletions:
            continue
        was, now = _offsets(base, old.fragment), _offsets(head, new.fragment)
        lost = np.flatnonzero(~np.isin(was, now, assume_unique=True))
        back = np.flatnonzero(~np.isin(now, was, assume_unique=True))
        if len(lost):
            gone[old.fragment] = lost
        if len(back):
            came[new.fragment] = back
    return gone, came


def _offsets(table: Table, fragment: int) -> np.ndarray:
    """The offsets of a fragment's live rows, from its metadata and deletion file alone."""
    with translate_faults(f"reading the deletions of {table.path}"):
        chosen = [table.dataset.get_fragment(fragment)]
        found = table.dataset.scanner(columns=[], with_row_address=True, fragments=chosen).to_table()
    offsets: np.ndarray = found["_rowaddr"].to_numpy() & 0xFFFFFFFF
    return offsets


def _rows(table: Table, fragments: list[int]) -> int:
    return sum(table.fragments[i].num_rows for i in fragments)


def _row_ids(table: Table, fragments: list[int]) -> dict[int, np.ndarray]:
    """The row ids of the live rows of some fragments, from metadata alone."""
    found = {}
    with translate_faults(f"reading the row ids of {table.path}"):
        for i in fragments:
            chosen = [table.dataset.get_fragment(i)]
            rows = table.dataset.scanner(columns=[], with_row_id=True, fragments=chosen).to_table()
            found[i] = rows["_rowid"].to_numpy()
    return found


def _only_in(mine: dict[int, np.ndarray], others: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Positions, by fragment, of the rows whose ids the other side does not have."""
    known = np.concatenate(list(others.values()))
    places = {i: np.flatnonzero(~np.isin(ids, known)) for i, ids in mine.items()}
    return {i: found for i, found in places.items() if len(found)}


def read_places(table: Table | None, columns: Sequence[str], places: RowPlaces) -> pa.Table:
    """The rows at some places."""
    if table is None:
        return pa.table({})
    names = list(columns)
    parts: list[pa.Table] = []
    with translate_faults(f"reading changed rows of {table.path}"):
        if places.whole:
            chosen = [table.dataset.get_fragment(i) for i in places.whole]
            parts.append(table.dataset.scanner(columns=names, fragments=chosen).to_table())
        for fragment, wanted in places.some.items():
            parts.append(table.dataset.get_fragment(fragment).take(wanted.tolist(), columns=names))
    return pa.concat_tables(parts) if parts else _none(table, columns)


def _all(table: Table | None, columns: Sequence[str]) -> pa.Table:
    return pa.table({}) if table is None else table.scan(columns)


def _none(table: Table, columns: Sequence[str]) -> pa.Table:
    return table.schema.empty_table().select(list(columns))
