"""Rules of one row: required properties, enums, `@range`, `@check`, finite numbers. Column at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import FLOATS
from omnigraph.schema.catalog import Check, EntityType, Property, Range
from omnigraph.write.validation.findings import Findings
from omnigraph.write.validation.model import Places


def check_fields(entity: EntityType, rows: pa.Table, places: Places, found: Findings) -> None:
    """Note every row of a table (physical columns) that breaks a rule by itself."""
    if not rows.num_rows:
        return
    for prop in entity.properties:
        column = rows[prop.column]
        if not prop.type.nullable and column.null_count:
            for index in found.rows(pc.is_null(column)):
                _note(found, "required", entity, prop, places, index, None, f"{entity.name}.{prop.name} is required")
        _check_values(entity, prop, column, places, found)
    for rule in entity.ranges:
        _check_range(entity, rule, rows, places, found)
    for pattern in entity.checks:
        _check_pattern(entity, pattern, rows, places, found)


def _check_values(entity: EntityType, prop: Property, column: pa.ChunkedArray, places: Places, found: Findings) -> None:
    kind = prop.type
    if kind.values is not None:
        wrong = pc.invert(pc.is_in(column, value_set=pa.array([*kind.values, None], pa.string())))
        for index in found.rows(wrong):
            value = column[index].as_py()
            text = f"{entity.name}.{prop.name} invalid enum value {value!r}; expected one of {', '.join(kind.values)}"
            _note(found, "enum", entity, prop, places, index, value, text)
    elif kind.scalar in FLOATS and not kind.is_list and not kind.is_vector:
        for index in found.rows(pc.invert(pc.is_finite(column))):
            value = column[index].as_py()
            text = f"{entity.name}.{prop.name} expects a finite number, got {value}"
            _note(found, "type", entity, prop, places, index, value, text)


def _check_range(entity: EntityType, rule: Range, rows: pa.Table, places: Places, found: Findings) -> None:
    prop = entity.property(rule.property)
    column = rows[prop.column]
    wide = pa.float64() if prop.type.scalar in FLOATS else pa.decimal128(20, 0)
    bounds = [(pc.less, rule.min), (pc.greater, rule.max)]
    for compare, bound in bounds:
        if bound is None:
            continue
        exact = pa.scalar(bound, pa.float64()) if isinstance(bound, float) else pa.scalar(bound).cast(wide)
        values = column.cast(pa.float64()) if isinstance(bound, float) else column.cast(wide)
        for index in found.rows(compare(values, exact)):
            value = column[index].as_py()
            text = f"@range violation: {entity.name}.{prop.name} is {value}, outside {_bounds(rule)}"
            _note(found, "range", entity, prop, places, index, value, text)


def _bounds(rule: Range) -> str:
    return f"{'' if rule.min is None else rule.min}..{'' if rule.max is None else rule.max}"


def _check_pattern(entity: EntityType, rule: Check, rows: pa.Table, places: Places, found: Findings) -> None:
    prop = entity.property(rule.property)
    column = rows[prop.column]
    for index in found.rows(pc.invert(pc.match_substring_regex(column, rule.pattern))):
        value = column[index].as_py()
        text = f"@check violation: {entity.name}.{prop.name} {value!r} does not match {rule.pattern!r}"
        _note(found, "check", entity, prop, places, index, value, text)


def _note(
    found: Findings, rule: str, entity: EntityType, prop: Property, places: Places, index: int, value: Any, text: str
) -> None:
    found.note(rule, text, entity, places=places, index=index, field=prop.name, value=value)
