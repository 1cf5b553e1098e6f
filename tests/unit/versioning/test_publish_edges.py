"""Corners of a publish: swaps whose answer is lost, branches that end under them, floors, files that went."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    BranchGone,
    OmnigraphError,
    OutcomeUnknown,
    PublishContention,
    StorageError,
    StoreReplaced,
    StoreUnavailable,
)
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.adopted_state import Graft
from omnigraph.versioning.publish import next_state
from omnigraph.versioning.store import Settings, ticks
from tests.attacks.test_attacks import plan_of
from tests.conftest import SCHEMA
from tests.support.fixtures import disarmed, unflushed
from tests.support.graphs import while_armed
from tests.support.rows import person

__all__ = ["disarmed", "unflushed"]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("ann")])
    return graph


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(Graph.open(graph.uri).rows("node:Person", branch)["name"].to_pylist())


def once(action: Callable[[], None]) -> Callable[[], None]:
    def act() -> None:
        failpoints.arm(None)
        action()

    return act


def fail(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_a_swap_that_was_applied_on_a_branch_that_ended_is_not_acknowledged(graph: Graph) -> None:
    """Its answer is lost, and meanwhile the branch is deleted: finding the commit there proves nothing."""
    graph.branches.create("dev")
    other = Graph.open(graph.uri)

    def end() -> None:
        claims = other.repository.claims
        [branch] = [b for b in other.repository.refs.every_incarnation() if b.name == "dev"]
        claims.close(branch, "token")
        raise StorageError("the answer is lost")

    with while_armed({Point.SWAPPED: once(end)}), pytest.raises(OmnigraphError) as caught:
        graph.load([person("late")], branch="dev")
    assert isinstance(caught.value, (BranchGone, OutcomeUnknown))


def test_a_store_without_the_claim_of_main_acknowledges_no_write(graph: Graph) -> None:
    def remove() -> None:
        for path in (Path(graph.uri) / "__refs" / "main").iterdir():
            path.unlink()

    with while_armed({Point.BEFORE_SWAP: once(remove)}), pytest.raises(OutcomeUnknown):
        graph.load([person("late")])


@pytest.mark.parametrize("went_on", [False, True], ids=["below the base", "with another base"])
def test_a_store_that_is_restored_in_front_of_the_swap_acknowledges_no_write(
    graph: Graph, tmp_path: Path, went_on: bool
) -> None:
    """The swap succeeds in a copy that never had the version it builds on, or has another one of that number.

    The copy has the files that the write has staged: they alone do not tell one store from the other.
    """
    backup = tmp_path / "backup"
    shutil.copytree(graph.uri, backup)
    graph.load([person("bob")])

    def restore() -> None:
        for staged in ("nodes", "__manifest/data"):
            shutil.copytree(Path(graph.uri) / staged, backup / staged, dirs_exist_ok=True)
        shutil.rmtree(graph.uri)
        shutil.copytree(backup, graph.uri)
        if went_on:
            Graph.open(graph.uri).load([person("eve")])

    with while_armed({Point.BEFORE_SWAP: once(restore)}), pytest.raises(OutcomeUnknown):
        graph.load([person("late")])


def test_a_swap_that_is_lost_in_a_restored_store_did_not_happen(graph: Graph, tmp_path: Path) -> None:
    """The copy has gone on beyond the slot of the swap: nothing was applied anywhere, and the failure says so."""
    backup = tmp_path / "backup"
    shutil.copytree(graph.uri, backup)
    graph.load([person("bob")])

    def restore() -> None:
        for staged in ("nodes", "__manifest/data"):
            shutil.copytree(Path(graph.uri) / staged, backup / staged, dirs_exist_ok=True)
        shutil.rmtree(graph.uri)
        shutil.copytree(backup, graph.uri)
        for name in ("eve", "fay"):
            Graph.open(graph.uri).load([person(name)])

    with while_armed({Point.BEFORE_SWAP: once(restore)}), pytest.raises(StoreReplaced):
        graph.load([person("late")])
    assert names(graph) == ["ann", "eve", "fay"]


def test_closing_a_closed_branch_publishes_nothing(graph: Graph) -> None:
    graph.branches.create("dev")
    native = graph.repository.head("dev").native_branch
    graph.branches.delete("dev")
    other = Graph.open(graph.uri)
    tip = other.repository.tips.of("dev", native)
    version = tip.state().version
    other.repository.publisher.close_branch(tip)
    assert tip.state().version == version


def test_a_slot_that_somebody_else_took_settles_an_unknown_swap(graph: Graph) -> None:
    """The swap fails before it is applied, a rival takes the slot, then the table is gone: a certain failure."""
    rival = Graph.open(graph.uri)

    def overtake() -> None:
        rival.load([person("same")])
        raise StorageError("the store is gone")

    plan = plan_of(graph, "same")
    with while_armed({Point.BEFORE_SWAP: once(overtake)}), pytest.raises(OmnigraphError) as caught:
        graph.repository.publisher.publish(plan)
    assert not isinstance(caught.value, OutcomeUnknown)
    assert names(graph) == ["ann", "same"]


def test_a_disk_that_is_full_is_a_certain_failure(graph: Graph) -> None:
    with (
        while_armed({Point.BEFORE_SWAP: fail(StoreUnavailable("no space"))}),
        pytest.raises(StoreUnavailable) as caught,
    ):
        graph.load([person("late")])
    assert not isinstance(caught.value, OutcomeUnknown)
    assert names(graph) == ["ann"]


def test_a_disk_that_is_full_after_the_swap_does_not_undo_it(graph: Graph) -> None:
    with while_armed({Point.SWAPPED: once(fail(StoreUnavailable("no space")))}):
        assert graph.load([person("late")]).commit is not None
    assert names(graph) == ["ann", "late"]


@pytest.mark.parametrize("above", [0, 1])
def test_a_swap_counts_at_its_floor(graph: Graph, above: int) -> None:
    """The floor is raised between the look and the swap: to the version replaced, or the one made."""
    mine = Graph.open(graph.uri)
    floor = mine.snapshot().version + above
    swaps: list[int] = []

    def raise_floor() -> None:
        swaps.append(1)
        Graph.open(graph.uri).repository.claims.raise_floor(None, floor)

    with while_armed({Point.BEFORE_SWAP: raise_floor}):
        mine.load([person("late")])
    assert len(swaps) == 1


def test_the_deadline_of_a_publish(graph: Graph) -> None:
    """Zero seconds: a swap that is lost is not tried again."""
    mine, rival = Graph.open(graph.uri, settings=Settings(publish_deadline=0.0)), Graph.open(graph.uri)
    tip = mine.repository.tips.of("main", None)
    plan = plan_of(mine, "late")
    swaps: list[int] = []

    def overtake() -> None:
        swaps.append(1)
        failpoints.arm(None)
        rival.load([{"type": "Company", "data": {"name": f"c{len(swaps)}"}}])
        failpoints.arm({Point.BEFORE_SWAP: overtake})

    with while_armed({Point.BEFORE_SWAP: overtake}), pytest.raises(PublishContention, match="deadline"):
        mine.repository.publisher.publish_in_turn(tip, plan)
    assert len(swaps) == 1


def test_a_plan_with_an_intent_is_protected_by_it_however_old(graph: Graph) -> None:
    plan = plan_of(graph, "old", has_intent=True)
    long_ago = ticks() - graph.repository.store.settings.staging_grace
    graph.repository.publisher.publish(replace(plan, staged_at=long_ago))
    assert names(graph) == ["ann", "old"]


def test_a_change_is_published_on_the_very_pin_it_was_staged_on(graph: Graph) -> None:
    plan = plan_of(graph, "late")
    Graph.open(graph.uri).load([person("bob")])
    with pytest.raises(OmnigraphError, match="not the branch's"):
        next_state(graph.repository.head(), plan)


def test_what_a_pin_carries_is_what_was_staged(graph: Graph) -> None:
    plan = plan_of(graph, "late")
    change = replace(plan.changes[0], high_water=77)
    target, _ = next_state(graph.repository.head(), replace(plan, changes=(change,)))
    entry = target.tables["node:Person"]
    assert (entry.tail, entry.high_water, entry.changes) == (change.tail, 77, change.changes)
    assert entry.tail.size == 2
    assert (entry.staged_version, entry.row_count, entry.commit_id) == (change.staged_version, 2, plan.commit_id)


def test_a_closed_branch_takes_no_write_of_a_plan_that_was_made_before(graph: Graph) -> None:
    graph.branches.create("dev")
    state = graph.repository.head("dev")
    plan = replace(plan_of(graph, "late"), branch="dev", native_branch=state.native_branch)
    Graph.open(graph.uri).branches.delete("dev")
    before = Graph.open(graph.uri).repository.tips.of("dev", state.native_branch).state().version
    with pytest.raises(BranchGone):
        graph.repository.publisher.publish(plan)
    assert Graph.open(graph.uri).repository.tips.of("dev", state.native_branch).state().version == before


def test_a_table_that_is_back_has_no_tombstone(graph: Graph) -> None:
    """One that ended has, until it is restored or erased."""
    state = graph.repository.head()
    entry = state.tables["node:Person"]
    plan = replace(plan_of(graph, "late"), changes=())
    ended, _ = next_state(state, replace(plan, graft=Graft(removed=("node:Person",))))
    assert "node:Person" not in ended.tables
    assert {key: tombstone.entry for key, tombstone in ended.tombstones.items()} == {"node:Person": entry}
    back, _ = next_state(ended, replace(plan, graft=Graft(adopted=(entry,))))
    assert back.tombstones == {}
    erased, _ = next_state(ended, replace(plan, graft=Graft(erased=("node:Person",))))
    assert erased.tombstones == {}
