"""What intents promise, one by one: a withdrawn plan stays withdrawn, an outcome is certain or said to be open."""

from __future__ import annotations

import datetime as dt
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import ConflictError, OutcomeUnknown, PlanExpired, StorageError
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.intents import IntentFiles
from omnigraph.versioning.store import Settings, ticks
from tests.attacks.test_attacks import plan_of
from tests.support.graphs import EXPIRED, crash_at, expire_intents, knows, people, recovery_files, while_armed
from tests.support.invariants import check_every_version
from tests.support.writers import small_graph

DAN = {"Person": people("dan"), "Knows": knows(("dan", "ann"))}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    small_graph(str(tmp_path / "g"))
    return str(tmp_path / "g")


def audit(uri: str) -> list[tuple[str, str]]:
    rows = Graph.open(uri, mode="ro").recovery.audit().to_pylist()
    return [(row["recovery_kind"], row["reason"]) for row in rows]


def is_there(uri: str, name: str = "dan") -> bool:
    return Graph.open(uri, mode="ro").entity_at("node:Person", name) is not None


def the_intent(uri: str) -> str:
    [commit_id] = {name.partition(".")[0] for name in recovery_files(uri)}
    return commit_id


def test_a_withdrawn_plan_is_not_published_by_recovery(uri: str) -> None:
    """Its owner put the withdrawal and was killed before it could remove the plan."""
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    graph = Graph.open(uri)
    graph.repository.intents.mark_aborted(the_intent(uri))
    expire_intents(uri)
    graph.recovery.run()
    assert audit(uri) == [("RolledBack", "it was withdrawn")]
    assert not is_there(uri)
    check_every_version(uri)


def test_recovery_looks_again_after_it_has_withdrawn_a_plan(uri: str) -> None:
    """The owner, alive after all, swaps between the first look and the withdrawal: the write did happen."""
    recovering, owner = Graph.open(uri), Graph.open(uri)
    with crash_at(Point.INTENT_BEGUN):
        Graph.open(uri).load(DAN)
    commit_id = the_intent(uri)
    expire_intents(uri)

    def publish() -> None:
        failpoints.arm(None)
        owner.repository.publisher.publish(replace(plan_of(owner, "dan"), commit_id=commit_id))

    with while_armed({Point.INTENT_ABORTED: publish}):
        recovering.recovery.run()
    assert audit(uri) == [("RolledForward", "it had been published")]
    assert is_there(uri)


