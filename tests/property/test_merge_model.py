"""Random histories of branches, edits, deletes, merges, crashes and reopenings, against dictionaries.

The model knows three-way merging by its definition only: whole states, no files, no deltas. Its commits hold copies.
"""

from __future__ import annotations

import copy
import itertools
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.errors import MergeConflict
from omnigraph.storage import difference, failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.write.coverage import fold
from tests.support.graphs import EXPIRED, Crash

SCHEMA = "node P { k: String @key  v: I32?  w: String? }\nedge K: P -> P { n: I32? }"
POINTS = [
    Point.TABLE_STAGED, Point.INTENT_BEGUN, Point.INTENT_COMPLETED, Point.BEFORE_SWAP, Point.SWAPPED, Point.BEFORE_ACK,
]  # fmt: skip
State = dict[str, dict[str, dict[str, Any]]]


@dataclass
class World:
    """A graph and what it should hold. `states` has one state per commit, `parents` the graph of commits."""

    graph: Graph
    chance: random.Random
    heads: dict[str, str] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def ancestors(self, commit: str) -> set[str]:
        seen, waiting = set(), [commit]
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting.extend(self.parents[each])
        return seen

    def base(self, ours: str, theirs: str) -> str:
        common = self.ancestors(ours) & self.ancestors(theirs)
        lowest = [c for c in common if not any(c != o and c in self.ancestors(o) for o in common)]
        commits = {c.graph_commit_id: c for b in self.heads for c in self.graph.commits.walk(b)}
        return max(lowest, key=lambda c: (commits[c].manifest_version, commits[c].created_at, c))

    def state(self, branch: str) -> State:
        return copy.deepcopy(self.states[self.heads[branch]])

    def committed(self, branch: str, state: State, *other: str) -> None:
        head = self.graph.commits.head(branch).graph_commit_id
        if head == self.heads.get(branch):
            return
        self.parents[head] = (self.heads[branch], *other)
        self.states[head] = state
        self.heads[branch] = head


def merged(base: State, ours: State, theirs: State, side: str | None) -> tuple[State, set[tuple[str, str]]]:
    """Both changes, by definition; where they exclude each other `side` decides, or ours stands in."""
    result: State = {"P": {}, "K": {}}
    conflicts: set[tuple[str, str]] = set()
    from_theirs: set[str] = set()
    for kind in ("P", "K"):
        for i in {*base[kind], *ours[kind], *theirs[kind]}:
            b, o, t = (s[kind].get(i) for s in (base, ours, theirs))
            chosen = o
            if b != t and o != t:
                chosen = t
                if b != o:
                    name = "DivergentInsert" if b is None else "DeleteVsUpdate" if None in (o, t) else "DivergentUpdate"
                    conflicts.add((name, i))
                    chosen = t if side == "theirs" else o
            if chosen is not None:
                result[kind][i] = chosen
                if chosen != o:
                    from_theirs.add(i)
    settle_orphans(result, base, ours, from_theirs, side, conflicts)
    return result, conflicts


def settle_orphans(
    result: State, base: State, ours: State, from_theirs: set[str], side: str | None, conflicts: set[tuple[str, str]]
) -> None:
    def orphans(arriving: bool) -> list[str]:
        return [
            i for i, e in sorted(result["K"].items())
            if (i in from_theirs) == arriving and not {e["from"], e["to"]} <= result["P"].keys()
        ]  # fmt: skip

    def revive(edge: dict[str, Any], source: State) -> None:
        for node in {edge["from"], edge["to"]} - result["P"].keys():
            result["P"][node] = source["P"][node]

    for i in orphans(arriving=True):
        edge = result["K"][i]
        conflicts.add(("OrphanEdge", i))
        if side == "ours":
            del result["K"][i]
            from_theirs.discard(i)
            result["K"] |= {k: e for k, e in ours["K"].items() if k == i}
        elif side == "theirs":
            revive(edge, base)
    for i in orphans(arriving=False):
        conflicts.add(("OrphanEdge", i))
        if side == "theirs":
            del result["K"][i]
        elif side == "ours":
            revive(result["K"][i], ours)


def upsert(world: World, branch: str) -> None:
    state = world.state(branch)
    chance = world.chance
    rows = {}
    for _ in range(chance.randrange(1, 4)):
        k = f"n{chance.randrange(8)}"
        rows[k] = {"k": k, "v": chance.choice([None, 1, 2, 3]), "w": chance.choice([None, "", "x"])}
    state["P"].update(rows)
    edges = {}
    if len(state["P"]) > 1 and chance.random() < 0.6:
        i = f"e{chance.randrange(5)}"
        a, b = chance.choice(sorted(state["P"])), chance.choice(sorted(state["P"]))
        edges[i] = {"id": i, "from": a, "to": b, "n": chance.randrange(3)}
        state["K"].update(edges)
    world.graph.load({"P": list(rows.values()), "K": list(edges.values())}, "merge", branch)
    world.committed(branch, state)


