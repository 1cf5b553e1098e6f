"""The work of one task: read a split, check its rows, write them as data files, return the columns that rules need.

Nothing that a task does is visible: its files are garbage until the driver publishes a version that names them. A task
that runs twice, by retry or by speculation, writes twice; only the answer that Spark passes to the driver counts.
"""

from __future__ import annotations

import json
import pickle
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import OmnigraphError, StorageError, Violation
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.execution.spark.workers import store_of
from omnigraph.pipeline.buckets import CutFile, cut
from omnigraph.pipeline.reading import read_split
from omnigraph.pipeline.rejects import with_row
from omnigraph.pipeline.sources import Split
from omnigraph.pipeline.streams import part_streams, streams_of
from omnigraph.storage.apply_effects import read_rows
from omnigraph.storage.effects import WrittenFragment
from omnigraph.storage.layout import STAGING
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.tables import Table
from omnigraph.versioning.store import GraphStore, mint
from omnigraph.write.frames import batch_from_table
from omnigraph.write.inputs.expectations import IGNORE, Expectation
from omnigraph.write.intake import Gathered, Intake
from omnigraph.write.rows import Batch, batch_from_rows, known_columns
from omnigraph.write.validation import Findings, Places, Subject, needed_columns

if TYPE_CHECKING:
    from omnigraph.pipeline.row_selection import Selection


@dataclass(frozen=True, slots=True)
class StageJob:
    """The parameters of all tasks of a load. `pins` are the location and version of each table.

    `cut_rows`: from how many rows on a task cuts them into buckets at once, while it has them; None for never.
    """

    uri: str
    commit_id: str
    schema_hash: str
    pins: Mapping[str, tuple[str, int]]
    limit: int
    cut_rows: int | None = None
    ignore_unknown: bool = False

    def store(self) -> GraphStore:
        """The graph, open in this process."""
        return store_of(self.uri)

    def scratch(self, name: str) -> str:
        """Return a new name in the load's scratch space."""
        return f"{STAGING}/{self.commit_id}/{name}-{mint()}.arrow"

    def table(self, table_key: str) -> Table:
        """Return a table at its pin."""
        return self.store().tables.open(*self.pins[table_key])


