"""Flushing what a commit needs, on local disks. Lance itself never calls fsync.

On an object store the acknowledged put is the guarantee and everything here does nothing.
`OMNIGRAPH_FSYNC=off` trades power-loss safety for speed on throw-away graphs; a killed process loses nothing either way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from omnigraph.storage.faults import translated
from omnigraph.storage.layout import GraphRoot


class Durability:
    """Knows whether, and where, to flush."""

    def __init__(self, root: GraphRoot, *, enabled: bool | None = None) -> None:
        wanted = os.environ.get("OMNIGRAPH_FSYNC", "on").lower() not in ("off", "0", "false", "no")
        self._enabled = root.is_local and (wanted if enabled is None else enabled)
        self._root = Path(root.uri)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Flush files (relative to the root) and each of their directories once."""
        if not self._enabled:
            return
        directories: set[Path] = set()
        with translated("flushing to disk"):
            for name in paths:
                path = self._root / name
                self._sync(path)
                directories.add(path.parent)
            for directory in directories:
                self._sync(directory)

    def sync_object(self, path: str) -> None:
        """Flush one control object."""
        self.sync_files((path,))

    def sync_ancestors(self, path: str) -> None:
        """Flush the directories above a new one, so that its entry survives too."""
        if not self._enabled:
            return
        directory = self._root / path
        with translated("flushing to disk"):
            while directory != self._root:
                directory = directory.parent
                self._sync(directory)

    @staticmethod
    def _sync(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
