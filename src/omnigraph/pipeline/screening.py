"""Apply the rules between rows to more rows than one process should hold: tasks find the values that may break one.

    staged parts, fragments of the graph -> tasks cut them into buckets -> tasks screen a bucket each -> `Screened`

Equal values meet in one bucket and are compared as values, so a screen without suspects is a proof. Suspects are not
judged here: the validator receives every row related to them, and reports violations as for any other load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import whole
from omnigraph.pipeline.buckets import VALUE, CutFile, Piece, Stream, cut, read_pieces
from omnigraph.pipeline.staging import StagedPart, StageJob, read_keys
from omnigraph.pipeline.streams import ENDS, ID, SOURCES, UNIQUE, part_streams, streams_of
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.storage.apply_effects import mask_rows
from omnigraph.storage.effects import MaskedFragment
from omnigraph.write.load import MERGE
from omnigraph.write.validation.model import column_of, needed_columns

MAX_SUSPECTS = 10_000
"""More suspects than this in one bucket are not listed: such a load is judged as a whole."""

MAX_OUTSIDE = 100_000
ADDRESS = "address"
OFFSET_BITS = 32
_OFFSETS = (1 << OFFSET_BITS) - 1
Ints = np.ndarray[Any, np.dtype[np.int64]]
_SCHEMAS = {
    ID: pa.schema({VALUE: pa.string()}),
    ENDS: pa.schema({VALUE: pa.string()}),
    SOURCES: pa.schema({VALUE: pa.string(), "count": pa.int32()}),
    UNIQUE: pa.schema({VALUE: pa.string(), "id": pa.string()}),
}
_ADDRESSED_IDS = pa.schema({VALUE: pa.string(), ADDRESS: pa.int64()})


@dataclass(frozen=True, slots=True)
class Screening:
    """The parameters of all screening tasks."""

    job: StageJob
    mode: str

    @property
    def catalog(self) -> Catalog:
        """The schema of the load."""
        return self.job.store().catalog(self.job.schema_hash)

    def path(self) -> str:
        """Return a new name in the load's scratch space."""
        return self.job.scratch("cut")


@dataclass(frozen=True, slots=True)
class BaseSplit:
    """Fragments of a table of the graph, and the streams of their rows that rules need."""

    table_key: str
    fragments: tuple[int, ...]
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BucketWork:
    """The pieces of one bucket: those of the load's rows and those of the graph's."""

    loaded: Mapping[Stream, Sequence[Piece]]
    present: Mapping[Stream, Sequence[Piece]]


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """An object of row addresses, in order, eight bytes each. Those of `fragments[i]` begin at `bounds[i]`."""

    path: str
    fragments: Ints
    bounds: Ints


@dataclass(frozen=True, slots=True)
class MaskWork:
    """Rows of one fragment that an upsert replaces: ranges of objects with their addresses."""

    table_key: str
    fragment: int
    ranges: tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Screened:
    """The result of screening.

    `suspects` are values by stream; `matched` rows that an upsert replaces; `outside` ids that edges need of the graph,
    None for too many to list. `crowded`: there are too many suspects to list.
    """

    suspects: dict[Stream, list[str]] = field(default_factory=dict)
    matched: dict[str, list[MatchedRows]] = field(default_factory=dict)
    outside: dict[str, list[str] | None] = field(default_factory=dict)
    crowded: bool = False

    def suspect(self, stream: Stream, values: pa.Array) -> None:
        """Note values that may break a rule."""
        if len(values):
            self.suspects.setdefault(stream, []).extend(values.slice(0, MAX_SUSPECTS).to_pylist())
            self.crowded |= len(values) > MAX_SUSPECTS

    def need(self, node_key: str, ids: pa.Array) -> None:
        """Note ids that the graph must keep."""
        if len(ids):
            self.add(Screened(outside={node_key: None if len(ids) > MAX_OUTSIDE else ids.to_pylist()}))

    def add(self, other: Screened) -> None:
        """Add the result of another bucket."""
        for stream, values in other.suspects.items():
            self.suspects.setdefault(stream, []).extend(values)
        for key, files in other.matched.items():
            self.matched.setdefault(key, []).extend(files)
        for key, needed in other.outside.items():
            known = self.outside.get(key, [])
            both = None if known is None or needed is None else [*known, *needed]
            self.outside[key] = both if both is None or len(both) <= MAX_OUTSIDE else None
        self.crowded |= other.crowded


