"""A power loss takes whatever was not flushed: what was acknowledged must survive on flushed bytes alone.

Every flush is recorded: for a file that its bytes are safe, for a directory that the names in it at that moment are.
The survivor is a copy of the files whose bytes and names are all safe, and of nothing else.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.storage.layout import manifest_path
from omnigraph.storage.locks import advisory_lock
from tests.maintenance.scenes import contents, sweep
from tests.support.graphs import SMALL, knows, people
from tests.support.invariants import check_every_version
from tests.support.writers import EVOLVED


class Disk:
    """What has reached the disk so far."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.names: dict[Path, set[str]] = {}

    def fsync(self, descriptor: int) -> None:
        """What the operating system is asked for, instead of a real flush."""
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self.names[path] = set(os.listdir(path))
        else:
            assert path.exists()
            self.files.add(path)

    def survives(self, file: Path, root: Path) -> bool:
        parts = file.relative_to(root).parts
        folders = [root.joinpath(*parts[:depth]) for depth in range(len(parts))]
        return file in self.files and all(
            name in self.names.get(folder, ()) for folder, name in zip(folders, parts, strict=True)
        )

    def after_power_loss(self, root: Path, target: Path) -> Path:
        for file in (path for path in root.rglob("*") if path.is_file() and self.survives(path, root)):
            copy = target / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        return target


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.delenv("OMNIGRAPH_FSYNC")
    monkeypatch.setattr(os, "fsync", found.fsync)
    return found


def _small_writes(graph: Graph) -> None:
    for number in range(70):  # so many that the table is folded
        graph.load({"Person": people(f"small{number}")})


def _side(graph: Graph) -> None:
    graph.branches.create("dev")
    graph.load({"Person": people("on-dev")}, branch="dev")


def _waiting(graph: Graph) -> None:
    """Writes that find another one at work: they flush while they wait."""
    for act in (
        lambda: graph.load({"Person": people("eve")}),
        lambda: graph.load({"Person": people("eve", "fay", age=5)}, "merge"),
        lambda: graph.delete("Person", ["eve"]),
    ):
        held = threading.Event()
        other = threading.Thread(target=_hold_turn, args=(graph, held))
        other.start()
        held.wait()
        act()
        other.join()


def _hold_turn(graph: Graph, held: threading.Event) -> None:
    with advisory_lock(graph.repository.store.root, manifest_path(None)):
        held.set()
        time.sleep(0.2)


STEPS: dict[str, Callable[[Graph], Any]] = {
    "load": lambda g: g.load({"Person": people("ann", "bob"), "Knows": knows(("ann", "bob"))}),
    "append": lambda g: g.load({"Person": people("cyd")}),
    "upsert": lambda g: g.load({"Person": people("ann", "dan", age=3)}, "merge"),
    "delete": lambda g: g.delete("Person", ["bob"]),
    "waiting": _waiting,
    "small writes": _small_writes,
    "branch": _side,
    "tag": lambda g: g.tags.create("v1"),
    "write to main": lambda g: g.load({"Company": [{"name": "acme"}]}),
    "merge": lambda g: g.branches.merge("dev"),
    "optimize": lambda g: g.maintenance.optimize(),
    "cleanup": sweep,
    "schema": lambda g: g.schema.apply(EVOLVED),
    "overwrite": lambda g: g.load({"Human": [{"name": "zoe"}]}, "overwrite"),
    "index": lambda g: g.maintenance.ensure_indices(),
}


def test_every_acknowledged_step_survives_a_power_loss(tmp_path: Path, disk: Disk) -> None:
    root = tmp_path / "graph"
    graph = Graph.init(root, SMALL)
    for number, (name, step) in enumerate(STEPS.items()):
        step(graph)
        graph.repository.store.wait_for_background_work()
        survivor = Graph.open(disk.after_power_loss(root, tmp_path / f"after-{number}"))
        assert contents(survivor) == contents(graph), name
        assert survivor.commits.head() == graph.commits.head(), name
        assert [b.name for b in survivor.branches.list()] == [b.name for b in graph.branches.list()], name
        assert [t.name for t in survivor.tags.list()] == [t.name for t in graph.tags.list()], name
        check_every_version(survivor.uri)
        assert survivor.maintenance.fsck().problems == (), name
        kind = "Human" if "node:Human" in survivor.snapshot().tables else "Person"
        assert survivor.load({kind: [{"name": f"goes-on-{number}"}]}).commit is not None, name


def test_indexes_of_every_kind_survive_a_power_loss(tmp_path: Path, disk: Disk) -> None:
    root = tmp_path / "graph"
    graph = Graph.init(root, "node Doc { slug: String @key  year: I32 @index  v: Vector(2) @index }")
    rows = [{"slug": f"d{i}", "year": i, "v": [i**0.5, 1.0]} for i in range(300)]
    near = "query q($v: Vector(2)) { match { $d: Doc } return { $d.slug } order { nearest($d.v, $v) } limit 3 }"
    at = {"v": [0.5, 0.5]}
    for number in range(2):  # the second time the indexes are extended
        graph.load({"Doc": [{**row, "slug": f"{row['slug']}-{number}"} for row in rows]})
        graph.maintenance.ensure_indices()
        assert {status.state for status in graph.maintenance.index_status()} == {"indexed"}
        survivor = Graph.open(disk.after_power_loss(root, tmp_path / f"after-{number}"))
        assert survivor.maintenance.index_status() == graph.maintenance.index_status()
        assert survivor.maintenance.fsck().problems == ()
        assert survivor.query(near, params=at).to_pylist() == graph.query(near, params=at).to_pylist()


def test_without_flushes_the_same_power_loss_takes_everything(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check above can fail: it looks at flushed bytes only."""
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "off")
    root = tmp_path / "graph"
    Graph.init(root, SMALL).load({"Person": people("ann")})
    assert not disk.after_power_loss(root, tmp_path / "after").exists()
