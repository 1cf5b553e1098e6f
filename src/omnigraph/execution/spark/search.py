"""Searches on Spark: each is computed where the node is read, by the code of the embedded engine.

A test of a text and the distance of a vector concern one row each. A score depends on all texts of the type as well,
but only through a few counts: tasks count their parts, and the sums equal those of one process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import OmnigraphError
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope, column_distances, matching
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.text_index import NO_DOCUMENTS, Collection, TextIndex
from omnigraph.execution.embedding import provider_from_env
from omnigraph.execution.spark.columns import Kinds, Search
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.query import ir
from omnigraph.schema.catalog import NodeType

Answer = Callable[[pa.Array], pa.Array]
COUNTED: Kinds = {"token": pa.string(), "documents": pa.int64(), "words": pa.int64()}
"""A row without a token counts all documents of a part, one with a token those in which it occurs."""


@dataclass(frozen=True)
class Searching:
    """A search in one node type: the physical column that it reads, and how. Without a column its result is empty."""

    kind: pa.DataType
    column: str | None = None
    answer: Answer | None = None

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the result of the search for each row."""
        if self.column is None or self.answer is None:
            return pa.nulls(len(rows), self.kind)
        try:
            return self.answer(rows[self.column])
        except OmnigraphError as error:
            raise TaskRefusal(error) from error


@dataclass(frozen=True)
class TextTesting:
    """Tests whether texts match."""

    kind: str
    text: str
    edits: int | None

    def __call__(self, texts: pa.Array) -> pa.Array:
        """Return one boolean per text."""
        return pa.array(matching(TextIndex.build(texts), self.kind, self.text, self.edits), pa.bool_())


@dataclass(frozen=True)
class TextScoring:
    """Scores texts, in a collection that they are a part of."""

    text: str
    collection: Collection

    def __call__(self, texts: pa.Array) -> pa.Array:
        """Return one score per text."""
        return pa.array(TextIndex.build(texts).bm25(self.text, self.collection), pa.float64())


@dataclass(frozen=True)
class Measuring:
    """Measures the distances of vectors from one."""

    wanted: Any
    metric: str

    def __call__(self, vectors: pa.Array) -> pa.Array:
        """Return one distance per vector."""
        distances = column_distances(vectors, self.wanted, self.metric)
        return pa.array(distances, mask=np.isnan(distances))


def kind_of_search(search: Search) -> pa.DataType:
    """Return the result type of a search."""
    return pa.bool_() if isinstance(search, ir.TextMatch) else pa.float64()


def searched_column(search: Search, node: NodeType) -> str | None:
    """Return the physical column of a searched property; None in a type of another block that does not fit."""
    prop = next((p for p in node.properties if p.name == search.property), None)
    if prop is None or prop.type.is_vector is not isinstance(search, ir.Nearest):
        return None
    return prop.column


def constant_value(expr: ir.Expr, request: Request) -> Any:
    """Return the value of an expression that is the same for every row."""
    nothing: Any = None
    return Evaluator(nothing, Scope({}, {}), request, Frame(1)).scalar(expr).as_py()


def on_driver(request: Request) -> Request:
    """Return the request that may embed text: on the driver once, and not in every task."""
    return Request(request.params, request.now, lambda: provider_from_env(os.environ))


def count_terms(texts: pa.Array, text: str) -> pa.RecordBatch:
    """Count the contribution of some texts to the collection that a query is scored in, as rows."""
    found = TextIndex.build(texts).collection(text)
    rows = [(None, found.documents, found.words), *((token, n, 0) for token, n in found.with_token.items())]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, COUNTED.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COUNTED))


def collection_of(rows: pa.Table) -> Collection:
    """Add the counts of all parts to one collection."""

    def parts() -> Iterator[Collection]:
        for row in rows.to_pylist():
            if row["token"] is None:
                yield Collection(row["documents"], row["words"], {})
            else:
                yield Collection(0, 0, {row["token"]: row["documents"]})

    return sum(parts(), NO_DOCUMENTS)
