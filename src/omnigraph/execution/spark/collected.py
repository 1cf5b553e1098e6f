"""Collected rows as a small graph on which the embedded engine finishes a query.

Entities that occur are numbered by type and id, as the embedded engine numbers them, and the collected properties of
each are kept once. Ties, whole nodes and distinct rows then come out the same, because the same code makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.data import Ints, Span, take_nullable
from omnigraph.execution.arrow.evaluate import Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.spark.columns import IDS, Needs, bound_variables, id_of, type_of
from omnigraph.schema.catalog import Catalog, EntityType


class CollectedGraph:
    """The interface of `GraphData` over the entities in some rows only."""

    def __init__(self, table: pa.Table, scope: Scope, needs: Needs, catalog: Catalog) -> None:
        self.catalog = catalog
        self._values: dict[tuple[bool, str, str], pa.Array] = {}
        numbers: dict[str, Ints] = {}
        bound = bound_variables(table.column_names)
        nodes = [var for var in bound if var in scope.nodes]
        edges = [var for var in bound if var in scope.edges]
        self.nodes = self._number(table, nodes, sorted(catalog.nodes), numbers, is_edge=False)
        self.edges = self._number(table, edges, sorted(catalog.edges), numbers, is_edge=True)
        for var in bound:
            self._keep(table, var, numbers[var], scope, needs)
        self.frame = Frame(table.num_rows, {var: numbers[var] for var in bound})

    def entity(self, name: str, *, is_edge: bool) -> EntityType:
        """Return a node or edge type."""
        return self.catalog.edge(name) if is_edge else self.catalog.node(name)

    def take(self, types: tuple[str, ...], name: str, numbers: Ints, *, is_edge: bool = False) -> pa.Array:
        """Return a property of each numbered entity; null where the number is negative."""
        spans = self.edges if is_edge else self.nodes
        parts: list[pa.Array] = []
        positions = np.full(len(numbers), -1, np.int64)
        base = 0
        for each in types:
            values = self._values.get((is_edge, each, name))
            if values is None:
                continue
            inside = (numbers >= spans[each].offset) & (numbers < spans[each].offset + spans[each].count)
            positions[inside] = numbers[inside] - spans[each].offset + base
            parts.append(values)
            base += len(values)
        if not base:
            return pa.nulls(len(numbers), self._kind(types[0], name, is_edge=is_edge))
        kind = parts[0].type
        column = pa.concat_arrays([part if part.type == kind else part.cast(kind) for part in parts])
        return take_nullable(column, positions, positions < 0)

    def _kind(self, type_name: str, name: str, *, is_edge: bool) -> pa.DataType:
        entity = self.entity(type_name, is_edge=is_edge)
        named = {p.name: p.column for p in entity.properties}
        return entity.arrow_schema.field(named[name]).type if name in named else IDS

    def _number(
        self, table: pa.Table, variables: list[str], types: list[str], numbers: dict[str, Ints], *, is_edge: bool
    ) -> dict[str, Span]:
        """Number the entities of some variables; return the spans of all types."""
        ids = [_column(table, id_of(var)) for var in variables]
        kinds = [_column(table, type_of(var)) for var in variables]
        spans: dict[str, Span] = {}
        offset = 0
        for var, column in zip(variables, ids, strict=True):
            numbers[var] = np.full(len(column), -1, np.int64)
        for number, name in enumerate(types):
            chosen = [pc.fill_null(pc.equal(kind, number), False) for kind in kinds]
            parts = [column.filter(mask) for column, mask in zip(ids, chosen, strict=True)]
            known = pa.chunked_array(parts, IDS).unique().sort() if parts else pa.array([], IDS)
            for var, mask, part in zip(variables, chosen, parts, strict=True):
                places = pc.index_in(part, value_set=known).to_numpy(zero_copy_only=False)
                numbers[var][mask.to_numpy(zero_copy_only=False)] = places.astype(np.int64) + offset
            spans[name] = Span(name, offset, len(known))
            self._values[(is_edge, name, "id")] = known
            offset += len(known)
        return spans

    def _keep(self, table: pa.Table, var: str, numbers: Ints, scope: Scope, needs: Needs) -> None:
        """Keep the properties of one variable's entities, each entity once."""
        is_edge = var in scope.edges
        spans: Mapping[str, Span] = self.edges if is_edge else self.nodes
        for prop in needs.of(var, scope):
            if prop.column not in table.column_names:
                continue
            column = _column(table, prop.column)
            for type_name in prop.physical:
                span = spans[type_name]
                rows = np.flatnonzero((numbers >= span.offset) & (numbers < span.offset + span.count))
                row_of = np.full(span.count, -1, np.int64)
                row_of[numbers[rows] - span.offset] = rows
                values = take_nullable(column, row_of, row_of < 0)
                key = (is_edge, type_name, prop.name)
                earlier = self._values.get(key)
                self._values[key] = values if earlier is None else pc.coalesce(earlier, values)


def _column(table: pa.Table, name: str) -> Any:
    return table[name].combine_chunks()
