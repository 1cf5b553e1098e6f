"""Nothing is lost: writers, readers, branches, tags, merges, optimize and hostile cleanups, all killed at random.

Afterwards every tag reads what it read when it was made, every acknowledged row is there, no garbage is left, and
`fsck` finds nothing.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.versioning.store import Settings
from tests.maintenance.scenes import leftovers, sweep
from tests.maintenance.soak import BRANCHES, digest
from tests.support.graphs import EXPIRED, TWIN, twins
from tests.support.invariants import check_every_version
from tests.support.workers import ROOT, read_acks

PROCESSES = 4
LONG_VARIABLE = "OMNIGRAPH_TEST_SOAK_SECONDS"
NORMAL = Settings(lease=2.0, lease_margin=0.5)
HURRIED = replace(NORMAL, staging_grace=30.0, superseded_grace=8.0, stale_base=2.0)


@pytest.mark.processes
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "settings",
    [pytest.param(NORMAL, id="normal graces", marks=pytest.mark.slow), pytest.param(HURRIED, id="small graces")],
)
def test_nothing_is_lost_in_half_a_minute(tmp_path: Path, settings: Settings) -> None:
    soak(tmp_path, seconds=30, settings=settings, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("settings", [NORMAL, HURRIED], ids=["normal graces", "small graces"])
def test_nothing_is_lost_in_half_an_hour(tmp_path: Path, settings: Settings) -> None:
    soak(
        tmp_path,
        seconds=float(os.environ.get(LONG_VARIABLE, "1800")),
        settings=settings,
        seed=random.randrange(1 << 30),
    )


def soak(folder: Path, *, seconds: float, settings: Settings, seed: int) -> None:
    graph = Graph.init(folder / "graph", TWIN)
    graph.load(twins(*(f"hot-{i}" for i in range(6))))
    graph.branches.create("dev")
    kills = churn(graph.uri, folder, seconds, settings, random.Random(seed))

    errors = folder / "errors"
    assert not errors.exists(), errors.read_text()
    acks = read_acks(folder / "acks")
    fresh = Graph.open(graph.uri, settings=replace(EXPIRED, stale_base=settings.stale_base))
    fresh.recovery.run()
    assert fresh.maintenance.fsck().problems == ()
    check_kept(fresh, acks)
    check_every_version(graph.uri)

    for name in {b.name for b in fresh.branches.list()} - set(BRANCHES):  # of those who were killed half-way
        fresh.branches.delete(name)
    before = {branch: digest(fresh, branch) for branch in BRANCHES}
    sweep(fresh, force=True)
    sweep(fresh, force=True)
    assert leftovers(fresh) == {}
    again = Graph.open(graph.uri)
    assert {branch: digest(again, branch) for branch in BRANCHES} == before
    assert again.maintenance.fsck().problems == ()
    check_kept(again, acks)
    removed = sum(ack.get("removed", 0) for ack in acks)
    count = {kind: sum(kind in ack for ack in acks) for kind in ("commit", "tag", "read", "optimized", "removed")}
    print(f"\nseed {seed}: {kills} kills, {count}, {removed} objects removed meanwhile")
    assert min(count.values()) > 0, count
    assert settings is NORMAL or removed > 0


def churn(uri: str, folder: Path, seconds: float, settings: Settings, chance: random.Random) -> int:
    """Keep the processes running, and kill one of them now and then; how many were killed."""
    running = [start(uri, folder, chance, settings) for _ in range(PROCESSES)]
    kills = 0
    try:
        for process in running:
            await_ready(process)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.5, 4.0))
            if any(process.poll() is not None for process in running):
                break  # it has said why in the file of errors
            await_ready(running[0])
            stop(running.pop(0))
            kills += 1
            running.append(start(uri, folder, chance, settings))
    finally:
        for process in running:
            stop(process)
    return kills


def stop(process: subprocess.Popen[bytes]) -> None:
    """As by `kill -9`."""
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def await_ready(process: subprocess.Popen[bytes]) -> None:
    """Return once it has begun to work; at once when it was asked before, or has ended."""
    assert process.stdout is not None
    if not process.stdout.closed:
        process.stdout.readline()
        process.stdout.close()


def start(uri: str, folder: Path, chance: random.Random, settings: Settings) -> subprocess.Popen[bytes]:
    arguments = [uri, str(folder), str(chance.randrange(1 << 30)), json.dumps(asdict(settings))]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.maintenance.soak", *arguments], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def check_kept(graph: Graph, acks: list[dict[str, Any]]) -> None:
    """Acknowledged commits are in their branch once, their rows are there, and tags read what they read."""
    lineage = {branch: [c.graph_commit_id for c in graph.commits.walk(branch)] for branch in BRANCHES}
    ids = {
        (branch, key): set(graph.rows(key, branch)["id"].to_pylist())
        for branch in BRANCHES
        for key in ("node:Left", "node:Right")
    }
    for ack in acks:
        if "commit" in ack:
            assert lineage[ack["branch"]].count(ack["commit"]) == 1, ack
            key, txn = ack["kept"]
            assert txn in ids[ack["branch"], key], ack
        if "tag" in ack:
            assert digest(graph, ack["tag"]) == ack["digest"], ack
