"""Gathering batches by type. Large ones are written to data files at once, so memory holds only the columns rules need.

Data files that no published version names are garbage, so writing them before the load is validated costs nothing but
their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.apply_effects import row_batches, write_rows
from omnigraph.storage.effects import WrittenFragment
from omnigraph.storage.tables import Table
from omnigraph.versioning.store import GraphStore
from omnigraph.write.embed import with_vectors
from omnigraph.write.rows import Batch
from omnigraph.write.validation import (
    NOWHERE,
    Findings,
    Mask,
    Place,
    Places,
    TableDelta,
    check_fields,
    needed_columns,
    no_ids,
)


@dataclass(frozen=True, slots=True)
class Write:
    """Rows being written to data files, and their size."""

    fragments: Future[tuple[WrittenFragment, ...]]
    rows: int
    bytes: int


@dataclass(slots=True)
class Gathered:
    """The rows of one type: `held` ones whole, written ones as fragments; `needed` has the columns that rules read."""

    entity: EntityType
    held: list[pa.Table] = field(default_factory=list)
    needed: list[pa.Table] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    places: Places = NOWHERE
    fresh_ids: bool = True
    count: int = 0
    held_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The size that the rows had in memory."""
        return self.held_bytes + sum(write.bytes for write in self.writes)

    @property
    def keys(self) -> pa.Table:
        """The needed columns of all rows."""
        if self.needed:
            return pa.concat_tables(self.needed)
        return self.entity.arrow_schema.empty_table().select(needed_columns(self.entity))

    def delta(self, *, upserts: bool, overwrites: bool) -> TableDelta:
        """The delta of the rows to their table."""
        keys = self.keys
        none = keys.slice(0, 0)
        upserts = upserts and not self.fresh_ids
        return TableDelta(
            entity=self.entity,
            inserted=none if upserts else keys,
            updated=keys if upserts else none,
            removed=no_ids(),
            places=self.places,
            fresh_ids=self.fresh_ids,
            overwrites=overwrites,
            fields_checked=True,
        )

    def exclude(self, mask: Mask) -> None:
        """Leave out the rows, as far as they are in memory, where a mask over all rows is false."""
        self.needed = _filtered(self.needed, mask)
        self.held = _filtered(self.held, mask[len(mask) - sum(rows.num_rows for rows in self.held) :])
        self.held_bytes = sum(rows.nbytes for rows in self.held)
        self.places = self.places.filtered(mask)
        self.count = int(np.count_nonzero(mask))


class Target(Protocol):
    """Where data files are written: the pins of a write."""

    def table(self, table_key: str) -> Table:
        """The table at its pin."""
        ...


