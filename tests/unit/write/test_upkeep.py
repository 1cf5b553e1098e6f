"""Indexes are built after the write that made them due, beside writers, once."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import KeyConflict
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.staging import open_table
from omnigraph.write import index_fold
from tests.attacks.test_attacks import plan_of
from tests.conftest import SCHEMA
from tests.support.graphs import while_armed
from tests.support.rows import person

ROWS = index_fold.FOLD_ROWS + 1


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", "node P { name: String @key  code: I64? @unique }\nedge E: P -> P")


def uncovered(graph: Graph, key: str) -> int:
    return len(open_table(graph.repository.store, graph.snapshot().tables[key]).uncovered_fragments)


def load_many(graph: Graph) -> str:
    names = [f"p{i}" for i in range(ROWS)]
    commit = graph.load({"P": pa.table({"name": names, "code": range(ROWS)})}).commit
    assert commit is not None
    return commit.graph_commit_id


def test_a_large_load_is_indexed_after_it_returned(graph: Graph) -> None:
    head = load_many(graph)
    with pytest.raises(KeyConflict):
        graph.load([{"type": "P", "data": {"name": "p7"}}])
    graph.repository.store.wait_for_background_work()
    assert uncovered(graph, "node:P") == 0
    covered = open_table(graph.repository.store, graph.snapshot().tables["node:P"]).index_coverage()
    assert {"id_idx", "code_idx"} <= set(covered), "unique values are looked up by an index"
    graph.load([{"type": "P", "data": {"name": "next"}}], expect_head=head)  # maintenance is no change


def test_writers_that_overtake_a_fold_do_not_starve_it(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "people", SCHEMA)
    folds: list[int] = []

    def overtake() -> None:
        """Publish a change of a row that is being folded, which leaves no fold behind as a whole write would."""
        folds.append(1)
        if len(folds) <= 2:
            rival = Graph.open(graph.uri)
            rival.repository.publisher.publish(plan_of(rival, f"small{len(folds)}", replaces=True, age=-len(folds)))

    for number in range(4):
        graph.load([person(f"small{number}")])
    with while_armed({Point.FOLD_COMPACTED: overtake}):
        graph.load({"Person": pa.table({"name": [f"p{i}" for i in range(ROWS)]})})
        graph.repository.store.wait_for_background_work()
    assert len(folds) == 3, "overtaken twice, then in its turn"
    assert uncovered(graph, "node:Person") == 0
    ages = dict(zip(*graph.rows("node:Person").select(["name", "age"]).to_pydict().values(), strict=True))
    assert len(ages) == ROWS + 4
    assert (ages["small1"], ages["small2"]) == (-1, -2)


def test_one_thread_of_a_process_folds_a_table(graph: Graph) -> None:
    """Writes go on past the threshold while it does; once it is done, a later write that is due has it folded again."""
    folding, release, folds = threading.Event(), threading.Event(), []

    def wait() -> None:
        folds.append(threading.current_thread())
        folding.set()
        release.wait(60)

    first = index_fold.FOLD_FRAGMENTS + 2 * index_fold.FOLD_STEP
    with while_armed({Point.FOLD_COMPACTED: wait}):
        for number in range(first):
            graph.load([{"type": "P", "data": {"name": f"small{number}"}}])
        assert folding.wait(60)
        assert uncovered(graph, "node:P") == first
        release.set()
        graph.repository.store.wait_for_background_work()
        assert len(folds) == 1
        assert folds[0] is not threading.current_thread()
        for number in range(index_fold.FOLD_FRAGMENTS):
            graph.load([{"type": "P", "data": {"name": f"later{number}"}}])
        graph.repository.store.wait_for_background_work()
    assert len(folds) == 2
    assert uncovered(graph, "node:P") < index_fold.FOLD_FRAGMENTS
    assert graph.rows("node:P").num_rows == first + index_fold.FOLD_FRAGMENTS


def test_a_write_while_the_interpreter_ends_leaves_upkeep_to_others(graph: Graph) -> None:
    code = """
import atexit, sys
from omnigraph import Graph
graph = Graph.open(sys.argv[1])

@atexit.register
def last_words():
    for number in range(int(sys.argv[2])):
        graph.load({"P": [{"name": f"last{number}"}]})
"""
    count = index_fold.FOLD_FRAGMENTS + 1
    done = subprocess.run([sys.executable, "-c", code, graph.uri, str(count)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert uncovered(graph, "node:P") == count
    for number in range(index_fold.FOLD_STEP):
        graph.load({"P": [{"name": f"next{number}"}]})
    graph.repository.store.wait_for_background_work()
    assert uncovered(graph, "node:P") < index_fold.FOLD_STEP
