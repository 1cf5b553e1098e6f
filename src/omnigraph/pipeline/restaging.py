"""Leave rows out of staged splits. The staged data files are the only source: no input is read twice.

A second read of an input need not give the same rows: a DataFrame may be random, or partitioned in another way when it
is computed again, and a file may have been written over. A row number would then name another row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.execution.spark.frames import public_fields
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.pipeline.rejects import row_data
from omnigraph.pipeline.staging import StagedPart, StagedSplit, StageJob, compact_places, part_of
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.apply_effects import row_batches, write_rows
from omnigraph.storage.effects import WrittenFragment
from omnigraph.write.intake import Gathered, needed_rows
from omnigraph.write.rows import ENDPOINTS, Batch
from omnigraph.write.validation import NOWHERE, Place, Places

Excluded = Mapping[str, set[Place]]
"""Rows to leave out: their places in the input, by table."""

RowData = dict[tuple[str, Place], Mapping[str, Any]]
"""Rows that were left out, as JSON values, by table and place."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The rows to leave out of one staged split, as row numbers by table and path.

    `returns_rows`: the rows themselves are part of the answer, because their places cannot be looked up elsewhere.
    """

    staged: StagedSplit
    rows: Mapping[tuple[str, str | None], Sequence[int]]
    returns_rows: bool


@dataclass(frozen=True, slots=True)
class Restaged:
    """A split without the rows, and the rows if they are wanted."""

    staged: StagedSplit
    rows: RowData = field(default_factory=dict)


Run = Callable[[Callable[[StageJob, Exclusion], Restaged], Sequence[Exclusion]], Sequence[Restaged]]
"""Applies the work to every item, by tasks or in this process."""


def exclude(
    staged: dict[int, StagedSplit], excluded: Excluded, run: Run, returns_rows: Callable[[int], bool]
) -> RowData:
    """Replace the staged splits that hold some rows by splits without them; return the rows that are wanted.

    `returns_rows` returns whether the rows of a split, given by number, are wanted. Raises the error of a split.
    """
    by_path: dict[tuple[str, str | None], list[int]] = {}
    for key, places in excluded.items():
        for path, row in places:
            by_path.setdefault((key, path), []).append(int(row or 0))
    works = []
    for number in sorted(staged):
        held = {(p.table_key, path) for p in staged[number].parts for path, _ in p.places.parts}
        mine = {name: sorted(by_path[name]) for name in held if name in by_path}
        if mine:
            works.append(Exclusion(staged[number], mine, returns_rows(number)))
    rows: RowData = {}
    for answer in run(restage, works):
        if answer.staged.error is not None:
            raise answer.staged.error
        staged[answer.staged.number] = answer.staged
        rows |= answer.rows
    return rows


def restage(job: StageJob, work: Exclusion) -> Restaged:
    """Write the parts of a staged split again, without some rows."""
    return keep_rows(job, work.staged, lambda part: _kept(part, work.rows), returns_rows=work.returns_rows)


def keep_rows(
    job: StageJob, staged: StagedSplit, kept_of: Callable[[StagedPart], Mask], *, returns_rows: bool = False
) -> Restaged:
    """Write the parts of a staged split again, with the rows of a mask. Parts that keep all rows stay as they are."""
    parts: list[StagedPart] = []
    rows: RowData = {}
    try:
        for part in staged.parts:
            kept = kept_of(part)
            if kept.all():
                parts.append(part)
                continue
            entity = job.store().catalog(job.schema_hash).type_of(part.table_key)
            if returns_rows:
                rows |= _rows_left_out(job, entity, part, kept)
            parts.append(_rewritten(job, entity, staged.number, part, kept))
    except StorageError as error:
        raise TaskRefusal(error) from error  # Spark tries again
    except OmnigraphError as error:
        return Restaged(StagedSplit(staged.number, error=error))
    return Restaged(replace(staged, parts=tuple(parts)), rows)


def _kept(part: StagedPart, rows: Mapping[tuple[str, str | None], Sequence[int]]) -> Mask:
    """Return which rows of a part stay, in their order."""
    masks = [
        ~np.isin(np.asarray(numbers, np.int64), np.asarray(rows.get((part.table_key, path), ()), np.int64))
        for path, numbers in part.places.parts
    ]
    return np.concatenate(masks) if masks else np.ones(0, np.bool_)


def _batches(job: StageJob, part: StagedPart, chosen: Mask) -> Iterator[pa.RecordBatch]:
    """Yield the chosen rows of a part, from its data files."""
    first = 0
    for batch in row_batches(job.store().tables, job.table(part.table_key), part.fragments):
        mine = chosen[first : first + batch.num_rows]
        first += batch.num_rows
        if mine.any():
            yield batch if mine.all() else batch.filter(pa.array(mine))


def _rewritten(job: StageJob, entity: EntityType, number: int, part: StagedPart, kept: Mask) -> StagedPart:
    needed: list[pa.Table] = []

    def passing() -> Iterator[pa.RecordBatch]:
        for batch in _batches(job, part, kept):
            table = pa.Table.from_batches([batch])
            needed.append(needed_rows(Batch(entity, table, NOWHERE, part.fresh_ids)))
            yield batch

    fragments: tuple[WrittenFragment, ...] = ()
    if kept.any():
        reader = pa.RecordBatchReader.from_batches(entity.arrow_schema, passing())
        fragments = write_rows(job.store().tables, job.table(part.table_key), reader)
    mine = Gathered(
        entity, needed=needed, places=_some(part.places, kept), fresh_ids=part.fresh_ids, count=int(kept.sum())
    )
    return part_of(job, number, mine, fragments)


def _some(places: Places, kept: Mask) -> Places:
    first = 0
    parts: list[tuple[str | None, Sequence[int]]] = []
    for path, numbers in places.parts:
        mine = kept[first : first + len(numbers)]
        first += len(numbers)
        parts.append((path, np.asarray(numbers, np.int64)[mine].tolist()))
    return compact_places(Places(tuple(parts)))


def _rows_left_out(job: StageJob, entity: EntityType, part: StagedPart, kept: Mask) -> RowData:
    names = {physical: ENDPOINTS.get(name, name) for name, physical, _ in public_fields(entity)}
    places = list(_some(part.places, ~kept))
    found = (row for batch in _batches(job, part, ~kept) for row in batch.to_pylist())
    return {
        (part.table_key, place): row_data({names[name]: value for name, value in row.items()})
        for place, row in zip(places, found, strict=True)
    }
