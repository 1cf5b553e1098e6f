"""Counting what a local operation does to files, by kernel events: nothing that touches the graph escapes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from inotify_simple import INotify, flags


@dataclass
class FileEvents:
    """What happened below a directory while it was watched."""

    created: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)


def _is_temporary(name: str) -> bool:
    return name.startswith(".tmp") or "#" in name


@contextmanager
def file_events(root: Path) -> Iterator[FileEvents]:
    """Watch every directory that exists now. A file that is born under a temporary name counts once, at its birth."""
    events = FileEvents()
    with INotify() as watcher:
        names = {}
        for directory, _, _ in os.walk(root):
            names[watcher.add_watch(directory, flags.CREATE | flags.OPEN)] = directory
        watcher.read(timeout=0)
        yield events
        born_temporary = set()
        for event in watcher.read(timeout=50):
            if event.mask & flags.ISDIR:
                continue
            path = f"{names[event.wd]}/{event.name}"
            if event.mask & flags.OPEN:
                events.opened.append(path)
            elif _is_temporary(event.name):
                born_temporary.add(path.partition("#")[0])
                events.created.append(path)
            elif path not in born_temporary:
                events.created.append(path)
