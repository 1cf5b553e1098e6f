"""The publisher's decisions: what follows a branch that moved, what is a conflict, and how long it tries."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import EndpointConflict, ExpectedVersionMismatch, KeyConflict, PlanExpired
from omnigraph.storage.lookup import locate
from omnigraph.versioning.plan import (
    CardinalityWithin,
    KeysAbsent,
    KeysPresent,
    NoIncident,
    Pin,
    Unmoved,
    ValuesAbsent,
    plan_from_json,
    plan_to_json,
)
from omnigraph.versioning.publish import next_state
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import ticks
from tests.attacks.test_attacks import plan_of
from tests.conftest import SCHEMA
from tests.support.rows import company, knows, person


@pytest.fixture
def rival(local_graph: Graph) -> Graph:
    return Graph.open(local_graph.uri)


def publish(graph: Graph, plan: object) -> None:
    graph.repository.publisher.publish(plan)  # type: ignore[arg-type]


def test_a_moved_branch_with_untouched_tables_is_followed(local_graph: Graph, rival: Graph) -> None:
    plan = plan_of(local_graph, "mine")
    rival.load([company("c")])
    publish(local_graph, plan)
    head = local_graph.commits.head()
    assert head.manifest_version == 3
    assert head.parent_commit_id == local_graph.commits.list()[1].graph_commit_id
    entry = local_graph.snapshot().tables["node:Person"]
    assert entry.staged_version == plan.changes[0].staged_version, "the same staged version, re-parented"


def test_an_insert_follows_other_inserts(local_graph: Graph, rival: Graph) -> None:
    plan = plan_of(local_graph, "mine")
    rival.load([person("theirs")])
    publish(local_graph, plan)
    assert sorted(local_graph.rows("node:Person")["name"].to_pylist()) == ["mine", "theirs"]
    assert local_graph.snapshot().tables["node:Person"].staged_version != plan.changes[0].staged_version


def test_an_insert_of_a_taken_key_is_a_key_conflict(local_graph: Graph, rival: Graph) -> None:
    plan = plan_of(local_graph, "same")
    rival.load([person("same", 9)])
    with pytest.raises(KeyConflict):
        publish(local_graph, plan)
    assert local_graph.rows("node:Person")["age"].to_pylist() == [9]


def test_a_key_that_came_and_went_is_free(local_graph: Graph, rival: Graph) -> None:
    plan = plan_of(local_graph, "same", age=1)
    rival.load([person("same", 9)])
    rival.delete("Person", ["same"])
    publish(local_graph, plan)
    assert local_graph.rows("node:Person")["age"].to_pylist() == [1]


def test_an_update_follows_only_when_it_opted_in(local_graph: Graph, rival: Graph) -> None:
    local_graph.load([person("a", 1)])
    willing = plan_of(local_graph, "a", replaces=True, age=2)
    strict = replace(plan_of(local_graph, "a", replaces=True, age=3), rebase_updates=False)
    rival.load([person("other")])
    with pytest.raises(ExpectedVersionMismatch):
        publish(local_graph, strict)
    publish(local_graph, willing)
    assert local_graph.entity_at("node:Person", "a") == {"id": "a", "name": "a", "age": 2}


def test_requirements_are_checked_against_what_the_swap_replaces(local_graph: Graph, rival: Graph) -> None:
    local_graph.load([person("a"), person("b")])
    state = local_graph.repository.head()
    pins = {key: Pin.of(state.tables[key]) for key in ("node:Person", "edge:Knows", "node:Company")}
    plan = replace(plan_of(local_graph, "c"), pins=pins)
    rival.load([knows("a", "b"), person("d"), company("x")])
    cases = [
        (NoIncident("edge:Knows", ("src", "dst"), ("b",)), EndpointConflict),
        (KeysPresent("node:Person", ("a", "nobody")), EndpointConflict),
        (KeysAbsent("node:Company", ("x",)), KeyConflict),
        (Unmoved("node:Company"), ExpectedVersionMismatch),
    ]
    for requirement, error in cases:
        with pytest.raises(error):
            publish(local_graph, replace(plan, requirements=(requirement,)))
    holding = (
        NoIncident("edge:Knows", ("dst",), ("a",)),
        KeysPresent("node:Person", ("a",)),
        KeysAbsent("node:Company", ("y",)),
    )
    publish(local_graph, replace(plan, requirements=holding))
    assert local_graph.rows("node:Person").num_rows == 4


def test_an_unknown_table_reads_as_version_zero(local_graph: Graph) -> None:
    plan = plan_of(local_graph, "c")
    plan = replace(plan, pins={**plan.pins, "node:Gone": Pin(4, 1, "x")})
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(local_graph, plan)
    assert caught.value.details() == {"manifest_conflict": {"table_key": "node:Gone", "expected": 4, "actual": 0}}


def test_maintenance_never_fails_a_logical_write(local_graph: Graph, rival: Graph) -> None:
    from omnigraph.write.index_fold import fold

    for i in range(4):
        local_graph.load([person(f"p{i}", i)])
    insert = plan_of(local_graph, "new")
    update = replace(plan_of(local_graph, "p1", replaces=True, age=9), rebase_updates=False)
    state = rival.repository.head()
    fold(rival.repository, state, state.tables["node:Person"])
    publish(local_graph, update)
    publish(local_graph, insert)
    ages = {r["name"]: r["age"] for r in local_graph.rows("node:Person").to_pylist()}
    assert ages == {"p0": 0, "p1": 9, "p2": 2, "p3": 3, "new": 1}


def test_a_fold_that_lost_its_pin_changes_nothing(local_graph: Graph, rival: Graph) -> None:
    from omnigraph.write.index_fold import fold

    for i in range(4):
        local_graph.load([person(f"p{i}")])
    state = local_graph.repository.head()
    rival.load([person("p2", 77)], mode="merge")
    with pytest.raises(ExpectedVersionMismatch):
        fold(local_graph.repository, state, state.tables["node:Person"])
    assert local_graph.rows("node:Person").num_rows == 4
    assert local_graph.rows("node:Person")["age"].drop_null().to_pylist() == [77]


def test_a_fold_follows_rows_that_came_beside_it(local_graph: Graph, rival: Graph) -> None:
    """Its work is done once, against the pin it began with; what others added meanwhile stays as it is."""
    from omnigraph.write.index_fold import fold

    for i in range(4):
        local_graph.load([person(f"p{i}", i)])
    state = local_graph.repository.head()
    for i in range(3):
        rival.load([person(f"rival{i}", 10 + i)])
    fold(local_graph.repository, state, state.tables["node:Person"])
    for graph in (local_graph, rival, Graph.open(local_graph.uri)):
        entry = graph.snapshot().tables["node:Person"]
        table = open_table(graph.repository.store, entry)
        assert len(table.fragments) == 4, "four became one, three are new"
        assert len(table.uncovered_fragments) == 3
        names = [*(f"p{i}" for i in range(4)), *(f"rival{i}" for i in range(3))]
        assert sorted(table.scan(["id"])["id"].to_pylist()) == names
        assert set(locate(table, [*names, "nobody"], entry.tail).ids) == set(names)
    for name in ("p1", "rival1"):
        with pytest.raises(KeyConflict):
            local_graph.load([person(name)])
    rival.load([person("p1", 50), person("rival1", 51), person("new", 52)], mode="merge")
    ages = {r["name"]: r["age"] for r in local_graph.rows("node:Person").to_pylist()}
    assert ages == {"p0": 0, "p1": 50, "p2": 2, "p3": 3, "rival0": 10, "rival1": 51, "rival2": 12, "new": 52}


def test_a_plan_that_was_staged_too_long_ago_is_refused(local_graph: Graph) -> None:
    grace = local_graph.repository.store.settings.staging_grace
    plan = replace(plan_of(local_graph, "old"), staged_at=ticks() - grace / 2 - 1)
    with pytest.raises(PlanExpired, match="too long ago"):
        publish(local_graph, plan)


def test_a_plan_survives_serialisation(local_graph: Graph) -> None:
    plan = plan_of(local_graph, "a", replaces=True)
    requirements = (
        KeysAbsent("node:N", ("x",)), KeysPresent("node:N", ("y",)), NoIncident("edge:E", ("src",), ("z",)),
        ValuesAbsent("node:N", ("a", "b"), (("1", "2"), ("3", "4")), ("x",)),
        CardinalityWithin("edge:E", 1, None, (("a", 2),)), Unmoved("node:M"),
    )  # fmt: skip
    plan = replace(
        plan, requirements=requirements, has_intent=True, actor="act-ann", message="why", idempotency_key="k-1",
        expect_head=plan.base_head, staged_at=1.5,
    )  # fmt: skip
    given = {each.name for each in fields(plan) if getattr(plan, each.name) in (None, (), {}, 0, "")}
    assert given <= {"native_branch", "graft", "recovery_for_actor"}, "every field of a plan has a value here"
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan
    many = replace(plan, requirements=(KeysAbsent("node:N", tuple(map(str, range(20_000)))),))
    assert plan_from_json(json.loads(json.dumps(plan_to_json(many)))).requirements == (Unmoved("node:N"),), (
        "too long a list becomes the stricter demand"
    )


def test_next_state_is_pure(local_graph: Graph) -> None:
    plan = plan_of(local_graph, "a")
    state = local_graph.repository.head()
    before = dict(state.tables), dict(state.commits)
    target, commit = next_state(state, plan)
    assert (dict(state.tables), dict(state.commits)) == before
    assert (target.version, target.head, commit.parent_commit_id) == (state.version + 1, plan.commit_id, state.head)
    entry = target.tables["node:Person"]
    assert (entry.table_version, entry.content_version, entry.row_count) == (2, plan.commit_id, 1)


def test_group_of_threads_in_one_process_all_commit(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    graph = Graph.init(tmp_path / "g", SCHEMA)

    def write(thread: int) -> list[str]:
        commits = [graph.load([person(f"t{thread}-{i}")]).commit for i in range(5)]
        return [commit.graph_commit_id for commit in commits if commit is not None]

    with ThreadPoolExecutor(6) as pool:
        acknowledged = [commit for many in pool.map(write, range(6)) for commit in many]
    assert graph.rows("node:Person").num_rows == 30
    assert len(acknowledged) == 30
    lineage = [c.graph_commit_id for c in graph.commits.list()]
    assert len(set(lineage)) == len(lineage)
    assert set(acknowledged) == {c.graph_commit_id for c in graph.commits.list() if c.kind == "load"}
