"""Measure the phases of a load: their seconds, log records, and progress for a callback."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph import logs
from omnigraph.api.progress import Listener, Phase, Progress
from omnigraph.execution.spark.job_scope import TaskProgress


class Phases:
    """The phases of one load, with the seconds of each. A callback is called when one ends."""

    def __init__(self, job: str = "", listener: Listener | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.listener = listener
        self._job = job
        self._current = ""
        self._shown: Phase = "plan"
        seconds = logs.progress_seconds()
        self._log = EverySeconds(self._log_progress, seconds) if seconds else None

    @contextmanager
    def phase(self, name: str, shown: Phase) -> Iterator[None]:
        """Measure the block. Its tasks are reported as the phase `shown`."""
        before = self._current, self._shown
        self._current, self._shown = name, shown
        self.seconds.setdefault(name, 0.0)
        begun = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            self.seconds[name] += seconds
            self._current, self._shown = before
            logs.event("pipeline.phase", job=self._job or None, phase=name, seconds=round(seconds, 3))

    @property
    def progress(self) -> TaskProgress | None:
        """Return a receiver of the numbers of finished and of all tasks of the phase; None without a callback."""
        is_logged = self._log is not None and logs.is_heard(logging.INFO)
        return self._report if is_logged or self.listener is not None else None

    def _report(self, done: int, total: int) -> None:
        if self._log is not None:
            self._log(done, total)
        if self.listener is not None:
            self.listener(Progress(self._shown, done, total, "tasks"))

    def _log_progress(self, done: int, total: int) -> None:
        logs.event("pipeline.progress", job=self._job or None, phase=self._current, done=done, total=total)


def task_progress(listener: Listener | None, phase: Phase) -> TaskProgress | None:
    """Report the tasks of a round as progress of a phase; None without a callback."""
    if listener is None:
        return None
    return lambda done, total: listener(Progress(phase, done, total, "tasks"))


class EverySeconds:
    """Passes progress on, at most once in some seconds."""

    def __init__(self, report: Callable[[int, int], None], seconds: float) -> None:
        self._report = report
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def __call__(self, done: int, total: int) -> None:
        """Pass on the numbers of finished and of all tasks."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._seconds
            self._report(done, total)
