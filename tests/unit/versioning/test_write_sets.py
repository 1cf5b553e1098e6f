"""Which plans may share a commit, pair by pair, and what becomes of those who do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import KeyConflict, OmnigraphError, OutcomeUnknown, StorageError
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.group_commit import (
    MAX_MEMBERS,
    MAX_WRITE_SET,
    CommitQueue,
    WriteSet,
    is_groupable,
    write_set_of,
)
from omnigraph.versioning.plan import (
    CardinalityWithin,
    KeysAbsent,
    KeysPresent,
    NoIncident,
    PublishPlan,
    Requirement,
    Unmoved,
    ValuesAbsent,
)
from omnigraph.versioning.store import Settings
from tests.attacks.test_attacks import plan_of
from tests.support.fixtures import disarmed, unflushed
from tests.support.invariants import check_every_version

__all__ = ["disarmed", "unflushed"]
SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
edge Knows: Person -> Person @card(0..3)
"""


def demand(requirement: Requirement) -> WriteSet:
    """The claims of a plan that has one requirement and no effect."""
    plan = PublishPlan(
        commit_id="x", branch="main", native_branch=None, base_version=1, base_head="y", kind="load", schema_hash="z",
        changes=(), pins={}, requirements=(requirement,),
    )  # fmt: skip
    return write_set_of(plan)


P, K = "node:Person", "edge:Knows"
PAIRS: list[tuple[Requirement, Requirement, bool]] = [
    (KeysAbsent(P, ("a",)), KeysAbsent(P, ("a",)), True),
    (KeysAbsent(P, ("a",)), KeysAbsent(P, ("b",)), False),
    (KeysAbsent(P, ("a",)), KeysAbsent(K, ("a",)), False),
    (KeysAbsent(P, ("a",)), KeysPresent(P, ("a",)), True),
    (KeysPresent(P, ("a",)), KeysPresent(P, ("a",)), False),
    (NoIncident(K, ("src", "dst"), ("a",)), NoIncident(K, ("dst",), ("a",)), True),
    (NoIncident(K, ("src",), ("a",)), NoIncident(K, ("dst",), ("a",)), False),
    (ValuesAbsent(P, ("email",), (("x",),)), ValuesAbsent(P, ("email",), (("x",),)), True),
    (ValuesAbsent(P, ("email",), (("x",),)), ValuesAbsent(P, ("email",), (("y",),)), False),
    (ValuesAbsent(P, ("email",), (("x",),)), ValuesAbsent(P, ("other",), (("x",),)), False),
    (CardinalityWithin(K, 0, 3, (("a", 1),)), CardinalityWithin(K, 0, 3, (("a", 1),)), True),
    (CardinalityWithin(K, 0, 3, (("a", 1),)), CardinalityWithin(K, 0, 3, (("b", 1),)), False),
    (Unmoved(P), Unmoved(P), True),
    (Unmoved(P), Unmoved(K), False),
]


@pytest.mark.parametrize(("one", "other", "meet"), PAIRS)
def test_claims_of_two_requirements(one: Requirement, other: Requirement, meet: bool) -> None:
    """Whichever is first."""
    assert demand(one).conflicts_with(demand(other)) is meet
    assert demand(other).conflicts_with(demand(one)) is meet


def test_claims_of_effects(local_graph: Graph) -> None:
    insert, other = plan_of(local_graph, "a"), plan_of(local_graph, "b")
    update = plan_of(local_graph, "c", replaces=True)
    strict = replace(other, requirements=(Unmoved(P),))
    edge = replace(insert, changes=(), requirements=(KeysPresent(P, ("c",)),))
    assert not write_set_of(insert).conflicts_with(write_set_of(other))
    assert write_set_of(update).conflicts_with(write_set_of(plan_of(local_graph, "c", replaces=True)))
    assert write_set_of(update).conflicts_with(write_set_of(edge)), "an edge at a row that is replaced or removed"
    assert write_set_of(edge).conflicts_with(write_set_of(update)), "in either order"
    for one, two in ((strict, insert), (insert, strict)):
        assert write_set_of(one).conflicts_with(write_set_of(two)), "a table that must not move"
    together = write_set_of(insert) | write_set_of(other)
    assert together.conflicts_with(write_set_of(plan_of(local_graph, "b")))
    assert (write_set_of(edge) | write_set_of(insert)).conflicts_with(write_set_of(update)), "what is kept stays"


