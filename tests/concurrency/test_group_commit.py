"""Threads of one process: waiting writes share commits, and every caller gets what it would have got alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import KeyConflict, OmnigraphError
from omnigraph.versioning.group_commit import is_groupable, write_set_of
from tests.attacks.test_attacks import plan_of
from tests.support.invariants import check_every_version

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
edge Knows: Person -> Person @card(0..3)
"""
THREADS = 12


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Person": [{"name": "ann"}, {"name": "bob"}]})
    return graph


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The results, or errors, of one call per thread, all begun together."""
    start = threading.Barrier(count)
    results: list[Any] = [None] * count

    def run(index: int) -> None:
        start.wait()
        try:
            results[index] = work(index)
        except OmnigraphError as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_waiting_writes_share_commits_and_nothing_is_lost(people: Graph) -> None:
    def work(index: int) -> list[str]:
        return [
            people.load({"Person": [{"name": f"{index}-{i}", "age": i}]}).commit.graph_commit_id  # type: ignore[union-attr]
            for i in range(15)
        ]

    commits = at_once(THREADS, work)
    names = Counter(people.rows("node:Person")["name"].to_pylist())
    assert names == Counter(["ann", "bob", *(f"{t}-{i}" for t in range(THREADS) for i in range(15))])
    loads = {c.graph_commit_id for c in people.commits.list() if c.kind == "load"}
    acknowledged = {commit for many in commits for commit in many}
    assert acknowledged <= loads
    assert len(acknowledged) < THREADS * 15, "some commits were shared"
    for index, many in enumerate(commits):
        for number, commit in enumerate(many):
            assert people.entity_at("node:Person", f"{index}-{number}", commit) is not None
    check_every_version(people.uri)


def test_each_caller_gets_its_own_refusal(people: Graph) -> None:
    results = at_once(THREADS, lambda i: people.load({"Person": [{"name": "same" if i % 2 else f"own{i}"}]}))
    refused = [r for r in results if isinstance(r, OmnigraphError)]
    assert len(refused) == THREADS // 2 - 1
    assert {type(r) for r in refused} == {KeyConflict}
    assert people.rows("node:Person").num_rows == 2 + THREADS // 2 + 1


def test_unique_values_and_cardinality_hold_in_a_group(people: Graph) -> None:
    results = at_once(THREADS, lambda i: people.load({"Person": [{"name": f"u{i}", "email": f"e{i % 3}"}]}))
    assert sum(not isinstance(r, OmnigraphError) for r in results) == 3
    results = at_once(THREADS, lambda i: people.load({"Knows": [{"from": "ann", "to": "bob"}]}))
    assert sum(not isinstance(r, OmnigraphError) for r in results) == 3
    assert people.rows("edge:Knows").num_rows == 3
    check_every_version(people.uri)


def test_updates_deletes_and_edges_of_one_moment(people: Graph) -> None:
    people.load({"Person": [{"name": f"p{i}", "age": 0} for i in range(THREADS)]})

    def work(index: int) -> Any:
        name = f"p{index % (THREADS // 2)}"
        match index % 3:
            case 0:
                return people.mutate(f'query q() {{ update Person set {{ age: age + 1 }} where name = "{name}" }}')
            case 1:
                return people.mutate(f'query q() {{ delete Person where name = "{name}" }}')
            case _:
                return people.load({"Knows": [{"from": name, "to": "ann"}]})

    for _ in range(4):
        at_once(THREADS, work)
    check_every_version(people.uri)


def test_a_stated_author_is_never_mixed_up(people: Graph) -> None:
    def work(index: int) -> tuple[str, str]:
        actor = f"actor{index % 2}"
        commit = people.load({"Person": [{"name": f"by{index}"}]}, actor=actor).commit
        assert commit is not None
        return actor, commit.graph_commit_id

    authors = {c.graph_commit_id: c.actor_id for c in people.commits.list()}
    pairs = at_once(THREADS, work)
    authors = {c.graph_commit_id: c.actor_id for c in people.commits.list()}
    assert all(authors[commit] == actor for actor, commit in pairs)


def test_what_cannot_be_shared(local_graph: Graph) -> None:
    from dataclasses import replace

    plan = plan_of(local_graph, "a")
    assert is_groupable(plan)
    assert not is_groupable(replace(plan, has_intent=True))
    assert not is_groupable(replace(plan, expect_head="x"))
    assert not is_groupable(replace(plan, idempotency_key="x"))
    assert not is_groupable(replace(plan_of(local_graph, "b", replaces=True), rebase_updates=False))
    assert write_set_of(plan).conflicts_with(write_set_of(plan_of(local_graph, "a", replaces=True)))
    assert not write_set_of(plan).conflicts_with(write_set_of(plan_of(local_graph, "c")))
