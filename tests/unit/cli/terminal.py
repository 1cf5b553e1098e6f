"""The real program on a real pseudo-terminal: keys go in, and what the screen was sent comes out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = Path(sys.executable).with_name("omnigraph")
PATIENCE = 30
IN_SESSION = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>]|\(B)")


class Terminal:
    """A process whose stdin, stdout and stderr are one terminal."""

    def __init__(
        self, *arguments: object, columns: int = 80, lines: int = 24, program: Path = PROGRAM, **variables: str
    ) -> None:
        self._control, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        kept = {
            k: v for k, v in os.environ.items() if k not in ("PAGER", "OMNIGRAPH_PAGER", "LESS", "COLUMNS", "LINES")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_SESSION, program, *map(str, arguments)],
            stdin=terminal, stdout=terminal, stderr=terminal,
            env={**kept, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **variables},
        )  # fmt: skip
        os.close(terminal)
        self._seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._control)

    def type(self, text: str) -> None:
        """Press keys; `\\r` is the enter key."""
        os.write(self._control, text.encode())

    def enter(self, line: str) -> None:
        """Type a line and press enter."""
        self.type(f"{line}\r")

    def until(self, wanted: str) -> str:
        """What the screen was sent since the last call, up to a pattern, without colours."""
        while True:
            shown = ESCAPES.sub("", self._seen)
            found = re.search(wanted, shown, re.DOTALL)
            if found:
                self._seen = shown[found.end() :]
                return shown[: found.end()].replace("\r\n", "\n")
            ready, _, _ = select.select([self._control], [], [], PATIENCE)
            assert ready, shown
            with suppress(OSError):
                more = os.read(self._control, 65536)
                if more:
                    self._seen += more.decode("utf-8", "replace")
                    continue
            raise AssertionError(f"the program ended before {wanted!r}: {shown}")

    def rest(self) -> str:
        """What the screen was sent until the program ended."""
        with suppress(OSError):  # how a terminal says that its program has closed it
            while select.select([self._control], [], [], PATIENCE)[0]:
                more = os.read(self._control, 65536)
                if not more:
                    break
                self._seen += more.decode("utf-8", "replace")
        self.process.wait(PATIENCE)
        shown, self._seen = ESCAPES.sub("", self._seen), ""
        return shown.replace("\r\n", "\n")
