"""Enforce the limits of a query, and measure the operators of its plan.

Limits are checked before rows are made: a product of two large types is refused, not computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.errors import LimitExceeded

_BYTES = 8
_MAX_NOTES = 64
Note = str | Callable[[], str]


@dataclass(frozen=True)
class Limits:
    """The limits of one query: rows of bindings, their bytes, and seconds."""

    max_rows: int = 50_000_000
    max_memory: int = 4 * 2**30
    max_seconds: float | None = None


@dataclass
class Measured:
    """The measurements of an operator: rows out, seconds including inner operators, and notes on its strategy."""

    rows: int = 0
    seconds: float = 0.0
    notes: list[Note] = field(default_factory=list)

    def operator_notes(self) -> tuple[str, ...]:
        """Return the notes as text, each once."""
        return tuple(dict.fromkeys(note if isinstance(note, str) else note() for note in self.notes))


class Governor:
    """Limits and measures one run of one query."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.perf_counter) -> None:
        self._limits = limits
        self.clock = clock
        self._begun = clock()
        self.measured: dict[int, Measured] = {}
        self._running: list[Measured] = []

    def check_rows(self, rows: int, width: int = 1) -> None:
        """Refuse to make this many rows of `width` variables; also check the time."""
        limits = self._limits
        if rows > limits.max_rows:
            raise LimitExceeded(
                f"the query would make {rows:,} rows of bindings; the limit is {limits.max_rows:,}",
                hint="add a filter, a limit on hops, or connect the parts of the pattern; "
                "OMNIGRAPH_QUERY_MAX_ROWS raises the limit",
            )
        size = rows * width * _BYTES
        if size > limits.max_memory:
            raise LimitExceeded(
                f"the query would need {size:,} bytes for its bindings; the limit is {limits.max_memory:,}",
                hint="add a filter or ask for fewer variables; OMNIGRAPH_QUERY_MAX_MEMORY raises the limit",
            )
        self.check_time()

    def check_time(self) -> None:
        """Stop a query that has run too long."""
        allowed = self._limits.max_seconds
        if allowed is not None and self.clock() - self._begun > allowed:
            raise LimitExceeded(
                f"the query ran longer than {allowed:g} seconds",
                hint="add a filter or a limit on hops; OMNIGRAPH_QUERY_TIMEOUT raises the limit",
            )

    def rested(self, seconds: float) -> None:
        """Exclude a time in which the query waited for the consumer of its rows."""
        self._begun += seconds

    @contextmanager
    def operator(self, step: object) -> Iterator[Measured]:
        """Measure one operator."""
        self.check_time()
        measured = self.measured.setdefault(id(step), Measured())
        self._running.append(measured)
        begun = self.clock()
        try:
            yield measured
        finally:
            measured.seconds += self.clock() - begun
            self._running.pop()

    def note(self, text: Note) -> None:
        """Note the strategy of the running operator; a note given as a function is evaluated only when it is read."""
        if self._running and len(self._running[-1].notes) < _MAX_NOTES:
            self._running[-1].notes.append(text)