class Intake:
    """Takes batches in and returns the gathered rows."""

    def __init__(self, store: GraphStore, target: Target, found: Findings) -> None:
        self._store = store
        self._target = target
        self._found = found
        self._writing: Write | None = None
        self.gathered: dict[str, Gathered] = {}

    def add(self, batch: Batch) -> None:
        """Add a batch; rows that break a rule by themselves are noted and left out."""
        batch = replace(batch, table=with_vectors(batch.entity, batch.table))
        before = len(self._found)
        check_fields(batch.entity, batch.table, batch.places, self._found)
        if len(self._found) > before:
            batch = batch.without(self._found.places(since=before))
        mine = self.gathered.setdefault(batch.entity.table_key, Gathered(batch.entity))
        if not batch.table.num_rows:
            return
        mine.held.append(batch.table)
        mine.needed.append(needed_rows(batch))
        mine.places += batch.places
        mine.fresh_ids = mine.fresh_ids and batch.fresh_ids
        mine.count += batch.table.num_rows
        mine.held_bytes += batch.table.nbytes
        if mine.held_bytes > self._store.settings.load_spill_bytes:
            self._spill(mine)

    def _spill(self, mine: Gathered) -> None:
        """Write the held rows while reading goes on; one write at a time bounds the memory."""
        if self._writing is not None:
            self._writing.fragments.result()
        self._writing = self._begin_write(mine)

    def _begin_write(self, mine: Gathered) -> Write:
        rows, size = pa.concat_tables(mine.held), mine.held_bytes
        mine.held, mine.held_bytes = [], 0
        future = self._store.writers.submit(self._write, mine.entity.table_key, rows)
        mine.writes.append(Write(future, rows.num_rows, size))
        return mine.writes[-1]

    def _write(self, key: str, rows: pa.Table) -> tuple[WrittenFragment, ...]:
        return write_rows(self._store.tables, self._target.table(key), rows)

    def exclude(self, refused: Mapping[str, Iterable[Place]]) -> None:
        """Leave rows out, by table and place. Data files that hold some of them are written again without them."""
        for key, places in refused.items():
            mine = self.gathered[key]
            mask = mine.places.outside(places)
            if mask.all():
                continue
            mine.writes = self._rewritten(key, mine.writes, mask)
            mine.exclude(mask)

    def _rewritten(self, key: str, writes: Sequence[Write], mask: Mask) -> list[Write]:
        first, found = 0, []
        for each in writes:
            fragments = each.fragments.result()
            kept = mask[first : first + each.rows]
            first += each.rows
            rows = int(np.count_nonzero(kept))
            if rows == each.rows:
                found.append(each)
            elif rows:
                future = self._store.writers.submit(self._write_again, key, fragments, kept)
                found.append(Write(future, rows, each.bytes * rows // each.rows))
        return found

    def _write_again(self, key: str, fragments: Sequence[WrittenFragment], kept: Mask) -> tuple[WrittenFragment, ...]:
        table = self._target.table(key)
        batches = row_batches(self._store.tables, table, fragments)
        schema = self.gathered[key].entity.arrow_schema
        reader = pa.RecordBatchReader.from_batches(schema, _chosen(batches, kept))
        return write_rows(self._store.tables, table, reader)

    def few_rows(self) -> Mapping[str, pa.Table] | None:
        """The rows of a load of one type that is held as a whole; None for other loads."""
        if len(self.gathered) != 1:
            return None
        [(key, mine)] = self.gathered.items()
        return {key: pa.concat_tables(mine.held)} if mine.held and not mine.writes else None

    def write_progress(self, progress: Listener | None) -> PhaseProgress:
        """The phase `write` of a load, in bytes of the rows in memory; rows written while reading count as done."""
        total = sum(mine.bytes for mine in self.gathered.values())
        return PhaseProgress(progress, "write", total, "bytes")

    def fragments(self, progress: Listener | None = None) -> Mapping[str, tuple[WrittenFragment, ...]]:
        """Data files of every row, by table."""
        for mine in self.gathered.values():
            if mine.held:
                self._begin_write(mine)
        writes = {write.fragments: write for mine in self.gathered.values() for write in mine.writes}
        with self.write_progress(progress) as phase:
            for future in as_completed(writes):
                future.result()
                phase.advance(writes[future].bytes, writes[future].rows)
        return {
            key: tuple(fragment for write in mine.writes for fragment in write.fragments.result())
            for key, mine in self.gathered.items()
        }


def _filtered(tables: Sequence[pa.Table], mask: Mask) -> list[pa.Table]:
    """Of each table the rows where a mask over all of them is true. Tables that lose all rows are left out."""
    first, found = 0, []
    for table in tables:
        mine = mask[first : first + table.num_rows]
        first += table.num_rows
        if mine.any():
            found.append(table if mine.all() else table.filter(pa.array(mine)))
    return found


def _chosen(batches: Iterable[pa.RecordBatch], mask: Mask) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        mine = mask[first : first + batch.num_rows]
        first += batch.num_rows
        if mine.any():
            yield batch.filter(pa.array(mine))


def needed_rows(batch: Batch) -> pa.Table:
    """The columns that rules read. Ids that were minted here cannot break one, so they need no room."""
    needed = batch.table.select(needed_columns(batch.entity))
    ids = pa.nulls(needed.num_rows, pa.string()) if batch.fresh_ids else needed["id"]
    return needed.set_column(0, pa.field("id", pa.string()), ids)  # nullable in all batches: some may bring ids
