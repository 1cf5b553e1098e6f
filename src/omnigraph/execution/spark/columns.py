"""Bindings as columns of a DataFrame, and the properties that a query reads of each variable.

A bound variable `p` is two columns, `v:p` (the id, null for an optional without a match) and `t:p` (the number of its
type, types in order of their names), and one column `p:p:name` per property that the query reads. A path is `w:path`:
the ids of its nodes. The result of a search on a node is a column `s:` too, filled where the node is read. Types here
are those of storage; columns are converted to Spark's types only for transport.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import Scalar
from omnigraph.execution.arrow.evaluate import Scope, own_vector
from omnigraph.execution.arrow.frame import Frame
from omnigraph.query import ir
from omnigraph.schema.catalog import Catalog, EntityType

Kinds = dict[str, pa.DataType]
IDS = pa.string()
TYPES = pa.int32()
PATHS = pa.list_(pa.string())
Search = ir.TextMatch | ir.Bm25 | ir.Nearest
SEARCHES = (ir.TextMatch, ir.Bm25, ir.Nearest)
RANKINGS = (*SEARCHES, ir.Rrf)
_BASES = (ir.Prop, ir.EntityId, ir.Entity, ir.PathLength, ir.PathNodes, *RANKINGS)


def id_of(var: str) -> str:
    """Return the column of a variable's ids."""
    return f"v:{var}"


def type_of(var: str) -> str:
    """Return the column of a variable's types."""
    return f"t:{var}"


def path_of(var: str) -> str:
    """Return the column of a path."""
    return f"w:{var}"


def prop_of(var: str, name: str) -> str:
    """Return the column of a property."""
    return f"p:{var}:{name}"


def search_of(expr: Search | ir.Rrf) -> str:
    """Return the column of a search on its node; its text and vector may be long, so the name is a hash."""
    return f"s:{hashlib.blake2s(repr(expr).encode(), digest_size=12).hexdigest()}"


def bound_variables(columns: Iterable[str]) -> list[str]:
    """Return the nodes and edges that some columns bind."""
    return [name[2:] for name in columns if name.startswith("v:")]


@dataclass(frozen=True)
class PropertyColumn:
    """One column of property values, and the physical column of each type that has the property."""

    column: str
    name: str
    kind: pa.DataType
    physical: Mapping[str, str]


class Needs:
    """The properties that a query reads, by variable."""

    def __init__(self, query: ir.QueryIR, catalog: Catalog) -> None:
        self._catalog = catalog
        self._named: dict[str, set[str]] = {}
        self._searches: dict[Search, None] = {}
        self._whole = {c.expr.var for c in query.outputs if isinstance(c.expr, ir.Entity)}
        for expr in ir.expressions(query):
            for each in ir.walk(expr):
                if isinstance(each, ir.Prop):
                    self._named.setdefault(each.var, set()).add(each.name)
                elif isinstance(each, SEARCHES) and is_of_node(each):
                    self._searches[each] = None
                elif isinstance(each, ir.Nearest):
                    self._named.setdefault(each.var, set()).add(each.property)

    def searches(self, var: str) -> list[Search]:
        """Return the searches in the nodes of a variable."""
        return [search for search in self._searches if search.var == var]

    def of(self, var: str, scope: Scope) -> list[PropertyColumn]:
        """Return the property columns of a variable, over all its types."""
        is_edge = var in scope.edges
        found: dict[str, PropertyColumn] = {}
        for name in scope.edges[var] if is_edge else scope.nodes[var]:
            entity: EntityType = self._catalog.edge(name) if is_edge else self._catalog.node(name)
            for prop in entity.properties:
                if prop.name in self._named.get(var, ()) or (var in self._whole and _is_shown(prop)):
                    kind = entity.arrow_schema.field(prop.column).type
                    column = prop_of(var, prop.name)
                    if column in found and found[column].kind != kind:
                        column = f"{column}#{name}"  # types may disagree on what is not the interface's
                    earlier = dict(found[column].physical) if column in found else {}
                    found[column] = PropertyColumn(column, prop.name, kind, {**earlier, name: prop.column})
        return [found[column] for column in sorted(found)]


def _is_shown(prop: Any) -> bool:
    return not prop.type.is_vector and prop.type.scalar is not Scalar.BLOB


def bases(exprs: Iterable[ir.Expr]) -> list[ir.Expr]:
    """Yield the parts of expressions that read the bindings."""
    return list(dict.fromkeys(base for expr in exprs for each in ir.walk(expr) for base in _base(each)))


def _base(expr: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(expr, ir.Nearest) and not is_of_node(expr):
        yield own_vector(expr.var, expr.property)
    elif isinstance(expr, _BASES):
        yield expr


def is_of_node(search: Search) -> bool:
    """Return whether an expression is a search on a node, independent of the rest of its row."""
    return not ir.variables(search.query)


def outside_aggregates(expr: ir.Expr) -> Iterator[ir.Expr]:
    """Yield the expression and its parts, without the operands of aggregates."""
    yield expr
    if not isinstance(expr, ir.Aggregate):
        for child in ir.children(expr):
            yield from outside_aggregates(child)


def columns_of(base: ir.Expr) -> str:
    """Return the column that a base expression is read from."""
    match base:
        case ir.Prop(var, name):
            return prop_of(var, name)
        case ir.EntityId(var) | ir.Entity(var):
            return id_of(var)
        case ir.PathLength(var) | ir.PathNodes(var):
            return path_of(var)
        case ir.TextMatch() | ir.Bm25() | ir.Nearest() | ir.Rrf():
            return search_of(base)
        case _:
            raise AssertionError(f"{base} is not read from a column")


def values_of(base: ir.Expr, column: pa.Array) -> pa.Array:
    """Return the value of a base expression from its column."""
    if isinstance(base, ir.PathLength):
        return pc.subtract(pc.list_value_length(column).cast(pa.int64()), pa.scalar(1, pa.int64()))
    if isinstance(base, ir.TextMatch):
        return pc.fill_null(column, False)  # an optional without a match has no text
    if isinstance(base, (ir.Bm25, ir.Rrf)):
        return pc.fill_null(column, 0.0)
    return column


def storage_column(column: Any, kind: pa.DataType) -> pa.Array:
    """Return a column in the types of storage."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == kind else column.cast(kind)


def frame_of(columns: Iterable[tuple[str, Any]], length: int) -> Frame:
    """Return a frame of which only the set of bound variables is meaningful."""
    numbers = {
        name[2:]: np.where(column.is_null().to_numpy(zero_copy_only=False), -1, 0).astype(np.int64)
        for name, column in columns
        if name.startswith("v:")
    }
    return Frame(length, numbers)
