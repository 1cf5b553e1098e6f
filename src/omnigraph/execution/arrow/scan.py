"""Binding a variable: by key, by a filter that storage decides, or from columns in memory.

Columns in memory are always the fastest. When they are not there, a key is looked up in its index, and a filter that
leaves little of a large table is decided by storage. What is asked often enough is loaded after all.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.datatypes import Scalar, canonical_text
from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Bools, Frame
from omnigraph.execution.arrow.topology import Places, narrow
from omnigraph.query import ir
from omnigraph.query.plan.estimate import selectivity
from omnigraph.query.plan.model import Scan, Seek
from omnigraph.query.plan.pushdown import predicate
from omnigraph.schema.catalog import NodeType
from omnigraph.storage.tables import Table

LARGE_TABLE = 200_000
_WIDE = 200
"""A condition on less than one node in so many is not worth judging all nodes for."""
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
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def candidates(self, var: str, filters: tuple[ir.Expr, ...], numbers: Ints | None = None) -> Ints:
        """Nodes of a variable (or those given) that pass some filters on it alone."""
        types = self._scope.nodes[var]
        found = self._data.all_of(types) if numbers is None else numbers
        if len(types) == 1 and filters and found is self._data.all_of(types):
            passing = self._passing(var, types[0], filters)
            if passing is not None:
                return passing
        for condition in filters:
            found = found[self.mask(var, condition, found)]
        return found

    def mask(self, var: str, condition: ir.Expr, numbers: Ints) -> Bools:
        """Which of some nodes of a variable pass a filter on it alone."""
        types = self._scope.nodes[var]
        verdict = self._verdict(types[0], condition, numbers) if len(types) == 1 else None
        if verdict is None:
            return self._evaluator(Frame(len(numbers), {var: numbers})).mask(condition)
        if numbers is self._data.all_of(types):
            return verdict
        judged: Bools = verdict[numbers - self._data.nodes[types[0]].offset]
        return judged

    def _passing(self, var: str, type_name: str, filters: tuple[ir.Expr, ...]) -> Ints | None:
        """All nodes of a type that pass some filters, from memory when the same was asked before."""
        keys = [_verdict_key(condition, self._request) for condition in filters]
        if None in keys:
            return None
        every = self._data.all_of((type_name,))

        def judge() -> Places:
            masks = [self.mask(var, condition, every) for condition in filters]
            places: Ints = np.flatnonzero(np.logical_and.reduce(masks) if len(masks) > 1 else masks[0])
            return narrow(places)

        pin = self._data.pin(self._data.catalog.node(type_name))
        found: Ints = self._data.kept.get(("passing", pin, *keys), judge).astype(np.int64)
        found += self._data.nodes[type_name].offset
        return found

    def _verdict(self, type_name: str, condition: ir.Expr, numbers: Ints) -> Bools | None:
        """What a condition says of every node of a type, by place, if that is known or worth finding out.

        It is when all nodes are asked about anyway, and when the same is asked again and again of columns in memory. A
        condition that can fail is judged on the nodes at hand only: others must not make the query fail.
        """
        node = self._data.catalog.node(type_name)
        key = _verdict_key(condition, self._request)
        if key is None:
            return None
        key = ("verdict", self._data.pin(node), *key)
        kept = self._data.kept
        every = self._data.all_of((type_name,))
        if numbers is not every:
            found = kept.find(key)
            is_ready = self._data.loaded(node).is_loaded(*self._columns(node, (condition,)))
            if found is not None or not is_ready or len(every) > _WIDE * len(numbers) or not kept.is_wanted(key):
                return found
        var = next(iter(ir.variables(condition)))
        return kept.get(key, lambda: self._evaluator(Frame(len(every), {var: every})).mask(condition))

    def _evaluator(self, frame: Frame) -> Evaluator:
        return Evaluator(self._data, self._scope, self._request, frame)

    def _of_type(self, scan: Scan, node: NodeType) -> Ints:
        span = self._data.nodes[node.name]
        everything = self._data.all_of((node.name,))
        if not span.count:
            return everything
        done: tuple[ir.Expr, ...] = ()
        if scan.seek is not None:
            found = self._found_in_memory if self._is_loaded(node, (scan.seek.condition,)) else self._sought
            sought = found(scan.seek, node)
            if sought is not None:
                everything, done = sought, (scan.seek.condition,)
        elif scan.pushed and self._is_worth_pushing(scan, node):
            decided = self._decided_by_storage(scan.pushed, node)
            if decided is not None:
                everything, done = decided, scan.pushed
        rest = tuple(f for f in scan.filters if f not in done)
        scope = Scope({**self._scope.nodes, scan.var: (node.name,)}, self._scope.edges)
        own = Scanner(self._data, scope, self._request) if len(scan.types) > 1 else self
        return own.candidates(scan.var, rest, everything)

    def _found_in_memory(self, seek: Seek, node: NodeType) -> Ints | None:
        """Nodes by key or id from their column, once it was searched so often that it is sorted."""
        column = self._data.physical(node, node.key[0]) if seek.is_key else "id"
        loaded = self._data.loaded(node)
        loaded.column(column)
        places = loaded.places_with(column, [v for v in self._values(seek) if v is not None])
        return None if places is None else places + self._data.nodes[node.name].offset

    def _values(self, seek: Seek) -> list[Any]:
        """The values that are looked for; parameters are typed already."""
        value = self._request.params[seek.values.name] if isinstance(seek.values, ir.Param) else None
        if not isinstance(seek.values, ir.Param):
            value = self._evaluator(Frame(1)).scalar(seek.values).as_py()
        return value if isinstance(value, list) else [value]

    def _sought(self, seek: Seek, node: NodeType) -> Ints:
        """Nodes by key or id: the ids are known, so only the key index is asked."""
        values = self._values(seek)
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


def _verdict_key(condition: ir.Expr, request: Request) -> tuple[Hashable, ...] | None:
    """What decides the verdict of a condition on one pin; None when it must not be kept."""
    values: list[Hashable] = []
    for each in ir.walk(condition):
        if isinstance(each, (ir.Now, ir.Arithmetic, ir.Negate)):
            return None
        if isinstance(each, ir.Param):
            value = request.params[each.name]
            if isinstance(value, list):
                return None
            values.append((type(value), value))
    return condition, *values


def _by_index(table: Table, where: str) -> str:
    return " by index" if where != "FALSE" and "ScalarIndexQuery" in table.index_plan(where) else ""
