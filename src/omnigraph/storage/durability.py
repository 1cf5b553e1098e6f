"""Flushing the files that a commit needs, on local disks. Lance itself never calls fsync.

On an object store the acknowledged put is the guarantee and everything here does nothing. `OMNIGRAPH_FSYNC=off` trades
power-loss safety for speed on throw-away graphs; a killed process loses nothing either way.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from omnigraph.storage.calls import record
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.options import switch

_MAX_REMEMBERED = 4096
QUICK_SECONDS = 0.0005
_START_WRITING = 2
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
"""Exists on Linux only; elsewhere writing out starts with the flush."""
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


class Durability:
    """Flushes files below a root, if flushing is enabled and the root is on a local disk."""

    def __init__(
        self,
        root: GraphRoot,
        *,
        enabled: bool | None = None,
        quick_seconds: float = QUICK_SECONDS,
        starts_writing: bool = _sync_file_range is not None,
    ) -> None:
        """`quick_seconds`: a flush that takes longer is of a slow disk. `starts_writing`: start writing all of several
        files out before waiting for the first.
        """
        wanted = switch("OMNIGRAPH_FSYNC")
        self._enabled = root.is_local and (wanted if enabled is None else enabled)
        self._root = Path(root.uri)
        self._settled: set[Path] = set()
        self._ahead: dict[str, None] = {}
        self._lock = threading.Lock()
        self._quick_seconds = quick_seconds
        self._starts_writing = starts_writing

    def sync_files(self, paths: Iterable[str]) -> None:
        """Flush files (relative to the root), their directories, and the directories above those that may be new."""
        if not self._enabled:
            return
        files = [self._root / name for name in paths if name not in self._ahead]
        folders = {path.parent for path in files}
        fresh = {parent for folder in folders for parent in self._unsettled(folder)}
        if len(files) > 1 and self._starts_writing:
            with translate_faults("flushing to disk"):
                for path in files:
                    _begin(path)
        self._sync_all([*files, *(folders | fresh)])
        self._settled |= folders | fresh

    def sync_ahead(self, paths: Sequence[str]) -> None:
        """Flush files early, so that they need no flush later. Only for names that are never reused."""
        if not self._enabled:
            return
        self.sync_files(paths)
        with self._lock:
            self._ahead.update(dict.fromkeys(paths))
            while len(self._ahead) > _MAX_REMEMBERED:
                del self._ahead[next(iter(self._ahead))]

    def sync_ancestors(self, path: str) -> None:
        """Flush a new directory and those above it, so that its entry survives too."""
        if not self._enabled:
            return
        folder = self._root / path
        above = [parent for parent in (folder, *folder.parents) if parent.is_relative_to(self._root)]
        self._sync_all(above)

    def _unsettled(self, folder: Path) -> Iterator[Path]:
        """The directories above one that this process has not flushed before: they hold the names of new ones."""
        while folder not in self._settled and folder != self._root:
            folder = folder.parent
            yield folder

    def _sync_all(self, paths: list[Path]) -> None:
        """Flush files one after another as long as that is quick: threads would cost more than they save.

        On a slow disk the rest is flushed in parallel: the kernel commits its journal once for many waiters, but once
        each for files flushed in turn.
        """
        with translate_faults("flushing to disk"):
            rest, was_quick = deque(paths), True
            while rest and was_quick:
                begun = time.perf_counter()
                _sync(rest.popleft())
                was_quick = time.perf_counter() - begun < self._quick_seconds
            if rest and not self._sync_at_once(rest):
                for path in rest:
                    _sync(path)

    def _sync_at_once(self, paths: Iterable[Path]) -> bool:
        """Flush in threads; False where the interpreter ends and starts none."""
        try:
            flushes = [self._flushers.submit(_sync, path) for path in paths]
        except RuntimeError:
            return False
        for flush in flushes:
            flush.result()
        return True

    def shutdown(self) -> None:
        """End the threads that flush."""
        flushers = vars(self).get("_flushers")
        if flushers is not None:
            flushers.shutdown()

    @cached_property
    def _flushers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=16, thread_name_prefix="omnigraph-fsync")


def _begin(path: Path) -> None:
    """Start writing a file out, so that later flushes share one commit of the journal."""
    if _sync_file_range is None:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync_file_range(descriptor, 0, 0, _START_WRITING)  # a hint: only the flush that follows guarantees anything
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    record("flush")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
