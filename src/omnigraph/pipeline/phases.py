"""How long each phase of a load takes, and how far it is: as numbers, as log records, and as lines of text."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph import logs
from omnigraph.errors import InvalidArgument
from omnigraph.execution.spark.job_scope import Progress

_VARIABLE = "OMNIGRAPH_PROGRESS_SECONDS"


def progress_seconds() -> float:
    """How often progress is told where no bar shows it; 0 for never."""
    text = os.environ.get(_VARIABLE, "30")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidArgument(f"{_VARIABLE} is {text!r}", hint="seconds between lines; 0 for none")
    return seconds


class Phases:
    """The phases of one load, with the seconds that each took. Whoever listens is told when one ends."""

    def __init__(self, job: str = "", progress: Progress | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._job = job
        self._given = progress
        self._current = ""
        seconds = progress_seconds()
        self._log = EverySeconds(self._log_progress, seconds) if seconds else None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is done in the block."""
        before, self._current = self._current, name
        self.seconds.setdefault(name, 0.0)
        begun = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            self.seconds[name] += seconds
            self._current = before
            logs.event("pipeline.phase", job=self._job or None, phase=name, seconds=round(seconds, 3))

    @property
    def progress(self) -> Progress | None:
        """Receives how many of how many tasks of the phase have finished; None where nobody listens."""
        is_logged = self._log is not None and logs.is_heard(logging.INFO)
        return self._report if is_logged or self._given is not None else None

    def _report(self, done: int, total: int) -> None:
        if self._log is not None:
            self._log(done, total)
        if self._given is not None:
            self._given(done, total)

    def _log_progress(self, done: int, total: int) -> None:
        logs.event("pipeline.progress", job=self._job or None, phase=self._current, done=done, total=total)


class EverySeconds:
    """Passes progress on, at most once in some seconds."""

    def __init__(self, report: Callable[[int, int], None], seconds: float) -> None:
        self._report = report
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def __call__(self, done: int, total: int) -> None:
        """How many of how many tasks have finished."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._seconds
            self._report(done, total)
