"""Output to stdout and stderr.

Only results go to stdout, so that it can always be parsed. Colours appear on a terminal only, and only there tables are
cut to its width: elsewhere a line has all of every value.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


_UNBOUNDED = 1_000_000


def console() -> Console:
    """Return a console for stdout that neither wraps nor interprets its text."""
    from rich.console import Console

    return Console(file=sys.stdout, width=_UNBOUNDED, highlight=False, markup=False, emoji=False, soft_wrap=True)


def clean(text: str | None) -> str:
    """Return user text on one line, without control characters."""
    if text is None:
        return ""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def print_line(text: str) -> None:
    """One line of a result."""
    sys.stdout.write(f"{text}\n")


def print_styled(lines: Iterable[Text]) -> None:
    """Print lines with colours, on a terminal."""
    out = console()
    for line in lines:
        out.print(line)


def print_json(value: Any) -> None:
    """A result as JSON, in the characters that stdout can carry."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=not is_utf8, default=str) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table with a heading; `(none)` when there is nothing to show."""
    from omnigraph.cli.layout import Table, screen

    found = [[clean("-" if cell is None else str(cell)) for cell in row] for row in rows]
    if not found:
        print_line("(none)")
        return
    table, terminal = Table(columns, found, gap="  "), screen()
    widths = table.widths(terminal.columns if terminal else None)
    print_heading(table.line(columns, widths))
    for row in found:
        print_line(table.line(row, widths))


def print_heading(line: str) -> None:
    """The first line of a table, bold on a terminal."""
    if not sys.stdout.isatty():
        print_line(line)
        return
    from rich.text import Text

    print_styled([Text(line, "bold")])


def note(text: str) -> None:
    """Print a line for people on stderr; never part of the result."""
    sys.stderr.write(f"{text}\n")


def time_text(microseconds: int) -> str:
    """Return a moment for display, in UTC."""
    moment = dt.datetime.fromtimestamp(microseconds / 1_000_000, dt.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def count_text(number: int, noun: str) -> str:
    """`1 node type`, `2 node types`, `0 entities`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}es" if noun.endswith("ch") else f"{number} {noun}s"


def size_text(count: int) -> str:
    """Return a number of bytes for display."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
