"""`revert`, `cherry-pick`, `restore`, `branch reset`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.unit.cli.conftest import PEOPLE, SCHEMA, Cli


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "people", SCHEMA)
    graph.load(PEOPLE)
    return graph


def test_ways_back(cli: Cli, people: Graph) -> None:
    uri = people.uri
    rows = people.rows("Person").num_rows
    people.load([{"type": "Person", "data": {"name": "Eve"}}])
    preview = cli("revert", "main", "--store", uri, "--dry-run")
    assert (preview.code, "would revert" in preview.out) == (0, True)
    done = cli("revert", "main", "--store", uri, "--json", "--as", "ada").json
    assert (done["outcome"], done["commit"]["actor_id"]) == ("reverted", "ada")
    assert people.rows("Person").num_rows == rows
    assert "nothing to revert" in cli("revert", "main~1", "--store", uri, "--quiet").out
    assert cli("restore", "--at", "main~1", "--store", uri, "--quiet").code == 0
    assert people.rows("Person").num_rows == rows + 1
    found = cli("restore", "--at", "main~1", "--type", "Person", "--id", "Eve", "--store", uri, "--json").json
    assert (found["written"], found["removed"]) == ({}, {"node:Person": 1})
    people.branches.create("draft")
    people.load([{"type": "Person", "data": {"name": "Fay"}}], branch="draft")
    assert "cherry-picked" in cli("cherry-pick", "draft", "--store", uri, "--quiet").out
    assert cli("branch", "reset", "draft", "--store", uri, "--json").json["outcome"] == "restored"
    assert people.commits.head("draft").merged_parent_commit_id == people.commits.head().graph_commit_id


def test_conflicts_are_shown_and_nothing_changes(cli: Cli, people: Graph) -> None:
    wrong = people.load([{"type": "Person", "data": {"name": "Ada", "age": 1}}], "merge").commit
    people.load([{"type": "Person", "data": {"name": "Ada", "age": 2}}], "merge")
    head = people.commits.head().graph_commit_id
    assert wrong is not None
    ended = cli("revert", wrong.graph_commit_id, "--store", people.uri)
    assert (ended.code, "DivergentUpdate: Person 'Ada'" in ended.out) == (1, True)
    ended = cli("revert", wrong.graph_commit_id, "--store", people.uri, "--json")
    assert ended.code == 1
    assert json.loads(ended.out or ended.err)
    assert people.commits.head().graph_commit_id == head
    assert "would meet 1 conflict" in cli(
        "revert", wrong.graph_commit_id, "--store", people.uri, "--dry-run", "--quiet"
    ).out  # fmt: skip


def test_misuse(cli: Cli, people: Graph) -> None:
    assert cli("restore", "--at", "main", "--id", "Ada", "--store", people.uri).code == 2
    assert "exactly one --type" in cli("restore", "--at", "main", "--id", "Ada", "--store", people.uri).err
    assert cli("restore", "--store", people.uri).code == 2
    assert cli("revert", "nowhere", "--store", people.uri).code == 1
