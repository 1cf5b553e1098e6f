"""What the objects of a claim say: one generation at a time, floors that only rise, an end that is final."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.versioning.claims import Claims
from tests.conftest import SCHEMA
from tests.support.fixtures import unflushed

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
    claims = Claims(graph._store.objects)
    first, second = natives(graph)
    assert [claims.status(native).is_open for native in (first, second)] == [False, True]
    assert [status.generation for status in claims.newest("dev")] == [2]


def test_floors_rise_and_belong_to_one_generation(graph: Graph) -> None:
    claims = Claims(graph._store.objects)
    first, second = natives(graph)
    claims.raise_floor(first, 9)
    claims.raise_floor(second, 5)
    assert [claims.status(native).floor for native in (first, second)] == [9, 5]
    claims.raise_floor(second, 7)
    claims.raise_floor(second, 6)  # of a collector that began earlier and is late
    assert claims.status(second).floor == 7
    claims.raise_floor(second, 20)
    assert [claims.status(native).floor for native in (first, second)] == [9, 20]
    names = graph._store.objects.names("__refs/dev/")
    assert sum("floor" in name for name in names) == 2, "lower ones are removed, of the same generation"


def test_a_branch_without_a_claim_is_none(graph: Graph) -> None:
    claims = Claims(graph._store.objects)
    assert not claims.status("nobody.000001-01ARZ3NDEKTSV4RRFFQ69G5FAV").is_open


def test_the_claim_goes_before_the_mark_that_deletes_it(graph: Graph) -> None:
    claims = Claims(graph._store.objects)
    ended = graph.repository.refs.every_incarnation()[0]
    claims.raise_floor(ended.native_branch, 3)
    order = [path.rpartition(".")[2] for path in claims.objects_of(ended)]
    assert order[0] == "json"
    assert sorted(order) == ["closed", "floor-00000000000000000003", "json"]
    claims.retire([ended])
    assert claims.objects_of(ended) == []
    assert claims.survey().retired == 1, "no successor goes below it"
    assert [status.generation for status in claims.newest("dev")] == [2]