def delete(world: World, branch: str) -> None:
    state = world.state(branch)
    gone = {f"n{world.chance.randrange(8)}" for _ in range(2)}
    state["P"] = {k: r for k, r in state["P"].items() if k not in gone}
    state["K"] = {k: e for k, e in state["K"].items() if not {e["from"], e["to"]} & gone}
    world.graph.delete("P", sorted(gone), branch)
    world.committed(branch, state)


def fork(world: World, branch: str) -> None:
    if len(world.heads) < 4:
        name = f"b{world.chance.randrange(10**9)}"
        world.graph.branches.create(name, branch)
        world.heads[name] = world.heads[branch]


def drop(world: World, branch: str) -> None:
    descendants = {b.parent for b in world.graph.branches.list()}
    if branch != "main" and branch not in descendants:
        world.graph.branches.delete(branch)
        del world.heads[branch]


def merge(world: World, branch: str) -> None:
    source = world.chance.choice(sorted(world.heads))
    if source == branch:
        return
    ours, theirs = world.heads[branch], world.heads[source]
    side = world.chance.choice([None, None, "ours", "theirs"])
    if theirs in world.ancestors(ours):
        assert world.graph.branches.merge(source, branch).outcome == "already_up_to_date"
        return
    base = world.base(ours, theirs)
    state, conflicts = merged(world.states[base], world.states[ours], world.states[theirs], side)
    if conflicts and side is None:
        with pytest.raises(MergeConflict) as caught:
            world.graph.branches.merge(source, branch)
        assert {(str(c.kind), c.entity_id) for c in caught.value.conflicts} == conflicts
        return
    result = world.graph.branches.merge(source, branch, side)
    assert result.outcome == ("fast_forward" if base == ours else "merged")
    assert {(str(c.kind), c.entity_id) for c in result.conflicts} == conflicts
    world.committed(branch, state, theirs)


def crashing_merge(world: World, branch: str) -> None:
    """A merge that dies somewhere: after recovery it happened whole, or not at all."""
    source = world.chance.choice(sorted(world.heads))
    ours, theirs = world.heads[branch], world.heads[source]
    if source == branch or theirs in world.ancestors(ours):
        return
    state, _ = merged(world.states[world.base(ours, theirs)], world.states[ours], world.states[theirs], "theirs")

    def die() -> None:
        raise Crash

    failpoints.arm({world.chance.choice(POINTS): die})
    try:
        world.graph.branches.merge(source, branch, "theirs")
    except Crash:
        pass
    finally:
        failpoints.arm(None)
    world.graph = Graph.open(world.graph.uri, settings=EXPIRED)
    world.graph.recovery.run()
    world.committed(branch, state, theirs)


def reopen(world: World, branch: str) -> None:
    world.graph = Graph.open(world.graph.uri)


def compact(world: World, branch: str) -> None:
    """Maintenance, which changes files and row addresses and nothing that anyone can see."""
    repository = world.graph._repository
    for key in sorted(repository.head(branch).tables):
        state = repository.head(branch)
        fold(repository, state, state.tables[key])
        world.committed(branch, world.state(branch))


STEPS = [upsert, delete, fork, merge, crashing_merge, reopen, drop, compact]


def check(world: World) -> None:
    for branch, head in world.heads.items():
        assert read(world.graph, branch) == world.states[head], branch


def read(graph: Graph, at: str) -> State:
    people = {r["id"]: {n: r[n] for n in ("k", "v", "w")} for r in graph.rows("node:P", at).to_pylist()}
    edges = {
        r["id"]: {"id": r["id"], "from": r["src"], "to": r["dst"], "n": r["n"]}
        for r in graph.rows("edge:K", at).to_pylist()
    }
    return {"P": people, "K": edges}


def run(seed: int, length: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-model-"))
    few = difference.FEW_ROWS
    difference.FEW_ROWS = random.Random(seed).choice([0, 0, few])  # tables here are small: let row ids decide as well
    try:
        graph = Graph.init(folder / "g", SCHEMA)
        world = World(graph, random.Random(seed))
        head = graph.commits.head().graph_commit_id
        world.heads["main"], world.parents[head], world.states[head] = head, (), {"P": {}, "K": {}}
        for _ in range(length):
            step = world.chance.choices(STEPS, weights=(8, 3, 4, 6, 1, 1, 1, 2))[0]
            step(world, world.chance.choice(sorted(world.heads)))
            check(world)
        reachable = set(itertools.chain.from_iterable(world.ancestors(h) for h in world.heads.values()))
        for commit in world.chance.sample(sorted(reachable), min(5, len(reachable))):
            assert read(world.graph, commit) == world.states[commit], "an old commit changed"
    finally:
        difference.FEW_ROWS = few
        shutil.rmtree(folder, ignore_errors=True)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=25, **QUIET)
@given(st.integers(0, 2**32))
def test_random_histories(seed: int) -> None:
    run(seed, 14)


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=3000, **QUIET)
@given(st.integers(0, 2**32))
def test_many_random_histories(seed: int) -> None:
    run(seed, 20)
