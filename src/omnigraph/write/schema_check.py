"""Checking that the rows of a table satisfy a constraint to be declared, in one pass over the columns it names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ConstraintViolated
from omnigraph.schema.catalog import Check, EdgeType, EntityType, Range


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint (`unique`, `range`, `check` or `card`) that one entity does not satisfy."""

    constraint: str
    entity_id: str
    message: str


def require_satisfied(entity: EntityType, rows: pa.Table) -> None:
    """Raise for the first constraint of `entity` that `rows`, in its own columns, violate."""
    for found in violations(entity, rows):
        raise ConstraintViolated(
            found.message, type_key=entity.table_key, hint="correct the data first; the schema was not changed"
        )


def needs_data(entity: EntityType) -> bool:
    """Whether there is anything to check."""
    bounded = isinstance(entity, EdgeType) and (entity.cardinality.min > 0 or entity.cardinality.max is not None)
    return bool(entity.uniques or entity.ranges or entity.checks or bounded)


def violations(entity: EntityType, rows: pa.Table) -> Iterator[Violation]:
    """Every violation of the constraints of `entity` among `rows`."""
    for group in entity.uniques:
        yield from _unique(entity, group, rows)
    for bounds in entity.ranges:
        yield from _range(entity, bounds, rows)
    for check in entity.checks:
        yield from _check(entity, check, rows)
    if isinstance(entity, EdgeType):
        yield from _cardinality(entity, rows)


def _unique(entity: EntityType, group: tuple[str, ...], rows: pa.Table) -> Iterator[Violation]:
    columns = [name if name in ("src", "dst") else entity.property(name).column for name in group]
    seen: dict[tuple[Any, ...], str] = {}
    for row in rows.select(["id", *columns]).to_pylist():
        value = tuple(row[c] for c in columns)
        if None in value:
            continue
        if value in seen:
            shown = ", ".join(f"{n}={v!r}" for n, v in zip(group, value, strict=True))
            message = (
                f"@unique({', '.join(group)}) of {entity.name}: {seen[value]!r} and {row['id']!r} both have {shown}"
            )
            yield Violation("unique", row["id"], message)
        seen[value] = row["id"]


def _range(entity: EntityType, bounds: Range, rows: pa.Table) -> Iterator[Violation]:
    column = rows[entity.property(bounds.property).column]
    outside = pa.chunked_array([pa.array([False] * len(column), pa.bool_())])
    if bounds.min is not None:
        outside = pc.or_(outside, pc.fill_null(pc.less(column, bounds.min), False))
    if bounds.max is not None:
        outside = pc.or_(outside, pc.fill_null(pc.greater(column, bounds.max), False))
    for row in rows.filter(outside).to_pylist():
        value = row[entity.property(bounds.property).column]
        low, high = "" if bounds.min is None else bounds.min, "" if bounds.max is None else bounds.max
        message = f"@range({bounds.property}, {low}..{high}) of {entity.name}: {row['id']!r} has {value!r}"
        yield Violation("range", row["id"], message)


def _check(entity: EntityType, check: Check, rows: pa.Table) -> Iterator[Violation]:
    column = entity.property(check.property).column
    fails = pc.fill_null(pc.invert(pc.match_substring_regex(rows[column], check.pattern)), False)
    for row in rows.filter(fails).to_pylist():
        message = f'@check({check.property}, "{check.pattern}") of {entity.name}: {row["id"]!r} has {row[column]!r}'
        yield Violation("check", row["id"], message)


def _cardinality(edge: EdgeType, rows: pa.Table) -> Iterator[Violation]:
    low, high = edge.cardinality.min, edge.cardinality.max
    if low == 0 and high is None:
        return
    for src, count in sorted(Counter(rows["src"].to_pylist()).items()):
        if count < low or (high is not None and count > high):
            bounds = f"@card({low}..{'' if high is None else high})"
            yield Violation("card", src, f"{bounds} of {edge.name}: {src!r} has {count} edges")
