"""The walks of docs/dev/walks.md, and what a real call meets."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import omnigraph

SRC = Path(omnigraph.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "dev" / "walks.md"


def hops(title: str) -> list[str]:
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py::\w+)` \|", section, flags=re.M)


def calls_of(action: Callable[[], Any]) -> list[str]:
    """Functions of ours that an action calls in this thread, in order."""
    found: list[str] = []
    root = f"{SRC}/"

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            found.append(f"{frame.f_code.co_filename[len(root) :]}::{frame.f_code.co_name}")

    sys.setprofile(record)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


def require_walk(title: str, calls: list[str]) -> None:
    place = 0
    wanted = hops(title)
    assert len(wanted) >= 10
    for hop in wanted:
        assert hop in calls, f"{hop} is not met in: {title}"
        assert hop in calls[place:], f"{hop} is met before the hop above it in: {title}"
        place = calls.index(hop, place)
