"""Binding a variable: by key, by a filter that storage decides, or from columns in memory.

Columns in memory are always the fastest. When they are not there, a key is looked up in its index, and a filter that
leaves little of a large table is decided by storage. What is asked often enough is loaded after all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.datatypes import Scalar, canonical_text
from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.query import ir
from omnigraph.query.plan.estimate import selectivity
from omnigraph.query.plan.model import Scan, Seek
from omnigraph.query.plan.pushdown import predicate
from omnigraph.schema.catalog import NodeType
from omnigraph.storage.tables import Table

LARGE_TABLE = 200_000
SELECTIVE = 0.1


class Scanner:
    """Finds the nodes that a variable can be."""

    def __init__(self, data: GraphData, scope: Scope, request: Request) -> None:
        self._data = data
        self._scope = scope
        self._request = request

    def numbers(self, scan: Scan) -> Ints:
        """The nodes of a scan."""
        parts = [self._of_type(scan, self._data.catalog.node(name)) for name in scan.types]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def candidates(self, var: str, filters: tuple[ir.Expr, ...], numbers: Ints | None = None) -> Ints:
        """Nodes of a variable (or those given) that pass some filters on it alone."""
        found = self._data.all_of(self._scope.nodes[var]) if numbers is None else numbers
        for condition in filters:
            found = found[self._evaluator(Frame(len(found), {var: found})).mask(condition)]
        return found

    def _evaluator(self, frame: Frame) -> Evaluator:
        return Evaluator(self._data, self._scope, self._request, frame)

    def _of_type(self, scan: Scan, node: NodeType) -> Ints:
        span = self._data.nodes[node.name]
        everything = np.arange(span.offset, span.offset + span.count, dtype=np.int64)
        if not span.count:
            return everything
        done: tuple[ir.Expr, ...] = ()
        if scan.seek is not None and not self._is_loaded(node, (scan.seek.condition,)):
            everything = self._sought(scan.seek, node)
            done = (scan.seek.condition,)
        elif scan.pushed and self._is_worth_pushing(scan, node):
            found = self._decided_by_storage(scan.pushed, node)
            if found is not None:
                everything, done = found, scan.pushed
        rest = tuple(f for f in scan.filters if f not in done)
        scope = Scope({**self._scope.nodes, scan.var: (node.name,)}, self._scope.edges)
        own = Scanner(self._data, scope, self._request) if len(scan.types) > 1 else self
        return own.candidates(scan.var, rest, everything)

    def _sought(self, seek: Seek, node: NodeType) -> Ints:
        """Nodes by key or id: the ids are known, so only the key index is asked."""
        value = self._evaluator(Frame(1)).scalar(seek.values).as_py()
        values = value if isinstance(value, list) else [value]
        scalar = Scalar.STRING
        if seek.is_key:
            kind = node.property(node.key[0]).type
            scalar = kind.scalar
        ids = sorted({canonical_text(v, scalar) for v in values if v is not None})
        table = self._data.loaded(node).table
        self._data.note(lambda: f"{'key index' if table.has_index('id') else 'ids'} of {node.name}")
        return self._data.loaded(node).places_of(pa.array(ids, pa.string())) + self._data.nodes[node.name].offset

    def _columns(self, node: NodeType, conditions: tuple[ir.Expr, ...]) -> list[str]:
        names = {e.name for c in conditions for e in ir.walk(c) if isinstance(e, ir.Prop)}
        found = [self._data.physical(node, name) for name in sorted(names)]
        has_id = any(isinstance(e, ir.EntityId) for c in conditions for e in ir.walk(c))
        return [*found, "id"] if has_id else found

    def _is_loaded(self, node: NodeType, conditions: tuple[ir.Expr, ...]) -> bool:
        """Whether the columns are there, or a key was looked up so often that they should be."""
        loaded = self._data.loaded(node)
        columns = self._columns(node, conditions)
        if loaded.is_loaded(*columns):
            return True
        return all(loaded.is_worth_loading(f"seek {name}") for name in columns)

    def _is_worth_pushing(self, scan: Scan, node: NodeType) -> bool:
        loaded = self._data.loaded(node)
        columns = self._columns(node, scan.pushed)
        if loaded.is_loaded(*columns):
            return False
        if self._data.topologies.expansion == "btree":
            return True
        kept = 1.0
        for condition in scan.pushed:
            kept *= selectivity(condition)
        is_large = self._data.nodes[node.name].count >= LARGE_TABLE and kept <= SELECTIVE
        return is_large and not all(loaded.is_worth_loading(f"filter {name}") for name in columns)

    def _decided_by_storage(self, pushed: tuple[ir.Expr, ...], node: NodeType) -> Ints | None:
        where = self.sql(pushed, node)
        if where is None:
            return None
        table = self._data.loaded(node).table
        self._data.note(lambda: f"storage filter {where}{_by_index(table, where)}")
        if where == "FALSE":
            return np.empty(0, np.int64)
        places, _ = table.find(where)
        return np.sort(places) + self._data.nodes[node.name].offset

    def sql(self, pushed: tuple[ir.Expr, ...], node: NodeType) -> str | None:
        """Conditions as one predicate over the physical columns of a type."""
        parts = [
            predicate(condition, self._request.params, lambda name: f"`{self._data.physical(node, name)}`")
            for condition in pushed
        ]
        if None in parts:
            return None
        return "FALSE" if "FALSE" in parts else " AND ".join(p for p in parts if p is not None)


def _by_index(table: Table, where: str) -> str:
    return " by index" if where != "FALSE" and "ScalarIndexQuery" in table.index_plan(where) else ""
