"""Progress of a long call: the value that every `progress` callback receives, and the counter that reports it."""

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
    """The progress of one phase of a call.

    `done` and `total` are counted in `unit`. They are equal exactly when the phase has ended; `total` is None while it
    is unknown. `rows` counts the rows that the phase has processed, if it processes rows. A phase that is repeated,
    because a branch moved or rows are left out, starts at zero.
    """

    phase: Phase
    done: int
    total: int | None
    unit: Unit = "bytes"
    rows: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether the phase has ended."""
        return self.done == self.total

    @property
    def share(self) -> float | None:
        """Return the finished share, between 0 and 1; None while the total is unknown."""
        if self.total is None:
            return None
        return self.done / self.total if self.total else 1.0


Listener = Callable[[Progress], None]
"""A callback for progress. It is called in the caller's thread for work of this process, in another for Spark tasks."""


class PhaseProgress:
    """Count the work of one phase and report it. The phase ends with the block.

    Before that, `done` stays below `total`, whatever was counted. Without a callback nothing is reported.
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
        """Report this much additional work."""
        self.reach(self._done + count, rows)

    def reach(self, done: int, rows: int = 0) -> None:
        """Report this much work in total, and this many additional rows."""
        self._done = max(self._done, done)
        self._rows += rows
        shown = self._done if self._total is None else min(self._done, max(self._total - 1, 0))
        self._report(Progress(self._phase, shown, self._total or None, self._unit, self._rows))

    def _report(self, progress: Progress) -> None:
        if self._listener is not None and progress != self._reported:
            self._reported = progress
            self._listener(progress)
