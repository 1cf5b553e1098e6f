"""Nodes and edges of a snapshot as DataFrames, read by tasks straight from storage with only the columns needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.evaluate import Request, Scope, query_vector
from omnigraph.execution.arrow.text_index import Collection
from omnigraph.execution.spark.columns import (
    IDS,
    TYPES,
    Kinds,
    Needs,
    PropertyColumn,
    Search,
    id_of,
    search_of,
    type_of,
)
from omnigraph.execution.spark.frames import spark_arrow_type
from omnigraph.execution.spark.search import (
    COUNTED,
    Measuring,
    Searching,
    TextScoring,
    TextTesting,
    collection_of,
    constant_value,
    count_terms,
    kind_of_search,
    on_driver,
    searched_column,
)
from omnigraph.execution.spark.tasks import Computation, spark_column
from omnigraph.execution.spark.versions import spark_schema
from omnigraph.execution.spark.workers import store_of
from omnigraph.query import ir
from omnigraph.query.plan.pushdown import predicate
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.versioning.snapshot import Snapshot, TableEntry
from omnigraph.versioning.staging import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_TASK = 1 << 20
NEAR, NEAR_TYPE, FAR, FAR_TYPE = "near", "near_type", "far", "far_type"
ENDS = (NEAR_TYPE, NEAR, FAR_TYPE, FAR)


@dataclass(frozen=True)
class Piece:
    """Some fragments of one table, for one task: (column, physical column or None) pairs, and numbers of types."""

    entry: TableEntry
    fragments: tuple[int, ...]
    type_number: int
    columns: tuple[tuple[str, str | None, pa.DataType], ...]
    searches: tuple[Searching, ...] = ()
    where: str | None = None
    source_type: int = -1
    target_type: int = -1


class Source:
    """One snapshot of a graph as DataFrames."""

    def __init__(self, spark: SparkSession, uri: str, snapshot: Snapshot, catalog: Catalog) -> None:
        self._spark = spark
        self._uri = uri
        self._snapshot = snapshot
        self._catalog = catalog
        self._vectors: dict[tuple[str, ir.Nearest], Any] = {}
        self._collections: dict[tuple[str, str, str], Collection] = {}
        self.node_numbers = {name: number for number, name in enumerate(sorted(catalog.nodes))}
        self.edge_numbers = {name: number for number, name in enumerate(sorted(catalog.edges))}

    def nodes(
        self, var: str, scope: Scope, needs: Needs, request: Request, filters: tuple[ir.Expr, ...] = (),
        pushed: tuple[ir.Expr, ...] = (),
    ) -> tuple[DataFrame, Kinds]:  # fmt: skip
        """Return the nodes that a variable can be, with the properties that are needed of it."""
        columns, searches = needs.of(var, scope), needs.searches(var)
        pieces: list[Piece] = []
        for name in scope.nodes[var]:
            entity = self._catalog.node(name)
            where = _predicate(pushed, entity, request)
            if where != "FALSE":
                found = tuple(self._prepared(search, entity, scope, request) for search in searches)
                pieces += self._pieces(entity, self.node_numbers[name], columns, where, found)
        kinds = {type_of(var): TYPES, id_of(var): IDS, **{c.column: c.kind for c in columns}}
        kinds |= {search_of(search): kind_of_search(search) for search in searches}
        names = tuple(kinds)
        reader = NodeReader(self._uri, tuple(pieces), names, Computation(request, kinds, names, filters))
        return self._frame(reader, len(pieces), kinds), kinds

    def _prepared(self, search: Search, entity: NodeType, scope: Scope, request: Request) -> Searching:
        """Return a search prepared for a node type; without a column if the name belongs to another block."""
        kind, column = kind_of_search(search), searched_column(search, entity)
        if column is None:
            return Searching(kind)
        value = constant_value(search.query, request)
        if isinstance(search, ir.Nearest):
            vector = self._vector(search, value, scope, request)
            return Searching(kind, column, Measuring(vector, search.metric)) if vector is not None else Searching(kind)
        if isinstance(search, ir.TextMatch):
            edits = None if search.max_edits is None else int(constant_value(search.max_edits, request))
            return Searching(kind, column, TextTesting(search.kind, value or "", edits))
        return Searching(kind, column, TextScoring(value or "", self._collection(entity, column, value or "")))

    def _vector(self, search: ir.Nearest, value: Any, scope: Scope, request: Request) -> Any:
        """Return the query vector. Text is embedded once."""
        asked = scope.nodes[search.var][0]
        if (asked, search) not in self._vectors:
            prop = self._catalog.node(asked).property(search.property)
            self._vectors[(asked, search)] = query_vector(value, prop, on_driver(request))
        return self._vectors[(asked, search)]

    def _collection(self, entity: NodeType, column: str, text: str) -> Collection:
        """Return the collection in which texts of a type are scored, counted by tasks."""
        key = (entity.name, column, text)
        if key not in self._collections:
            pieces = tuple(self._pieces(entity, self.node_numbers[entity.name], [], None))
            rows = self._frame(TextCounter(self._uri, pieces, column, text), len(pieces), COUNTED).toArrow()
            self._collections[key] = collection_of(rows)
        return self._collections[key]

    def edges(
        self, edge_types: tuple[str, ...], direction: str, edge_var: str | None, scope: Scope, needs: Needs
    ) -> tuple[DataFrame, Kinds]:
        """Return steps along edges: both ends, and the edge itself if it is named. Unnamed, each pair occurs once."""
        columns = needs.of(edge_var, scope) if edge_var is not None else []
        kinds: Kinds = {NEAR_TYPE: TYPES, NEAR: IDS, FAR_TYPE: TYPES, FAR: IDS}
        if edge_var is not None:
            kinds |= {type_of(edge_var): TYPES, id_of(edge_var): IDS, **{c.column: c.kind for c in columns}}
        pieces: list[Piece] = []
        for name in edge_types:
            pieces += self._pieces(self._catalog.edge(name), self.edge_numbers[name], columns, None)
        reader = EdgeReader(self._uri, tuple(pieces), tuple(kinds), direction, edge_var)
        frame = self._frame(reader, len(pieces), kinds)
        return (frame if edge_var is not None else frame.dropDuplicates(list(ENDS))), kinds

    def _pieces(
        self, entity: EntityType, number: int, columns: list[PropertyColumn], where: str | None,
        searches: tuple[Searching, ...] = (),
    ) -> Iterator[Piece]:  # fmt: skip
        entry = self._snapshot.table(entity.table_key)
        wanted = tuple((c.column, c.physical.get(entity.name), c.kind) for c in columns)
        ends = (-1, -1)
        if isinstance(entity, EdgeType):
            ends = (self.node_numbers[entity.source], self.node_numbers[entity.target])
        group: list[int] = []
        rows = 0
        for fragment_id, fragment in open_table(store_of(self._uri), entry).fragments.items():
            group.append(fragment_id)
            rows += fragment.physical_rows
            if rows >= ROWS_PER_TASK:
                yield Piece(entry, tuple(group), number, wanted, searches, where, *ends)
                group, rows = [], 0
        if group:
            yield Piece(entry, tuple(group), number, wanted, searches, where, *ends)

    def _frame(self, reader: Any, tasks: int, kinds: Kinds) -> DataFrame:
        schema = spark_schema(pa.schema([(name, spark_arrow_type(kind)) for name, kind in kinds.items()]))
        count = max(tasks, 1)
        return self._spark.range(0, tasks, 1, count).mapInArrow(reader, schema)


def _predicate(pushed: tuple[ir.Expr, ...], entity: EntityType, request: Request) -> str | None:
    """Return a predicate for storage; the task evaluates the conditions again."""
    parts = [predicate(c, request.params, lambda name: entity.property(name).column) for c in pushed]
    said = [part for part in parts if part is not None]
    if "FALSE" in said:
        return "FALSE"
    return " AND ".join(said) or None


@dataclass(frozen=True)
class NodeReader:
    """Reads pieces of node tables, in a task."""

    uri: str
    pieces: tuple[Piece, ...]
    names: tuple[str, ...]
    computation: Computation

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the nodes of the pieces whose numbers come in."""
        for piece in _chosen(self.pieces, batches):
            for rows in _read(self.uri, piece, ["id"]):
                found = [_numbers(piece.type_number, len(rows)), rows.column("id"), *_properties(piece, rows)]
                found += [search.of(rows) for search in piece.searches]
                batch = pa.RecordBatch.from_arrays([spark_column(c) for c in found], names=list(self.names))
                yield self.computation.of(batch) if self.computation.conditions else batch


