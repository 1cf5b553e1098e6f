"""Choose the conditions on a table that its indexes evaluate, by the cost of reading.

A storage request costs as much as reading some more bytes, so a column of a few kilobytes is read whole even if it has
an index. For a larger one the bounds of the index pages give the pages that a condition touches: the index is used
where these pages, with the requests for them, cost less than the column. The most selective of several conditions is
evaluated first, and the others on the rows it found, unless those may still be many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.datatypes import EPOCH_DATE, Scalar
from omnigraph.query.plan.pushdown import AllOf, AnyOf, Comparison, NullTest, Predicate, Prefix
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.index_pages import IndexCost, ValueRange, column_bytes, index_cost
from omnigraph.storage.tables import Table

REQUEST_BYTES_LOCAL = 16 << 10
REQUEST_BYTES_REMOTE = 256 << 10
"""Bytes that are read in the time of one additional request."""
SMALL_TABLE = 4096
"""Rows of one page of an index: smaller tables gain nothing from it."""
_OPENING = 4
_LOOKUP = 1
"""Requests that an index takes beyond those of a column: to open it, and for every range."""
_FEW_PAGES = 2
_LAST = "\U0010ffff"
Ranges = dict[str, list[ValueRange]]


@dataclass(frozen=True, slots=True)
class _Group:
    """Conditions (by number) that the same indexes evaluate together."""

    members: tuple[int, ...]
    ranges: Ranges


def is_text_key(entity: EntityType, name: str) -> bool:
    """Return whether a property is the id of its entity, as the same text, so that the index of ids serves it."""
    return entity.key == (name,) and entity.property(name).type.scalar is Scalar.STRING


def by_index(table: Table, conditions: Sequence[Predicate]) -> tuple[int, ...]:
    """Return the numbers of the conditions to be evaluated by index; none when columns are cheaper."""
    if table.stored_rows < SMALL_TABLE:
        return ()
    request = REQUEST_BYTES_LOCAL if table.is_local else REQUEST_BYTES_REMOTE
    priced = []
    for group in _groups(conditions):
        # Metadata alone rules small columns out: no request is made for them.
        if all(column_bytes(table, name) > _OPENING * request and table.has_index(name) for name in group.ranges):
            costs = [index_cost(table, name, ranges) for name, ranges in group.ranges.items()]
            if _total(costs, request) < sum(cost.column_bytes for cost in costs):
                priced.append((sum(cost.rows for cost in costs), group))
    chosen: list[int] = []
    left: int | None = None
    for rows, group in sorted(priced, key=lambda each: each[0]):
        if left is not None and left <= _FEW_PAGES * _page_rows(table, group):
            break
        chosen += group.members
        left = rows
    return tuple(sorted(chosen))


def _total(costs: Iterable[IndexCost], request: int) -> int:
    return sum(cost.index_bytes + (_OPENING + _LOOKUP * cost.lookups) * request for cost in costs)


def _page_rows(table: Table, group: _Group) -> int:
    parts = [part for name in group.ranges for part in table.index_parts(name)]
    return max((table.pages.bounds(table.path, part.uuid).rows_per_page for part in parts), default=0)


def _groups(conditions: Sequence[Predicate]) -> list[_Group]:
    """Return conditions with their index ranges; those on one column together, since they narrow each other."""
    alone: dict[str, tuple[list[int], list[ValueRange]]] = {}
    found: list[_Group] = []
    for number, condition in enumerate(conditions):
        ranges = _ranges(condition)
        if ranges is None:
            continue
        if len(ranges) > 1:
            found.append(_Group((number,), ranges))
            continue
        ((name, mine),) = ranges.items()
        members, wanted = alone.get(name, ([], [ValueRange()]))
        alone[name] = ([*members, number], _intersected(wanted, mine))
    return found + [_Group(tuple(members), {name: wanted}) for name, (members, wanted) in alone.items()]


def _ranges(condition: Predicate) -> Ranges | None:
    """Return the ranges of values that rows must have, by column; None when an index does not narrow them."""
    match condition:
        case Comparison(column, scalar, op, value):
            return None if op == "!=" else {column: [_range(op, _stored(value, scalar))]}
        case Prefix(column, text):
            return {column: [ValueRange(text, text + _LAST)]}
        case NullTest(column, is_null):
            return {column: [ValueRange(nulls=True)]} if is_null else None
        case AnyOf(parts):
            found: Ranges = {}
            for part in parts:
                mine = _ranges(part)
                if mine is None:
                    return None
                for column, ranges in mine.items():
                    found.setdefault(column, []).extend(ranges)
            return found
        case AllOf(parts):
            groups = _groups(parts)
            return groups[0].ranges if len(groups) == 1 and len(groups[0].members) == len(parts) else None
        case _:
            return None


def _range(op: str, value: Any) -> ValueRange:
    return ValueRange(None if op in ("<", "<=") else value, None if op in (">", ">=") else value)


def _stored(value: Any, scalar: Scalar) -> Any:
    return (value - EPOCH_DATE).days if scalar is Scalar.DATE else value


def _intersected(left: list[ValueRange], right: list[ValueRange]) -> list[ValueRange]:
    if len(left) > 1 or len(right) > 1 or left[0].nulls or right[0].nulls:
        return min(left, right, key=len) if left != [ValueRange()] else right
    lows = [each.low for each in (left[0], right[0]) if each.low is not None]
    highs = [each.high for each in (left[0], right[0]) if each.high is not None]
    return [ValueRange(max(lows, default=None), min(highs, default=None))]
