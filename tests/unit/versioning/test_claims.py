"""What the objects of a claim say: one generation at a time, floors that only rise, an end that is final."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.claims import Claims, claim_path
from tests.conftest import SCHEMA
from tests.support.fixtures import unflushed
from tests.support.graphs import while_armed

__all__ = ["unflushed"]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """`dev` was deleted and made again."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.branches.create("dev")
    graph.branches.delete("dev")
    graph.branches.create("dev")
    return graph


def natives(graph: Graph) -> list[str]:
    return [str(branch.native_branch) for branch in graph.repository.refs.every_incarnation()]


def test_each_generation_has_a_status_of_its_own(graph: Graph) -> None:
    claims = Claims(graph.repository.store.objects)
    first, second = natives(graph)
    assert [claims.status(native).is_open for native in (first, second)] == [False, True]
    assert [status.generation for status in claims.newest("dev")] == [2]


def test_floors_rise_and_belong_to_one_generation(graph: Graph) -> None:
    claims = Claims(graph.repository.store.objects)
    first, second = natives(graph)
    claims.raise_floor(first, 9)
    claims.raise_floor(second, 5)
    assert [claims.status(native).floor for native in (first, second)] == [9, 5]
    claims.raise_floor(second, 7)
    claims.raise_floor(second, 6)  # of a collector that began earlier and is late
    assert claims.status(second).floor == 7
    claims.raise_floor(second, 20)
    assert [claims.status(native).floor for native in (first, second)] == [9, 20]
    names = graph.repository.store.objects.names("__refs/dev/")
    assert sum("floor" in name for name in names) == 2, "lower ones are removed, of the same generation"


def test_a_branch_without_a_claim_is_none(graph: Graph) -> None:
    claims = Claims(graph.repository.store.objects)
    assert not claims.status("nobody.000001-01ARZ3NDEKTSV4RRFFQ69G5FAV").is_open


def test_the_claim_goes_before_the_mark_that_deletes_it(graph: Graph) -> None:
    claims = Claims(graph.repository.store.objects)
    ended = graph.repository.refs.every_incarnation()[0]
    claims.raise_floor(ended.native_branch, 3)
    order = [path.rpartition(".")[2] for path in claims.objects_of(ended)]
    assert order[0] == "json"
    assert sorted(order) == ["closed", "floor-00000000000000000003", "json"]
    claims.retire([ended])
    assert claims.objects_of(ended) == []
    assert claims.survey().retired == 1, "no successor goes below it"
    assert [status.generation for status in claims.newest("dev")] == [2]


def once(action: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def act() -> None:
        if not done:
            done.append(True)
            action()

    return act


@pytest.mark.parametrize("left", [None, "another"])
def test_a_claim_that_was_read_of_another_directory_is_not_remembered(
    graph: Graph, tmp_path: Path, left: str | None
) -> None:
    """The store is moved between the look at a claim and its read, and is back afterwards: the same file as before."""
    claims = Claims(graph.repository.store.objects)
    native = natives(graph)[1]
    elsewhere, claim = tmp_path / "elsewhere", Path(graph.uri) / claim_path("dev", 2)

    def move_away() -> None:
        os.rename(graph.uri, elsewhere)
        if left is not None:  # what a writer that had not noticed has put there meanwhile
            other = Graph.init(tmp_path / "other", SCHEMA)
            for _ in range(2):
                other.branches.create("dev")
                other.branches.delete("dev")
            os.rename(tmp_path / "other", graph.uri)

    with while_armed({Point.OBJECT_BEFORE_READ: once(move_away)}):
        assert not claims.status(native).is_open
    if left is not None:
        assert claim.exists()
        os.rename(graph.uri, tmp_path / "debris")
    os.rename(elsewhere, graph.uri)
    assert claims.status(native).is_open, "its branch is there"