def test_what_goes_alone(local_graph: Graph) -> None:
    plan = plan_of(local_graph, "a")
    update = plan_of(local_graph, "b", replaces=True)
    assert is_groupable(plan)
    assert is_groupable(update)
    alone = {
        "intent": replace(plan, has_intent=True),
        "precondition": replace(plan, expect_head="x"),
        "request": replace(plan, idempotency_key="x"),
        "maintenance": replace(plan, op_class="maintenance"),
        "recovery": replace(plan, recovery_for_actor="x"),
        "two tables": replace(plan, changes=plan.changes * 2),
        "nothing": replace(plan, changes=()),
        "strict update": replace(update, rebase_updates=False),
        "many": replace(plan, requirements=(KeysPresent(P, tuple(map(str, range(MAX_WRITE_SET + 1)))),)),
    }
    assert {name for name, each in alone.items() if is_groupable(each)} == set()
    assert is_groupable(replace(plan, requirements=(KeysPresent(P, tuple(map(str, range(MAX_WRITE_SET)))),)))
    half = tuple(map(str, range(MAX_WRITE_SET // 2 + 1)))
    assert not is_groupable(replace(plan, requirements=(KeysPresent(P, half), KeysAbsent(P, half)))), "all together"


# --- members -------------------------------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    Graph.init(tmp_path / "g", SCHEMA).load({"Person": [{"name": name} for name in ("ann", "bob", "cy")]})
    return Graph.open(tmp_path / "g")


def together(
    graph: Graph, *works: Callable[[], Any], arm: dict[str, Callable[[], None]] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Any]:  # fmt: skip
    """Results, or errors, of writes that all wait while the turn of the branch is held, and then go on at once.

    `meanwhile` is done when all are ready and nobody has looked at the branch again.
    """
    tip = graph.repository.tips.of("main", None)
    results: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        try:
            results[number] = works[number]()
        except (OmnigraphError, KeyboardInterrupt) as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    with tip.turn_here():
        for number, thread in enumerate(threads):
            thread.start()
            while len(tip.commit_queue._waiting) <= number:  # one joins after the other, so the first one leads
                thread.join(0.001)
                assert thread.is_alive(), results
        meanwhile()
        failpoints.arm(arm)
    for thread in threads:
        thread.join()
    failpoints.arm(None)
    return results


def insert(graph: Graph, name: str, **values: Any) -> Callable[[], Any]:
    return lambda: graph.load({"Person": [{"name": name, **values}]}).commit


def test_writes_that_do_not_meet_share_one_commit(graph: Graph) -> None:
    before = graph.snapshot().version
    commits = together(graph, *(insert(graph, f"n{i}") for i in range(5)))
    assert len({commit.graph_commit_id for commit in commits}) == 1
    assert graph.snapshot().version == before + 1
    assert graph.rows("node:Person").num_rows == 8


def test_a_group_has_a_limit(graph: Graph) -> None:
    commits = together(graph, *(insert(graph, f"n{i}") for i in range(MAX_MEMBERS + 1)))
    assert len({commit.graph_commit_id for commit in commits}) == 2
    assert graph.rows("node:Person").num_rows == 3 + MAX_MEMBERS + 1


def test_one_of_two_equal_keys_is_refused_and_the_others_are_published(graph: Graph) -> None:
    first, second, third = together(graph, insert(graph, "same"), insert(graph, "same"), insert(graph, "other"))
    assert first.graph_commit_id == third.graph_commit_id
    assert isinstance(second, KeyConflict)
    check_every_version(graph.uri)


def test_a_deleted_node_and_an_edge_at_it_do_not_share_a_commit(graph: Graph) -> None:
    """In either order: who comes second meets what the first did."""

    def edge(name: str) -> Callable[[], Any]:
        return lambda: graph.load({"Knows": [{"from": name, "to": "cy"}]})

    def delete(name: str) -> Callable[[], Any]:
        return lambda: graph.mutate(f'query q() {{ delete Person where name = "{name}" }}')

    for works in ((delete("ann"), edge("ann")), (edge("bob"), delete("bob"))):
        first, second = together(graph, *works)
        assert not isinstance(first, OmnigraphError)
        del second  # refused, or repeated on the new state: what counts is that no edge dangles
        check_every_version(graph.uri)


def test_plans_that_meet_are_never_composed(graph: Graph) -> None:
    """The plans themselves, without what callers do about a conflict."""
    commit_queue = CommitQueue(wait=0.0, near=0.0)
    removal = plan_of(graph, "ann", replaces=True)
    incident = replace(plan_of(graph, "x"), requirements=(KeysPresent(P, ("ann",)),))
    for one, two in ((removal, incident), (incident, removal)):
        first, second = commit_queue.enqueue(one), commit_queue.enqueue(two)
        assert commit_queue.take_group(first) == [first]
        assert commit_queue.take_group(second) == [second]


def test_each_member_is_compared_with_all_before_it(graph: Graph) -> None:
    """Also with what those rely on, and not only with the first."""
    commit_queue = CommitQueue(wait=0.0, near=0.0)
    same = [commit_queue.enqueue(plan) for plan in (plan_of(graph, "a"), plan_of(graph, "b"), plan_of(graph, "b"))]
    assert commit_queue.take_group(same[0]) == same[:2]
    assert commit_queue.take_group(same[2]) == same[2:]
    edge = replace(plan_of(graph, "x"), requirements=(KeysPresent(P, ("ann",)),))
    plans = (plan_of(graph, "a"), edge, plan_of(graph, "ann", replaces=True))
    members = [commit_queue.enqueue(plan) for plan in plans]
    assert commit_queue.take_group(members[0]) == members[:2]


def test_other_authors_wait_for_a_commit_of_their_own(graph: Graph) -> None:
    commit_queue = CommitQueue(wait=0.0, near=0.0)
    plan = plan_of(graph, "a")
    others = [
        replace(plan_of(graph, "b"), actor="other"), replace(plan_of(graph, "c"), kind="mutate"),
        replace(plan_of(graph, "d"), message="other"), replace(plan_of(graph, "e"), schema_hash="other"),
    ]  # fmt: skip
    first, *rest = (commit_queue.enqueue(each) for each in (plan, *others))
    friend = commit_queue.enqueue(plan_of(graph, "f"))
    assert commit_queue.take_group(first) == [first, friend]
    commit_queue.dequeue(rest[0])
    assert commit_queue._waiting == rest[1:]


def test_an_unknown_outcome_is_unknown_to_every_member(graph: Graph) -> None:
    """The swap fails, perhaps after it was applied: nobody may publish again what may be visible."""

    def fail() -> None:
        raise StorageError("the store is gone")

    hasty = Graph.open(graph.uri, settings=Settings(publish_deadline=0.0))
    results = together(hasty, insert(hasty, "x"), insert(hasty, "y"), arm={Point.SWAPPED: fail})
    assert [type(each) for each in results] == [OutcomeUnknown, OutcomeUnknown]
    assert results[0].commit_id == results[1].commit_id
    names = Graph.open(graph.uri).rows("node:Person")["name"].to_pylist()
    assert sorted(names) == ["ann", "bob", "cy", "x", "y"], "once, under the commit that they were told of"
    assert Graph.open(graph.uri).commits.head().graph_commit_id == results[0].commit_id


def test_an_interrupt_of_the_leader_leaves_the_others_an_unknown_outcome(graph: Graph) -> None:
    def interrupt() -> None:
        failpoints.arm(None)
        raise KeyboardInterrupt

    results = together(graph, insert(graph, "x"), insert(graph, "y"), arm={Point.BEFORE_SWAP: interrupt})
    assert sorted(type(each).__name__ for each in results) == ["KeyboardInterrupt", "OutcomeUnknown"]


def test_a_group_that_fails_for_certain_is_published_one_by_one(graph: Graph) -> None:
    """One member's requirement is broken by a commit that nobody has seen yet: the others are not refused for it."""
    rival = Graph.open(graph.uri)

    def take() -> None:
        failpoints.arm(None)
        rival.load({"Person": [{"name": "x"}]})

    refused, published = together(graph, insert(graph, "x"), insert(graph, "y"), arm={Point.BEFORE_SWAP: take})
    assert isinstance(refused, KeyConflict)
    assert published.graph_commit_id == graph.commits.head().graph_commit_id
    check_every_version(graph.uri)


def test_all_requirements_of_a_group_are_asked_again(graph: Graph) -> None:
    """The last member's too: a rival takes its key between the group's staging and its swap."""
    rival = Graph.open(graph.uri)

    def take() -> None:
        failpoints.arm(None)
        rival.load({"Person": [{"name": "y"}]})

    published, refused = together(graph, insert(graph, "x"), insert(graph, "y"), arm={Point.BEFORE_SWAP: take})
    assert isinstance(refused, KeyConflict)
    assert not isinstance(published, OmnigraphError)
    check_every_version(graph.uri)


def test_a_group_follows_every_table_that_its_members_write(graph: Graph) -> None:
    """A rival moves the table of the last member: the group is staged again, as a whole, and stays one commit."""
    rival = Graph.open(graph.uri)

    def move() -> None:
        failpoints.arm(None)
        rival.load({"Knows": [{"from": "bob", "to": "cy"}]})

    edge = lambda: graph.load({"Knows": [{"from": "ann", "to": "bob"}]}).commit  # noqa: E731
    person, knows = together(graph, insert(graph, "x"), edge, arm={Point.BEFORE_SWAP: move})
    assert person.graph_commit_id == knows.graph_commit_id
    assert graph.rows("edge:Knows").num_rows == 2
    check_every_version(graph.uri)


def test_members_are_judged_by_the_state_that_the_group_is_staged_on(graph: Graph) -> None:
    """A rival commits after the members were validated and before the leader looks: pins of the group hide it."""
    rival = Graph.open(graph.uri)
    published, refused = together(
        graph, insert(graph, "x"), insert(graph, "y"), meanwhile=lambda: rival.load({"Person": [{"name": "y"}]})
    )
    assert isinstance(refused, KeyConflict)
    assert not isinstance(published, OmnigraphError)
    check_every_version(graph.uri)
