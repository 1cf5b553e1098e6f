"""Searches on Spark: what one says of a node is computed where the node is read, by the code of the embedded engine.

A test of a text and the distance of a vector concern one row each. A score depends on all texts of the type as well,
but only through a few numbers: tasks count them in their parts, and the sums are as if one process had counted.
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
"""A row without a token counts all documents of a part, one with a token those that it occurs in."""


@dataclass(frozen=True)
class Searching:
    """A search in one node type: the physical column that it looks into, and how. Without a column it says nothing."""

    kind: pa.DataType
    column: str | None = None
    answer: Answer | None = None

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """What is said of each row."""
        if self.column is None or self.answer is None:
            return pa.nulls(len(rows), self.kind)
        try:
            return self.answer(rows[self.column])
        except OmnigraphError as error:
            raise TaskRefusal(error) from error


@dataclass(frozen=True)
class TextTesting:
    """Whether texts match."""

    kind: str
    text: str
    edits: int | None

    def __call__(self, texts: pa.Array) -> pa.Array:
        """One verdict per text."""
        return pa.array(matching(TextIndex.build(texts), self.kind, self.text, self.edits), pa.bool_())


@dataclass(frozen=True)
class TextScoring:
    """How well texts fit, in a collection that they are a part of."""

    text: str
    collection: Collection

    def __call__(self, texts: pa.Array) -> pa.Array:
        """One score per text."""
        return pa.array(TextIndex.build(texts).bm25(self.text, self.collection), pa.float64())


@dataclass(frozen=True)
class Measuring:
    """How far vectors are from one."""

    wanted: Any
    metric: str

    def __call__(self, vectors: pa.Array) -> pa.Array:
        """One distance per vector."""
        distances = column_distances(vectors, self.wanted, self.metric)
        return pa.array(distances, mask=np.isnan(distances))


def kind_of_search(search: Search) -> pa.DataType:
    """The type of what a search says."""
    return pa.bool_() if isinstance(search, ir.TextMatch) else pa.float64()


def searched_column(search: Search, node: NodeType) -> str | None:
    """The physical column of a searched property; None in a type of another block that it does not fit."""
    prop = next((p for p in node.properties if p.name == search.property), None)
    if prop is None or prop.type.is_vector is not isinstance(search, ir.Nearest):
        return None
    return prop.column


def constant_value(expr: ir.Expr, request: Request) -> Any:
    """The value of an expression that is the same for every row."""
    nothing: Any = None
    return Evaluator(nothing, Scope({}, {}), request, Frame(1)).scalar(expr).as_py()


def on_driver(request: Request) -> Request:
    """The request where text may be embedded: once, and not in every task."""
    return Request(request.params, request.now, lambda: provider_from_env(os.environ))


def count_terms(texts: pa.Array, text: str) -> pa.RecordBatch:
    """What some texts add to the collection that a query is scored in, as rows."""
    found = TextIndex.build(texts).collection(text)
    rows = [(None, found.documents, found.words), *((token, n, 0) for token, n in found.with_token.items())]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, COUNTED.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COUNTED))


def collection_of(rows: pa.Table) -> Collection:
    """The collection from what was counted in its parts."""

    def parts() -> Iterator[Collection]:
        for row in rows.to_pylist():
            if row["token"] is None:
                yield Collection(row["documents"], row["words"], {})
            else:
                yield Collection(0, 0, {row["token"]: row["documents"]})

    return sum(parts(), NO_DOCUMENTS)
