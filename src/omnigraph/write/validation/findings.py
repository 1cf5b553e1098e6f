"""Collecting violations, and raising them as one error of the kind of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import (
    CardinalityViolation,
    DataError,
    DuplicateKey,
    InvalidValue,
    KeyConflict,
    MissingEndpoint,
    MissingValue,
    TypeNotFound,
    UnknownField,
    Violation,
)
from omnigraph.write.validation.model import NOWHERE, Place, Places, Subject

DEFAULT_LIMIT = 100

_ERRORS: dict[str, type[DataError]] = {
    "required": MissingValue,
    "unknown": UnknownField,
    "type": InvalidValue,
    "enum": InvalidValue,
    "range": InvalidValue,
    "check": InvalidValue,
    "id": InvalidValue,
    "key": DuplicateKey,
    "unique": DuplicateKey,
    "endpoint": MissingEndpoint,
    "card": CardinalityViolation,
}

_REMEDIES = {
    "required": "give the row a value, or declare the property with `?`",
    "unknown": "leave it out, or declare it in the schema",
    "type": "write a value of the declared type, or leave bad rows out as rejects",
    "enum": "write one of the declared values, or extend the enum in the schema",
    "range": "correct the value, or the @range of the schema",
    "check": "correct the value, or the @check of the schema",
    "id": "leave `id` out: it follows from the key",
    "key": "keep one of the rows",
    "unique": "keep one of the values, or change the row that has it",
    "endpoint": "load the node too, or leave the edge out",
    "card": "remove edges of that node first, or change the @card of the schema",
    "syntax": "correct the line, or leave bad rows out as rejects",
}
"""The default hint of each rule."""


class Findings:
    """Violations in the order they were found, up to a limit."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = max(1, limit)
        self._found: list[Violation] = []

    def __iter__(self) -> Iterator[Violation]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return len(self._found) >= self._limit

    def add(self, violation: Violation) -> None:
        """Add a violation, unless the limit is reached."""
        if not self.full:
            self._found.append(violation)

    def note(
        self, rule: str, message: str, entity: Subject, *, places: Places = NOWHERE, index: int | None = None,
        field: str | None = None, value: Any = None, entity_id: str | None = None, hint: str | None = None,
    ) -> None:  # fmt: skip
        """Add a violation of a type's rule by the row at `index`."""
        path, row = places.at(index) if index is not None else (None, None)
        self.add(
            Violation(
                rule=rule, message=message, type_key=entity.table_key, field=field, value=value, entity_id=entity_id,
                path=path, row=row, hint=hint,
            )
        )  # fmt: skip

    def places(self, since: int = 0) -> set[Place]:
        """The places of the wrong rows."""
        return {(each.path, each.row) for each in self._found[since:]}

    def attach_rows(self, since: int, data_of: Callable[[Violation], Mapping[str, Any] | None]) -> None:
        """Attach to the violations noted since then the rows that they are about."""
        self._found[since:] = [replace(each, data=data_of(each)) for each in self._found[since:]]

    def rows(self, mask: pa.Array | pa.ChunkedArray) -> list[int]:
        """The first rows where a mask is true, up to the limit."""
        truth = pc.fill_null(mask, False)
        if not pc.any(truth).as_py():
            return []
        found: list[int] = np.flatnonzero(truth.to_numpy(zero_copy_only=False))[: self._limit].tolist()
        return found


def by_place(violations: Iterable[Violation]) -> list[Violation]:
    """In the order of the input: files as they were met, rows by number, whatever size the pieces were read in."""
    found = list(violations)
    inputs = list(dict.fromkeys(_input(each) for each in found))
    order = {name: number for number, name in enumerate(inputs)}
    return sorted(found, key=lambda each: (order[_input(each)], each.row or 0))


def _input(violation: Violation) -> str | None:
    return violation.type_key if violation.path is None else violation.path


def raise_first(violations: Sequence[Violation]) -> None:
    """Raise an error of the kind of the first violation that carries all of them; nothing if there are none."""
    if not violations:
        return
    first = violations[0]
    more = len(violations) - 1
    text = f"{first.text} (and {more} more)" if more else first.text
    if first.rule == "taken":
        assert first.type_key is not None, f"a taken key without a type: {first}"
        assert first.entity_id is not None, f"a taken key without an id: {first}"
        raise KeyConflict(first.type_key, first.entity_id, message=text, violations=tuple(violations))
    if first.rule == "type_name":
        raise TypeNotFound(text, hint=first.hint)
    kind = _ERRORS.get(first.rule, DataError)
    hint = first.hint or _REMEDIES.get(first.rule)
    raise kind(
        text, type_key=first.type_key, row=first.row, field=first.field, path=first.path, hint=hint,
        violations=tuple(violations),
    )  # fmt: skip
