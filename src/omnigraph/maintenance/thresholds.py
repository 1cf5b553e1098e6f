"""Deciding from metadata whether to optimize: a table's fragments and the coverage of its indexes. Reads no row."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.maintenance.indices import suitable_indexes
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.search_indexes import MIN_VECTORS, rows_of, uncovered_fragments
from omnigraph.storage.tables import Table, TableStore


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds from which on a table is worth the work. Shares are of its rows."""

    small_fragments: int
    deleted_share: float
    uncovered_rows: int
    uncovered_share: float


ANYTHING = Thresholds(small_fragments=2, deleted_share=0.1, uncovered_rows=1, uncovered_share=0.0)
"""The thresholds of a plain `optimize`."""
WORTHWHILE = Thresholds(small_fragments=32, deleted_share=0.2, uncovered_rows=1024, uncovered_share=0.1)
"""The thresholds of `auto`: readers do not notice less."""


def reasons(
    store: TableStore, table: Table, entity: EntityType, wanted: Thresholds, target_rows: int
) -> tuple[str, ...]:
    """Why a table should be optimized; empty when it need not be."""
    fragments = table.fragments.values()
    rows = sum(f.num_rows for f in fragments)
    stored = sum(f.physical_rows for f in fragments)
    small = sum(f.num_rows < target_rows // 2 for f in fragments)
    found = []
    if small >= wanted.small_fragments:
        found.append(f"{small} small fragments")
    if stored and (stored - rows) / stored > wanted.deleted_share:
        found.append(f"{(stored - rows) / stored:.0%} of the rows deleted")
    for name, index in suitable_indexes(store, table, entity):
        if index is None:
            continue
        if index.kind == "vector" and rows < MIN_VECTORS and index.name not in table.index_coverage():
            continue
        bare = rows_of(table, uncovered_fragments(table, index))
        if bare >= wanted.uncovered_rows and bare > wanted.uncovered_share * rows:
            found.append(f"{bare} rows without index {name}")
    return tuple(found)
