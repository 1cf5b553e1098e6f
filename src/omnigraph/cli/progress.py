"""Show progress on stderr: bars and a spinner on a terminal, lines at intervals elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from omnigraph.cli.output import note, size_text

if TYPE_CHECKING:
    from omnigraph.api.progress import Listener, Progress

SECONDS_BEFORE_SPINNER = 1.0
_SAID = {
    "start": "starting Spark", "plan": "planning", "compute": "computing", "read": "reading", "check": "checking",
    "compare": "comparing", "write": "writing", "compact": "compacting", "find": "finding", "remove": "removing",
    "copy": "copying", "verify": "verifying", "publish": "publishing", "index": "indexing",
}  # fmt: skip


@contextmanager
def shown_progress(title: str | None = None, *, show: bool = True, after: float = 0.0) -> Iterator[Listener | None]:
    """Show the progress that the command reports in the block; with a title, also a spinner.

    On a terminal it appears after so many seconds and is gone at the end. None where nothing is to be shown.
    """
    if not show:
        yield None
    elif sys.stderr.isatty():
        with _terminal() as screen, _Bars(screen, title, after) as bars:
            yield bars
    else:
        yield _lines()


def spinner(title: str, *, show: bool = True) -> contextlib.AbstractContextManager[Listener | None]:
    """Show a spinner for a command that takes longer than a second."""
    return shown_progress(title, show=show, after=SECONDS_BEFORE_SPINNER)


@contextmanager
def _terminal() -> Iterator[IO[str]]:
    """The terminal behind stderr, by a descriptor of its own: that of stderr leads away while Spark is launched."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, io.UnsupportedOperation):  # a stream of this process only
        yield sys.stderr
        return
    with open(descriptor, "w", encoding=sys.stderr.encoding, errors="backslashreplace") as screen:
        yield screen


def amount_text(progress: Progress) -> str:
    """Return the finished and the total amount, in the unit of the phase, and the rows where they differ from it."""
    if progress.unit == "bytes":
        done, total = size_text(progress.done), None if progress.total is None else size_text(progress.total)
    else:
        done, total = f"{progress.done:,}", None if progress.total is None else f"{progress.total:,}"
    unit = "" if progress.unit == "bytes" else f" {progress.unit}"
    rows = f", {progress.rows:,} rows" if progress.rows and progress.unit != "rows" else ""
    return f"{done}{unit}{rows}" if total is None else f"{done} of {total}{unit}{rows}"


def percent_text(progress: Progress) -> str:
    """Return the finished share, rounded down: 100% is the end."""
    return "" if progress.share is None else f"{int(progress.share * 100)}%"


class _Bars:
    """A bar for each phase, and a spinner for what has no phases."""

    def __init__(self, screen: IO[str], title: str | None, after: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        class Screen(Console):
            """A console that keeps the cursor visible: a process that is killed cannot restore it."""

            def show_cursor(self, show: bool = True) -> bool:
                """Do nothing."""
                return False

        columns: tuple[ProgressColumn, ...] = (
            TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[share]:>4}"),
            TextColumn("{task.fields[amount]}"), TimeElapsedColumn(),
        )  # fmt: skip
        if title is not None:
            columns = (SpinnerColumn(), *columns)
        self._display = Display(
            *columns, console=Screen(file=screen, force_terminal=True), transient=True, redirect_stdout=False
        )
        self._tasks: dict[str, TaskID] = {}
        self._title = title
        self._after = after
        self._starting = threading.Lock()
        self._is_over = False

    def __enter__(self) -> _Bars:
        if self._title is not None:
            self._display.add_task(self._title, total=None, share="", amount="")
        if self._after:
            timer = threading.Timer(self._after, self._start)
            timer.daemon = True
            timer.start()
        else:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._starting:
            self._is_over = True
        self._display.stop()

    def _start(self) -> None:
        with self._starting:
            if not self._is_over:
                self._display.start()

    def __call__(self, progress: Progress) -> None:
        """Show the progress of a phase. A phase of a single step is either under way or done."""
        is_whole = progress.unit == "steps" and progress.total == 1
        shown: dict[str, Any] = {
            "total": None if is_whole and not progress.is_over else progress.total, "completed": progress.done,
            "share": "" if is_whole else percent_text(progress), "amount": "" if is_whole else amount_text(progress),
        }  # fmt: skip
        task = self._tasks.get(progress.phase)
        if task is None:
            self._tasks[progress.phase] = self._display.add_task(_SAID[progress.phase], **shown)
        elif not progress.done:
            self._display.reset(task, **shown)
        else:
            self._display.update(task, **shown)
        if progress.is_over:
            self._display.refresh()


def _lines() -> Listener | None:
    """Progress as lines of text: at once that Spark is started, else one in some seconds."""
    from omnigraph.logs import progress_seconds

    seconds = progress_seconds()
    if not seconds:
        return None
    begun = time.monotonic()
    last = begun

    def report(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.phase == "start":
            if not progress.is_over:
                note("starting Spark ...")
        elif now >= last + seconds:
            last = now
            note(f"{_SAID[progress.phase]}: {amount_text(progress)}, {now - begun:.0f} s")

    return cast("Listener", report)
