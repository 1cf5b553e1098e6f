"""Branches that are created, deleted and written to by several processes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import BranchNotFound, NotFound
from omnigraph.storage.failpoints import Point
from tests.support.graphs import SMALL, knows, people
from tests.support.invariants import check_every_version
from tests.support.workers import workers

pytestmark = pytest.mark.processes


@pytest.fixture
def uri(tmp_path: Path) -> str:
    Graph.init(tmp_path / "g", SMALL).load({"Person": people("ann", "bob")})
    return str(tmp_path / "g")


@pytest.mark.parametrize("tables", [1, 2])
def test_a_writer_of_a_branch_that_was_recreated_is_refused(uri: str, tables: int) -> None:
    Graph.open(uri).branches.create("dev")
    data = {"Person": people("late")} if tables == 1 else {"Person": people("late"), "Knows": knows(("late", "ann"))}
    with workers(1) as [late]:
        late.call("open", uri)
        late.send("load", uri, data=data, branch="dev", hold=Point.TABLE_STAGED)
        assert "held" in late.receive()
        Graph.open(uri).branches.delete("dev")
        Graph.open(uri).branches.create("dev")
        late.say()
        assert late.receive()["error"] == "branch_gone"
        # The handle itself goes on with the new branch.
        assert "ok" in late.call("load", uri, data={"Person": people("new")}, branch="dev")
    assert set(Graph.open(uri).rows("node:Person", "dev")["id"].to_pylist()) == {"ann", "bob", "new"}
    check_every_version(uri)


def test_a_write_that_read_the_branch_before_it_was_closed_loses_its_swap(uri: str) -> None:
    Graph.open(uri).branches.create("dev")
    with workers(1) as [late]:
        late.call("open", uri)
        late.send("load", uri, data={"Person": people("late")}, branch="dev", hold=Point.BEFORE_SWAP)
        assert "held" in late.receive()
        Graph.open(uri).branches.delete("dev")
        late.say()
        assert late.receive()["error"] == "branch_gone"
    with pytest.raises(BranchNotFound):
        Graph.open(uri).branches.get("dev")


def test_two_creators_of_one_name_have_one_winner(uri: str) -> None:
    with workers(4) as crowd:
        for worker in crowd:
            worker.call("open", uri)
        for number in range(10):
            for worker in crowd:
                worker.send("branch", uri, name=f"b{number}")
            replies = [worker.receive() for worker in crowd]
            winners = [reply["ok"] for reply in replies if "ok" in reply]
            assert winners == [Graph.open(uri).branches.get(f"b{number}").native_branch]
            assert {reply["error"] for reply in replies if "ok" not in reply} == {"name_taken"}
    check_every_version(uri)


def test_a_creator_that_claims_second_leaves_the_first_ones_branch_alone(uri: str) -> None:
    with workers(1) as [slow]:
        slow.call("open", uri)
        slow.send("branch", uri, name="dev", hold=Point.BRANCH_MANIFEST)
        assert "held" in slow.receive()
        graph = Graph.open(uri)
        graph.branches.create("dev")
        graph.load({"Person": people("dev-only")}, branch="dev")
        slow.say()
        assert slow.receive()["error"] == "name_taken"
    assert Graph.open(uri).rows("node:Person", "dev").num_rows == 3
    check_every_version(uri)


def test_a_child_is_readable_whatever_becomes_of_its_parent(uri: str) -> None:
    with workers(2) as [creator, deleter]:
        creator.call("open", uri)
        deleter.call("open", uri)
        graph = Graph.open(uri)
        for number in range(12):
            graph.branches.create(f"parent{number}")
            graph.load({"Person": people("of parent")}, branch=f"parent{number}")
            creator.send("branch", uri, name=f"child{number}", from_=f"parent{number}")
            deleter.send("unbranch", uri, name=f"parent{number}")
            created, deleted = creator.receive(), deleter.receive()
            assert "ok" in deleted or deleted["error"] == "branch_in_use", deleted
            if "ok" in created:
                assert Graph.open(uri).rows("node:Person", f"child{number}").num_rows == 3
            else:
                assert created["error"] in ("branch_not_found", "not_found"), created
                assert "ok" in deleted
    check_every_version(uri)


def test_a_child_that_is_claimed_after_its_parent_went_is_whole(uri: str) -> None:
    Graph.open(uri).branches.create("parent")
    with workers(1) as [creator]:
        creator.call("open", uri)
        creator.send("branch", uri, name="child", from_="parent", hold=Point.BRANCH_MANIFEST)
        assert "held" in creator.receive()
        Graph.open(uri).branches.delete("parent")
        creator.say()
        assert "ok" in creator.receive()
    graph = Graph.open(uri)
    graph.load({"Person": people("new")}, branch="child")
    assert graph.rows("node:Person", "child").num_rows == 3
    check_every_version(uri)


def test_a_late_deleter_does_not_remove_the_branch_that_came_after(uri: str) -> None:
    Graph.open(uri).branches.create("dev")
    with workers(1) as [late]:
        late.call("open", uri)
        late.send("unbranch", uri, name="dev", hold=Point.BRANCH_BEFORE_CLOSE)
        assert "held" in late.receive()
        graph = Graph.open(uri)
        graph.branches.delete("dev")
        graph.branches.create("dev")
        graph.load({"Person": people("kept")}, branch="dev")
        late.say()
        late.receive()
    assert Graph.open(uri).rows("node:Person", "dev").num_rows == 3


def test_a_branch_whose_deletion_was_cut_short_is_not_listed_as_if_it_lived(uri: str) -> None:
    Graph.open(uri).branches.create("dev")
    with workers(1) as [deleter]:
        deleter.send("unbranch", uri, name="dev", failpoint=f"{Point.BRANCH_CLOSED}:kill")
        assert "dead" in deleter.receive()
    assert [branch.name for branch in Graph.open(uri).branches.list()] == ["main"]
    with pytest.raises(NotFound):
        Graph.open(uri).snapshot("dev")
