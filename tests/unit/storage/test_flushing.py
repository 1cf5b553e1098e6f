"""Flushing: every file and directory once, by the caller while the disk is quick, all at once where it is slow."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage import durability
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import GraphRoot

NAMES = ["a/data/1", "a/data/2", "a/_versions/3", "b/data/4"]


@pytest.fixture
def flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, threading.Thread]:
    found: dict[str, threading.Thread] = {}
    sync = durability._sync

    def recorded(path: Path) -> None:
        name = str(path.relative_to(tmp_path))
        assert name not in found, f"{name} is flushed twice"
        found[name] = threading.current_thread()
        sync(path)

    monkeypatch.setattr(durability, "_sync", recorded)
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return found


def flush(root: Path) -> None:
    Durability(GraphRoot.parse(str(root)), enabled=True).sync_files(NAMES)


def folders() -> set[str]:
    return {"a/data", "a/_versions", "b/data", "a", "b", "."}


def test_a_quick_disk_needs_no_threads(
    tmp_path: Path, flushed: dict[str, threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "_QUICK_SECONDS", 60.0)
    flush(tmp_path)
    assert set(flushed) == {*NAMES, *folders()}
    assert set(flushed.values()) == {threading.current_thread()}


def test_a_slow_disk_flushes_the_rest_at_once(
    tmp_path: Path, flushed: dict[str, threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(len(NAMES) + len(folders()) - 1)
    recorded = durability._sync

    def slow(path: Path) -> None:
        time.sleep(0.002)
        recorded(path)
        if path != tmp_path / NAMES[0]:
            together.wait(60)  # passed only when all the others are being flushed at the same time

    monkeypatch.setattr(durability, "_sync", slow)
    flush(tmp_path)
    assert set(flushed) == {*NAMES, *folders()}
    assert flushed[NAMES[0]] is threading.current_thread()


def test_where_writing_cannot_be_begun_it_begins_with_the_flush(
    tmp_path: Path, flushed: dict[str, threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "_sync_file_range", None)
    flush(tmp_path)
    assert set(flushed) == {*NAMES, *folders()}


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="flushing to disk"):
        Durability(GraphRoot.parse(str(tmp_path)), enabled=True).sync_files(["gone/1", "gone/2"])
