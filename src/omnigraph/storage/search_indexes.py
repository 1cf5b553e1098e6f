"""Indexes beyond the key: BTREE of scalars and IVF of vectors, built detached, and what they cover.

All that a table lacks is staged on top of each other and published as one change. An index is extended to new
fragments by a segment of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from lance import LanceOperation

from omnigraph.storage.crew import HERE, BuildSegment, Crew
from omnigraph.storage.faults import translated
from omnigraph.storage.indexes import index_name
from omnigraph.storage.staged import commit_detached
from omnigraph.storage.tables import Places, Table, TableStore

Kind = Literal["btree", "vector"]
MIN_VECTORS = 256
"""Fewer vectors cannot be clustered; comparing all of them is faster anyway."""

LONG_TEXT = 128
"""Stored bytes for each text, on average, from which on texts are not sorted."""


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that a schema asks for, on a physical column. `is_text`: of free text, which may be too long to sort."""

    column: str
    kind: Kind
    metric: str = "l2"
    is_text: bool = False

    @property
    def name(self) -> str:
        """The name of the index in its table."""
        return index_name(self.column)


def is_suitable(store: TableStore, table: Table, wanted: WantedIndex) -> bool:
    """Whether a table should have an index: all but a BTREE of long texts, which would be a copy of them.

    One that is there stays. The largest fragment speaks for the others.
    """
    if not wanted.is_text or not table.fragments or wanted.name in table.index_coverage():
        return True
    largest = max(table.fragments.values(), key=lambda fragment: fragment.physical_rows)
    with translated(f"measuring {wanted.column} of {table.path}"):
        size = store.files.column_bytes(table.dataset, table.path, largest, wanted.column)
    return bool(size <= LONG_TEXT * largest.physical_rows)


def uncovered(table: Table, wanted: WantedIndex) -> list[int]:
    """Fragments that an index does not answer for."""
    covered = table.index_coverage().get(wanted.name, frozenset())
    return [i for i in table.fragments if i not in covered]


def rows_of(table: Table, fragments: list[int]) -> int:
    """Live rows of some fragments."""
    return sum(table.fragments[i].num_rows for i in fragments)


def build_vectors(store: TableStore, base: Table, wanted: WantedIndex, crew: Crew = HERE) -> tuple[Table, str | None]:
    """The table with an index that covers all of it; or as it is, with the reason why that is not possible yet."""
    lacking = uncovered(base, wanted)
    if not lacking:
        return base, None
    vectors = _vectors(base, wanted.column, lacking)
    is_new = wanted.name not in base.index_coverage()
    if vectors < MIN_VECTORS:
        what = f"{vectors} vectors" if is_new else f"{vectors} new vectors, compared one by one"
        return base, f"{what}; an index needs {MIN_VECTORS}"
    options = {"metric": wanted.metric, "num_partitions": partitions(vectors)}
    [segment] = crew.do(
        store,
        [
            BuildSegment(
                base.path, base.version, wanted.column, "IVF_FLAT", wanted.name, not is_new, tuple(lacking), options
            )
        ],
    )
    return commit_detached(store, base, LanceOperation.CreateIndex([segment], []), keeps_indexes=False), None


def _vectors(table: Table, column: str, fragments: list[int]) -> int:
    """How many vectors some fragments hold."""
    with translated(f"counting vectors of {table.path}"):
        chosen = [table.dataset.get_fragment(i) for i in fragments]
        return int(
            table.dataset.scanner(
                columns=[], filter=f"`{column}` IS NOT NULL", fragments=chosen, with_row_id=True
            ).count_rows()
        )


def partitions(vectors: int) -> int:
    """How many clusters: the square root of the number of vectors."""
    return max(1, int(vectors**0.5))


def nearest(table: Table, column: str, vector: Any, limit: int, *, metric: str, probes: int) -> tuple[Places, Any]:
    """Places and distances of the nearest rows, by index where it covers, by comparison elsewhere."""
    with translated(f"searching {table.path}"):
        rows = table.dataset.scanner(
            columns=[],
            nearest={
                "column": column, "q": pa.array(np.asarray(vector, np.float32)), "k": limit, "metric": metric,
                "nprobes": probes,
            },
            with_row_address=True,
        ).to_table()  # fmt: skip
    return table.places(rows["_rowaddr"].to_numpy().astype(np.uint64)), rows["_distance"].to_numpy()
