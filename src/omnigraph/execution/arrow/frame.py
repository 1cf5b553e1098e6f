"""Rows of bindings: one array of numbers per variable, all of one length. -1 is an optional without a match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnigraph.execution.arrow.data import Ints

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Paths = Sequence[list[int] | None]


@dataclass(frozen=True)
class Frame:
    """`numbers` binds node and edge variables, `paths` path variables (the nodes of one shortest path per row).

    `weights`, if given, are the numbers of equal rows that each row represents; only counting reads them.
    """

    length: int
    numbers: Mapping[str, Ints] = field(default_factory=dict)
    paths: Mapping[str, Paths] = field(default_factory=dict)
    weights: Ints | None = None

    def take(self, rows: Ints) -> Frame:
        """Return the given rows, in that order."""
        return Frame(
            len(rows),
            {var: column[rows] for var, column in self.numbers.items()},
            {var: [column[i] for i in rows] for var, column in self.paths.items()},
        )

    def keep(self, mask: Bools) -> Frame:
        """Return the rows where the mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def bind(self, var: str, numbers: Ints) -> Frame:
        """Return the frame with one more node or edge variable."""
        return Frame(self.length, {**self.numbers, var: numbers}, self.paths)

    def bind_path(self, var: str, paths: Paths) -> Frame:
        """Return the frame with one more path variable."""
        return Frame(self.length, self.numbers, {**self.paths, var: paths})

    def without(self, *names: str) -> Frame:
        """Return the frame without some variables."""
        return Frame(
            self.length,
            {v: c for v, c in self.numbers.items() if v not in names},
            {v: c for v, c in self.paths.items() if v not in names},
        )

    def only(self, names: frozenset[str] | None) -> Frame:
        """Return the frame with only some variables; with all of them for None."""
        if names is None or not (self.numbers.keys() | self.paths.keys()) - names:
            return self
        return self.without(*((self.numbers.keys() | self.paths.keys()) - names))

    def is_bound(self, var: str) -> bool:
        """Return whether a variable is bound here."""
        return var in self.numbers or var in self.paths


def concat(first: Frame, second: Frame) -> Frame:
    """Concatenate the rows of two frames; variables that the second lacks are null there."""
    absent = np.full(second.length, -1, np.int64)
    numbers = {v: np.concatenate([c, second.numbers.get(v, absent)]) for v, c in first.numbers.items()}
    paths = {v: [*c, *second.paths.get(v, [None] * second.length)] for v, c in first.paths.items()}
    return Frame(first.length + second.length, numbers, paths)


ONE_ROW = Frame(1)
