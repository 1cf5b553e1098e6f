"""A stream has the rows of the whole answer, and never all of its values at once."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import HistoricalVersionReclaimed, InvalidArgument, InvalidValue, LimitExceeded
from omnigraph.execution.arrow import streaming
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.governor import Governor, Limits
from omnigraph.versioning.store import Settings

DOCS = 3000
WIDE = 8 * 1024
SCHEMA = """
node Doc { num: I64 @key  body: String  title: String?  part: I64 }
node Person { name: String @key  title: String? }
edge Wrote: Person -> Doc { role: String? }
edge Knows: Person -> Person
"""
BODIES = "query bodies() { match { $d: Doc } return { $d.num as num, $d.body as body } }"
QUERIES = {
    "plain": "match { $d: Doc } return { $d.num, $d.title, $d.body }",
    "along": "match { $p: Person  $p wrote $d } return { $p.name, $d.num, $d.title }",
    "edges": "match { $p: Person  $p $w: wrote $d } return { $w.role, $d.num }",
    "whole": "match { $p: Person  $p wrote $d } return { $p, $d.num }",
    "arithmetic": "match { $d: Doc } return { $d.num + 1 as next, $d.part * 2 as twice }",
    "compared": "match { $d: Doc } return { $d.num, $d.part = 3 as is_three, $d.title is null as bare }",
    "optional": "match { $p: Person  optional { $p knows $q } } return { $p.name, $q.name as known, $q.title }",
    "ordered": "match { $d: Doc } return { $d.part, $d.num, $d.title } order { $d.part desc, $d.title asc }",
    "cut": "match { $d: Doc } return { $d.num, $d.title } order { $d.num desc } limit 700 offset 5",
    "few": "match { $d: Doc } return { $d.num, $d.title } limit 40",
    "nothing": "match { $d: Doc  $d.num < 0 } return { $d.num, $d.body, $d }",
    "path": "match { $p: Person { name: \"p0\" }  $q: Person  $w: shortest $p knows{1,} $q } "
    "return { $q.name, length($w) as n, nodes($w) as all }",
    # These look at all projected rows: the stream is cut from the whole answer.
    "distinct": "match { $d: Doc } return distinct { $d.part }",
    "grouped": "match { $d: Doc } return { $d.part, count($d) as n } order { n desc, $d.part asc }",
    "cut_arithmetic": "match { $d: Doc } return { $d.num + 1 as next } limit 10",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("streams") / "g"
    graph = Graph.init(root, SCHEMA)
    docs = {
        "num": list(range(DOCS)),
        "body": [f"{i:06d}" + os.urandom(WIDE // 2).hex() for i in range(DOCS)],
        "title": [None if i % 7 == 0 else f"title {i % 50}" for i in range(DOCS)],
        "part": [i % 11 for i in range(DOCS)],
    }
    people = [f"p{i}" for i in range(60)]
    graph.load(
        {
            "Doc": pa.table(docs),
            "Person": pa.table({"name": people, "title": [None if i % 2 else f"t{i}" for i in range(60)]}),
            "Wrote": pa.table(
                {
                    "from": [f"p{i * 7 % 60}" for i in range(DOCS)],
                    "to": [str(i * 13 % DOCS) for i in range(DOCS)],
                    "role": [None if i % 3 == 0 else "author" for i in range(DOCS)],
                }
            ),
            "Knows": pa.table({"from": people[:40], "to": people[1:41]}),
        }
    )
    return root


@pytest.fixture
def graph(root: Path) -> Graph:
    return Graph.open(root)


def held_columns(graph: Graph) -> set[str]:
    return {str(key[-1]) for key in graph.local.executor._cache._columns}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_a_stream_has_the_rows_of_the_whole_answer(root: Path, name: str, warm: bool) -> None:
    text = f"query asked() {{ {QUERIES[name]} }}"
    whole = Graph.open(root).query(text)
    graph = Graph.open(root)
    if warm:
        graph.query(text)
    stream = graph.stream(text, max_rows=500)
    assert (stream.columns, stream.row_count) == (whole.columns, whole.row_count)
    assert stream.schema == whole.table.schema
    batches = list(stream)
    assert max((b.num_rows for b in batches), default=0) <= 500
    assert pa.Table.from_batches(batches, stream.schema).to_pylist() == whole.table.to_pylist()


def test_wide_columns_are_never_in_memory_at_once(graph: Graph) -> None:
    stream = graph.stream(BODIES)
    largest = total = 0
    for batch in stream:
        total += batch.nbytes
        largest = max(largest, batch.nbytes)
    assert total > DOCS * WIDE
    assert largest <= 1.1 * streaming.BATCH_BYTES < total / 2
    assert graph.catalog().node("Doc").property("body").column not in held_columns(graph)
    graph.query(BODIES)
    assert graph.catalog().node("Doc").property("body").column in held_columns(graph)


def test_batches_are_made_when_they_are_asked_for(graph: Graph) -> None:
    """Storage says how many bytes it has read."""
    loaded = graph.local.executor.data(graph.snapshot(), graph.catalog()).loaded(graph.catalog().node("Doc"))

    def bytes_read() -> int:
        return int(loaded.table.dataset.io_stats_snapshot().read_bytes)

    files = Path(graph.uri, loaded.table.path, "data").iterdir()
    stored = sum(file.stat().st_size for file in files)
    begun = bytes_read()
    stream = graph.stream(BODIES, max_rows=100)
    before = bytes_read() - begun
    next(iter(stream))
    first = bytes_read() - begun
    list(stream)
    assert before < stored / DOCS
    assert 50 / DOCS < first / stored < 200 / DOCS
    assert 0.9 < (bytes_read() - begun) / stored < 1.1, "each body once"


def test_a_bad_row_fails_in_its_batch(graph: Graph) -> None:
    text = "query divided() { match { $d: Doc } return { 1000 / (2500 - $d.num) as x } }"
    with pytest.raises(InvalidValue, match="division by zero"):
        graph.query(text)
    stream = iter(graph.stream(text, max_rows=100))
    good = [next(stream).num_rows for _ in range(2500 // 100)]
    assert good == [100] * 25
    with pytest.raises(InvalidValue, match="division by zero"):
        next(stream)
    assert list(stream) == []


def test_a_stream_stays_on_its_snapshot(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Doc": [{"num": i, "body": f"old {i}", "part": 1} for i in range(900)]})
    stream = graph.stream(BODIES, max_rows=100)
    first = next(iter(stream))
    graph.load({"Doc": [{"num": i, "body": "new", "part": 1} for i in range(900)]}, mode="merge")
    graph.load({"Doc": [{"num": 5000, "body": "new", "part": 1}]})
    graph.maintenance.optimize()
    rest = [row for batch in stream for row in batch.to_pylist()]
    rows = [*first.to_pylist(), *rest]
    assert sorted(rows, key=lambda r: r["num"]) == [{"num": i, "body": f"old {i}"} for i in range(900)]
    assert stream.graph_commit_id != graph.commits.head("main").graph_commit_id
    assert {r["body"] for r in graph.query(BODIES).to_pylist()} == {"new"}


def test_limits_hold_for_streams(root: Path) -> None:
    few = Graph.open(root, settings=replace(Settings(), query_max_rows=1000))
    with pytest.raises(LimitExceeded, match="3,000 rows"):
        few.stream(BODIES)
    slow = Graph.open(root, settings=replace(Settings(), query_max_seconds=0.0))
    with pytest.raises(LimitExceeded, match="longer than"):
        slow.stream(BODIES)


def test_time_runs_out_between_batches_but_not_while_nobody_asks() -> None:
    now = 0.0

    def project(part: Frame) -> pa.Table:
        nonlocal now
        now += 1.0
        return pa.table({"n": pa.array([1] * part.length, pa.int64())})

    frame = Frame(10)
    schema = project(frame).schema
    governor = Governor(Limits(max_seconds=2.5), clock=lambda: now)
    batches: Iterator[pa.RecordBatch] = streaming.projected_batches(project, frame, schema, governor, 2)
    for _ in range(3):
        assert next(batches).num_rows == 2
        now += 3600.0  # the reader does something else
    with pytest.raises(LimitExceeded, match="longer than"):
        next(batches)


def test_a_stream_whose_snapshot_is_reclaimed_says_so(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Doc": [{"num": i, "body": f"old {i}", "part": 1} for i in range(900)]})
    reader = Graph.open(tmp_path / "g")
    stream = iter(reader.stream(BODIES, max_rows=100))
    assert next(stream).num_rows == 100
    for age in range(3):
        graph.load({"Doc": [{"num": age, "body": "new", "part": 1}]}, mode="overwrite")
    with pytest.warns(UserWarning, match="keeping 1"):
        graph.maintenance.cleanup(keep=1, grace=0, confirm=True, force=True)
    with pytest.raises(HistoricalVersionReclaimed):
        list(stream)


def test_closing_early_lets_go(graph: Graph) -> None:
    with graph.stream(BODIES, max_rows=10) as stream:
        batches = iter(stream)
        first = next(batches)
        gone = weakref.ref(batches.gi_yieldfrom)  # type: ignore[attr-defined]
    assert list(batches) == []
    assert list(stream) == []
    del batches
    gc.collect()
    assert gone() is None
    assert first.num_rows == 10


def test_other_libraries_pull_the_stream(graph: Graph) -> None:
    reader = graph.stream(BODIES, max_rows=64).to_reader()
    assert reader.schema.names == ["num", "body"]
    assert reader.read_next_batch().num_rows == 64
    assert reader.read_all().num_rows == DOCS - 64
    assert pa.table(graph.stream(BODIES)).num_rows == DOCS


def test_a_batch_has_at_least_one_row(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="max_rows is 0, not a whole number of at least 1"):
        graph.stream(BODIES, max_rows=0)
