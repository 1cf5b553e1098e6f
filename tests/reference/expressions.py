"""What an expression is worth, in Python values; null is None and logic has three values."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, Scalar
from omnigraph.query import ir
from omnigraph.schema.catalog import Catalog
from tests.reference.data import NodeRef, PathRef, PlainGraph, Row, property_of

COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class EvaluationError(Exception):
    """The query has no result: overflow, division by zero, impossible hops or counts."""


@dataclass(frozen=True)
class Place:
    """What an expression can see: one row, and after grouping the rows of its group and the columns."""

    row: Row
    group: list[Row] | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluator:
    """Evaluates expressions over one graph."""

    graph: PlainGraph
    catalog: Catalog
    params: Mapping[str, Any]
    now: dt.datetime

    def value(self, expr: ir.Expr, place: Place) -> Any:
        """The value of an expression; null is None."""
        method = getattr(self, f"_{type(expr).__name__.lower()}")
        return method(expr, place)

    def is_true(self, expr: ir.Expr, place: Place) -> bool:
        """Whether a filter keeps the row: null does not."""
        return self.value(expr, place) is True

    # --- leaves -------------------------------------------------------------------------------------------------------

    def _const(self, expr: ir.Const, place: Place) -> Any:
        return list(expr.value) if isinstance(expr.value, tuple) else expr.value

    def _param(self, expr: ir.Param, place: Place) -> Any:
        return self.params[expr.name]

    def _now(self, expr: ir.Now, place: Place) -> Any:
        return self.now

    def _prop(self, expr: ir.Prop, place: Place) -> Any:
        return property_of(self.graph, place.row[expr.var], expr.name)

    def _entityid(self, expr: ir.EntityId, place: Place) -> Any:
        bound = place.row[expr.var]
        assert not isinstance(bound, PathRef)
        return None if bound is None else bound.id

    def _entity(self, expr: ir.Entity, place: Place) -> Any:
        node = place.row[expr.var]
        if node is None:
            return None
        assert isinstance(node, NodeRef)
        shown = {"@id": node.id}
        for each in self.catalog.nodes[node.type].properties:
            value = property_of(self.graph, node, each.name)
            if value is not None and not each.type.is_vector and each.type.scalar is not Scalar.BLOB:
                shown[each.name] = value
        return shown

    def _pathlength(self, expr: ir.PathLength, place: Place) -> Any:
        path = place.row[expr.var]
        return path.length if isinstance(path, PathRef) else None

    def _pathnodes(self, expr: ir.PathNodes, place: Place) -> Any:
        path = place.row[expr.var]
        return [node.id for node in path.nodes] if isinstance(path, PathRef) else None

    def _output(self, expr: ir.Output, place: Place) -> Any:
        return place.outputs[expr.name]

    # --- operators ----------------------------------------------------------------------------------------------------

    def _arithmetic(self, expr: ir.Arithmetic, place: Place) -> Any:
        left, right = self.value(expr.left, place), self.value(expr.right, place)
        if left is None or right is None:
            return None
        scalar = _scalar(expr.type)
        if scalar in FLOATS:
            return _finite(_float_result(expr.op, float(left), float(right)))
        return _in_range(_integer_result(expr.op, _in_range(left, scalar), _in_range(right, scalar)), scalar)

    def _negate(self, expr: ir.Negate, place: Place) -> Any:
        operand = self.value(expr.operand, place)
        if operand is None:
            return None
        scalar = _scalar(expr.type)
        return -float(operand) if scalar in FLOATS else _in_range(-operand, scalar)

    def _compare(self, expr: ir.Compare, place: Place) -> bool | None:
        left, right = self.value(expr.left, place), self.value(expr.right, place)
        return None if left is None or right is None else COMPARISONS[expr.op](left, right)

    def _texttest(self, expr: ir.TextTest, place: Place) -> bool | None:
        left, right = self.value(expr.left, place), self.value(expr.right, place)
        if left is None or right is None:
            return None
        return right in left if expr.op == "contains" else left.startswith(right)

    def _member(self, expr: ir.Member, place: Place) -> bool | None:
        item, items = self.value(expr.item, place), self.value(expr.items, place)
        return None if item is None or items is None else item in items

    def _isnull(self, expr: ir.IsNull, place: Place) -> bool:
        return (self.value(expr.operand, place) is None) != expr.negated

    def _and(self, expr: ir.And, place: Place) -> bool | None:
        values = [self.value(each, place) for each in expr.operands]
        return False if False in values else None if None in values else True

    def _or(self, expr: ir.Or, place: Place) -> bool | None:
        values = [self.value(each, place) for each in expr.operands]
        return True if True in values else None if None in values else False

    def _not(self, expr: ir.Not, place: Place) -> bool | None:
        value = self.value(expr.operand, place)
        return None if value is None else not value

    # --- aggregates ---------------------------------------------------------------------------------------------------

    def _aggregate(self, expr: ir.Aggregate, place: Place) -> Any:
        assert place.group is not None
        if expr.operand is None:
            return len(place.group)
        values = [self._aggregated(expr.operand, row) for row in place.group]
        values = [each for each in values if each is not None]
        if expr.distinct:
            values = _distinct(values)
        return _aggregate_result(expr.function, values)

    def _aggregated(self, operand: ir.Expr, row: Row) -> Any:
        if isinstance(operand, ir.Entity):
            return row[operand.var]
        return self.value(operand, Place(row))


def as_key(value: Any) -> Any:
    """A value, lists and objects too, in a form that can be put in a set: equal values, equal keys."""
    if isinstance(value, dict):
        return ("object", *sorted((name, as_key(each)) for name, each in value.items()))
    if isinstance(value, list):
        return ("list", *(as_key(each) for each in value))
    return value


def _scalar(found: ir.ExprType) -> Scalar:
    assert found.value is not None
    return found.value.scalar


def _integer_result(op: str, left: int, right: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - quotient * right


def _float_result(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise EvaluationError("division by zero")
    return left / right if op == "/" else math.fmod(left, right)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise EvaluationError("overflow")
    return number


def _in_range(number: int, scalar: Scalar) -> int:
    low, high = INTEGER_RANGE[scalar]
    if not low <= number <= high:
        raise EvaluationError(f"{number} overflows {scalar}")
    return number


def _distinct(values: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for each in values:
        found.setdefault(as_key(each), each)
    return list(found.values())


def _aggregate_result(function: str, values: list[Any]) -> Any:
    if function == "count":
        return len(values)
    if function == "collect":
        return values
    if not values:
        return None
    if function == "sum":
        return math.fsum(values)
    if function == "avg":
        return math.fsum(values) / len(values)
    return min(values) if function == "min" else max(values)