def cut_part(screening: Screening, part: StagedPart) -> CutFile:
    """Cut the rows that one task staged without cutting them."""
    entity = screening.catalog.type_of(part.table_key)
    table = screening.job.table(part.table_key)
    rows = read_keys(screening.job.store(), table, part, needed_columns(entity))
    streams = streams_of(entity, rows, part_streams(entity, part.fresh_ids))
    return cut(screening.path(), streams, screening.job.store().objects)


def cut_base(screening: Screening, split: BaseSplit) -> CutFile:
    """Cut some fragments of a table that the graph has."""
    entity = screening.catalog.type_of(split.table_key)
    columns = {"id"}
    for what in split.streams:
        if what.startswith(UNIQUE):
            columns |= {column_of(entity, name) for name in entity.uniques[int(what.removeprefix(UNIQUE))]}
        elif what == SOURCES:
            columns.add("src")
    table = screening.job.table(split.table_key)
    if screening.mode == MERGE and ID in split.streams:
        rows = table.scan_addresses(sorted(columns), split.fragments)
        addresses = rows["_rowaddr"].cast(pa.int64())
    else:
        rows, addresses = table.scan(sorted(columns), fragments=split.fragments), None
    streams = streams_of(entity, rows, split.streams)
    if addresses is not None:
        ids = Stream(ID, split.table_key)
        streams[ids] = streams[ids].append_column(ADDRESS, addresses)
    return cut(screening.path(), streams, screening.job.store().objects)


def mask(job: StageJob, work: MaskWork) -> MaskedFragment | None:
    """Write the deletion file of one fragment; None when it loses all of its rows."""
    parts = [job.store().objects.get_range(path, 8 * begin, 8 * end) for path, begin, end in work.ranges]
    addresses = np.sort(np.concatenate([np.frombuffer(part, np.int64) for part in parts]))
    return mask_rows(job.table(work.table_key), work.fragment, (addresses & _OFFSETS).tolist())


def screen(screening: Screening, work: BucketWork) -> Screened:
    """Apply the rules to one bucket."""
    found = Screened()
    bucket = _Bucket(screening, work, found)
    sources = {f"node:{screening.catalog.edge(s.table_key[5:]).source}" for s in work.loaded if s.what == SOURCES}
    for stream in sorted({*work.loaded, *(Stream(ENDS, key) for key in sources)}):
        if stream.what == ID:
            bucket.keys(stream)
        elif stream.what == ENDS:
            bucket.ends(stream)
        elif stream.what == SOURCES:
            bucket.sources(stream)
        else:
            bucket.uniques(stream)
    return found