def test_what_a_user_interrupts_is_not_finished_behind_their_back(uri: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with while_armed({Point.BEFORE_SWAP: interrupt}), pytest.raises(KeyboardInterrupt):
        Graph.open(uri).load(DAN)
    assert [name for name in recovery_files(uri) if not name.endswith(".aborted")] == []
    Graph.open(uri, settings=EXPIRED)
    assert not is_there(uri)


def test_an_interrupt_before_the_plan_is_complete_leaves_nothing_to_finish(uri: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with while_armed({Point.INTENT_BEFORE_COMPLETE: interrupt}), pytest.raises(KeyboardInterrupt):
        Graph.open(uri).load(DAN)
    assert [name for name in recovery_files(uri) if not name.endswith(".aborted")] == []


def test_a_plan_that_may_have_been_completed_has_an_open_outcome(uri: str) -> None:
    """The put of the plan succeeds, the store fails, and the withdrawal fails: others may publish it."""

    def fail() -> None:
        raise StorageError("the store is gone")

    with while_armed({Point.INTENT_COMPLETED: fail, Point.INTENT_ABORTED: fail}), pytest.raises(OutcomeUnknown):
        Graph.open(uri).load(DAN)


def test_a_failure_that_was_withdrawn_is_certain(uri: str) -> None:
    def fail() -> None:
        raise StorageError("the store is gone")

    with while_armed({Point.INTENT_COMPLETED: fail}), pytest.raises(StorageError) as caught:
        Graph.open(uri).load(DAN)
    assert not isinstance(caught.value, OutcomeUnknown)


# --- leases --------------------------------------------------------------------------------------------------------


def leased(uri: str, lease: float, age: float) -> Graph:
    """A graph with an intent that was renewed some seconds ago, by the store's clock."""
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    graph = Graph.open(uri, mode="ro", settings=Settings(lease=lease, lease_margin=100.0))
    when = time.time() - age
    for path in (Path(uri) / "__recovery").iterdir():
        os.utime(path, (when, when))
    return graph


@pytest.mark.parametrize(("age", "expired"), [(150.0, False), (1_050.0, False), (1_150.0, True)])
def test_a_lease_ends_after_its_time_and_its_margin(uri: str, age: float, expired: bool) -> None:
    """A thousand seconds and a hundred: no clock of a test is that far off."""
    graph = leased(uri, 1_000.0, age)
    [intent] = graph.recovery.list()
    assert intent.lease_expired is expired
    assert graph.repository.recovery.has_live_owners() is not expired


def test_a_lease_that_has_run_out_to_the_second_is_expired(uri: str) -> None:
    graph = leased(uri, 1_000.0, 0.0)
    now = dt.datetime.now(dt.UTC)
    files = IntentFiles("x", frozenset({"json"}), now - dt.timedelta(seconds=1_100))
    assert graph.repository.recovery._is_expired(files, now)
    assert not graph.repository.recovery._is_expired(files, now - dt.timedelta(microseconds=1))


def test_a_live_owner_within_half_its_lease_asks_nobody(uri: str) -> None:
    graph = Graph.open(uri)
    plan = plan_of(graph, "dan", has_intent=True)
    graph.repository.intents.hold(plan.commit_id)
    assert [name for name in recovery_files(uri) if "lease" in name] == []


def test_an_owner_renews_after_half_its_lease_and_notices_a_withdrawal(uri: str) -> None:
    graph = Graph.open(uri, settings=Settings(lease=0.0, lease_margin=600.0))
    plan = plan_of(graph, "dan", has_intent=True)
    graph.repository.intents.hold(plan.commit_id)
    graph.repository.intents.hold(plan.commit_id)
    leases = sorted(name.partition(".")[2] for name in recovery_files(uri) if "lease" in name)
    assert leases == ["lease-1", "lease-2"]
    Graph.open(uri).repository.intents.mark_aborted(plan.commit_id)
    with pytest.raises(PlanExpired):
        graph.repository.intents.hold(plan.commit_id)


@pytest.mark.parametrize(("share", "renewed"), [(0.4, False), (0.6, True)])
def test_an_owner_renews_after_half_its_lease(uri: str, share: float, renewed: bool) -> None:
    """Long before anybody may take the intent over."""
    graph = Graph.open(uri, settings=Settings(lease=10_000.0))
    plan = plan_of(graph, "dan", has_intent=True)
    intents = graph.repository.intents
    intents._held[plan.commit_id] = replace(intents._held[plan.commit_id], begun=ticks() - share * 10_000.0)
    intents.hold(plan.commit_id)
    assert any("lease" in name for name in recovery_files(uri)) is renewed


def test_an_owner_whose_next_lease_is_taken_has_lost_the_intent(uri: str) -> None:
    graph = Graph.open(uri, settings=Settings(lease=0.0, lease_margin=600.0))
    plan = plan_of(graph, "dan", has_intent=True)
    other = Graph.open(uri)
    [files] = other.repository.intents.list()
    assert other.repository.intents.take_over(files)
    assert not other.repository.intents.take_over(files), "once"
    with pytest.raises(PlanExpired):
        graph.repository.intents.hold(plan.commit_id)
    assert not graph.repository.intents.withdraw(plan.commit_id)


def test_the_intent_of_another_process_cannot_be_held(uri: str) -> None:
    plan = plan_of(Graph.open(uri), "dan", has_intent=True)
    with pytest.raises(PlanExpired, match="not this process's"):
        Graph.open(uri).repository.intents.hold(plan.commit_id)


@pytest.mark.parametrize(("minutes", "stays"), [(5, True), (15, False)])
def test_a_withdrawal_stays_for_ten_minutes(uri: str, minutes: int, stays: bool) -> None:
    """As long as a late owner may look for it."""
    graph = Graph.open(uri)
    graph.repository.intents.mark_aborted("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    when = time.time() - minutes * 60
    for path in (Path(uri) / "__recovery").iterdir():
        os.utime(path, (when, when))
    graph.recovery.run()
    assert bool(recovery_files(uri)) is stays
    assert audit(uri) == []


def test_a_withdrawn_intent_has_no_live_owner(uri: str) -> None:
    graph = Graph.open(uri)
    graph.repository.intents.mark_aborted("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert not graph.repository.recovery.has_live_owners()
    plan_of(graph, "dan", has_intent=True)
    assert graph.repository.recovery.has_live_owners()


def test_an_unreadable_intent_whose_lease_is_held_is_not_discarded(uri: str) -> None:
    """Its owner may be alive, and about to publish what it names."""
    graph = Graph.open(uri)
    commit_id = plan_of(graph, "dan", has_intent=True).commit_id
    (Path(uri) / "__recovery" / f"{commit_id}.staged").write_bytes(b"{")
    with pytest.raises(ConflictError, match="is held"):
        graph.recovery.discard(commit_id, reason="a look")
    expire_intents(uri)
    graph.recovery.discard(commit_id, reason="a look")
    assert audit(uri) == [("RolledBack", "discarded: a look")]


def test_an_owner_whose_intent_was_resolved_has_lost_it(uri: str) -> None:
    """Published by a recovery, which removed every object of it: there is no withdrawal to be seen."""
    graph = Graph.open(uri, settings=Settings(lease=0.0, lease_margin=600.0))
    plan = plan_of(graph, "dan", has_intent=True)
    other = Graph.open(uri)
    [files] = other.repository.intents.list()
    other.repository.intents.remove_all(files)
    with pytest.raises(PlanExpired):
        graph.repository.intents.hold(plan.commit_id)


def test_a_rollback_leaves_the_withdrawal_for_a_late_owner(uri: str) -> None:
    with crash_at(Point.INTENT_BEGUN):
        Graph.open(uri).load(DAN)
    commit_id = the_intent(uri)
    expire_intents(uri)
    Graph.open(uri)
    assert recovery_files(uri) == [f"{commit_id}.aborted"]
    [files] = Graph.open(uri).repository.intents.list()
    Graph.open(uri).repository.intents.remove_all(files)
    assert recovery_files(uri) == [f"{commit_id}.aborted"], "whoever cleans up after it"


def test_the_newest_lease_decides(uri: str) -> None:
    """By its number, and by its time."""
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    graph = Graph.open(uri, mode="ro")
    commit_id = the_intent(uri)
    expire_intents(uri)
    for number in (1, 2, 10):
        graph.repository.store.objects.put_new(f"__recovery/{commit_id}.lease-{number}", b"")
    [files] = graph.repository.intents.list()
    assert files.lease == 10
    [intent] = graph.recovery.list()
    assert not intent.lease_expired


# --- what recovery does with an intent -----------------------------------------------------------------------------


def test_what_was_published_is_told_as_that(uri: str) -> None:
    with crash_at(Point.BEFORE_ACK):
        Graph.open(uri).load(DAN)
    expire_intents(uri)
    Graph.open(uri)
    assert audit(uri) == [("RolledForward", "it had been published")]


def test_a_recovery_that_lost_its_lease_decides_nothing(uri: str) -> None:
    recovering, other = Graph.open(uri, settings=EXPIRED), Graph.open(uri)
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)

    def take_over() -> None:
        failpoints.arm(None)
        [files] = other.repository.intents.list()
        assert other.repository.intents.take_over(files)

    with while_armed({Point.RECOVERY_TAKEN: take_over}):
        assert recovering.recovery.run() == []
    assert audit(uri) == []
    assert not any(name.endswith(".aborted") for name in recovery_files(uri))
    assert not is_there(uri)


def test_an_intent_that_can_be_read_is_resolved_and_not_discarded(uri: str) -> None:
    graph = Graph.open(uri)
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    expire_intents(uri)
    with pytest.raises(ConflictError, match="can be read"):
        graph.recovery.discard(the_intent(uri), reason="a look")


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [("json", "format", 99), ("staged", "format", 99), ("staged", "operation_id", "01ARZ3NDEKTSV4RRFFQ69G5FAV")],
)
def test_an_intent_of_a_newer_omnigraph_or_with_another_plan_is_kept(
    uri: str, part: str, field: str, value: object
) -> None:
    """Also where it has got no further than its header: rolling that back would undo what nobody understands."""
    graph = Graph.open(uri)
    with crash_at(Point.INTENT_BEGUN if part == "json" else Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    path = f"__recovery/{the_intent(uri)}.{part}"
    objects = graph.repository.store.objects
    content = {**objects.get_json(path), field: value}  # type: ignore[dict-item]
    objects.delete([path])
    objects.put_new_json(path, content)
    before = recovery_files(uri)
    expire_intents(uri)
    with pytest.warns(RuntimeWarning, match="cannot be read and is kept"):
        graph.recovery.run()
    assert (recovery_files(uri), audit(uri)) == (before, [])
