"""Indexes beyond the key: BTREE of scalars and IVF of vectors, and their coverage.

An index is extended to new fragments by a segment of its own. All segments that a table lacks are built before any is
committed, and are committed in one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from lance import Index

from omnigraph.storage.faults import translate_faults
from omnigraph.storage.indexes import MAX_SEGMENTS, index_name, index_segments
from omnigraph.storage.maintenance_tasks import BuildSegment
from omnigraph.storage.table_memory import Places
from omnigraph.storage.tables import Table, TableStore

Kind = Literal["btree", "vector"]
MIN_VECTORS = 256
"""Fewer vectors are not clustered; comparing all of them is faster anyway."""

TOO_FEW = f"compared one by one; indexed from {MIN_VECTORS} vectors on"
LONG_TEXT = 128
"""Average stored bytes per text from which on texts are not sorted."""


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that a schema declares, on a physical column. `is_text`: of free text, which may be too long to sort."""

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

    An index that exists stays. The largest fragment is taken as typical of all.
    """
    if not wanted.is_text or not table.fragments or wanted.name in table.index_coverage():
        return True
    largest = max(table.fragments.values(), key=lambda fragment: fragment.physical_rows)
    with translate_faults(f"measuring {wanted.column} of {table.path}"):
        size = store.files.column_bytes(table.dataset, table.path, largest, wanted.column)
    return bool(size <= LONG_TEXT * largest.physical_rows)


def uncovered_fragments(table: Table, wanted: WantedIndex) -> list[int]:
    """Fragments that an index does not cover."""
    covered = table.index_coverage().get(wanted.name, frozenset())
    return [i for i in table.fragments if i not in covered]


def rows_of(table: Table, fragments: list[int]) -> int:
    """Live rows of some fragments."""
    return sum(table.fragments[i].num_rows for i in fragments)


def vector_work(table: Table, wanted: WantedIndex) -> tuple[list[BuildSegment], str | None]:
    """The tasks that cover a table with a vector index; or none, with the reason why there is nothing to build yet.

    Once there is an index, every uncovered fragment is covered: too few vectors to be clustered are one cluster.
    """
    lacking = uncovered_fragments(table, wanted)
    if not lacking:
        return [], None
    is_new = wanted.name not in table.index_coverage()
    # If all rows together would be too few, no vector has to be counted.
    vectors = 0 if is_new and rows_of(table, lacking) < MIN_VECTORS else _vectors(table, wanted.column, lacking)
    if is_new and vectors < MIN_VECTORS:
        return [], TOO_FEW
    options: dict[str, Any] = {"metric": wanted.metric, "num_partitions": partitions(vectors)}
    if vectors < MIN_VECTORS:
        width = table.schema.field(wanted.column).type.list_size
        options |= {"num_partitions": 1, "ivf_centroids": np.full((1, width), width**-0.5, np.float32)}
    work = BuildSegment(
        table.path, table.version, wanted.column, "IVF_FLAT", wanted.name, not is_new, tuple(lacking), options
    )
    return [work], None


def crowding_vectors(table: Table, vectors: Sequence[WantedIndex]) -> list[Index]:
    """Segments of vector indexes to be rebuilt as one, since a search reads each of them.

    The largest stays unless the others are half of it: clustering takes long, and is done again as a table doubles.
    """
    found: list[Index] = []
    for segments in index_segments(table, [wanted.column for wanted in vectors]):
        if len(segments) > MAX_SEGMENTS:
            rows = [rows_of(table, [i for i in s.fragment_ids if i in table.fragments]) for s in segments]
            largest = max(range(len(rows)), key=rows.__getitem__)
            keeps = 2 * (sum(rows) - rows[largest]) < rows[largest]
            found += [s for n, s in enumerate(segments) if n != largest or not keeps]
    return found


def _vectors(table: Table, column: str, fragments: list[int]) -> int:
    """How many vectors some fragments hold."""
    with translate_faults(f"counting vectors of {table.path}"):
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
    with translate_faults(f"searching {table.path}"):
        rows = table.dataset.scanner(
            columns=[],
            nearest={
                "column": column, "q": pa.array(np.asarray(vector, np.float32)), "k": limit, "metric": metric,
                "nprobes": probes,
            },
            with_row_address=True,
        ).to_table()  # fmt: skip
    return table.places(rows["_rowaddr"].to_numpy().astype(np.uint64)), rows["_distance"].to_numpy()
