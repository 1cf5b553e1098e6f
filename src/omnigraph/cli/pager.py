"""Page output that is longer than the screen, on a terminal, never into a pipe or file."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, BinaryIO, TextIO

import typer

from omnigraph.cli.layout import screen

PAGER_VARIABLES = ("OMNIGRAPH_PAGER", "PAGER")
DEFAULT_PAGER = "less"
LESS_SETTINGS = "FRX"
"""As git sets them where LESS is not: leave at once when all fits, show colours, keep the text on the screen."""


def pager_command() -> str | None:
    """Return the command of `OMNIGRAPH_PAGER` or else `PAGER`; None when it is empty, `cat`, or not installed."""
    command = next((os.environ[name] for name in PAGER_VARIABLES if name in os.environ), DEFAULT_PAGER)
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return command if words and words[0] != "cat" and shutil.which(words[0]) else None


@contextmanager
def page_output() -> Iterator[None]:
    """Page the output of the block, if stdout is a terminal and the output exceeds the screen."""
    size, command = screen(), pager_command()
    if size is None or command is None or os.environ.get("TERM") == "dumb":
        yield
        return
    before = sys.stdout
    output = _PagedOutput(before, command, size.lines)
    sys.stdout = output
    try:
        yield
    finally:
        sys.stdout = before
        output.finish()


class _PagedOutput(io.TextIOBase):
    """Holds lines until they exceed the screen, then starts the pager and writes to that."""

    def __init__(self, terminal: TextIO, command: str, lines: int) -> None:
        self._terminal = terminal
        self._command = command
        self._lines = lines
        self._held: list[str] | None = []
        self._newlines = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the terminal."""
        return self._terminal.encoding

    @property
    def buffer(self) -> BinaryIO:
        """Bytes are not for a pager: they go to the terminal itself."""
        self._release(self._terminal)
        return self._terminal.buffer

    def isatty(self) -> bool:
        """The pager shows it on the terminal."""
        return True

    def fileno(self) -> int:
        """The terminal."""
        return self._terminal.fileno()

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Hold a text, or hand it to the pager; a pager that was left ends the command."""
        if self._held is None:
            self._pass_on(text)
            return len(text)
        self._held.append(text)
        self._newlines += text.count("\n")
        if self._newlines >= self._lines:
            self._start()
        return len(text)

    def flush(self) -> None:
        """Keep held text: it may still exceed the screen."""
        if self._held is None and self._process is None:
            self._terminal.flush()

    def finish(self) -> None:
        """Print the held text, or wait until the pager ends."""
        self._release(self._terminal)
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        while self._process.poll() is None:
            with suppress(KeyboardInterrupt):  # a key for the pager, which shares the terminal
                self._process.wait()

    def _start(self) -> None:
        settings = {"LESS": os.environ.get("LESS", LESS_SETTINGS)}
        self._process = subprocess.Popen(
            self._command, shell=True, stdin=subprocess.PIPE, text=True, encoding=self.encoding,
            errors="backslashreplace", env={**os.environ, **settings},
        )  # fmt: skip
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        assert self._process.stdin is not None
        self._release(self._process.stdin)

    def _release(self, target: IO[str]) -> None:
        held, self._held = self._held, None
        for text in held or ():
            self._pass_on(text, target)

    def _pass_on(self, text: str, target: IO[str] | None = None) -> None:
        if target is None:
            target = self._terminal if self._process is None else self._process.stdin
        assert target is not None
        try:
            target.write(text)
        except BrokenPipeError:
            if self._process is None:
                raise
            raise typer.Exit(0) from None
