"""Every kind of writer, killed with SIGKILL at every durable step it takes, and what is left each time.

What must hold after each kill: the operation is visible whole or not at all, the next writer goes on at once, recovery
ends in one of its two outcomes and, run again, changes nothing, and every version of every branch is consistent.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import NotFound, StorageError
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import NAMES, Point
from omnigraph.versioning.commits import RECOVERY_ACTOR
from tests.support.graphs import EXPIRED, logical_state, recovery_files
from tests.support.invariants import check_every_version
from tests.support.workers import KILLED, Worker
from tests.support.writers import ACTOR, MESSAGE, WRITERS

pytestmark = pytest.mark.processes


@dataclass(frozen=True)
class Scene:
    """One kind of writer: the graph before it, what is visible before and after, and each step it takes, in order."""

    kind: str
    base: Path
    before: dict[str, Any] | None
    after: dict[str, Any]
    hits: Counter[str]

    @property
    def cases(self) -> list[str]:
        return [f"{name}:kill:{n}" for name, count in self.hits.items() for n in range(1, count + 1)]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scene]:
    """Each operation run once without a crash, to learn what it makes visible and which failpoints it passes."""
    return {kind: _rehearse(kind, tmp_path_factory.mktemp(kind)) for kind in WRITERS}


def _rehearse(kind: str, folder: Path) -> Scene:
    writer = WRITERS[kind]
    base, done = folder / "base", folder / "done"
    before = None
    if writer.prepare is not None:
        writer.prepare(str(base))
        before = _visible(base)
        shutil.copytree(base, done)
    hits: Counter[str] = Counter()
    failpoints.arm({point: lambda point=point: hits.update([point.value]) for point in Point})
    try:
        writer.run(str(done))
    finally:
        failpoints.arm(None)
    return Scene(kind, base, before, _visible(done), hits)


def test_every_failpoint_is_passed_by_some_writer(scenes: dict[str, Scene]) -> None:
    passed = {name for scene in scenes.values() for name in scene.hits}
    assert passed == {point.value for point in NAMES}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow) if kind == "settle" else kind for kind in WRITERS if kind != "init"],
)
def test_a_killed_writer_leaves_all_or_nothing(kind: str, scenes: dict[str, Scene], tmp_path: Path) -> None:
    scene = scenes[kind]

    def case(failpoint: str) -> None:
        uri = tmp_path / failpoint.replace(":", "-")
        # Not with the old times: the lease of an intent begins when its file is written.
        shutil.copytree(scene.base, uri, copy_function=shutil.copy)
        _kill(kind, uri, failpoint)
        _check_crashed(scene, uri)

    _run_all(case, scene.cases)


def test_a_killed_init_leaves_a_graph_or_a_place_for_one(scenes: dict[str, Scene], tmp_path: Path) -> None:
    scene = scenes["init"]

    def case(failpoint: str) -> None:
        uri = tmp_path / failpoint.replace(":", "-")
        _kill("init", uri, failpoint)
        try:
            Graph.open(uri)
        except (NotFound, StorageError):
            WRITERS["init"].run(str(uri))
        else:
            assert failpoint.startswith(Point.INIT_MANIFEST)
        assert _visible(uri) == scene.after
        assert check_every_version(uri).heads == {"main": 1}
        _probe(uri)

    _run_all(case, scene.cases)


def _run_all(case: Any, failpoints_: list[str]) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = {failpoint: pool.submit(case, failpoint) for failpoint in failpoints_}
    for failpoint, result in running.items():
        error = result.exception()
        if error is not None:
            error.add_note(f"killed at {failpoint}")
            raise error


def _kill(kind: str, uri: Path, failpoint: str) -> None:
    worker = Worker()
    reply = worker.call("run", uri, kind=kind, failpoint=failpoint)
    worker.close()
    assert reply.get("dead") == KILLED, reply


def _check_crashed(scene: Scene, uri: Path) -> None:
    seen = _visible(uri)
    assert seen in (scene.before, scene.after), "half an operation is visible"
    # The next writer neither waits for nor touches what the dead one left.
    left = recovery_files(uri)
    pending = {name.removesuffix(".json"): f"{name.removesuffix('.json')}.staged" in left for name in _intents(left)}
    audited = _audit(uri)
    _probe(uri)
    assert recovery_files(uri) == left
    assert _visible(uri) == seen

    first = _recover(uri)
    assert _recover(uri) == first, "a second recovery changed something"
    state, _, audit = first
    assert Counter(row["operation_id"] for row in audit) == Counter({*pending, *(r["operation_id"] for r in audited)})
    assert [name for name in recovery_files(uri) if not name.endswith(".aborted")] == []
    _check_outcome(scene, uri, seen, state, audit, pending)
    _check_repeatable(scene, uri, state)
    check_every_version(uri)


def _check_outcome(
    scene: Scene, uri: Path, seen: Any, state: Any, audit: list[dict[str, Any]], pending: dict[str, bool]
) -> None:
    graph = Graph.open(uri, mode="ro")
    commits = [c for c in graph.commits.list() if c.message == MESSAGE]
    by_recovery = graph.commits.list(actor=RECOVERY_ACTOR)
    if not audit:
        assert state == seen
        assert by_recovery == []
        return
    [row] = audit
    is_staged = pending.get(row["operation_id"], True)
    assert row["recovery_for_actor"] == ACTOR
    if row["recovery_kind"] == "RolledForward":
        assert state == (scene.after if scene.kind != "recovery_of_published" else scene.before)
        assert [c.graph_commit_id for c in commits] == [row["graph_commit_id"]]
        assert all(c.recovery_for_actor == ACTOR and c in commits for c in by_recovery)
        assert by_recovery or seen == state, "recovery published it, and the commit does not say so"
    else:
        assert row["recovery_kind"] == "RolledBack"
        assert not is_staged or scene.kind == "recovery_back", "a complete plan whose requirements hold is published"
        assert (state, commits) == (scene.before, [])
        assert [(c.graph_commit_id, c.kind, c.recovery_for_actor) for c in by_recovery] == [
            (row["graph_commit_id"], "recovery", ACTOR)
        ], "the history shows the rollback, once"


def _check_repeatable(scene: Scene, uri: Path, state: Any) -> None:
    """What did not happen can simply be done again; a half-deleted name is free after its minute."""
    if scene.kind == "branch_delete":
        if "dev node:Person" not in state:
            _age_closed_branches(uri)
            Graph.open(uri).branches.create("dev")
        return
    if state == scene.before and not scene.kind.startswith("recovery"):
        WRITERS[scene.kind].run(str(uri))
        assert _visible(uri) == scene.after


def _age_closed_branches(uri: Path) -> None:
    long_ago = time.time() - 120
    for path in (uri / "__manifest" / "tree").rglob("*.manifest"):
        os.utime(path, (long_ago, long_ago))


def _probe(uri: Path) -> None:
    """A write to a table that no operation of the matrix uses."""
    graph = Graph.open(uri)
    name = f"probe {graph.snapshot().version}"
    assert graph.load({"Company": [{"name": name}]}).commit is not None
    assert graph.entity_at("node:Company", name) is not None


def _recover(uri: Path) -> tuple[Any, int, list[dict[str, Any]]]:
    graph = Graph.open(uri, settings=EXPIRED)
    graph.recovery.run()
    return _visible(uri), graph.snapshot().version, graph.recovery.audit().to_pylist()


def _audit(uri: Path) -> list[dict[str, Any]]:
    return list(Graph.open(uri, mode="ro").recovery.audit().to_pylist())


def _intents(names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".json")]


def _visible(uri: Path) -> dict[str, Any]:
    return {key: rows for key, rows in logical_state(uri).items() if not key.endswith("node:Company")}
