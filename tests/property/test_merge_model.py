"""Random histories of branches, edits, schema changes, deletes, merges, crashes, reopenings, against dictionaries."""

from __future__ import annotations

import copy
import itertools
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.errors import MergeConflict
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.store import Settings
from omnigraph.write.index_fold import fold
from tests.property.merge_model import ENDS, Clash, Conflict, Merge, Prop, State, Type, text
from tests.property.schema_steps import CHANGES, WEIGHTS, value
from tests.support.graphs import Crash

KEY = Prop("k", "String", nullable=False, is_key=True)
START = {
    "P": Type("P", {"k": KEY, "v": Prop("v", "I32"), "w": Prop("w", "String")}),
    "K": Type("K", {"n": Prop("n", "I32")}, ("P", "P")),
}
POINTS = [
    Point.TABLE_STAGED, Point.INTENT_BEGUN, Point.INTENT_COMPLETED, Point.BEFORE_SWAP, Point.SWAPPED, Point.BEFORE_ACK,
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _unflushed() -> Iterator[None]:
    """Nothing here loses power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_FSYNC", "off")
        yield


@dataclass
class World:
    """A graph and what it should hold. `states` has one state per commit, `parents` the graph of commits."""

    graph: Graph
    chance: random.Random
    settings: Settings
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
        if len(lowest) == 1:
            return lowest[0]
        commits = {c.graph_commit_id: c for b in self.heads for c in self.graph.commits.walk(b)}
        return max(lowest, key=lambda c: (commits[c].manifest_version, commits[c].created_at, c))

    def merged(self, ours: str, theirs: str, side: str | None) -> tuple[State, set[Conflict]] | None:
        """What a merge should give, or None where the schemas exclude each other."""
        base = self.base(ours, theirs)
        try:
            return copy.deepcopy(Merge(*(self.states[c] for c in (base, ours, theirs)), side).run())
        except Clash:
            return None

    def state(self, branch: str) -> State:
        return copy.deepcopy(self.states[self.heads[branch]])

    def committed(self, branch: str, state: State, *other: str) -> None:
        head = self.graph.commits.head(branch).graph_commit_id
        if head == self.heads.get(branch):
            return
        self.parents[head] = (self.heads[branch], *other)
        self.states[head] = state
        self.heads[branch] = head


def upsert(world: World, branch: str) -> None:
    state = world.state(branch)
    chance = world.chance
    i = chance.choice(state.nodes)
    data: dict[str, list[dict[str, Any]]] = {state.types[i].name: _written(state, i, chance)}
    free = [e for e in state.edges if all(state.rows[n] for n in state.types[e].ends or ())]
    if free and chance.random() < 0.6:
        i = chance.choice(free)
        data[state.types[i].name] = _connected(state, i, chance)
    world.graph.load(data, "merge", branch)
    world.committed(branch, state)


def _written(state: State, i: str, chance: random.Random) -> list[dict[str, Any]]:
    """Put some nodes into the state; the rows that do the same to a graph."""
    rows = {}
    for _ in range(chance.randrange(1, 4)):
        k = f"n{chance.randrange(8)}"
        props = state.types[i].props
        row = state.rows[i][k] = {p: k if each.is_key else value(each, chance) for p, each in props.items()}
        rows[k] = {props[p].name: v for p, v in row.items()}
    return list(rows.values())


def _connected(state: State, i: str, chance: random.Random) -> list[dict[str, Any]]:
    each = state.types[i]
    k = f"e{chance.randrange(5)}"
    ends = [chance.choice(sorted(state.rows[node])) for node in each.ends or ()]
    values = {p: value(prop, chance) for p, prop in each.props.items()}
    state.rows[i][k] = dict(zip(ENDS, ends, strict=True)) | values
    named = {each.props[p].name: v for p, v in values.items()}
    return [{"id": k, "from": ends[0], "to": ends[1], **named}]


def delete(world: World, branch: str) -> None:
    state = world.state(branch)
    i = world.chance.choice(state.nodes)
    gone = {f"n{world.chance.randrange(8)}" for _ in range(2)}
    state.rows[i] = {k: r for k, r in state.rows[i].items() if k not in gone}
    for e in state.edges:
        at = [end for end, node in zip(ENDS, state.types[e].ends or (), strict=True) if node == i]
        state.rows[e] = {k: r for k, r in state.rows[e].items() if not {r[end] for end in at} & gone}
    world.graph.delete(state.types[i].name, sorted(gone), branch)
    world.committed(branch, state)


def evolve(world: World, branch: str) -> None:
    """Change the schema of one branch."""
    state = world.state(branch)
    [change] = world.chance.choices(CHANGES, WEIGHTS)
    before = dict(state.types)
    change(state, world.chance)
    world.graph.schema.apply(
        text(state.types, before), allow_data_loss=world.chance.random() < 0.2, branch=branch, allow_drops=True
    )
    world.committed(branch, state)
    assert not world.graph.schema.plan(text(state.types, state.types), branch=branch).steps


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


def other_than(world: World, branch: str) -> str | None:
    others = sorted(world.heads.keys() - {branch})
    return world.chance.choice(others) if others else None


def merge(world: World, branch: str) -> None:
    source = other_than(world, branch)
    if source is None:
        return
    ours, theirs = world.heads[branch], world.heads[source]
    side = world.chance.choice([None, None, "ours", "theirs"])
    if theirs in world.ancestors(ours):
        assert world.graph.branches.merge(source, branch).outcome == "already_up_to_date"
        return
    expected = world.merged(ours, theirs, side)
    if expected is None:
        with pytest.raises(MergeConflict) as caught:
            world.graph.branches.merge(source, branch, side)
        assert {str(c.kind) for c in caught.value.conflicts} == {"SchemaConflict"}
        return
    state, conflicts = expected
    if conflicts and side is None:
        with pytest.raises(MergeConflict) as caught:
            world.graph.branches.merge(source, branch)
        assert {(str(c.kind), c.type_name, c.entity_id) for c in caught.value.conflicts} == conflicts
        return
    result = world.graph.branches.merge(source, branch, side)
    assert result.outcome == ("fast_forward" if world.base(ours, theirs) == ours else "merged")
    told = {(str(c.kind), c.type_name, c.entity_id) for c in result.conflicts}
    # A node that comes back for one edge is there for the next, which then has nothing to decide.
    assert told <= conflicts
    assert {kind for kind, _, _ in conflicts - told} <= {"OrphanEdge"}
    world.committed(branch, state, theirs)
    assert not world.graph.schema.plan(text(state.types, state.types), branch=branch).steps


def crashing_merge(world: World, branch: str) -> None:
    """A merge that dies somewhere: after recovery it happened whole, or not at all."""
    source = other_than(world, branch)
    if source is None or world.heads[source] in world.ancestors(world.heads[branch]):
        return
    ours, theirs = world.heads[branch], world.heads[source]
    expected = world.merged(ours, theirs, "theirs")
    if expected is None:
        return

    def die() -> None:
        raise Crash

    failpoints.arm({world.chance.choice(POINTS): die})
    try:
        world.graph.branches.merge(source, branch, "theirs")
    except Crash:
        pass
    finally:
        failpoints.arm(None)
    world.graph = Graph.open(world.graph.uri, settings=replace(world.settings, lease=0.0, lease_margin=0.0))
    world.graph.recovery.run()
    if world.graph.commits.head(branch).kind == "recovery":  # rolled back: a commit that changes nothing
        world.committed(branch, world.state(branch))
    else:
        world.committed(branch, expected[0], theirs)


def reopen(world: World, branch: str) -> None:
    world.graph = Graph.open(world.graph.uri, settings=world.settings)


def compact(world: World, branch: str) -> None:
    """Maintenance, which changes files and row addresses and nothing that anyone can see."""
    repository = world.graph.repository
    for key in sorted(repository.head(branch).tables):
        state = repository.head(branch)
        fold(repository, state, state.tables[key])
        world.committed(branch, world.state(branch))


STEPS = [upsert, delete, evolve, fork, merge, crashing_merge, reopen, drop, compact]


def check(world: World, branches: list[str]) -> None:
    for branch in branches:
        if branch in world.heads:
            found, expected = read(world.graph, branch), world.states[world.heads[branch]].public()
            assert found == expected, branch


def read(graph: Graph, at: str) -> dict[str, dict[str, dict[str, Any]]]:
    found = {}
    for key in graph.snapshot(at).tables:
        rows = graph.rows(key, at).to_pylist()
        found[key] = {row["id"]: {name: v for name, v in row.items() if name != "id"} for row in rows}
    return found


def run(seed: int, length: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-model-"))
    few = random.Random(seed).choice([0, 0, None])  # tables here are small: let row ids decide as well
    try:
        Graph.init(folder / "g", text(START, START))
        chosen = Settings(diff_few_rows=few)
        graph = Graph.open(folder / "g", settings=chosen)
        world = World(graph, random.Random(seed), chosen)
        head = graph.commits.head().graph_commit_id
        world.heads["main"], world.parents[head] = head, ()
        world.states[head] = State(dict(START), {i: {} for i in START})
        upsert(world, "main")
        fork(world, "main")
        for _ in range(length):
            step = world.chance.choices(STEPS, weights=(8, 2, 6, 2, 9, 1, 1, 0.5, 1))[0]
            branch = world.chance.choice(sorted(world.heads))
            step(world, branch)
            check(world, sorted({branch, world.chance.choice(sorted(world.heads))}))
        check(world, sorted(world.heads))
        reachable = set(itertools.chain.from_iterable(world.ancestors(h) for h in world.heads.values()))
        for commit in world.chance.sample(sorted(reachable), min(5, len(reachable))):
            assert read(world.graph, commit) == world.states[commit].public(), "an old commit changed"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=12, **QUIET)
@given(st.integers(0, 2**32))
def test_random_histories(seed: int) -> None:
    run(seed, 14)


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=3000, **QUIET)
@given(st.integers(0, 2**32))
def test_many_random_histories(seed: int) -> None:
    run(seed, 20)
