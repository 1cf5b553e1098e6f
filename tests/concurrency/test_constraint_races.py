"""Rules of the schema under racing processes: each outcome is one that some order would give, at every version."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from tests.support.workers import Worker, workers

pytestmark = pytest.mark.processes

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
node Task { title: String @key }
edge Owns: Person -> Task @card(0..2)
edge Knows: Person -> Person
"""
PROCESSES = 4
ROUNDS = 12


@pytest.fixture
def uri(tmp_path: Path) -> str:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Person": [{"name": "ann"}, {"name": "bob"}], "Task": [{"title": f"t{i}"} for i in range(8)]})
    return str(tmp_path / "g")


def race(crowd: list[Worker], uri: str, jobs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    for worker, (do, job) in zip(crowd, jobs, strict=True):
        worker.send(do, uri, **job)
    return [worker.receive() for worker in crowd]


def codes(replies: list[dict[str, Any]]) -> Counter[str]:
    return Counter("ok" if "ok" in reply else str(reply["error"]) for reply in replies)


def check_rules(uri: str) -> int:
    """No version breaks a rule: keys, unique values, endpoints, cardinality."""
    graph = Graph.open(uri, mode="ro")
    newest = graph.snapshot().version
    for version in range(1, newest + 1):
        people = graph.rows("node:Person", version).to_pylist()
        names = [row["name"] for row in people]
        emails = [row["email"] for row in people if row["email"] is not None]
        tasks = graph.rows("node:Task", version)["title"].to_pylist()
        assert len(set(names)) == len(names), f"version {version}: a key twice"
        assert len(set(emails)) == len(emails), f"version {version}: a unique value twice"
        owned = graph.rows("edge:Owns", version).to_pylist()
        assert all(row["src"] in names and row["dst"] in tasks for row in owned), f"version {version}: a dangling edge"
        knows = graph.rows("edge:Knows", version).to_pylist()
        assert all(row["src"] in names and row["dst"] in names for row in knows), f"version {version}: a dangling edge"
        assert max(Counter(row["src"] for row in owned).values(), default=0) <= 2, f"version {version}: too many"
    return newest


def test_one_key_is_taken_once(uri: str) -> None:
    with workers(PROCESSES) as crowd:
        for number in range(ROUNDS):
            job = {"data": {"Person": [{"name": f"n{number}"}]}}
            assert codes(race(crowd, uri, [("load", job)] * PROCESSES)) == {"ok": 1, "key_conflict": PROCESSES - 1}
    assert check_rules(uri) >= ROUNDS


def test_one_request_is_applied_once_however_many_processes_repeat_it(uri: str) -> None:
    text = 'query more() { update Person set { age: age + 1 } where name = "ann" }'
    Graph.open(uri).load({"Person": [{"name": "ann", "age": 0}]}, mode="merge")
    with workers(PROCESSES) as crowd:
        for number in range(ROUNDS):
            job = ("request", {"text": text, "key": f"request-{number}"})
            replies = race(crowd, uri, [job] * PROCESSES)
            assert codes(replies) == {"ok": PROCESSES}, replies
            assert len({reply["ok"] for reply in replies}) == 1, "all are told of the one commit"
    ages = {row["name"]: row["age"] for row in Graph.open(uri).rows("node:Person").to_pylist()}
    assert ages["ann"] == ROUNDS


def test_one_unique_value_is_taken_once_by_different_ids(uri: str) -> None:
    with workers(PROCESSES) as crowd:
        for number in range(ROUNDS):
            jobs = [
                ("load", {"data": {"Person": [{"name": f"{number}-{i}", "email": f"e{number}"}]}}) for i in range(4)
            ]
            assert codes(race(crowd, uri, jobs)) == {"ok": 1, "duplicate_key": PROCESSES - 1}
    check_rules(uri)


def test_no_source_gets_more_edges_than_allowed(uri: str) -> None:
    with workers(PROCESSES) as crowd:
        for number in range(ROUNDS):
            Graph.open(uri).load({"Person": [{"name": f"s{number}"}]})
            jobs = [("load", {"data": {"Owns": [{"from": f"s{number}", "to": f"t{i}"}]}}) for i in range(PROCESSES)]
            assert codes(race(crowd, uri, jobs)) == {"ok": 2, "cardinality_violation": PROCESSES - 2}
    check_rules(uri)


def test_a_node_is_deleted_or_gets_an_edge(uri: str) -> None:
    outcomes: Counter[str] = Counter()
    with workers(2) as crowd:
        for number in range(ROUNDS):
            Graph.open(uri).load({"Person": [{"name": f"d{number}"}]})
            delete = {"text": f'query q() {{ delete Person where name = "d{number}" }}'}
            insert = {"data": {"Knows": [{"from": "ann", "to": f"d{number}"}]}}
            deleted, inserted = race(crowd, uri, [("mutate", delete), ("load", insert)])
            outcomes[f"{'ok' in deleted} {'ok' in inserted}"] += 1
            assert "ok" in deleted or "ok" in inserted
            if "ok" not in deleted:
                assert deleted["error"] in ("endpoint_conflict", "expected_version_mismatch")
            if "ok" not in inserted:
                assert inserted["error"] in ("missing_endpoint", "endpoint_conflict")
    check_rules(uri)
    assert sum(outcomes.values()) == ROUNDS


def test_an_overwrite_and_an_edge_to_what_it_drops(uri: str) -> None:
    with workers(2) as crowd:
        for number in range(ROUNDS):
            Graph.open(uri).load({"Task": [{"title": f"x{number}"}], "Person": [{"name": f"p{number}"}]})
            keep = {"data": {"Task": [{"title": f"t{i}"} for i in range(8)]}, "mode": "overwrite"}
            insert = {"data": {"Owns": [{"from": f"p{number}", "to": f"x{number}"}]}}
            dropped, inserted = race(crowd, uri, [("load", keep), ("load", insert)])
            assert not ("ok" in dropped and "ok" in inserted)
            assert "ok" in dropped or "ok" in inserted
            if "ok" in inserted:  # the next round needs a graph in which the overwrite is possible
                graph = Graph.open(uri)
                graph.mutate(f'query q() {{ delete Task where title = "x{number}" }}')
    check_rules(uri)


def test_updates_of_one_counter_lose_nothing(uri: str) -> None:
    """Each update that was acknowledged is in the sum: a conflict is told, never swallowed."""
    Graph.open(uri).mutate('query q() { update Person set { age: 0 } where name = "ann" }')
    text = 'query q() { update Person set { age: age + 1 } where name = "ann" }'
    done = 0
    with workers(PROCESSES) as crowd:
        for _ in range(ROUNDS):
            replies = race(crowd, uri, [("mutate", {"text": text})] * PROCESSES)
            assert set(codes(replies)) <= {"ok", "expected_version_mismatch", "publish_contention"}
            done += codes(replies)["ok"]
    row = Graph.open(uri).entity_at("node:Person", "ann")
    assert row is not None
    assert row["age"] == done
