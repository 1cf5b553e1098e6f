"""The effects of a query on a graph, for tools: columns returned, types read and written.         (checked -> FACTS)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.query import ir
from omnigraph.query.check_pattern import CheckedBlock
from omnigraph.query.typecheck import CheckedMutation, CheckedQuery
from omnigraph.schema.catalog import Catalog

Fact = tuple[str, str]
"""`("node" | "edge", type name)`."""

_KINDS = {
    Scalar.STRING: "string", Scalar.BOOL: "bool", Scalar.I32: "int", Scalar.U32: "int", Scalar.I64: "bigint",
    Scalar.U64: "bigint", Scalar.F32: "float", Scalar.F64: "float", Scalar.DATE: "date", Scalar.DATETIME: "datetime",
    Scalar.BLOB: "blob",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: its name and kind, as clients receive it."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values."""
        body: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.item_kind is not None:
            body["item_kind"] = self.item_kind
        if self.vector_dim is not None:
            body["vector_dim"] = self.vector_dim
        return body | {"nullable": self.nullable}


@dataclass(frozen=True, slots=True)
class Operation:
    """The result of a query, and the types it reads and writes, sorted."""

    result: tuple[ResultColumn, ...]
    reads: tuple[Fact, ...]
    writes: tuple[Fact, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return {
            "result": [each.to_json() for each in self.result],
            "reads": [{"kind": kind, "type_name": name} for kind, name in self.reads],
            "writes": [{"kind": kind, "type_name": name} for kind, name in self.writes],
        }


def describe_operation(checked: CheckedQuery | CheckedMutation, catalog: Catalog) -> Operation:
    """Return the facts about one checked query."""
    if isinstance(checked, CheckedQuery):
        columns = tuple(_column(each) for each in checked.result.columns)
        return Operation(columns, _sorted(_block_reads(checked.pattern)), ())
    reads: set[Fact] = set()
    writes: set[Fact] = set()
    for statement in checked.statements:
        target: Fact = (statement.type_kind, statement.type_name)
        writes.add(target)
        if isinstance(statement, ir.Insert):
            reads.update(_ends(statement, catalog))
            continue
        reads.add(target)
        if isinstance(statement, ir.Delete) and statement.type_kind == "node":
            incident = set(_incident(statement.type_name, catalog))
            reads |= incident
            writes |= incident
    return Operation((), _sorted(reads), _sorted(writes))


def _column(column: ir.OutputColumn) -> ResultColumn:
    found = column.type.value
    if found is None:
        # A whole node; a null literal has no type of its own and reads as text.
        return ResultColumn(column.name, "object" if column.type.kind == "node" else "string", column.type.nullable)
    return _value_column(column.name, found)


def _value_column(name: str, found: PropertyType) -> ResultColumn:
    if found.dimension is not None:
        return ResultColumn(name, "vector", found.nullable, vector_dim=found.dimension)
    if found.is_list:
        return ResultColumn(name, "list", found.nullable, item_kind=_KINDS[found.scalar])
    return ResultColumn(name, _KINDS[found.scalar], found.nullable)


def _block_reads(block: CheckedBlock) -> Iterator[Fact]:
    for node in block.nodes:
        yield from (("node", name) for name in node.types)
    for traversal in block.traversals:
        for edge in traversal.edges:
            yield from (("edge", edge.name), ("node", edge.source), ("node", edge.target))
    for inner in (*block.optionals, *block.negations):
        yield from _block_reads(inner)


def _ends(statement: ir.Insert, catalog: Catalog) -> Iterator[Fact]:
    """An inserted edge needs its end nodes to exist."""
    if statement.type_kind == "edge":
        edge = catalog.edges[statement.type_name]
        yield from (("node", edge.source), ("node", edge.target))


def _incident(node: str, catalog: Catalog) -> Iterator[Fact]:
    for edge in catalog.edges.values():
        if node in (edge.source, edge.target):
            yield ("edge", edge.name)


def _sorted(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(set(facts), key=lambda fact: (fact[0], fact[1])))
