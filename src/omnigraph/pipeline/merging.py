"""The tasks of a merge: cut changed rows by id, compare the rows of some buckets, write the outcome.

All changes of one id meet in one task, which compares the rows as one process does. Nothing that a task does is
visible: it leaves scratch, and data files that no version names before the driver's commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.conflicts import Conflict
from omnigraph.execution.spark.workers import store_of
from omnigraph.pipeline.buckets import CutFile, Piece, Stream, bucket_of, cut, read_pieces
from omnigraph.pipeline.staging import pack_places, unpack_places
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import WrittenFragment
from omnigraph.storage.layout import STAGING
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.row_difference import RowPlaces, read_places
from omnigraph.versioning.diff import Row, TableDelta, columns_of, in_shape, net_delta
from omnigraph.versioning.store import GraphStore, mint
from omnigraph.write.merge_compare import Compared, Terms, compare_deltas
from omnigraph.write.validation import needed_columns

OURS, THEIRS = "ours", "theirs"


def image(side: str, *, after: bool) -> str:
    """Return the name of the stream of a side's rows, before or after its changes."""
    return f"{side} {'after' if after else 'before'}"


@dataclass(frozen=True, slots=True)
class MergeJob:
    """The parameters of all tasks of a merge."""

    uri: str
    commit_id: str
    schema_hash: str
    terms: Terms

    def store(self) -> GraphStore:
        """The graph, open in this process."""
        return store_of(self.uri)

    def entity(self, table_key: str) -> EntityType:
        """Return a type of the schema that all sides have."""
        return self.store().catalog(self.schema_hash).type_of(table_key)

    def scratch(self, name: str) -> str:
        """Return a new name in the merge's scratch space."""
        return f"{STAGING}/{self.commit_id}/{name}-{mint()}.arrow"


@dataclass(frozen=True, slots=True)
class SideSplit:
    """Some differing rows of one table: rows of one stream, by their places in a version."""

    stream: Stream
    location: str
    version: int
    places: RowPlaces
    rows: int


@dataclass(frozen=True, slots=True)
class CompareWork:
    """The changed rows of one table in some buckets, by stream."""

    table_key: str
    ours_changed: bool
    pieces: Mapping[str, Sequence[Piece]]


@dataclass(frozen=True, slots=True)
class ComparedBuckets:
    """The outcome of comparing some buckets. Deltas have only the columns that rules between rows read.

    `rows` is the object that holds the rows taken from the source, in the order of `taken`.
    """

    ours: tuple[pa.Table, pa.Table]
    theirs: tuple[pa.Table, pa.Table]
    taken: Sequence[str]
    composed: Mapping[str, Row]
    dropped: frozenset[str]
    conflicts: Sequence[Conflict]
    rows: str | None


@dataclass(frozen=True, slots=True)
class WriteWork:
    """Rows taken from the source, to be written beside a version of the target, except those withheld."""

    table_key: str
    location: str
    version: int
    rows: str
    withheld: frozenset[str]


def cut_side(job: MergeJob, split: SideSplit) -> CutFile:
    """Read differing rows and cut them by their ids."""
    store, entity = job.store(), job.entity(split.stream.table_key)
    found = read_places(store.tables.open(split.location, split.version), columns_of(entity), split.places)
    return cut(job.scratch("side"), {split.stream: in_shape(found, entity, entity)}, store.objects, by="id")


def compare_buckets(job: MergeJob, work: CompareWork) -> ComparedBuckets:
    """Compare the rows of some buckets, and write the rows that the merge takes to scratch space."""
    entity, objects = job.entity(work.table_key), job.store().objects

    def delta(side: str) -> TableDelta:
        before, after = (
            read_pieces(work.pieces.get(image(side, after=after), ()), entity.arrow_schema, objects)
            for after in (False, True)
        )
        return net_delta(entity, before, after)

    found = compare_deltas(delta(OURS), delta(THEIRS), job.terms, ours_changed=work.ours_changed)
    path = None
    if found.merge.taken:
        path = job.scratch("taken")
        objects.put_new(path, pack_places(replace(found.merge, composed={}).rows), flush=False)
    return _answer(found, path)


def _answer(found: Compared, path: str | None) -> ComparedBuckets:
    columns = needed_columns(found.merge.entity)
    ours, theirs = ((d.before.select(columns), d.after.select(columns)) for d in (found.ours, found.theirs))
    merge = found.merge
    return ComparedBuckets(ours, theirs, sorted(merge.taken), merge.composed, merge.dropped, found.conflicts, path)


def write_taken(job: MergeJob, work: WriteWork) -> tuple[WrittenFragment, ...]:
    """Write rows as data files of the target."""
    store = job.store()
    rows = unpack_places(store.objects, work.rows)
    if work.withheld:
        withheld = pa.array(sorted(work.withheld), pa.string())
        rows = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=withheld)))
    return write_rows(store.tables, store.tables.open(work.location, work.version), rows)


@dataclass(frozen=True)
class CutDelta(TableDelta):
    """A delta whose tables have few columns; whole rows are read from their pieces on demand."""

    side: str
    files: Sequence[CutFile]
    objects: ObjectStore

    def rows(self, ids: Sequence[str], *, after: bool) -> dict[str, Row]:
        """Return whole rows, one bucket after the other."""
        places = self.new if after else self.old
        here = [i for i in ids if i in places]
        stream = Stream(image(self.side, after=after), self.entity.table_key)
        by_bucket: dict[int, list[str]] = {}
        for entity_id, bucket in zip(here, bucket_of(here), strict=True):
            by_bucket.setdefault(bucket, []).append(entity_id)
        found: dict[str, Row] = {}
        for bucket, wanted in by_bucket.items():
            pieces = [p for file in self.files if (p := file.piece(stream, bucket, bucket + 1)) is not None]
            rows = read_pieces(pieces, self.entity.arrow_schema, self.objects)
            mine = rows.filter(pc.is_in(rows["id"], value_set=pa.array(wanted, pa.string())))
            found |= {row["id"]: row for row in mine.to_pylist()}
        return found