class _Bucket:
    """Applies the rules to one bucket. A table is read when a rule needs it and not kept."""

    def __init__(self, screening: Screening, work: BucketWork, found: Screened) -> None:
        self._objects = screening.job.store().objects
        self._screening = screening
        self._work = work
        self._found = found

    def _loaded(self, stream: Stream) -> pa.Table:
        return read_pieces(self._work.loaded.get(stream, ()), _schema(stream), self._objects)

    def _present(self, stream: Stream) -> pa.Table:
        has_addresses = stream.what == ID and self._screening.mode == MERGE
        schema = _ADDRESSED_IDS if has_addresses else _schema(stream)
        return read_pieces(self._work.present.get(stream, ()), schema, self._objects)

    def keys(self, stream: Stream) -> None:
        """Check that no id occurs twice; ids that the graph has are suspect, or replaced by an upsert."""
        ids = whole(self._loaded(stream)[VALUE])
        self._found.suspect(stream, _repeated(ids))
        rows = self._present(stream)
        if not rows.num_rows:
            return
        hit = pc.is_in(rows[VALUE], value_set=ids)
        if self._screening.mode == MERGE:
            self._replace(stream.table_key, rows[ADDRESS].filter(hit))
        else:
            self._found.suspect(stream, whole(rows[VALUE].filter(hit)))

    def _replace(self, table_key: str, addresses: pa.ChunkedArray) -> None:
        """Write the addresses of rows that an upsert replaces, in order: the driver receives only their number."""
        if len(addresses):
            ordered = np.sort(addresses.to_numpy())
            path = self._screening.path()
            self._objects.put_new(path, pa.py_buffer(ordered), flush=False)
            owners, begins = np.unique(ordered >> OFFSET_BITS, return_index=True)
            self._found.matched[table_key] = [MatchedRows(path, owners, np.append(begins, len(ordered)))]

    def uniques(self, stream: Stream) -> None:
        """Check that no value of a unique group occurs twice; values of another entity of the graph are suspect."""
        loaded, present = self._loaded(stream), self._present(stream)
        values = whole(loaded[VALUE])
        self._found.suspect(stream, _repeated(values))
        if not present.num_rows:
            return
        held = whole(present[VALUE])
        at = pc.index_in(held, value_set=values)
        hit = pc.is_valid(at)
        held, holders, at = held.filter(hit), whole(present["id"]).filter(hit), at.filter(hit)
        other = pc.fill_null(pc.not_equal(holders, whole(loaded["id"]).take(at)), True)
        self._found.suspect(stream, held.filter(other))
        # The same upsert may change the holder's value: the validator needs its row too.
        self._found.suspect(Stream(ID, stream.table_key), holders.filter(other))

    def ends(self, stream: Stream) -> None:
        """Check that every end is among the ids of the load or of the graph."""
        node = Stream(ID, stream.table_key)
        tables = [self._loaded(stream), *(self._loaded(each).select([VALUE]) for each in self._counted(stream))]
        needed = pc.unique(_lacking(pa.concat_tables(tables)[VALUE], self._loaded(node)))
        if not len(needed):
            return
        missing = _lacking(needed, self._present(node))
        self._found.suspect(stream, missing)
        if len(missing) < len(needed):
            self._found.need(stream.table_key, needed.filter(pc.invert(pc.is_in(needed, value_set=missing))))

    def _counted(self, ends: Stream) -> list[Stream]:
        """Return streams of counted sources that are nodes of the same type."""
        edges = self._screening.catalog.edges.values()
        mine = {edge.table_key for edge in edges if f"node:{edge.source}" == ends.table_key}
        return [s for s in self._work.loaded if s.what == SOURCES and s.table_key in mine]

    def sources(self, stream: Stream) -> None:
        """Check that every source has as many edges as `@card` allows, those of the graph counted."""
        edge = self._screening.catalog.type_of(stream.table_key)
        assert isinstance(edge, EdgeType), f"{stream.table_key} has no sources"
        both, present = self._loaded(stream), self._present(stream)
        if present.num_rows:
            mine = pc.is_in(present[VALUE], value_set=whole(both[VALUE]))
            both = pa.concat_tables([both, present.filter(mine)])
        both = both.group_by(VALUE).aggregate([("count", "sum")])
        counts = both["count_sum"]
        wrong = pc.less(counts, edge.cardinality.min)
        if edge.cardinality.max is not None:
            wrong = pc.or_(wrong, pc.greater(counts, edge.cardinality.max))
        self._found.suspect(stream, whole(both[VALUE].filter(wrong)))


def _schema(stream: Stream) -> pa.Schema:
    return _SCHEMAS[UNIQUE if stream.what.startswith(UNIQUE) else stream.what]


def _repeated(values: pa.Array) -> pa.Array:
    """Return the values that occur more than once."""
    if pc.count_distinct(values, mode="only_valid").as_py() == len(values) - values.null_count:
        return values.slice(0, 0)
    counts = pc.value_counts(values.drop_null())
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _lacking(ids: Any, among: pa.Table) -> Any:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=whole(among[VALUE])))) if among.num_rows else ids
