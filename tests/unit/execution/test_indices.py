"""Indexes: kinds by type, coverage, one commit for all, and answers that do not depend on them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import ReadOnlyGraph
from omnigraph.storage import calls
from omnigraph.storage.indexes import MAX_SEGMENTS
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import Settings

SCHEMA = """
node Doc {
    slug: String @key
    title: String @index
    year: I32 @index
    kind: enum(a, b)? @index
    tags: [String]?
    v: Vector(8)? @index(metric="cosine")
}
node Empty { name: String @key  size: I32 @index }
edge Cites: Doc -> Doc { at: Date? @index }
"""
NEAREST = """query q($v: Vector(8)) { match { $d: Doc } return { $d.slug, nearest($d.v, $v) as far }
             order { nearest($d.v, $v) } limit 10 }"""
YEAR = "query q() { match { $d: Doc  $d.year = 1999 } return { $d.slug } order { $d.slug } }"


def docs(start: int, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(start)
    numbers = range(start, start + count)
    centres = np.random.default_rng(0).normal(size=(20, 8))
    vectors = (centres[rng.integers(20, size=count)] + 0.2 * rng.normal(size=(count, 8))).astype(np.float32)
    columns = {
        "slug": [f"d{i}" for i in numbers],
        "title": [f"title of {i}" for i in numbers],
        "year": pa.array([1990 + i % 30 for i in numbers], pa.int32()),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
    }
    return {"Doc": pa.table(columns)}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load(docs(0, 3000))
    graph.load([{"edge": "Cites", "from": "d1", "to": "d2", "data": {"at": "2024-01-01"}}])
    return graph


def states(graph: Graph) -> dict[str, tuple[str, str]]:
    return {f"{i.table_key}.{i.property} {i.kind}": i.state for i in graph.maintenance.index_status()}


def test_kinds_follow_from_types_and_building_is_one_commit(graph: Graph) -> None:
    before = states(graph)
    assert before["node:Doc.year btree"] == before["node:Doc.v vector"] == "pending"
    report = graph.maintenance.ensure_indices(actor="ada")
    assert report.commit is not None
    assert (report.commit.kind, report.commit.actor_id) == ("ensure_indices", "ada")
    assert states(graph) == {
        "edge:Cites.id btree": "indexed", "edge:Cites.src btree": "indexed", "edge:Cites.dst btree": "indexed",
        "edge:Cites.at btree": "indexed", "node:Doc.id btree": "indexed", "node:Doc.title btree": "indexed",
        "node:Doc.title text": "pending", "node:Doc.year btree": "indexed", "node:Doc.kind btree": "indexed",
        "node:Doc.v vector": "indexed", "node:Empty.id btree": "indexed", "node:Empty.size btree": "indexed",
    }  # fmt: skip
    head = graph.commits.head().graph_commit_id
    assert graph.maintenance.ensure_indices().commit is None
    assert graph.commits.head().graph_commit_id == head


def test_content_does_not_change_with_indexes(graph: Graph) -> None:
    before = graph.snapshot().table("node:Doc")
    graph.maintenance.ensure_indices()
    after = graph.snapshot().table("node:Doc")
    assert after.staged_version != before.staged_version
    assert after.content_version == before.content_version
    assert after.row_count == before.row_count


def test_new_rows_are_found_before_and_after_their_index(graph: Graph) -> None:
    graph.maintenance.ensure_indices()
    wanted = [0.5] * 8
    graph.load([{"type": "Doc", "data": {"slug": "exact", "title": "t", "year": 1999, "v": wanted}}])
    for _ in range(2):
        fresh = Graph.open(graph.uri)
        assert fresh.query(NEAREST, params={"v": wanted}).to_pylist()[0]["d.slug"] == "exact"
        assert "exact" in [row["d.slug"] for row in fresh.query(YEAR).to_pylist()]
        graph.maintenance.ensure_indices()
    assert covered(graph) == {"year": (3001, 3001), "v": (3001, 3001)}
    graph.load(docs(5000, 300))
    graph.maintenance.ensure_indices()
    assert covered(graph) == {"year": (3301, 3301), "v": (3301, 3301)}
    assert Graph.open(graph.uri).query(NEAREST, params={"v": wanted}).to_pylist()[0]["d.slug"] == "exact"


def covered(graph: Graph) -> dict[str, tuple[int, int]]:
    statuses = graph.maintenance.index_status()
    return {s.property: (s.covered_rows, s.rows) for s in statuses if s.property in ("year", "v")}


def test_optimize_brings_a_vector_index_up_to_its_rows_in_one_commit(graph: Graph) -> None:
    for number in range(12):
        graph.load(docs(10_000 + 50 * number, 50 if number % 2 else 3))
        if number == 6:
            graph.load([{"type": "Doc", "data": {"slug": "bare", "title": "no vector", "year": 1999}}])
        before = graph.commits.head().manifest_version
        report = graph.maintenance.optimize()
        assert report.commit is not None
        assert graph.commits.head().graph_commit_id == report.commit.graph_commit_id
        assert graph.commits.head().manifest_version == before + 1
        assert not any(table.pending_indexes for table in report.tables)
        rows = graph.snapshot().table("node:Doc").row_count
        assert covered(graph) == {"year": (rows, rows), "v": (rows, rows)}
    table = open_table(graph.repository.store, graph.snapshot().table("node:Doc"))
    assert len(table.index_parts("v")) <= MAX_SEGMENTS + 1
    vector = docs(10_500, 3)["Doc"]["v"][1].as_py()
    assert Graph.open(graph.uri).query(NEAREST, params={"v": vector}).to_pylist()[0]["d.slug"] == "d10501"
    assert graph.maintenance.optimize().commit is None
    assert graph.maintenance.fsck().problems == ()


def test_optimize_says_why_an_index_is_pending(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "few", SCHEMA)
    graph.load(docs(0, 20))
    (table,) = [t for t in graph.maintenance.optimize().tables if t.pending_indexes]
    (pending,) = table.pending_indexes
    assert (table.table_key, pending.property) == ("node:Doc", "v")
    assert pending.reason == "compared one by one; indexed from 256 vectors on"
    assert graph.query(NEAREST, params={"v": [1.0] * 8}).row_count == 10


def test_a_text_index_covers_nothing_until_a_search_has_kept_it(graph: Graph) -> None:
    def text(settings: Settings) -> tuple[str, int, str | None]:
        found = Graph.open(graph.uri, settings=settings).maintenance.index_status()
        (status,) = [s for s in found if s.kind == "text"]
        return status.state, status.covered_rows, status.reason

    keeps = Settings(derived_min_rows=0)
    assert text(keeps) == ("pending", 0, "made and kept by the first search")
    assert text(Settings()) == ("pending", 0, "so few rows are indexed in memory by each process")
    searcher = Graph.open(graph.uri, settings=keeps)
    searcher.query('query q() { match { $d: Doc  search($d.title, "1234") } return { $d.slug } }')
    searcher.repository.store.workers.shutdown(wait=True)
    assert text(keeps) == ("indexed", 3000, None)
    graph.load(docs(3000, 1))
    assert text(keeps)[:2] == ("pending", 0)


def test_long_texts_are_not_sorted(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "long", "node Doc { slug: String @key  body: String @index  title: String @index }")
    rng = np.random.default_rng(2)
    rows = [
        {"type": "Doc", "data": {"slug": f"d{n}", "title": f"title {n}", "body": rng.bytes(400).hex()}}
        for n in range(100)
    ]
    graph.load(rows)
    graph.maintenance.optimize()
    kinds = {(s.property, s.kind): s.state for s in graph.maintenance.index_status()}
    assert kinds["title", "btree"] == "indexed"
    assert ("body", "btree") not in kinds
    assert ("body", "text") in kinds
    assert graph.maintenance.optimize().commit is None
    assert graph.maintenance.ensure_indices().commit is None


def test_the_vector_index_proposes_and_exact_distances_decide(graph: Graph) -> None:
    rng = np.random.default_rng(4)
    centres = np.random.default_rng(0).normal(size=(20, 8))
    questions = centres[rng.integers(20, size=20)] + 0.2 * rng.normal(size=(20, 8))
    exact = [graph.query(NEAREST, params={"v": q.tolist()}).to_pylist() for q in questions]
    graph.maintenance.ensure_indices()
    found = [graph.query(NEAREST, params={"v": q.tolist()}).to_pylist() for q in questions]
    explained = graph.explain(NEAREST, params={"v": questions[0].tolist()}, analyze=True)
    assert explained.operators[0].notes[0].startswith("vector index")
    hits = [len({r["d.slug"] for r in a} & {r["d.slug"] for r in b}) for a, b in zip(exact, found, strict=True)]
    assert sum(hits) / (10 * len(hits)) >= 0.97
    for before, after in zip(exact, found, strict=True):
        distances = {row["d.slug"]: row["far"] for row in before}
        assert all(row["far"] == distances.get(row["d.slug"], row["far"]) for row in after)


HYBRID = """query q($v: Vector(8), $t: String) { match { $d: Doc } return { $d.slug }
            order { rrf(nearest($d.v, $v), bm25($d.title, $t)) } limit 10 }"""


def test_fused_rankings_are_proposed_by_both_indexes(graph: Graph) -> None:
    centres = np.random.default_rng(0).normal(size=(20, 8))
    questions = [
        {"v": centres[i].tolist(), "t": word} for i, word in enumerate(["17", "title 2000", "nothing", "title"])
    ]
    exact = [graph.query(HYBRID, params=q).to_pylist() for q in questions]
    assert len({row["d.slug"] for rows in exact for row in rows}) > 10
    graph.maintenance.ensure_indices()
    assert [graph.query(HYBRID, params=q).to_pylist() for q in questions] == exact
    explained = graph.explain(HYBRID, params=questions[0], analyze=True)
    assert explained.operators[0].notes[0].startswith("vector index")
    assert (explained.operators[0].rows or 0) < 3000


def test_a_filter_is_applied_before_the_ranking(graph: Graph) -> None:
    text = NEAREST.replace("$d: Doc }", "$d: Doc  $d.year = 1999 }")
    before = graph.query(text, params={"v": [1.0] * 8}).to_pylist()
    graph.maintenance.ensure_indices()
    assert graph.query(text, params={"v": [1.0] * 8}).to_pylist() == before
    assert len(before) == 10


def test_too_few_vectors_are_pending_with_a_reason(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "few", SCHEMA)
    graph.load(docs(0, 20))
    report = graph.maintenance.ensure_indices()
    (status,) = [i for i in report.indexes if i.property == "v"]
    assert (status.state, status.reason) == (
        "pending",
        "compared one by one; indexed from 256 vectors on",
    )
    assert graph.query(NEAREST, params={"v": [1.0] * 8}).row_count == 10


def test_storage_uses_the_index_of_a_property(graph: Graph) -> None:
    graph.maintenance.ensure_indices()
    forced = Graph.open(graph.uri, settings=Settings(query_expansion="btree"))
    (scan, *_) = forced.explain(YEAR, analyze=True).operators
    assert scan.notes[0].startswith("storage filter ")
    assert scan.notes[0].endswith(" by index")
    table = open_table(forced.repository.store, forced.snapshot().table("node:Doc"))
    column = forced.catalog().node("Doc").property("year").column
    assert "ScalarIndexQuery" in table.index_plan(f"`{column}` = 1999")


def test_a_text_index_is_kept_and_found_again(graph: Graph) -> None:
    text = 'query q() { match { $d: Doc  search($d.title, "1234") } return { $d.slug } }'
    first = Graph.open(graph.uri, settings=Settings(derived_min_rows=0))
    wanted = first.query(text).to_pylist()
    first.repository.store.workers.shutdown(wait=True)
    kept = list((Path(graph.uri) / "__derived" / "text").rglob("*"))
    assert any(path.is_file() for path in kept)
    assert Graph.open(graph.uri).query(text).to_pylist() == wanted == [{"d.slug": "d1234"}]


def reads_of_a_build(tmp_path: Path, count: int) -> tuple[Counter[str], int]:
    """What an index build with nothing to do costs: calls, and bytes read of the table."""
    graph = Graph.init(tmp_path / str(count), SCHEMA)
    graph.load(docs(0, count))
    graph.maintenance.optimize()
    fresh = Graph.open(graph.uri)
    head = fresh.commits.head().graph_commit_id
    dataset = open_table(fresh.repository.store, fresh.snapshot().table("node:Doc")).dataset
    dataset.io_stats_incremental()
    counts = calls.start()
    try:
        assert fresh.maintenance.ensure_indices().commit is None
    finally:
        calls.stop()
    assert fresh.commits.head().graph_commit_id == head
    return counts, int(dataset.io_stats_incremental().read_bytes)


def test_a_build_with_nothing_to_do_reads_no_row_and_makes_no_commit(tmp_path: Path) -> None:
    few, small, large = (reads_of_a_build(tmp_path, count) for count in (100, 1_000, 30_000))
    assert few[0] == small[0] == large[0]
    assert not {"table scan", "table write", "table commit", "manifest swap", "object put"} & set(large[0])
    assert large[1] <= small[1] + 1024
    assert few[1] <= small[1] + 1024


def test_readers_cannot_build(graph: Graph) -> None:
    with pytest.raises(ReadOnlyGraph):
        Graph.open(graph.uri, mode="ro").maintenance.ensure_indices()
