"""How far a long call has come: the value that every `progress` callback takes, and the counter that reports it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

Phase = Literal[
    "start", "plan", "compute", "read", "check", "compare", "write", "compact", "find", "remove", "copy", "verify",
    "publish", "index",
]  # fmt: skip
Unit = Literal["bytes", "rows", "tables", "objects", "tasks", "steps"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one phase of a call has come.

    `done` and `total` are numbers of one measure, `unit`. They are equal exactly when the phase has ended; `total` is
    None as long as nobody can know it. `rows` counts the rows that the phase has dealt with, where it deals with rows.
    A phase that begins again, because a branch moved or rows are left out, begins at zero.
    """

    phase: Phase
    done: int
    total: int | None
    unit: Unit = "bytes"
    rows: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the phase has ended."""
        return self.done == self.total

    @property
    def share(self) -> float | None:
        """What is done, between 0 and 1; None as long as the total is unknown."""
        if self.total is None:
            return None
        return self.done / self.total if self.total else 1.0


Listener = Callable[[Progress], None]
"""Receives progress: of the work of this process in the thread that made the call, of Spark's tasks in another."""


class PhaseProgress:
    """Counts what one phase has done and reports it. The end of the block is the end of the phase.

    Until then less than everything is reported as done, whatever was counted. Without a listener nothing happens.
    """

    def __init__(
        self,
        listener: Listener | None,
        phase: Phase,
        total: int | None = None,
        unit: Unit = "bytes",
        *,
        rows: int = 0,
    ) -> None:
        self._listener = listener
        self._phase: Phase = phase
        self._total = total
        self._unit: Unit = unit
        self._done = 0
        self._rows = rows
        self._reported: Progress | None = None

    def __enter__(self) -> Self:
        self._report(Progress(self._phase, 0, self._total or None, self._unit, self._rows))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            total = self._done if self._total is None else self._total
            self._report(Progress(self._phase, total, total, self._unit, self._rows))

    def advance(self, count: int, rows: int = 0) -> None:
        """Report that so much more is done."""
        self.reach(self._done + count, rows)

    def reach(self, done: int, rows: int = 0) -> None:
        """Report that so much is done altogether, and so many more rows."""
        self._done = max(self._done, done)
        self._rows += rows
        shown = self._done if self._total is None else min(self._done, max(self._total - 1, 0))
        self._report(Progress(self._phase, shown, self._total or None, self._unit, self._rows))

    def _report(self, progress: Progress) -> None:
        if self._listener is not None and progress != self._reported:
            self._reported = progress
            self._listener(progress)
