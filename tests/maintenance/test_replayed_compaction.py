"""A compaction that was prepared on one pin is right on every later pin that it fits."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from omnigraph import Graph
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.storage.lookup import locate
from omnigraph.versioning.staging import open_table
from tests.support.graphs import people
from tests.support.invariants import check_every_version

SCHEMA = "node Person { name: String @key  age: I32? @index }\nedge Knows: Person -> Person"


def agrees(graph: Graph, expected: dict[str, int]) -> None:
    """Scans, key lookups and indexed filters say the same."""
    fresh = Graph.open(graph.uri, mode="ro")
    rows = {row["name"]: row["age"] for row in fresh.rows("node:Person").to_pylist()}
    assert rows == expected
    entry = fresh.snapshot().tables["node:Person"]
    table = open_table(fresh.repository.store, entry)
    names = [*expected, "nobody"]
    assert sorted(locate(table, names, entry.tail).ids) == sorted(expected)
    column = fresh.catalog().node("Person").property("age").column
    for age in sorted(set(expected.values())):
        indexed = set(table.scan(["id"], where=f"{column} = {age}")["id"].to_pylist())
        assert indexed == {name for name, value in expected.items() if value == age}, age


class Rival:
    """Another writer of the same table, and what it must hold."""

    def __init__(self, uri: str, chance: random.Random) -> None:
        self.graph = Graph.open(uri)
        self.chance = chance
        self.expected: dict[str, int] = {}
        self._serial = iter(range(100_000))

    def append(self, count: int = 3) -> None:
        self._load([f"p{next(self._serial)}" for _ in range(count)], "append")

    def update(self) -> None:
        self._load(self.chance.sample(sorted(self.expected), 2), "merge")

    def drop(self) -> None:
        gone = self.chance.sample(sorted(self.expected), 2)
        self.graph.delete("Person", gone)
        for name in gone:
            del self.expected[name]

    def disturb(self) -> None:
        """Few writes, or so many that they fold the table; then rows that exist already."""
        for _ in range(self.chance.choice((0, 1, 3, 70))):
            self.append(1)
        for action in self.chance.sample([self.append, self.update, self.drop, self.append], 2):
            action()

    def _load(self, names: list[str], mode: str) -> None:
        ages = {name: self.chance.randrange(5) for name in names}
        self.graph.load({"Person": [{"name": n, "age": a} for n, a in ages.items()]}, mode)
        self.expected |= ages


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_over_appends_folds_updates_and_deletes_every_answer_stays(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    graph = Graph.init(tmp_path / "g", SCHEMA)
    rival = Rival(graph.uri, chance)
    for _ in range(4):
        for _ in range(chance.randrange(2, 12)):
            rival.append(chance.randrange(1, 4))
        left = [rival.disturb] * chance.randrange(3)

        def between(left: list[Callable[[], None]] = left) -> None:
            if left:
                left.pop()()

        failpoints.arm({Point.OPTIMIZE_STAGED: between})
        graph.maintenance.optimize()
        failpoints.arm(None)
        agrees(graph, rival.expected)
    graph.maintenance.optimize()
    assert all(status.covered_rows == status.rows for status in graph.maintenance.index_status())
    agrees(graph, rival.expected)
    check_every_version(graph.uri)


def test_attack_15_one_row_writes_then_optimize_leave_one_covered_fragment(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for number in range(150):
        graph.load({"Person": people(f"p{number}", age=number % 5)})
    graph.maintenance.optimize()
    entry = graph.snapshot().tables["node:Person"]
    table = open_table(graph.repository.store, entry)
    assert len(table.fragments) == 1
    assert table.uncovered_fragments == []
    assert entry.tail.size == 0
    agrees(graph, {f"p{number}": number % 5 for number in range(150)})


def test_lance_a_rewrite_and_index_segments_made_on_one_version_hold_on_a_descendant(tmp_path: Path) -> None:
    """The substrate behaviour behind it: fixed fragment ids, and segments that name them."""
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(_rows(0, 10), uri, enable_stable_row_ids=True)
    for start in (10, 20, 30):
        dataset = lance.write_dataset(_rows(start, 10), uri, mode="append")
    base = dataset
    plan = Compaction.plan(base, {"target_rows_per_fragment": 1000})
    [task] = plan.tasks
    [made] = task.execute(base).new_fragments
    made.id = 5000
    group = LanceOperation.RewriteGroup(task.fragments, [made])
    done = LanceDataset.commit(base, LanceOperation.Rewrite([group], []), read_version=base.version, detached=True)
    segment = done.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[5000])
    # Another writer appends, detached, on the version that the work began with.
    extra = lance.fragment.write_fragments(_rows(40, 5), base)
    later = LanceDataset.commit(base, LanceOperation.Append(extra), read_version=base.version, detached=True)
    follows = LanceDataset.commit(later, LanceOperation.Rewrite([group], []), read_version=later.version, detached=True)
    follows = LanceDataset.commit(
        follows, LanceOperation.CreateIndex([segment], []), read_version=follows.version, detached=True
    )
    everything = [f"r{i}" for i in range(45)]
    assert sorted(follows.to_table()["id"].to_pylist()) == sorted(everything)
    assert "ScalarIndexQuery" in follows.scanner(filter="id = 'r7'").explain_plan()
    for name in everything:
        assert follows.to_table(filter=f"id = '{name}'")["id"].to_pylist() == [name]
    assert sorted(f.fragment_id for f in follows.get_fragments()) == [4, 5000]
    row_ids = follows.scanner(columns=["id"], with_row_id=True).to_table()["_rowid"].to_pylist()
    assert len(set(row_ids)) == 45


def _rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": [f"r{i}" for i in range(start, start + count)]})