@dataclass(frozen=True, slots=True)
class StagedPart:
    """The rows of one type that one task staged. `keys` is the object that holds the columns rules need.

    When there are many rows, `cut` has them in buckets instead; the few rows that are needed again are read from the
    data files.
    """

    table_key: str
    rows: int
    fragments: tuple[WrittenFragment, ...]
    keys: str | None
    places: Places
    fresh_ids: bool
    cut: CutFile | None = None

    @property
    def is_judged(self) -> bool:
        """Return whether any rule between rows reads these rows."""
        return self.keys is not None or self.cut is not None


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """The answer of one task, or the error that stopped it.

    `removed` are ids of rows that events delete, `late` is how many events came too late; both by table. `checks` are
    rows that did not meet an expectation, counted by its name and what it does.
    """

    number: int
    parts: tuple[StagedPart, ...] = ()
    violations: tuple[Violation, ...] = ()
    error: OmnigraphError | None = field(default=None)
    removed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    quarantined: tuple[Violation, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of staged rows."""
        return sum(part.rows for part in self.parts)

    @property
    def paths(self) -> frozenset[str | None]:
        """Return the files of its rows."""
        return frozenset(path for part in self.parts for path, _ in part.places.parts)


@dataclass(slots=True)
class Checks:
    """Collects the results of expectations in one task."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped: list[Violation] = field(default_factory=list)

    def quarantine(
        self, entity: Subject, rule: Expectation, places: Places, rows: Sequence[tuple[int, str | None]]
    ) -> None:
        """Describe rows that an expectation drops, given by their numbers and as JSON."""
        for index, body in rows:
            path, row = places.at(index)
            text = f"{entity.name}: the row does not meet the expectation {rule.name!r}: {rule.rule}"
            data = None if body is None else json.loads(body)
            self.dropped.append(
                Violation(
                    rule="expect", message=text, type_key=entity.table_key, path=path, row=row, data=data,
                    hint=None,
                )
            )  # fmt: skip


def stage_split(job: StageJob, split: Split) -> StagedSplit:
    """Read and stage one split of a file."""
    found = Findings(job.limit)
    catalog = job.store().catalog(job.schema_hash)
    ignore = job.ignore_unknown if split.unknown is None else split.unknown == IGNORE
    return staged_rows(job, split.number, read_split(split, catalog, found, ignore_unknown=ignore), found)


def stage_frame(
    job: StageJob, number: int, type_name: str, batches: Iterable[pa.RecordBatch], place: str,
    selection: Selection | None = None,
) -> StagedSplit:  # fmt: skip
    """Stage one partition of a DataFrame. Its rows are counted from the partition's beginning, `place` in reports.

    Rows of a `selection` have places in files. The batches are read once: computed again, they may hold other rows.
    """
    found, checks = Findings(job.limit), Checks()
    entity = job.store().catalog(job.schema_hash).entity(type_name)

    def typed() -> Iterator[Batch]:
        yield batch_from_rows(entity, [], Places(), found)
        if selection is not None:
            yield from selection.batches(iter(batches), entity, found, checks, ignore_unknown=job.ignore_unknown)
            return
        row = 1
        for batch in batches:
            places = Places(((place, range(row, row + batch.num_rows)),))
            before = len(found)
            rows = pa.Table.from_batches([batch])
            yield batch_from_table(entity, known_columns(entity, rows) if job.ignore_unknown else rows, places, found)
            found.attach_rows(before, partial(with_row, first=row, batch=batch))
            row += batch.num_rows

    staged = staged_rows(job, number, typed(), found)
    return replace(staged, checks=dict(checks.counts), quarantined=tuple(checks.dropped))


def frame_place(source: str, partition: int) -> str:
    """Return the name of a DataFrame's partition in reports."""
    return f"<{source} partition {partition}>"


def staged_rows(job: StageJob, number: int, batches: Iterator[Batch], found: Findings) -> StagedSplit:
    """Check batches, write them, and return their description."""
    intake = Intake(job.store(), job, found)
    try:
        for batch in batches:
            intake.add(batch)
        fragments = intake.fragments()
    except StorageError as error:
        raise TaskRefusal(error) from error  # the store may succeed in the next attempt, which Spark makes
    except OmnigraphError as error:
        # The driver raises the error itself; Spark would show a stack trace of two languages.
        return StagedSplit(number, error=error)
    parts = tuple(part_of(job, number, mine, fragments[key]) for key, mine in intake.gathered.items())
    return StagedSplit(number, parts, tuple(found))


def part_of(job: StageJob, number: int, mine: Gathered, fragments: tuple[WrittenFragment, ...]) -> StagedPart:
    """Write the columns that rules need to the scratch space, and describe the staged rows."""
    wanted = [c for c in needed_columns(mine.entity) if c != "id" or not mine.fresh_ids]
    path = pieces = None
    objects = job.store().objects
    if mine.count and wanted:
        if job.cut_rows is not None and mine.count >= job.cut_rows:
            streams = streams_of(mine.entity, mine.keys, part_streams(mine.entity, mine.fresh_ids))
            pieces = cut(job.scratch("cut"), streams, objects)
        else:
            path = job.scratch(str(number))
            objects.put_new(path, pack_places(mine.keys.select(wanted)), flush=False)
    places = compact_places(mine.places)
    return StagedPart(mine.entity.table_key, mine.count, fragments, path, places, mine.fresh_ids, pieces)


def compact_places(places: Places) -> Places:
    """Return the same places in less memory, since the driver holds those of all tasks: runs become ranges."""
    parts: list[tuple[str | None, Sequence[int]]] = []
    for path, numbers in places.parts:
        run = _run(numbers)
        last = parts[-1] if parts else (None, ())
        if last[0] == path and isinstance(last[1], range) and isinstance(run, range) and last[1].stop == run.start:
            parts[-1] = (path, range(last[1].start, run.stop))
        elif len(run):
            parts.append((path, run))
    return Places(tuple(parts))


def _run(numbers: Sequence[int]) -> Sequence[int]:
    if isinstance(numbers, range):
        return numbers
    dense = np.asarray(numbers, np.int64)
    if len(dense) and (np.diff(dense) == 1).all():
        return range(int(dense[0]), int(dense[-1]) + 1)
    return array("q", dense.tobytes())


def read_keys(store: GraphStore, table: Table, part: StagedPart, columns: Sequence[str]) -> pa.Table:
    """Return the columns that rules need, mapped from local disk if possible; of rows for a table at its pin."""
    if part.cut is not None:
        rows = read_rows(store.tables, table, part.fragments, [c for c in columns if c != "id" or not part.fresh_ids])
        return _with_ids(rows, part, columns)
    rows = pa.table({})
    if part.keys is not None:
        if store.root.is_local:
            rows = ipc.open_file(pa.memory_map(str(Path(store.root.uri) / part.keys))).read_all()
        else:
            rows = unpack_places(store.objects, part.keys)
    return _with_ids(rows, part, columns)


def _with_ids(rows: pa.Table, part: StagedPart, columns: Sequence[str]) -> pa.Table:
    if "id" in columns and "id" not in rows.column_names:  # fresh ids: no rule needs them
        ids = pa.table({"id": pa.nulls(part.rows, pa.string())})
        for field in rows.schema:  # as they are: parts with ids and parts without are put together
            ids = ids.append_column(field, rows[field.name])
        rows = ids
    return rows.select(columns)


def unpack_places(objects: ObjectStore, path: str) -> pa.Table:
    """Decode the rows of an object of `pack_places`."""
    return ipc.open_file(pa.BufferReader(objects.get(path) or b"")).read_all()


def pack_places(table: pa.Table) -> pa.Buffer:
    """Encode rows as the body of an object."""
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def message(staged: StagedSplit) -> bytes:
    """Encode a task's answer as bytes."""
    return pickle.dumps(staged)


def answer(body: bytes) -> StagedSplit:
    """The inverse of `message`."""
    found: StagedSplit = pickle.loads(body)
    return found
