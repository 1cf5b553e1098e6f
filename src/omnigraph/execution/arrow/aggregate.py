"""Group rows and compute aggregates, in one Arrow pass for all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.data import Ints
from omnigraph.execution.arrow.evaluate import Evaluator
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.rank import codes, groups
from omnigraph.execution.arrow.topology import sorted_distinct
from omnigraph.query import ir

_LARGEST = 2**62
_ARROW_NAME = {"min": "min", "max": "max", "collect": "list"}


def group_rows(
    keys: list[ir.Expr], wanted: list[ir.Aggregate], evaluator: Evaluator, frame: Frame
) -> tuple[Frame, dict[ir.Expr, pa.Array]]:
    """Return one row per group (bindings of its first row), and the value of every aggregate per group.

    Without keys there is one group, even of no rows.
    """
    deciding = _deciding(keys, evaluator)
    is_counted = frame.weights is not None and len(deciding) == 1 and isinstance(deciding[0], ir.Entity)
    if is_counted:
        numbers = first = np.arange(frame.length, dtype=np.int64)  # counted rows are one per node
    else:
        numbers, first = groups([_key_codes(key, evaluator, frame) for key in deciding], frame.length)
    count = len(first) if keys else 1
    known: dict[ir.Expr, pa.Array] = {a: _aggregate(a, evaluator, frame, numbers, count) for a in wanted}
    representatives = replace(frame, weights=None) if is_counted else frame.take(first)
    del numbers, first
    shown = evaluator.over(representatives)
    # A whole node is read again from its binding; only computed values have to be kept.
    known.update({key: shown.array(key) for key in keys if not isinstance(key, (ir.Prop, ir.EntityId, ir.Entity))})
    if not keys and not frame.length:
        representatives = Frame(1, {v: np.full(1, -1, np.int64) for v in frame.numbers})
    return representatives, known


def _deciding(keys: list[ir.Expr], evaluator: Evaluator) -> list[ir.Expr]:
    """Return the keys that determine the group: a whole node, or its id or key, implies its other properties."""
    whole = {var for key in keys if evaluator.is_whole(key) for var in ir.variables(key)}
    found: list[ir.Expr] = []
    for key in keys:
        deciding = key
        if isinstance(key, (ir.Prop, ir.EntityId, ir.Entity)) and key.var in whole:
            deciding = ir.Entity(key.var, ir.ExprType(None, "node"))
        if deciding not in found:
            found.append(deciding)
    return found


def _key_codes(key: ir.Expr, evaluator: Evaluator, frame: Frame) -> Ints:
    if isinstance(key, ir.Entity):
        return frame.numbers[key.var]
    held = evaluator.held(key)
    if held is not None:
        # A column is encoded once, and rows look their codes up.
        by_place: Ints = evaluator.kept.get(("codes", *held.key), lambda: codes(held.column))
        of_rows: Ints = by_place[held.places]
        return of_rows
    return codes(evaluator.array(key))


def _aggregate(aggregate: ir.Aggregate, evaluator: Evaluator, frame: Frame, numbers: Ints, count: int) -> pa.Array:
    operand = aggregate.operand
    if frame.weights is not None:
        # Only counts of values that are never null are weighted.
        if count == 1:
            return pa.array([frame.weights.sum()], pa.int64())
        if count == len(numbers):  # every row is a group, in order
            return pa.array(frame.weights)
        totals = np.zeros(count, np.int64)
        np.add.at(totals, numbers, frame.weights)
        return pa.array(totals)
    if operand is None:
        return pa.array(np.bincount(numbers, minlength=count))
    if aggregate.function == "count" and isinstance(operand, ir.Entity):
        return _count_entities(frame.numbers[operand.var], numbers, count, distinct=aggregate.distinct)
    values = evaluator.array(operand)
    if aggregate.function == "count":
        present = pc.is_valid(values).to_numpy(zero_copy_only=False)
        coded = codes(values)
        return _count_entities(np.where(present, coded, -1), numbers, count, distinct=aggregate.distinct)
    return _by_arrow(aggregate, values, numbers, count)


def _count_entities(values: Ints, numbers: Ints, count: int, *, distinct: bool) -> pa.Array:
    present = values >= 0
    values, numbers = values[present], numbers[present]
    if distinct and len(values):
        if count == 1:
            return pa.array([len(sorted_distinct(values))], pa.int64())
        # Combine group and value in one number: sorting those is far cheaper than sorting pairs.
        low, width = values.min(), int(values.max() - values.min()) + 1
        if count * width < _LARGEST:
            numbers = sorted_distinct(numbers * width + (values - low)) // width
        else:
            numbers = np.unique(np.stack([numbers, values]), axis=1)[0]
    return pa.array(np.bincount(numbers, minlength=count))


def _summed(function: str, values: pa.Array, numbers: Ints, count: int) -> pa.Array:
    """Return sums or means of floats, added in row order; null for a group without values."""
    sums = np.bincount(numbers, weights=values.to_numpy(zero_copy_only=False), minlength=count)
    sizes = np.bincount(numbers, minlength=count)
    found = sums if function == "sum" else sums / np.maximum(sizes, 1)
    return pa.array(found.astype(np.float64), mask=sizes == 0)  # without rows the sums are integers


def _by_arrow(aggregate: ir.Aggregate, values: pa.Array, numbers: Ints, count: int) -> pa.Array:
    kept = pa.array(numbers)
    if values.null_count:
        present = pc.is_valid(values)
        values, kept = values.filter(present), kept.filter(present)
    if aggregate.distinct:
        _, first = groups([kept.to_numpy(), codes(values)], len(values))
        values, kept = values.take(pa.array(first)), kept.take(pa.array(first))
    if aggregate.function in ("sum", "avg"):
        return _summed(aggregate.function, values.cast(pa.float64(), safe=False), kept.to_numpy(), count)
    name = _ARROW_NAME[aggregate.function]
    table = pa.table({"group": kept, "value": values})
    result = table.group_by("group", use_threads=False).aggregate([("value", name)])
    column = result[f"value_{name}"].combine_chunks()
    # Groups whose values are all null have no row above.
    place = np.full(count, -1, np.int64)
    place[result["group"].to_numpy()] = np.arange(len(result))
    filled = (
        column.take(pa.array(np.maximum(place, 0), mask=place < 0)) if len(column) else pa.nulls(count, column.type)
    )
    if aggregate.function == "collect":
        return pa.array([v if v is not None else [] for v in filled.to_pylist()], column.type)
    return filled
