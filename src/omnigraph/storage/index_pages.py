"""Estimating what a BTREE reads for a range of values, from the bounds of its pages.

A segment of a BTREE holds its values in order, some thousands to a page, and lists the least and the greatest value of
every page in a small file. From that file follows how many pages a filter touches before any of them is read: it is the
statistics of an indexed column. It is read once per segment and kept.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileSession

from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.calls import record
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import GraphRoot

if TYPE_CHECKING:
    from omnigraph.storage.tables import Table

_MAX_KEPT = 1 << 18
"""Pages whose bounds are kept in memory: those of a thousand million rows."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Values from `low` to `high`, both included; None leaves a side open. `nulls` means the rows without a value."""

    low: Any = None
    high: Any = None
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class IndexCost:
    """The cost of reading some ranges through an index, and the size of the whole column. `rows` is an upper bound."""

    index_bytes: int
    lookups: int
    column_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class PageBounds:
    """The bounds of the pages of one segment, in order; `null_pages` hold at least one null."""

    lows: list[Any]
    highs: list[Any]
    null_pages: int
    rows_per_page: int

    def touched(self, wanted: ValueRange) -> int:
        """How many pages may hold a value of a range."""
        if wanted.nulls:
            return self.null_pages
        first = 0 if wanted.low is None else bisect_left(self.highs, wanted.low)
        last = len(self.lows) if wanted.high is None else bisect_right(self.lows, wanted.high)
        return max(0, last - first)


class IndexPages:
    """Reads the bounds of index pages below one root; safe to share between threads."""

    def __init__(self, root: GraphRoot, options: dict[str, str] | None) -> None:
        self._root = root
        self._options = options
        self._kept: BoundedCache[str, PageBounds] = BoundedCache(
            most_bytes=_MAX_KEPT, size_of=lambda bounds: len(bounds.lows)
        )

    @cached_property
    def _session(self) -> LanceFileSession:
        return LanceFileSession(self._root.uri, storage_options=self._options)

    def bounds(self, path: str, uuid: str) -> PageBounds:
        """The bounds of the pages of a segment of an index of the table at `path`."""
        found = self._kept.get(uuid)
        if found is not None:
            return found
        record("index bounds read")
        with translate_faults(f"reading an index of {path}"):
            reader = self._session.open_reader(f"{path}/_indices/{uuid}/page_lookup.lance")
            rows = reader.read_all().to_table()
        return self._kept.put(uuid, _bounds_of(rows))


def index_cost(table: Table, column: str, ranges: Sequence[ValueRange]) -> IndexCost:
    """The cost of finding the rows of some ranges in the BTREE of a column."""
    read = found = lookups = 0
    for segment in table.index_parts(column):
        bounds = table.pages.bounds(table.path, segment.uuid)
        touched = sum(bounds.touched(each) for each in ranges)
        total = max(1, len(bounds.lows))
        read += segment.size_bytes * touched // total
        found += touched * bounds.rows_per_page
        lookups += len(ranges)
    whole, rows = column_bytes(table, column), table.stored_rows
    bare = rows - _covered_rows(table, column)
    read += whole * bare // max(1, rows)  # rows that no segment covers are scanned
    return IndexCost(read, lookups, whole, min(rows, found + bare))


def column_bytes(table: Table, column: str) -> int:
    """About how many bytes an indexed column has, from metadata; 0 for one without an index.

    An index holds the values of its column, and a row id of some bits with each.
    """
    covered, rows = _covered_rows(table, column), table.stored_rows
    if not covered:
        return 0
    size = sum(segment.size_bytes for segment in table.index_parts(column))
    values = max(size - covered * math.ceil(math.log2(covered + 1)) // 8, covered // 8)
    return values * rows // covered


def _covered_rows(table: Table, column: str) -> int:
    covered = table.index_coverage().get(f"{column}_idx", frozenset())
    return sum(f.num_rows for i, f in table.fragments.items() if i in covered)


def _bounds_of(rows: pa.Table) -> PageBounds:
    metadata = rows.schema.metadata or {}
    lows, highs = (_plain(rows[name]) for name in ("min", "max"))
    known = [i for i, low in enumerate(lows) if low is not None and highs[i] is not None]
    null_pages = pc.sum(pc.greater(rows["null_count"], 0)).as_py() or 0
    return PageBounds(
        [lows[i] for i in known], [highs[i] for i in known], int(null_pages), int(metadata.get(b"batch_size", 4096))
    )


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Values that sort as they are: moments and days as their stored numbers."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values
