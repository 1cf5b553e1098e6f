"""Several processes on one branch: one order of commits, nothing lost, nothing twice, conflicts by name."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.storage.failpoints import Point
from tests.support.graphs import SMALL, TWIN, knows, logical_state, people, twins
from tests.support.invariants import check_acknowledged, check_every_version
from tests.support.workers import Worker, read_acks, workers

pytestmark = pytest.mark.processes

PROCESSES = 8
COMMITS = 25
ROUNDS = 25


@pytest.fixture
def uri(tmp_path: Path) -> str:
    Graph.init(tmp_path / "g", SMALL).load({"Person": people("ann", "bob")})
    return str(tmp_path / "g")


def at_once(crowd: list[Worker], do: str, uri: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each worker its job, then wait for all of them."""
    for worker, job in zip(crowd, jobs, strict=True):
        worker.send(do, uri, **job)
    return [worker.receive() for worker in crowd]


def warm(crowd: list[Worker], uri: str) -> None:
    assert all("ok" in reply for reply in at_once(crowd, "open", uri, [{}] * len(crowd)))


@pytest.mark.parametrize(
    ("schema", "tables", "is_queued"),
    [
        (SMALL, [{"Person": people("*")}] * PROCESSES, True),
        (SMALL, [{"Person": people("*")}] * PROCESSES, False),
        (SMALL, [{"Person": people("*")}, {"Company": [{"name": "*"}]}] * (PROCESSES // 2), False),
        (TWIN, [twins("*")] * PROCESSES, True),
    ],
    ids=["one table", "one table, no queue", "two tables, no queue", "both tables each time"],
)
def test_two_hundred_commits_of_eight_processes_make_one_chain(
    tmp_path: Path, schema: str, tables: Any, is_queued: bool
) -> None:
    uri, ack = tmp_path / "g", tmp_path / "acks"
    Graph.init(uri, schema)
    if not is_queued:
        _forbid_locks(uri)
    with workers(PROCESSES) as crowd:
        warm(crowd, str(uri))
        jobs = [{"worker": str(i), "count": COMMITS, "data": tables[i], "ack": str(ack)} for i in range(PROCESSES)]
        assert at_once(crowd, "commits", str(uri), jobs) == [{"ok": COMMITS}] * PROCESSES
    acks = read_acks(ack)
    assert check_acknowledged(uri, acks) == PROCESSES * COMMITS
    loads = [c.graph_commit_id for c in Graph.open(uri).commits.list() if c.kind == "load"]
    assert Counter(loads) == Counter(each["commit"] for each in acks)
    written = Counter((key, i) for each in acks for key, ids in each["keys"].items() for i in ids)
    graph = Graph.open(uri)
    stored = Counter((k, i) for k in graph.snapshot().tables for i in graph.rows(k)["id"].to_pylist())
    assert stored == written
    check_every_version(uri)


def test_a_swap_onto_a_version_that_is_no_longer_the_newest_is_lost_and_made_again(uri: str) -> None:
    _forbid_locks(Path(uri))
    with workers(1) as [stale]:
        stale.call("open", uri)
        stale.send("load", uri, data={"Person": people("stale")}, hold=Point.BEFORE_SWAP)
        assert "held" in stale.receive()
        graph = Graph.open(uri)
        for name in ("cyd", "dan", "eve"):
            graph.load({"Person": people(name)})
        stale.say()
        assert "ok" in stale.receive()
    assert set(Graph.open(uri).rows("node:Person")["id"].to_pylist()) == {"ann", "bob", "cyd", "dan", "eve", "stale"}
    check_every_version(uri)


def test_one_key_wanted_by_eight_processes_has_one_winner(uri: str) -> None:
    _forbid_locks(Path(uri))
    with workers(PROCESSES) as crowd:
        warm(crowd, uri)
        for number in range(5):
            jobs = [{"data": {"Person": people(f"key {number}", age=i)}} for i in range(PROCESSES)]
            replies = at_once(crowd, "load", uri, jobs)
            winners = [i for i, reply in enumerate(replies) if "ok" in reply]
            assert len(winners) == 1, replies
            assert [r["error"] for r in replies if "ok" not in r] == ["key_conflict"] * (PROCESSES - 1)
            stored = Graph.open(uri).entity_at("node:Person", f"key {number}")
            assert stored is not None
            assert stored["age"] == winners[0]
    check_every_version(uri)


def test_deleting_a_node_and_adding_an_edge_to_it_are_serial(uri: str) -> None:
    graph = Graph.open(uri)
    outcomes: Counter[str] = Counter()
    with workers(2) as [deleter, inserter]:
        warm([deleter, inserter], uri)
        for number in range(ROUNDS):
            name = f"n{number}"
            graph.load({"Person": people(name)})
            deleter.send("delete", uri, type_name="Person", ids=[name])
            inserter.send("load", uri, data={"Knows": knows(("ann", name))})
            deleted, inserted = deleter.receive(), inserter.receive()
            is_node, is_edge = (_has(uri, "node:Person", name), _has(uri, "edge:Knows", f"ann-{name}"))
            outcomes[_serial_outcome(deleted, inserted, is_node, is_edge)] += 1
    assert outcomes.total() == ROUNDS
    check_every_version(uri)


def _serial_outcome(deleted: dict[str, Any], inserted: dict[str, Any], is_node: bool, is_edge: bool) -> str:
    """Which order explains what both were told and what is left; none is a failure."""
    if "ok" in deleted and "ok" in inserted:
        # The edge came first, and the delete took it along.
        assert deleted["ok"] == [1, 1]
        assert (is_node, is_edge) == (False, False)
        return "insert, delete"
    if "ok" in deleted:
        assert deleted["ok"] == [1, 0]
        assert inserted["error"] in ("missing_endpoint", "endpoint_conflict"), inserted
        assert (is_node, is_edge) == (False, False)
        return "delete"
    assert deleted["error"] in ("expected_version_mismatch", "endpoint_conflict"), deleted
    assert "ok" in inserted, inserted
    assert (is_node, is_edge) == (True, True)
    return "insert"


@pytest.mark.parametrize("first", ["delete", "insert"])
def test_whoever_publishes_second_sees_what_the_first_did(uri: str, first: str) -> None:
    delete: dict[str, Any] = {"do": "delete", "type_name": "Person", "ids": ["bob"]}
    insert: dict[str, Any] = {"do": "load", "data": {"Knows": knows(("ann", "bob"))}}
    early, late = (delete, insert) if first == "delete" else (insert, delete)
    with workers(2) as [quick, slow]:
        warm([quick, slow], uri)
        slow.send(uri=uri, hold=Point.TABLE_STAGED, **late)  # validated and staged, not yet published
        assert "held" in slow.receive()
        assert "ok" in quick.call(uri=uri, **early)
        slow.say()
        reply = slow.receive()
    assert reply["error"] in ("endpoint_conflict", "missing_endpoint", "expected_version_mismatch"), reply
    assert _has(uri, "node:Person", "bob") == (first == "insert")
    check_every_version(uri)


def test_an_overwrite_never_loses_an_insert_it_did_not_see(uri: str) -> None:
    with workers(2) as [overwriter, inserter]:
        warm([overwriter, inserter], uri)
        job = {"data": {"Person": people("only")}, "mode": "overwrite"}
        overwriter.send("load", uri, **job, hold=Point.TABLE_STAGED)
        assert "held" in overwriter.receive()
        assert "ok" in inserter.call("load", uri, data={"Person": people("new")})
        overwriter.say()
        assert overwriter.receive()["error"] == "expected_version_mismatch"
        assert _has(uri, "node:Person", "new")
        for number in range(ROUNDS):
            overwriter.send("load", uri, **job)
            inserter.send("load", uri, data={"Person": people(f"new {number}")})
            replies = overwriter.receive(), inserter.receive()
            assert "ok" in replies[1], replies
            assert replies[0].get("error") in (None, "expected_version_mismatch"), replies
    check_every_version(uri)


def test_two_upserts_of_one_row_follow_each_other(uri: str) -> None:
    with workers(4) as crowd:
        warm(crowd, uri)
        for number in range(5):
            jobs = [{"data": {"Person": people("hot", age=10 * number + i)}, "mode": "merge"} for i in range(4)]
            replies = at_once(crowd, "load", uri, jobs)
            assert all("ok" in reply for reply in replies), replies
            newest = Graph.open(uri).commits.head().graph_commit_id
            [winner] = [i for i, reply in enumerate(replies) if reply["ok"] == newest]
            stored = Graph.open(uri).entity_at("node:Person", "hot")
            assert stored is not None
            assert stored["age"] == 10 * number + winner
    check_every_version(uri)


def test_a_reader_of_a_snapshot_sees_the_same_rows_while_writers_commit(uri: str, tmp_path: Path) -> None:
    graph = Graph.open(uri, mode="ro")
    pinned = graph.snapshot()
    before = graph.rows("node:Person", pinned.commit_id).sort_by("id")
    with workers(2) as crowd:
        warm(crowd, uri)
        for i, worker in enumerate(crowd):
            data = {"Person": people("*")}
            worker.send("commits", uri, worker=str(i), count=40, data=data, ack=str(tmp_path / "acks"))
        for _ in range(50):
            assert graph.snapshot_at_version(pinned.version) == pinned
            assert graph.rows("node:Person", pinned.commit_id).sort_by("id").equals(before)
        assert [worker.receive() for worker in crowd] == [{"ok": 40}] * 2
    assert graph.rows("node:Person", pinned.commit_id).sort_by("id").equals(before)
    assert graph.rows("node:Person").num_rows == before.num_rows + 80


def test_six_inits_of_one_place_make_the_graph_of_the_winner(tmp_path: Path) -> None:
    with workers(6) as crowd:
        at_once(crowd, "open", str(tmp_path / "none"), [{}] * 6)
        for number in range(6):
            uri = str(tmp_path / f"g{number}")
            jobs = [{"schema": f"node Of{i} {{ name: String @key }}", "actor": f"actor {i}"} for i in range(6)]
            replies = at_once(crowd, "init", uri, jobs)
            winners = [i for i, reply in enumerate(replies) if "ok" in reply]
            assert len(winners) == 1, replies
            assert {r["error"] for r in replies if "ok" not in r} == {"name_taken"}, replies
            graph = Graph.open(uri)
            assert list(graph.snapshot().tables) == [f"node:Of{winners[0]}"]
            assert graph.commits.head().actor_id == f"actor {winners[0]}"
            assert graph.commits.head().graph_commit_id == replies[winners[0]]["ok"]
            assert check_every_version(uri).versions == 1
            graph.load({f"Of{winners[0]}": [{"name": "works"}]})
            assert logical_state(uri)[f"main node:Of{winners[0]}"]


def _forbid_locks(uri: Path) -> None:
    """A file where the lock files would go: processes no longer queue, and only the swap itself keeps them apart."""
    shutil.rmtree(uri / "__locks", ignore_errors=True)
    (uri / "__locks").write_text("")


def _has(uri: str, table_key: str, entity_id: str) -> bool:
    return Graph.open(uri, mode="ro").entity_at(table_key, entity_id) is not None
