"""Tables as text. On a terminal they fit its width; in pipes and files no cell is ever cut."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_WIDTH = 6
"""The least width of a narrowed column: a narrower terminal wraps the line."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The size of the terminal on stdout."""

    columns: int
    lines: int


def screen() -> Screen | None:
    """Return the terminal on stdout; None for pipes and files."""
    if not sys.stdout.isatty():
        return None
    size = shutil.get_terminal_size()
    return Screen(size.columns, size.lines)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and cells, with the separator between them."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    gap: str

    def widths(self, room: int | None) -> list[int]:
        """The width of each column; together at most `room` where there is one. Ids are the last to be narrowed."""
        widths = [
            max(display_width(name), *(display_width(row[at]) for row in self.rows), 0)
            for at, name in enumerate(self.names)
        ]
        if room is None:
            return widths
        room -= len(self.gap) * (len(widths) - 1)
        for narrowed in ([at for at, name in enumerate(self.names) if not holds_ids(name)], range(len(widths))):
            widths = _narrowed(widths, narrowed, room)
        return widths

    def line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        """Cells beside each other, without blanks at the end."""
        return self.gap.join(fit_columns(cell, width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def holds_ids(name: str) -> bool:
    """Return whether a column of that name holds ids: `id`, `p.id`, `commit`."""
    return name.rpartition(".")[2].lstrip("@") in ("id", "commit", "src", "dst")


def _narrowed(widths: Sequence[int], which: Sequence[int], room: int) -> list[int]:
    """Narrow the widest of some columns until all fit, or none can be narrowed further."""
    found = list(widths)
    excess = sum(found) - room
    level = min(max((found[at] for at in which), default=0), max(room, LEAST_WIDTH) + 1)
    while excess > 0 and level > LEAST_WIDTH:
        level -= 1
        for at in which:
            if found[at] > level and excess > 0:
                excess -= found[at] - level
                found[at] = level
    return found


def display_width(text: str) -> int:
    """Return the number of terminal cells of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit_columns(text: str, width: int) -> str:
    """Return a text of exactly that width: padded, or cut and marked by an ellipsis."""
    size = display_width(text)
    if size <= width:
        return text + " " * (width - size)
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, width - 1)}…"
