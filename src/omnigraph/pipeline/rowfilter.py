"""The `filter` option of the data source: a condition of the query language, evaluated where rows are read.

    age > 30 and name in ["Ada", "Bob"]        from = "Ada"        seen >= datetime("2024-05-01T00:00:00Z")

It has the syntax and types of `delete Person where ...`: a word for a number is refused, a number that no row can hold
means never or always. Storage evaluates what it can; the rest is evaluated row by row.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidArgument, OmnigraphError, Unsupported
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.query import compile_query, ir
from omnigraph.query.plan.pushdown import is_pushable, predicate
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType

NEVER = "FALSE"
_ENDS = ("src", "dst")


@dataclass(frozen=True)
class RowFilter:
    """A condition on rows of one type. `columns` are the physical columns it reads, `pushed` is for storage."""

    condition: ir.Expr
    columns: tuple[tuple[ir.Prop, str], ...]
    pushed: str | None
    now: dt.datetime

    @classmethod
    def of(cls, text: str, entity: EntityType, catalog: Catalog) -> RowFilter:
        """Parse a condition."""
        condition = _compiled(text, entity, catalog)
        props = {each for each in ir.walk(condition) if isinstance(each, ir.Prop)}
        columns = tuple((each, _column(entity, each.name)) for each in sorted(props, key=lambda each: each.name))
        parts = condition.operands if isinstance(condition, ir.And) else (condition,)
        said = [predicate(each, {}, lambda name: _column(entity, name)) for each in parts if is_pushable(each)]
        pushed = NEVER if NEVER in said else " AND ".join(each for each in said if each is not None) or None
        return cls(condition, columns, pushed, dt.datetime.now(dt.UTC))

    def passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        known: dict[ir.Expr, pa.Array] = {prop: batch.column(name) for prop, name in self.columns}
        request = Request({}, self.now)
        # Every base expression has its value already.
        evaluator = Evaluator(None, Scope({}, {}), request, Frame(batch.num_rows), known)  # type: ignore[arg-type]
        kept = evaluator.mask(self.condition)
        return batch if kept.all() else batch.take(pa.array(np.flatnonzero(kept)))


def _compiled(text: str, entity: EntityType, catalog: Catalog) -> ir.Expr:
    try:
        found = compile_query(f"query rows() {{ delete {entity.name} where\n{text}\n}}", catalog)
    except OmnigraphError as error:
        hint = error.hint or 'write it as in `delete ... where`: age > 30 and name != "Ada"'
        raise InvalidArgument(f"filter {text!r}: {error.message}", hint=hint) from error
    statements = found.statements if isinstance(found, ir.MutationIR) else ()
    if len(statements) != 1 or not isinstance(statements[0], ir.Delete):
        raise InvalidArgument(f"filter {text!r} is more than one condition", hint="join conditions with `and`")
    if (statements[0].type_kind == "edge") != isinstance(entity, EdgeType):
        raise Unsupported(
            f"{entity.name} is a node type and an edge type: a filter cannot tell which one is meant",
            hint="filter the DataFrame instead",
        )
    return statements[0].where


def _column(entity: EntityType, name: str) -> str:
    return name if isinstance(entity, EdgeType) and name in _ENDS else entity.property(name).column
