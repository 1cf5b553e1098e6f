"""How intents end: published once or withdrawn, whoever resolves them and however late their owner wakes up."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.commits import RECOVERY_ACTOR
from tests.support.graphs import EXPIRED, crash_at, expire_intents, knows, people, recovery_files
from tests.support.invariants import check_every_version
from tests.support.workers import KILLED, Worker, workers
from tests.support.writers import small_graph

NO_LEASE = {"lease": 0.0, "lease_margin": 0.0}


def dan(friend: str = "ann") -> dict[str, Any]:
    """A write to two tables, so one with an intent."""
    return {"Person": people("dan"), "Knows": knows(("dan", friend))}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    small_graph(str(tmp_path / "g"))
    return str(tmp_path / "g")


def audit(uri: str) -> list[dict[str, Any]]:
    return list(Graph.open(uri, mode="ro").recovery.audit().to_pylist())


def kinds(uri: str) -> list[str]:
    return [row["recovery_kind"] for row in audit(uri)]


def persons(uri: str, branch: str = "main") -> set[str]:
    return set(Graph.open(uri, mode="ro").rows("node:Person", branch)["id"].to_pylist())


def crashed_load(uri: str, data: dict[str, Any], point: Point = Point.INTENT_COMPLETED, **options: Any) -> None:
    with crash_at(point):
        Graph.open(uri).load(data, **options)


@pytest.mark.parametrize("moved", [False, True])
def test_recovery_publishes_on_the_expected_head_or_not_at_all(uri: str, moved: bool) -> None:
    """A write that expects a head was announced, and another one came before anybody took it over."""
    graph = Graph.open(uri)
    head = graph.commits.head().graph_commit_id
    crashed_load(uri, dan(), expect_head=head)
    if moved:
        graph.load({"Person": people("eve")})
    expire_intents(uri)
    Graph.open(uri).recovery.run()
    assert kinds(uri) == (["RolledBack"] if moved else ["RolledForward"])
    assert ("dan" in persons(uri)) is not moved
    check_every_version(uri)


# --- who resolves, and when ---------------------------------------------------------------------------------------


def test_a_write_to_one_table_needs_no_intent(uri: str) -> None:
    seen: Counter[str] = Counter()
    failpoints.arm({point: lambda point=point: seen.update([point]) for point in Point})
    Graph.open(uri).load({"Person": people("dan")})
    assert seen[Point.SWAPPED] == 1
    assert not {Point.INTENT_BEFORE_BEGIN, Point.INTENT_BEGUN, Point.INTENT_BEFORE_REMOVE} & set(seen)


def test_an_intent_is_left_alone_until_its_lease_has_expired(uri: str) -> None:
    crashed_load(uri, dan())
    left = recovery_files(uri)
    graph = Graph.open(uri)
    assert graph.recovery.run() == []
    assert [(i.state, i.lease_expired, i.branch) for i in graph.recovery.list()] == [("publishable", False, "main")]
    assert recovery_files(uri) == left
    expire_intents(uri)
    assert [i.lease_expired for i in graph.recovery.list()] == [True]
    assert [record.recovery_kind for record in graph.recovery.run()] == ["RolledForward"]


def test_opening_read_only_touches_nothing(uri: str) -> None:
    crashed_load(uri, dan())
    expire_intents(uri)
    before = {p: p.stat().st_mtime_ns for p in Path(uri).rglob("*")}
    graph = Graph.open(uri, mode="ro")
    assert [intent.state for intent in graph.recovery.list()] == ["publishable"]
    assert graph.entity_at("node:Person", "dan") is None
    assert {p: p.stat().st_mtime_ns for p in Path(uri).rglob("*")} == before


def test_the_sweep_of_a_writer_that_stays_open_resolves_what_another_left(uri: str) -> None:
    graph = Graph.open(uri, settings=replace(EXPIRED, sweep_interval=0.0))
    crashed_load(uri, dan())
    expire_intents(uri)
    graph.load({"Company": [{"name": "acme"}]})
    assert kinds(uri) == ["RolledForward"]
    assert "dan" in persons(uri)


@pytest.mark.processes
def test_two_recoveries_at_once_make_one_commit_and_one_row_of_each_intent(uri: str) -> None:
    for i in range(8):
        crashed_load(uri, {"Person": people(f"x{i}"), "Company": [{"name": f"c{i}"}]}, actor=f"actor {i}")
    expire_intents(uri)
    with workers(3) as crowd:
        for worker in crowd:
            worker.call("open", f"{uri}-elsewhere")  # there is none: this waits until the process is up
        for worker in crowd:
            worker.send("recover", uri)
        assert all("ok" in worker.receive() for worker in crowd)
    Graph.open(uri, settings=EXPIRED)
    rows = audit(uri)
    commits = Graph.open(uri).commits.list(actor=RECOVERY_ACTOR)
    assert {row["recovery_kind"] for row in rows} == {"RolledForward"}
    assert sorted(c.recovery_for_actor or "" for c in commits) == [f"actor {i}" for i in range(8)]
    assert {c.graph_commit_id for c in commits} == {row["graph_commit_id"] for row in rows}
    assert len(rows) == 8
    assert persons(uri) >= {f"x{i}" for i in range(8)}
    assert recovery_files(uri) == []
    check_every_version(uri)


@pytest.mark.processes
def test_an_owner_that_wakes_after_recovery_published_reports_that_very_commit(uri: str) -> None:
    with workers(1) as [owner]:
        owner.call("open", uri, **NO_LEASE)
        owner.send("load", uri, data=dan(), actor="owner", hold=Point.INTENT_COMPLETED)
        assert owner.receive() == {"held": Point.INTENT_COMPLETED}
        Graph.open(uri, settings=EXPIRED)
        assert kinds(uri) == ["RolledForward"]
        owner.say()
        reply = owner.receive()
    [commit] = Graph.open(uri).commits.list(actor=RECOVERY_ACTOR)
    assert (reply, commit.recovery_for_actor) == ({"ok": commit.graph_commit_id}, "owner")
    assert [row["graph_commit_id"] for row in audit(uri)] == [commit.graph_commit_id]
    assert check_every_version(uri).versions == 3
    assert recovery_files(uri) == []


@pytest.mark.processes
@pytest.mark.parametrize("place", [Point.INTENT_BEGUN, Point.TABLE_STAGED, Point.INTENT_BEFORE_COMPLETE])
def test_an_owner_that_wakes_after_its_rollback_never_publishes(uri: str, place: Point) -> None:
    with workers(1) as [owner]:
        owner.call("open", uri, **NO_LEASE)
        owner.send("load", uri, data=dan(), hold=place)
        assert owner.receive() == {"held": place}
        Graph.open(uri, settings=EXPIRED)
        assert kinds(uri) == ["RolledBack"]
        owner.say()
        reply = owner.receive()
    assert "error" in reply, reply
    assert "dan" not in persons(uri)
    # What the owner put after its rollback is cleared away, and the row in the audit stays the only one.
    Graph.open(uri, settings=EXPIRED)
    assert kinds(uri) == ["RolledBack"]
    assert "dan" not in persons(uri)


@pytest.mark.processes
def test_an_owner_that_lost_its_requirement_to_a_rival_is_told_so_once(uri: str) -> None:
    with workers(1) as [owner]:
        owner.call("open", uri, **NO_LEASE)
        owner.send("load", uri, data=dan(), hold=Point.INTENT_COMPLETED)
        assert owner.receive() == {"held": Point.INTENT_COMPLETED}
        Graph.open(uri).load({"Person": people("dan", age=1)})
        Graph.open(uri, settings=EXPIRED)
        owner.say()
        assert owner.receive()["error"] in ("key_conflict", "outcome_unknown")
    assert kinds(uri) == ["RolledBack"]
    assert Graph.open(uri).entity_at("node:Person", "dan") == {"id": "dan", "name": "dan", "age": 1}
    assert check_every_version(uri).versions == 4, "the rival, and the record of the rollback"


@pytest.mark.processes
def test_a_recovery_that_lost_its_lease_leaves_the_outcome_to_the_new_owner(uri: str) -> None:
    crashed_load(uri, dan())
    time.sleep(0.01)
    with workers(2) as [slow, new]:
        slow.send("recover", uri, **NO_LEASE, hold=Point.RECOVERY_TAKEN)
        assert "held" in slow.receive()
        new.send("recover", uri, **NO_LEASE, hold=Point.BEFORE_SWAP)
        assert "held" in new.receive()
        slow.say()
        slow.receive()
        new.say()
        assert "ok" in new.receive()
    is_published = "dan" in persons(uri)
    assert kinds(uri) == ["RolledForward" if is_published else "RolledBack"]


@pytest.mark.processes
def test_an_intent_that_vanishes_after_it_was_listed_is_passed_over(uri: str) -> None:
    crashed_load(uri, dan())
    expire_intents(uri)
    with workers(1) as [slow]:
        slow.send("recover", uri, hold=Point.RECOVERY_TAKEN)
        assert "held" in slow.receive()
        for name in recovery_files(uri):
            (Path(uri) / "__recovery" / name).unlink()
        slow.say()
        assert slow.receive() == {"ok": []}
    assert recovery_files(uri) == []


# --- what becomes of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actor", [None, "ann@example.org"])
def test_a_complete_intent_is_published_for_its_actor(uri: str, actor: str | None) -> None:
    crashed_load(uri, dan(), actor=actor)
    Graph.open(uri, settings=EXPIRED)
    [record] = audit(uri)
    [commit] = Graph.open(uri).commits.list(actor=RECOVERY_ACTOR)
    assert commit.recovery_for_actor == actor
    assert (record["recovery_for_actor"], record["graph_commit_id"]) == (actor, commit.graph_commit_id)
    assert "dan" in persons(uri)


def test_a_disjoint_rival_is_kept_and_the_intent_published_on_top_of_it(uri: str) -> None:
    crashed_load(uri, dan())
    rival = Graph.open(uri).load({"Person": people("eve"), "Knows": knows(("eve", "bob"))}).commit
    Graph.open(uri, settings=EXPIRED)
    [commit] = Graph.open(uri).commits.list(actor=RECOVERY_ACTOR)
    assert rival is not None
    assert commit.parent_commit_id == rival.graph_commit_id
    assert persons(uri) == {"ann", "bob", "cyd", "dan", "eve"}
    assert kinds(uri) == ["RolledForward"]


def test_a_lost_requirement_rolls_back_and_the_rival_stays(uri: str) -> None:
    crashed_load(uri, dan("cyd"))
    Graph.open(uri).delete("Person", ["cyd"])
    Graph.open(uri, settings=EXPIRED)
    [row] = audit(uri)
    [commit] = Graph.open(uri).commits.list(actor=RECOVERY_ACTOR)
    assert (row["recovery_kind"], row["graph_commit_id"]) == ("RolledBack", commit.graph_commit_id)
    assert (commit.kind, commit.op_class, commit.recovery_for_actor) == (
        "recovery",
        "maintenance",
        row["recovery_for_actor"],
    )
    assert row["operation_id"] in (commit.message or "")
    assert not list(Graph.open(uri).commits.changes(commit.graph_commit_id)), "it changes nothing"
    assert persons(uri) == {"ann", "bob"}
    assert [name.partition(".")[2] for name in recovery_files(uri)] == ["aborted"]
    assert "'cyd' was removed" in row["reason"]


def test_the_intent_of_a_deleted_branch_is_rolled_back(uri: str) -> None:
    Graph.open(uri).branches.create("dev")
    crashed_load(uri, dan(), branch="dev")
    Graph.open(uri).branches.delete("dev")
    Graph.open(uri).branches.create("dev")
    Graph.open(uri, settings=EXPIRED)
    assert kinds(uri) == ["RolledBack"]
    assert "dan" not in persons(uri, "dev")


def test_several_intents_are_each_judged_against_what_the_others_left(uri: str) -> None:
    for name in ("eve", "dan", "fay"):
        crashed_load(uri, {"Person": people(name), "Knows": knows((name, "ann"))}, actor=name)
    crashed_load(uri, dan(), actor="late")
    Graph.open(uri, settings=EXPIRED)
    outcome = {row["recovery_for_actor"]: row["recovery_kind"] for row in audit(uri)}
    assert outcome == {"eve": "RolledForward", "dan": "RolledForward", "fay": "RolledForward", "late": "RolledBack"}
    assert persons(uri) == {"ann", "bob", "cyd", "dan", "eve", "fay"}
    check_every_version(uri)


@pytest.mark.processes
def test_a_commit_whose_acknowledgement_was_lost_is_found_and_not_made_again(uri: str) -> None:
    owner = Worker()
    reply = owner.call("load", uri, data=dan(), actor="owner", failpoint="publish.after_swap:kill")
    owner.close()
    assert reply["dead"] == KILLED
    # Others move the branch on: the head alone would not tell.
    Graph.open(uri).load({"Person": people("eve")})
    Graph.open(uri, settings=EXPIRED)
    [row] = audit(uri)
    [commit] = Graph.open(uri).commits.list(actor="owner")
    assert (row["recovery_kind"], row["graph_commit_id"]) == ("RolledForward", commit.graph_commit_id)
    assert Graph.open(uri).commits.list(actor=RECOVERY_ACTOR) == []
    assert check_every_version(uri).versions == 4
