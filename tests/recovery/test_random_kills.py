"""Writers that are killed at random moments, again and again, and what they leave: nothing lost, nothing half done."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.graphs import EXPIRED, TWIN, people, recovery_files, twins
from tests.support.invariants import check_acknowledged, check_every_version
from tests.support.workers import KILLED, Worker, read_acks

WRITERS = 3
BRANCHES = ["main", "dev"]


@pytest.mark.processes
def test_a_dozen_random_kills_lose_nothing(tmp_path: Path) -> None:
    _kill_and_check(tmp_path, kills=12, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_random_kills_lose_nothing(tmp_path: Path) -> None:
    _kill_and_check(tmp_path, kills=210, seed=random.randrange(1 << 30))


def _kill_and_check(folder: Path, *, kills: int, seed: int) -> None:
    uri, ack = folder / "g", folder / "acks"
    graph = Graph.init(uri, TWIN)
    graph.load(twins(*(f"hot-{i}" for i in range(6))))
    graph.branches.create("dev")

    began = time.monotonic()
    _churn(uri, ack, kills, seed)
    took = time.monotonic() - began

    left = [name for name in recovery_files(uri) if name.endswith(".json")]
    graph = Graph.open(uri)  # what died last has a lease of a minute here: nobody waits for it
    for branch in BRANCHES:
        assert graph.load(twins(f"next-{branch}"), branch=branch).commit is not None
        assert graph.load({"Person": people(f"next-{branch}")}, branch=branch).commit is not None

    heads, audit = _recover(uri)
    assert _recover(uri) == (heads, audit), "a second recovery changed something"
    assert [name for name in recovery_files(uri) if not name.endswith(".aborted")] == []
    assert max(Counter(row["operation_id"] for row in audit).values(), default=1) == 1

    checked = check_every_version(uri)
    acks = read_acks(ack)
    assert check_acknowledged(uri, acks) == len(acks) > kills
    for branch in BRANCHES:
        kept = {each["kept"] for each in acks if each["branch"] == branch and "kept" in each}
        assert kept <= set(graph.rows("node:Left", branch)["id"].to_pylist())
    _check_audit(graph, audit)
    folds = sum(c.kind == "optimize" for branch in BRANCHES for c in graph.commits.list(branch))
    outcomes = Counter(row["recovery_kind"] for row in audit)
    print(
        f"\nseed {seed}: {kills} kills in {took:.0f} s, {checked.versions} versions and {checked.pins} pins checked, "
        f"{len(acks)} acknowledged, {folds} folds, {dict(outcomes)}, {len(left)} intents pending at the end"
    )


def _churn(uri: Path, ack: Path, kills: int, seed: int) -> None:
    """Keep three writers running; kill one of them at a random moment of its work and start another."""
    chance = random.Random(seed)
    # A lease of a second: those who come back resolve what the dead left, beside those who live.
    running = [_start(uri, ack, seed + i) for i in range(WRITERS)]
    for number in range(kills):
        victim = running.pop(number % WRITERS)
        reply = victim.receive()
        assert reply == {"ok": "churning"}, reply
        time.sleep(chance.random() ** 2 * 0.6)
        assert victim.is_alive(), victim.receive()
        assert victim.kill() == KILLED
        running.insert(number % WRITERS, _start(uri, ack, seed + WRITERS + number))
    for worker in running:
        worker.kill()


def _start(uri: Path, ack: Path, seed: int) -> Worker:
    worker = Worker(OMNIGRAPH_INTENT_LEASE="1")
    worker.send("churn", uri, seed=seed, ack=str(ack), branches=BRANCHES)
    return worker


def _recover(uri: Path) -> tuple[list[str], list[dict[str, object]]]:
    graph = Graph.open(uri, settings=EXPIRED)
    graph.recovery.run()
    return [graph.commits.head(b).graph_commit_id for b in BRANCHES], graph.recovery.audit().to_pylist()


def _check_audit(graph: Graph, audit: list[dict[str, object]]) -> None:
    """The audit says of each intent what is true of its commit."""
    commits = {c.graph_commit_id for branch in BRANCHES for c in graph.commits.walk(branch)}
    for row in audit:
        is_forward = row["recovery_kind"] == "RolledForward"
        assert (row["operation_id"] in commits) == is_forward, row
        assert row["graph_commit_id"] in commits
        assert (row["graph_commit_id"] == row["operation_id"]) == is_forward
