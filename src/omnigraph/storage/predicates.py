"""SQL predicates with literals of a column's own type. A literal outside a column's domain raises in Lance."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def sql_column(name: str) -> str:
    """A quoted column name."""
    return f"`{name}`"


def sql_literal(value: pa.Scalar) -> str:
    """A scalar of a column's type as SQL text."""
    kind, plain = value.type, value.as_py()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "'" + str(plain).replace("'", "''") + "'"
    if pa.types.is_boolean(kind):
        return "true" if plain else "false"
    if pa.types.is_date(kind):
        return f"date '{plain.isoformat()}'"
    if pa.types.is_timestamp(kind):
        return f"timestamp '{plain.strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]}'"
    if pa.types.is_floating(kind):
        return _float_literal(plain)
    return str(plain)


def _float_literal(value: Any) -> str:
    text = repr(float(value))
    return text if "e" in text or "." in text else f"{text}.0"
