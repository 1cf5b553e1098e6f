"""Damaged topologies and text indexes count as missing: every answer is the one that the rows give."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph import Graph
from omnigraph.storage.derived import DerivedStore
from omnigraph.storage.layout import DERIVED
from omnigraph.versioning.store import Settings
from tests.conftest import SCHEMA
from tests.support.damage import flipped, replaced, some_damage
from tests.support.rows import knows, person

NAMES = [f"p{i}" for i in range(30)]
QUERIES = [
    "query q() { match { $a: Person  $a knows $b  $b knows $c } return { $a.name, $b.name, $c.name } }",
    "query q() { match { $a: Person  $a $k:knows $b } return { $a.name, $k.@id, $b.name } }",
    'query q() { match { $a: Person  search($a.name, "p7") } return { $a.name } }',
]
ROUNDS = 40


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = Graph.init(tmp_path_factory.mktemp("derived") / "g", SCHEMA)
    rng = random.Random(1)
    made.load([*map(person, NAMES), *(knows(rng.choice(NAMES), rng.choice(NAMES)) for _ in range(60))])
    keeper = Graph.open(made.uri, settings=Settings(derived_min_rows=0))
    answers(keeper)
    keeper.local.executor.topologies.wait_until_kept()
    keeper.repository.store.workers.shutdown(wait=True)
    return made


def answers(graph: Graph) -> list[list[tuple[Any, ...]]]:
    return [sorted(tuple(row.values()) for row in graph.query(text).to_pylist()) for text in QUERIES]


def kept(graph: Graph) -> list[Path]:
    return sorted(path for path in (Path(graph.uri) / DERIVED).rglob("*") if path.is_file())


def test_a_flipped_bit_makes_an_object_missing(graph: Graph) -> None:
    """Unless it is one of the bytes between two arrays, which mean nothing."""
    store: DerivedStore = graph.repository.store.derived
    rng = random.Random(2)
    for file in kept(graph):
        name = file.relative_to(Path(graph.uri) / DERIVED).as_posix()
        whole, body = store.read(name), file.read_bytes()
        assert whole is not None
        missing = 0
        for bit in rng.sample(range(8 * len(body)), min(300, 8 * len(body))):
            with replaced(file, flipped(body, bit)):
                found = store.read(name)
            missing += found is None
            if found is not None:
                assert found.facts == whole.facts
                assert all(np.array_equal(found.arrays[key], array) for key, array in whole.arrays.items())
        assert missing > 100


def test_every_answer_is_that_of_undamaged_state(graph: Graph) -> None:
    fresh = Graph.open(graph.uri, mode="ro", settings=Settings(derived=False))
    wanted = answers(fresh)
    rng = random.Random(3)
    kinds = {file.relative_to(graph.uri).parts[1] for file in kept(graph)}
    assert kinds == {"text", "topology"}
    for file in kept(graph):
        for _ in range(ROUNDS):
            with replaced(file, some_damage(file.read_bytes(), rng)):
                assert answers(Graph.open(graph.uri, mode="ro", settings=Settings(derived_min_rows=0))) == wanted
