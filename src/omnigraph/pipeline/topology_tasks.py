"""A topology from the fragments of tables, in tasks: the steps that `topology.py` puts together.

    fragments -> cut by id -> sources found -> cut by target -> targets found: arcs -> blocks

Ids become numbers where the rows that have them meet: nodes and edges are cut into buckets by the id that they share.
Arcs are both ends of edges as numbers. They are written twice, in the order of their sources and of their targets, so
that the task of a block reads only the arcs at its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import whole
from omnigraph.execution.analytics.algorithms import BOTH, IN, OUT, SIMPLE
from omnigraph.execution.analytics.blocks import Block, Floats, Ints
from omnigraph.execution.analytics.weights import checked_weights, weight_column
from omnigraph.execution.spark.workers import store_of
from omnigraph.pipeline.buckets import VALUE, CutFile, Piece, Stream, bucket_ranges, cut, pieces_of, read_pieces
from omnigraph.pipeline.scratch_arrays import BlockFile, write_block
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.tables import Table
from omnigraph.versioning.store import mint

NODES, SOURCES, TARGETS = "nodes", "sources", "targets"
_BINS = 1024
_INT32 = 2**31
_WIDTH = 8
_ROWS_PER_TASK = 1 << 20


@dataclass(frozen=True, slots=True)
class EdgeRange:
    """The edges of one type: the node types at their ends, and the number of the first one."""

    name: str
    source: str
    target: str
    offset: int


@dataclass(frozen=True, slots=True)
class TopologyJob:
    """The parameters of all tasks that build a topology. `pins` are the location and version of each table."""

    uri: str
    scratch: str
    schema_hash: str
    pins: Mapping[str, tuple[str, int]]
    edges: tuple[EdgeRange, ...]
    node_count: int
    edge_count: int
    weight: str | None = None

    @property
    def objects(self) -> ObjectStore:
        """The objects of the graph."""
        return store_of(self.uri).objects

    @property
    def bins(self) -> Ints:
        """Return where ranges of about equally many nodes begin, and the end of the last: possible bounds of blocks."""
        count = min(_BINS, max(1, self.node_count))
        return np.arange(count + 1, dtype=np.int64) * self.node_count // count

    def path(self, name: str) -> str:
        """Return a new name in the scratch space of the topology."""
        return f"{self.scratch}/{name}-{mint()}"

    def table(self, table_key: str) -> Table:
        """Return a table at its pin."""
        return store_of(self.uri).tables.open(*self.pins[table_key])


@dataclass(frozen=True, slots=True)
class TableSplit:
    """Some fragments of a table, one after the other, and the number of their first row."""

    table_key: str
    fragments: tuple[int, ...]
    first: int


@dataclass(frozen=True, slots=True)
class JoinWork:
    """The pieces of some buckets: nodes, and the edges with these nodes as ends."""

    nodes: Mapping[Stream, Sequence[Piece]]
    edges: Mapping[Stream, Sequence[Piece]]


@dataclass(frozen=True, slots=True)
class ArcFile:
    """Arcs in the order of one end: columns of eight bytes, one after the other. `bounds` say where bins begin."""

    path: str
    rows: int
    bounds: Ints


@dataclass(frozen=True, slots=True)
class ArcRange:
    """Some rows of a file of arcs."""

    path: str
    rows: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class BlockWork:
    """A block to be built: its nodes, and where the arcs out of them and into them lie."""

    direction: str
    begin: int
    end: int
    outgoing: tuple[ArcRange, ...] = ()
    incoming: tuple[ArcRange, ...] = ()


Arcs = Sequence[tuple[ArcFile, ArcFile]]
"""For some buckets each: the arcs out of nodes, and the arcs into them."""

Tasks = Callable[[Callable[[Any], Any], Sequence[Any], str], list[Any]]


@dataclass(frozen=True, slots=True)
class _Arcs:
    """Edges as seen from one end."""

    near: Ints
    far: Ints
    edge: Ints
    weight: Floats | None

    def taken(self, rows: Ints) -> _Arcs:
        """Return some of them, in that order."""
        weight = None if self.weight is None else self.weight[rows]
        return _Arcs(self.near[rows], self.far[rows], self.edge[rows], weight)

    def turned(self) -> _Arcs:
        """Return the same edges as seen from the other end."""
        return _Arcs(self.far, self.near, self.edge, self.weight)


def resolve(job: TopologyJob, splits: Sequence[TableSplit], tasks: Tasks, slots: int) -> Arcs:
    """Replace the ends of all edges by numbers, in files by the buckets of their targets."""
    cuts = list(zip(splits, tasks(partial(cut_table, job), splits, "cut nodes and edges by id"), strict=True))
    nodes = [file for split, file in cuts if split.table_key.startswith("node:")]
    edges = [file for split, file in cuts if split.table_key.startswith("edge:")]
    ranges = list(bucket_ranges(job.node_count + job.edge_count, _ROWS_PER_TASK, slots))
    work = [JoinWork(pieces_of(nodes, *each), pieces_of(edges, *each)) for each in ranges]
    found = tasks(partial(find_sources, job), work, "find the sources of edges")
    job.objects.delete([file.path for file in edges])
    work = [JoinWork(pieces_of(nodes, *each), pieces_of(found, *each)) for each in ranges]
    arcs: Arcs = tasks(partial(find_targets, job), work, "find the targets of edges")
    job.objects.delete([file.path for file in (*nodes, *found)])
    return arcs


def resolve_alone(given: tuple[TopologyJob, Sequence[TableSplit]]) -> Arcs:
    """`resolve` in one task."""

    def here(function: Callable[[Any], Any], items: Sequence[Any], _step: str) -> list[Any]:
        return [function(item) for item in items]

    return resolve(*given, here, 1)


def cut_table(job: TopologyJob, split: TableSplit) -> CutFile:
    """Cut nodes by their ids, or edges by the ids of their sources."""
    kind, _, name = split.table_key.partition(":")
    table = job.table(split.table_key)
    if kind == "node":
        ids = table.scan(["id"], fragments=split.fragments)["id"]
        rows = pa.table({VALUE: ids, "number": np.arange(split.first, split.first + len(ids))})
        return cut(job.path("cut"), {Stream(NODES, split.table_key): rows}, job.objects)
    edge = store_of(job.uri).catalog(job.schema_hash).edge(name)
    weighed = [] if job.weight is None else [weight_column(edge, job.weight)]
    found = table.scan(["src", "dst", *weighed], fragments=split.fragments)
    columns = {VALUE: found["src"], "dst": found["dst"], "edge": np.arange(split.first, split.first + len(found))}
    if job.weight is not None:

        def ends(row: int) -> tuple[str, str]:
            return found["src"][row].as_py(), found["dst"][row].as_py()

        columns["weight"] = checked_weights(found[weighed[0]], edge, job.weight, ends)
    return cut(job.path("cut"), {Stream(SOURCES, split.table_key): pa.table(columns)}, job.objects)


def find_sources(job: TopologyJob, work: JoinWork) -> CutFile:
    """Number the sources of edges and cut them by the ids of their targets."""
    streams: dict[Stream, pa.Table] = {}
    for edge in job.edges:
        key = f"edge:{edge.name}"
        found = _numbered(job, work, Stream(SOURCES, key), edge.source)
        weighed = {} if job.weight is None else {"weight": found["weight"]}
        columns = {VALUE: found["dst"], "edge": found["edge"], "source": found["number"], **weighed}
        streams[Stream(TARGETS, key)] = pa.table(columns)
    return cut(job.path("cut"), streams, job.objects)


def find_targets(job: TopologyJob, work: JoinWork) -> tuple[ArcFile, ArcFile]:
    """Number the targets of edges and write the arcs: in the order of their sources, and of their targets."""
    tables = [_numbered(job, work, Stream(TARGETS, f"edge:{edge.name}"), edge.target) for edge in job.edges]
    columns = ["source", "number", "edge", *([] if job.weight is None else ["weight"])]
    rows = pa.concat_tables(table.select(columns) for table in tables)
    weight = None if job.weight is None else rows["weight"].to_numpy()
    arcs = _Arcs(rows["source"].to_numpy(), rows["number"].to_numpy(), rows["edge"].to_numpy(), weight)
    return _write_arcs(job, arcs), _write_arcs(job, arcs.turned())


def _numbered(job: TopologyJob, work: JoinWork, stream: Stream, node_type: str) -> pa.Table:
    """Edges of some buckets with the number of the node that they were cut by; edges without that node are left out."""
    nodes = Stream(NODES, f"node:{node_type}")
    known = read_pieces(work.nodes.get(nodes, ()), _schema(nodes.what, None), job.objects)
    edges = read_pieces(work.edges.get(stream, ()), _schema(stream.what, job.weight), job.objects)
    places = pc.index_in(edges[VALUE], value_set=whole(known[VALUE]))
    numbers = whole(known["number"]).take(whole(places))
    found = edges.append_column("number", numbers)
    return found.filter(pc.is_valid(numbers)) if numbers.null_count else found


def _schema(what: str, weight: str | None) -> pa.Schema:
    number, text = pa.int64(), pa.string()
    fields: dict[str, pa.DataType] = {
        NODES: {VALUE: text, "number": number},
        SOURCES: {VALUE: text, "dst": text, "edge": number},
        TARGETS: {VALUE: text, "edge": number, "source": number},
    }[what]
    return pa.schema(fields | ({} if weight is None else {"weight": pa.float64()}))


def _write_arcs(job: TopologyJob, arcs: _Arcs) -> ArcFile:
    arcs = arcs.taken(np.argsort(arcs.near, kind="stable"))
    columns = [arcs.near, arcs.far, arcs.edge, *([] if arcs.weight is None else [arcs.weight.view(np.int64)])]
    path = job.path("arcs")
    if len(arcs.near):
        job.objects.put_new(path, pa.py_buffer(np.concatenate(columns)), flush=False)
    return ArcFile(path, len(arcs.near), np.searchsorted(arcs.near, job.bins))


def _read_arcs(job: TopologyJob, ranges: Sequence[ArcRange]) -> _Arcs:
    def column(number: int) -> Ints:
        parts = [np.empty(0, np.int64)]
        for each in ranges:
            begin, end = (number * each.rows + at for at in (each.begin, each.end))
            parts.append(np.frombuffer(job.objects.get_range(each.path, begin * _WIDTH, end * _WIDTH), np.int64))
        return np.concatenate(parts)

    near, far, edge = (column(number) for number in range(3))
    return _Arcs(near, far, edge, None if job.weight is None else column(3).view(np.float64))


def build_block(job: TopologyJob, work: BlockWork) -> BlockFile:
    """Build the compressed rows of some nodes, equal to those of one process."""
    outgoing, incoming = _read_arcs(job, work.outgoing), _read_arcs(job, work.incoming)
    if work.direction in (OUT, IN):
        arcs = outgoing if work.direction == OUT else incoming
        arcs = arcs.taken(np.argsort((arcs.near - work.begin) * max(job.edge_count, 1) + arcs.edge))
    elif work.direction == BOTH:
        arcs = _both(job, outgoing, incoming)
    else:
        assert work.direction == SIMPLE, f"{work.direction!r} is no direction"
        arcs = _simple(job, outgoing, incoming)
    starts = np.searchsorted(arcs.near, np.arange(work.begin, work.end + 1))
    neighbours = arcs.far.astype(np.int32) if job.node_count < _INT32 else arcs.far
    block = Block(work.begin, starts, neighbours, arcs.weight)
    return write_block(job.uri, job.path(work.direction), block)


def _both(job: TopologyJob, outgoing: _Arcs, incoming: _Arcs) -> _Arcs:
    """Return every edge from both of its ends. Weights are added up in this order, so it is that of one process."""
    near, far = np.concatenate([outgoing.near, incoming.near]), np.concatenate([outgoing.far, incoming.far])
    edge = np.concatenate([outgoing.edge, incoming.edge])
    if outgoing.weight is None or incoming.weight is None:
        return _Arcs(near, far, edge, None).taken(np.argsort(near, kind="stable"))
    arcs = _Arcs(near, far, edge, np.concatenate([outgoing.weight, incoming.weight]))
    side = np.arange(len(near)) >= len(outgoing.near)
    type_number = np.searchsorted([each.offset for each in job.edges], edge, side="right")
    return arcs.taken(np.lexsort((edge, np.where(side, far, near), type_number, side, near)))


def _simple(job: TopologyJob, outgoing: _Arcs, incoming: _Arcs) -> _Arcs:
    """Return every pair of neighbours once from each end, without self-loops, neighbours in order."""
    near, far = np.concatenate([outgoing.near, incoming.near]), np.concatenate([outgoing.far, incoming.far])
    apart = near != far
    width = max(job.node_count, 1)
    near, far = np.divmod(np.unique(near[apart] * width + far[apart]), width)
    return _Arcs(near, far, far, None)
