"""Indexes are built after the write that made them due, beside writers, once."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import KeyConflict
from omnigraph.versioning.staging import open_table
from omnigraph.write import coverage

ROWS = coverage.FOLD_ROWS + 1


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", "node P { name: String @key  code: I64? @unique }\nedge E: P -> P")


def uncovered(graph: Graph, key: str) -> int:
    return len(open_table(graph._store, graph.snapshot().tables[key]).uncovered_fragments)


def load_many(graph: Graph) -> str:
    names = [f"p{i}" for i in range(ROWS)]
    commit = graph.load({"P": pa.table({"name": names, "code": range(ROWS)})}).commit
    assert commit is not None
    return commit.graph_commit_id


def test_a_large_load_is_indexed_after_it_returned(graph: Graph) -> None:
    head = load_many(graph)
    with pytest.raises(KeyConflict):
        graph.load([{"type": "P", "data": {"name": "p7"}}])
    graph._store.wait_for_upkeep()
    assert uncovered(graph, "node:P") == 0
    covered = open_table(graph._store, graph.snapshot().tables["node:P"]).index_coverage()
    assert {"id_idx", "code_idx"} <= set(covered), "unique values are looked up by an index"
    graph.load([{"type": "P", "data": {"name": "next"}}], expect_head=head)  # maintenance is no change


def test_writers_that_overtake_a_fold_do_not_starve_it(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    folds = []
    fold = coverage.fold

    def overtaken(*args: object, **kwargs: object) -> None:
        folds.append(1)
        if len(folds) <= 2:
            row = {"type": "P", "data": {"name": f"small{len(folds)}", "code": -len(folds)}}
            with monkeypatch.context() as rival:  # which is to write, not to fold first
                rival.setattr("omnigraph.write.transaction.fold_if_needed", lambda *_: None)
                Graph.open(graph.uri).load([row], mode="merge")
        fold(*args, **kwargs)  # type: ignore[arg-type]

    for number in range(4):
        graph.load([{"type": "P", "data": {"name": f"small{number}"}}])
    monkeypatch.setattr(coverage, "fold", overtaken)
    load_many(graph)
    graph._store.wait_for_upkeep()
    assert len(folds) == 3, "overtaken twice, then in its turn"
    assert uncovered(graph, "node:P") == 0
    assert graph.rows("node:P").num_rows == ROWS + 4


def test_one_thread_of_a_process_folds_a_table(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes go on past the threshold while it does; once it is done, a later write that is due has it folded again."""
    folding, release, folds = threading.Event(), threading.Event(), []

    def slow(*arguments: Any, **options: Any) -> None:
        folds.append(threading.current_thread())
        folding.set()
        release.wait(60)

    with monkeypatch.context() as patched:
        patched.setattr(coverage, "_fold_quietly", slow)
        for number in range(coverage.FOLD_FRAGMENTS + 2 * coverage.FOLD_STEP):
            graph.load([{"type": "P", "data": {"name": f"small{number}"}}])
        assert folding.wait(60)
        assert uncovered(graph, "node:P") == coverage.FOLD_FRAGMENTS + 2 * coverage.FOLD_STEP
        release.set()
        graph._store.wait_for_upkeep()
    assert len(folds) == 1
    assert folds[0] is not threading.current_thread()
    for number in range(coverage.FOLD_STEP):
        graph.load([{"type": "P", "data": {"name": f"later{number}"}}])
    graph._store.wait_for_upkeep()
    assert uncovered(graph, "node:P") < coverage.FOLD_STEP
    assert graph.rows("node:P").num_rows == coverage.FOLD_FRAGMENTS + 3 * coverage.FOLD_STEP


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
    count = coverage.FOLD_FRAGMENTS + 1
    done = subprocess.run([sys.executable, "-c", code, graph.uri, str(count)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert uncovered(graph, "node:P") == count
    for number in range(coverage.FOLD_STEP):
        graph.load({"P": [{"name": f"next{number}"}]})
    graph._store.wait_for_upkeep()
    assert uncovered(graph, "node:P") < coverage.FOLD_STEP