@dataclass(frozen=True)
class TextCounter:
    """Counts the words of pieces of a node table, in a task."""

    uri: str
    pieces: tuple[Piece, ...]
    column: str
    text: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the contribution of the pieces' texts to their collection."""
        for piece in _chosen(self.pieces, batches):
            for rows in _read(self.uri, piece, [self.column]):
                yield count_terms(rows[self.column], self.text)


@dataclass(frozen=True)
class EdgeReader:
    """Reads pieces of edge tables in a direction, in a task."""

    uri: str
    pieces: tuple[Piece, ...]
    names: tuple[str, ...]
    direction: str
    edge_var: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the steps of the pieces whose numbers come in."""
        named = self.edge_var is not None
        for piece in _chosen(self.pieces, batches):
            for rows in _read(self.uri, piece, ["src", "dst", "id"] if named else ["src", "dst"]):
                if self.direction in ("out", "both"):
                    yield self._steps(piece, rows, "src", "dst")
                if self.direction in ("in", "both"):
                    loops = piece.source_type == piece.target_type and self.direction == "both"
                    # A self-loop was seen already, from its other end.
                    apart = rows.filter(pc.not_equal(rows["src"], rows["dst"])) if loops else rows
                    yield self._steps(piece, apart, "dst", "src")

    def _steps(self, piece: Piece, rows: pa.RecordBatch, near: str, far: str) -> pa.RecordBatch:
        types = {"src": piece.source_type, "dst": piece.target_type}
        found = [_numbers(types[near], len(rows)), rows[near], _numbers(types[far], len(rows)), rows[far]]
        if self.edge_var is not None:
            found += [_numbers(piece.type_number, len(rows)), rows["id"], *_properties(piece, rows)]
        return pa.RecordBatch.from_arrays([spark_column(c) for c in found], names=list(self.names))


def _chosen(pieces: tuple[Piece, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    for batch in batches:
        yield from (pieces[number] for number in batch.column(0).to_pylist())


def _read(uri: str, piece: Piece, own: list[str]) -> Iterator[pa.RecordBatch]:
    table = open_table(store_of(uri), piece.entry)
    physical = [column for _, column, _ in piece.columns if column is not None]
    physical += [search.column for search in piece.searches if search.column is not None]
    yield from table.batches([*own, *dict.fromkeys(physical)], where=piece.where, fragments=piece.fragments)


def _properties(piece: Piece, rows: pa.RecordBatch) -> list[pa.Array]:
    return [pa.nulls(len(rows), kind) if name is None else rows[name] for _, name, kind in piece.columns]


def _numbers(number: int, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, TYPES), length)
