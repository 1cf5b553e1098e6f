"""Flushing: every file and directory once, by the caller while the disk is quick, all at once where it is slow."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import GraphRoot

NAMES = ["a/data/1", "a/data/2", "a/_versions/3", "b/data/4"]


@pytest.fixture
def flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, threading.Thread]:
    """Who has flushed what, as the operating system is told."""
    found: dict[str, threading.Thread] = {}
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        name = str(path_of(descriptor).relative_to(tmp_path))
        assert name not in found, f"{name} is flushed twice"
        found[name] = threading.current_thread()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return found


def path_of(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def flush(root: Path, **how: Any) -> None:
    Durability(GraphRoot.parse(str(root)), enabled=True, **how).sync_files(NAMES)


def folders() -> set[str]:
    return {"a/data", "a/_versions", "b/data", "a", "b", "."}


def test_a_quick_disk_needs_no_threads(tmp_path: Path, flushed: dict[str, threading.Thread]) -> None:
    flush(tmp_path, quick_seconds=60.0)
    assert set(flushed) == {*NAMES, *folders()}
    assert set(flushed.values()) == {threading.current_thread()}


def test_a_slow_disk_flushes_the_rest_at_once(
    tmp_path: Path, flushed: dict[str, threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(len(NAMES) + len(folders()) - 1)
    recorded = os.fsync

    def slow(descriptor: int) -> None:
        recorded(descriptor)
        if path_of(descriptor) != tmp_path / NAMES[0]:
            together.wait(60)  # passed only when all the others are being flushed at the same time

    monkeypatch.setattr(os, "fsync", slow)
    flush(tmp_path, quick_seconds=0.0)
    assert set(flushed) == {*NAMES, *folders()}
    assert flushed[NAMES[0]] is threading.current_thread()


def test_where_writing_cannot_be_begun_it_begins_with_the_flush(
    tmp_path: Path, flushed: dict[str, threading.Thread]
) -> None:
    flush(tmp_path, starts_writing=False)
    assert set(flushed) == {*NAMES, *folders()}


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="flushing to disk"):
        Durability(GraphRoot.parse(str(tmp_path)), enabled=True).sync_files(["gone/1", "gone/2"])


def test_a_slow_disk_is_flushed_also_while_the_interpreter_ends(tmp_path: Path) -> None:
    """It starts no threads then. A write that relied on them would try again until its deadline."""
    code = """
import atexit, sys
from pathlib import Path
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import GraphRoot

for name in ("a", "b", "c"):
    (Path(sys.argv[1]) / name).write_text(name)

@atexit.register
def last_words():
    Durability(GraphRoot.parse(sys.argv[1]), enabled=True, quick_seconds=0.0).sync_files(["a", "b", "c"])
    print("flushed")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "flushed\n", "")
