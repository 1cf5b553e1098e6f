"""Evaluate batches of bindings in tasks, with the evaluator of the embedded engine, so that answers are equal.

The module does not depend on Spark: batches come in, batches go out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import errors
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.spark.columns import Kinds, bases, columns_of, frame_of, storage_column, values_of
from omnigraph.execution.spark.frames import spark_arrow_type
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.query import ir

_NO_SCOPE = Scope({}, {})
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Computation:
    """Conditions that rows must meet, and values to compute for those that do.

    `kinds` are the stored types of the columns that come in; `kept` the names that go out, computed ones included.
    """

    request: Request
    kinds: Kinds
    kept: tuple[str, ...]
    conditions: tuple[ir.Expr, ...] = ()
    computed: tuple[tuple[str, ir.Expr], ...] = ()
    computed_kinds: Kinds = field(default_factory=dict)

    def __call__(self, batches: Batches) -> Batches:
        """Process a partition."""
        for batch in batches:
            if batch.num_rows:
                yield self.of(batch)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Process one batch."""
        try:
            return self._of(batch)
        except errors.OmnigraphError as error:
            raise TaskRefusal(error) from error

    def _of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for condition in self.conditions:
            if not batch.num_rows:
                break
            kept = self._evaluator(batch, [condition]).mask(condition)
            if not kept.all():
                batch = batch.take(pa.array(np.flatnonzero(kept)))
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self.computed and batch.num_rows:
            evaluator = self._evaluator(batch, [expr for _, expr in self.computed])
            found.update({name: evaluator.array(expr) for name, expr in self.computed})
        elif self.computed:
            found.update({name: pa.array([], self.computed_kinds[name]) for name, _ in self.computed})
        return pa.RecordBatch.from_arrays([spark_column(found[name]) for name in self.kept], names=list(self.kept))

    def _evaluator(self, batch: pa.RecordBatch, exprs: list[ir.Expr]) -> Evaluator:
        known = {}
        for base in bases(exprs):
            name = columns_of(base)
            known[base] = values_of(base, storage_column(batch.column(name), self.kinds[name]))
        frame = frame_of(zip(batch.schema.names, batch.columns, strict=True), batch.num_rows)
        data: Any = None  # every base expression has its value already
        return Evaluator(data, _NO_SCOPE, self.request, frame, known)


def spark_column(column: pa.Array) -> pa.Array:
    """Return a column in the type that Spark has for it."""
    wanted = spark_arrow_type(column.type)
    if pa.types.is_null(wanted):
        return column.cast(pa.string())
    return column if column.type == wanted else column.cast(wanted)


def kind_of(expr: ir.Expr, request: Request, kinds: Kinds) -> pa.DataType:
    """Return the type of an expression, from its result for a row of nulls."""
    names = sorted({columns_of(base) for base in bases([expr])})
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, kinds[name]) for name in names], names=names)
    if not names:
        nulls = pa.RecordBatch.from_arrays([pa.nulls(1, pa.string())], names=["-"])
    computation = Computation(request, kinds, ())
    found: pa.DataType = computation._evaluator(nulls, [expr]).array(expr).type
    return found
