"""Bind a variable: by key, by a filter that storage evaluates, or from columns in memory.

Columns in memory are always fastest. Without them, a key is looked up in its index, a filter that an index answers with
less reading uses the index, and a selective filter on a large table is evaluated by storage. Columns that are used
often enough are loaded in the end.
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
from omnigraph.execution.arrow.index_choice import by_index, is_text_key
from omnigraph.execution.arrow.topology import Places, narrow
from omnigraph.query import ir
from omnigraph.query.plan.estimate import selectivity
from omnigraph.query.plan.model import Scan, Seek
from omnigraph.query.plan.pushdown import NEVER, Predicate, all_of, fold_constants, sql
from omnigraph.schema.catalog import NodeType
from omnigraph.storage.tables import Table

LARGE_TABLE = 200_000
_WIDE = 200
"""A condition on less than one node in this many is not worth evaluating for all nodes."""
SELECTIVE = 0.1
Said = tuple[ir.Expr, Predicate]
"""A condition, and its predicate for storage."""


class Scanner:
    """Finds the nodes that a variable can be."""

    def __init__(self, data: GraphData, scope: Scope, request: Request) -> None:
        self._data = data
        self._scope = scope
        self._request = request

    def numbers(self, scan: Scan) -> Ints:
        """Return the nodes of a scan."""
        parts = [self._of_type(scan, self._data.catalog.node(name)) for name in scan.types]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def candidates(self, var: str, filters: tuple[ir.Expr, ...], numbers: Ints | None = None) -> Ints:
        """Return the nodes of a variable (or those given) that pass some filters on it alone."""
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
        """Return which of some nodes of a variable pass a filter on it alone."""
        types = self._scope.nodes[var]
        verdict = self._verdict(types[0], condition, numbers) if len(types) == 1 else None
        if verdict is None:
            return self._evaluator(Frame(len(numbers), {var: numbers})).mask(condition)
        if numbers is self._data.all_of(types):
            return verdict
        judged: Bools = verdict[numbers - self._data.nodes[types[0]].offset]
        return judged

    def _passing(self, var: str, type_name: str, filters: tuple[ir.Expr, ...]) -> Ints | None:
        """Return all nodes of a type that pass some filters, from memory when the same filters ran before."""
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
        """Return the value of a condition for every node of a type, by place, if it is cached or worth computing.

        That is when all nodes are needed anyway, and when the same condition recurs on columns in memory. A condition
        that can fail is evaluated on the nodes at hand only: others must not make the query fail.
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
        else:
            everything, done = self._by_storage(scan, node) or (everything, done)
        rest = tuple(f for f in scan.filters if f not in done)
        scope = Scope({**self._scope.nodes, scan.var: (node.name,)}, self._scope.edges)
        own = Scanner(self._data, scope, self._request) if len(scan.types) > 1 else self
        return own.candidates(scan.var, rest, everything)

    def _found_in_memory(self, seek: Seek, node: NodeType) -> Ints | None:
        """Return nodes by key or id from their column, once it was searched often enough to be sorted."""
        column = self._data.physical(node, node.key[0]) if seek.is_key else "id"
        loaded = self._data.loaded(node)
        loaded.column(column)
        places = loaded.places_with(column, [v for v in self._values(seek) if v is not None])
        return None if places is None else places + self._data.nodes[node.name].offset

    def _values(self, seek: Seek) -> list[Any]:
        """Return the values to look up; parameters are typed already."""
        value = self._request.params[seek.values.name] if isinstance(seek.values, ir.Param) else None
        if not isinstance(seek.values, ir.Param):
            value = self._evaluator(Frame(1)).scalar(seek.values).as_py()
        return value if isinstance(value, list) else [value]

    def _sought(self, seek: Seek, node: NodeType) -> Ints:
        """Return nodes by key or id: their ids are known, so only the key index is read."""
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
        """Return whether the columns are loaded, or a key was looked up so often that they should be."""
        loaded = self._data.loaded(node)
        columns = self._columns(node, conditions)
        if loaded.is_loaded(*columns):
            return True
        return all(loaded.is_worth_loading(f"seek {name}") for name in columns)

    def _by_storage(self, scan: Scan, node: NodeType) -> tuple[Ints, tuple[ir.Expr, ...]] | None:
        """Return nodes found by conditions that storage evaluates, and those conditions; None when there are none."""
        if not scan.pushed:
            return None
        said = [(c, self._said(c, node)) for c in scan.pushed]
        known = [(condition, found) for condition, found in said if found is not None]
        expansion = self._data.topologies.expansion
        chosen = [] if expansion == "csr" else self._by_index(known, node)
        if not chosen and (expansion == "btree" or self._is_worth_pushing(scan, node)):
            chosen = known if len(known) == len(said) else []
            return self._decided(chosen, node, by_index=expansion == "btree") if chosen else None
        return self._decided(chosen, node, by_index=True) if chosen else None

    def _by_index(self, known: list[Said], node: NodeType) -> list[Said]:
        """Return the conditions that an index answers with less reading than their columns. Loaded ones need none."""
        loaded = self._data.loaded(node)
        cold = [each for each in known if not loaded.is_loaded(*self._columns(node, (each[0],)))]
        chosen = [cold[i] for i in by_index(loaded.table, [found for _, found in cold])] if cold else []
        columns = self._columns(node, tuple(condition for condition, _ in chosen))
        return [] if all(loaded.is_worth_loading(f"filter {name}") for name in columns) else chosen

    def _is_worth_pushing(self, scan: Scan, node: NodeType) -> bool:
        """Return whether a filter is so selective that storage should evaluate it instead of loading large columns."""
        loaded = self._data.loaded(node)
        columns = self._columns(node, scan.pushed)
        if loaded.is_loaded(*columns):
            return False
        kept = 1.0
        for condition in scan.pushed:
            kept *= selectivity(condition)
        is_large = self._data.nodes[node.name].count >= LARGE_TABLE and kept <= SELECTIVE
        return is_large and not all(loaded.is_worth_loading(f"filter {name}") for name in columns)

    def _decided(self, said: list[Said], node: NodeType, *, by_index: bool) -> tuple[Ints, tuple[ir.Expr, ...]]:
        where = sql(all_of(found for _, found in said))
        table = self._data.loaded(node).table
        self._data.note(lambda: f"storage filter {where}{_told(table, where) if by_index else ''}")
        places = np.empty(0, np.int64)
        if where != sql(NEVER):
            places, _ = table.find(where, by_index=by_index)
        return np.sort(places) + self._data.nodes[node.name].offset, tuple(condition for condition, _ in said)

    def _said(self, condition: ir.Expr, node: NodeType) -> Predicate | None:
        """Return a condition over physical columns."""

        def column(name: str) -> str:
            return "id" if is_text_key(node, name) else self._data.physical(node, name)

        return fold_constants(condition, self._request.params, column)


def _verdict_key(condition: ir.Expr, request: Request) -> tuple[Hashable, ...] | None:
    """Return the cache key of a condition's value on one pin; None when it must not be cached."""
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


def _told(table: Table, where: str) -> str:
    return " by index" if where != "FALSE" and "ScalarIndexQuery" in table.index_plan(where) else ""
