"""Errors of input rows, and of the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors.base import OmnigraphError, show_value
from omnigraph.errors.codec import error_part


@error_part
@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One row that breaks one rule. `row` is its line in a text file, else its position in the input, from 1.

    `data` is the row as JSON values if it comes from a DataFrame, where a position does not identify it after the load.
    """

    rule: str
    message: str
    type_key: str | None = None
    field: str | None = None
    value: Any = None
    entity_id: str | None = None
    path: str | None = None
    row: int | None = None
    column: int | None = None
    hint: str | None = None
    data: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """The message with the place of the row."""
        if self.row is None:
            return self.message if self.path is None else f"{self.path}: {self.message}"
        if self.path is None:
            return f"row {self.row}: {self.message}"
        place = f"{self.path}:{self.row}" if self.column is None else f"{self.path}:{self.row}:{self.column}"
        return f"{place}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, absent fields left out."""
        line = self.row if self.path is not None else None
        found = {
            "rule": self.rule, "message": self.message, "type_key": self.type_key, "field": self.field,
            "value": None if self.value is None else self._plain_value(), "entity_id": self.entity_id,
            "path": self.path, "row": self.row, "line": line, "column": self.column, "data": self.data,
        }  # fmt: skip
        return {k: v for k, v in found.items() if v is not None}

    def _plain_value(self) -> str:
        """Return a JSON value for a message: an unreadable row whole, to be repaired; any other value shortened."""
        return self.value if self.rule == "syntax" and isinstance(self.value, str) else _plain(self.value)


def _plain(value: Any) -> str:
    return value[:200] if isinstance(value, str) else show_value(value, 200)


class DataError(OmnigraphError):
    """A row is wrong. Nothing was written. `violations` lists every wrong row that was found."""

    code = "data_error"

    def __init__(
        self,
        message: str,
        *,
        type_key: str | None = None,
        row: int | None = None,
        field: str | None = None,
        path: str | None = None,
        hint: str | None = None,
        violations: tuple[Violation, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.type_key = type_key
        self.row = row
        self.field = field
        self.path = path
        self.violations = violations

    def details(self) -> dict[str, Any]:
        """The place of the row in the input, and all violations when there is more than one."""
        line = self.row if self.path is not None else None
        found = {"type_key": self.type_key, "row": self.row, "field": self.field, "path": self.path, "line": line}
        if self.violations:
            found["column"] = self.violations[0].column
        if len(self.violations) > 1:
            found["violations"] = [each.as_dict() for each in self.violations]  # type: ignore[assignment]
        return {k: v for k, v in found.items() if v is not None}


class InvalidValue(DataError):
    """A value does not fit its property's type."""

    code = "invalid_value"


class MissingValue(DataError):
    """A required property has no value."""

    code = "missing_value"


class UnknownField(DataError):
    """A row names a property that its type does not have."""

    code = "unknown_field"


class DuplicateKey(DataError):
    """Two rows have the same key or unique value."""

    code = "duplicate_key"


class ConstraintViolated(DataError):
    """A constraint does not hold of the data that it is declared for."""

    code = "constraint_violated"


class MissingEndpoint(DataError):
    """An edge names a node that does not exist."""

    code = "missing_endpoint"


class CardinalityViolation(DataError):
    """A node would have more or fewer edges of a type than its schema allows."""

    code = "cardinality_violation"


class InvalidArgument(OmnigraphError, ValueError):
    """The call itself is wrong: a bad name, URI, option or mode."""

    code = "invalid_argument"


class ArgumentRefused(InvalidArgument):
    """A method does not take a value. `argument` is the parameter's name, `says` the rest of the sentence."""

    def __init__(self, function: str, argument: str, says: str, *, hint: str | None = None) -> None:
        super().__init__(f"{function}(): {argument} {says}", hint=hint)
        self.argument = argument
        self.says = says


class CursorInvalid(InvalidArgument):
    """A cursor of the change feed is damaged, or belongs to another graph, branch incarnation or filter."""

    code = "cursor_invalid"
