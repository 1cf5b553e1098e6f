"""Merges whose rows are compared by Spark tasks: the graph, or the conflicts, that one process gives."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnigraph import Graph, pipeline
from omnigraph.api.results import MergeResult
from omnigraph.cli.main import app
from omnigraph.errors import ExpectedVersionMismatch, InvalidArgument, MergeConflict, StorageError, Unsupported
from omnigraph.pipeline import spark_merge
from omnigraph.pipeline.spark_merge import spark_comparing
from omnigraph.storage import failpoints, row_difference
from omnigraph.storage.failpoints import Point
from omnigraph.write.merge import merge_branch
from tests.support.graphs import recovery_files

SCHEMA = """
node Person {
  name: String @key  age: I32?  mail: String? @unique  tags: [String]?  score: F64?
  place: Vector(2)?  photo: Blob?  seen: DateTime?
}
node Team { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge In: Person -> Team @card(0..2)
"""
NAMES = [f"p{i}" for i in range(30)]
Merging = Callable[[Graph], MergeResult]


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables here are small: let several tasks have a part of each."""
    monkeypatch.setattr(spark_merge, "ROWS_PER_TASK", 20)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a branch `dev`, before anything diverges."""
    graph = Graph.init(tmp_path_factory.mktemp("merge") / "g", SCHEMA)
    others = {"place": [0.5, -0.0], "photo": b"\x00\xff", "seen": "2020-02-29T12:00:00Z"}
    people = [{"name": n, "age": 1, "mail": f"{n}@x", "tags": ["a"], "score": 0.5, **others} for n in NAMES]
    known = [{"id": f"k{i}", "from": f"p{i}", "to": f"p{i + 1}", "since": 1} for i in range(20)]
    graph.load(
        {
            "Person": people, "Team": [{"name": t} for t in ("red", "blue", "green")], "Knows": known,
            "In": [{"id": "i0", "from": "p0", "to": "red"}, {"id": "i1", "from": "p1", "to": "red"}],
        }
    )  # fmt: skip
    graph.branches.create("dev")
    return Path(graph.uri)


@pytest.fixture
def graph(origin: Path, tmp_path: Path) -> Graph:
    return copied(origin, tmp_path / "here")


def copied(origin: str | Path, to: Path) -> Graph:
    shutil.copytree(origin, to)
    return Graph.open(to)


def announced(graph: Graph) -> list[str]:
    """Writes that somebody might finish. What was withdrawn leaves a mark that says so."""
    return [name for name in recovery_files(graph.uri) if not name.endswith(".aborted")]


def content(graph: Graph, at: str = "main") -> dict[str, Any]:
    return {key: sorted(map(repr, graph.rows(key, at).to_pylist())) for key in graph.snapshot(at).tables}


def outcome(graph: Graph, merging: Merging) -> dict[str, Any]:
    """All that a merge gives: what it returned or raised, and the graph afterwards."""
    found: dict[str, Any] = {}
    try:
        result = merging(graph)
        found |= {"outcome": result.outcome, "base": result.base_commit_id}
        found["conflicts"] = [c.as_dict() for c in result.conflicts]
        if result.commit is not None:
            commit = result.commit
            found["commit"] = (commit.kind, commit.actor_id, commit.message, commit.manifest_version)
            found["parents"] = (commit.parent_commit_id, commit.merged_parent_commit_id)
    except MergeConflict as error:
        found |= {"message": error.message, "refused": [c.as_dict() for c in error.conflicts]}
    tables = {k: (e.row_count, e.table_version) for k, e in graph.snapshot().tables.items()}
    return found | {"content": content(graph), "dev": content(graph, "dev"), "tables": tables}


def both_ways(spark: Any, graph: Graph, **options: Any) -> dict[str, Any]:
    """Merge `dev` in one process and by tasks, on two copies; the outcomes are the same. That is returned."""
    twin = copied(graph.uri, Path(f"{graph.uri}-twin"))
    here = outcome(twin, lambda g: g.branches.merge("dev", actor="ada", **options))
    there = outcome(graph, lambda g: pipeline.merge(spark, g, "dev", actor="ada", **options))
    assert there == here
    assert announced(graph) == []
    assert not list(Path(graph.uri, "__staging").rglob("*.arrow"))
    return there


def diverge(graph: Graph, branch: str, chance: random.Random, overlap: int) -> None:
    """Random edits of a branch. The fewer `overlap`, the more often the same things are edited on both sides."""
    chosen = chance.sample(NAMES[:overlap], 8)
    edited = [{"name": n, "age": chance.choice([1, 2, 3]), "mail": f"{n}@x", "tags": ["a"], "score": 0.5}
              for n in chosen[:5]]  # fmt: skip
    for row in edited[:2]:
        row["tags"] = chance.choice([["a", branch], ["a"], []])
        row["score"] = chance.choice([0.5, 0.0, -0.0])
        row["photo"] = chance.choice([None, b"", branch.encode()])
    added = [{"name": f"n{chance.randrange(2 * overlap)}", "age": chance.randrange(2)} for _ in range(4)]
    graph.load({"Person": [*edited, *{row["name"]: row for row in added}.values()]}, "merge", branch)
    graph.delete("Person", chosen[5:], branch)
    alive = graph.rows("node:Person", branch)["name"].to_pylist()
    ends = [chance.sample(sorted(alive), 2) for _ in range(6)]
    known = [{"id": f"k{chance.randrange(30)}", "from": a, "to": b, "since": chance.randrange(2)} for a, b in ends]
    teams = [{"id": f"{branch}{i}", "from": a, "to": "red"} for i, (a, _) in enumerate(ends[:2]) if a > "p2"]
    last = {row["id"]: row for row in known}
    graph.load({"Knows": [*last.values()], **({"In": teams} if teams else {})}, "merge", branch)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"dry_run": True},
    {"strategy": "ours"},
    {"strategy": "theirs"},
    {"strategy": "theirs", "property_level": True},
    {"strategy": {"DivergentUpdate": "theirs", "Knows": "ours"}},
    {"property_level": True, "dry_run": True},
    {"strategy": {"OrphanEdge": "theirs", "Person": "ours"}},
    {"strategy": "ours", "property_level": True, "message": "all at once"},
    {"strategy": {"OrphanEdge": "ours"}},
]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_generated_divergences(spark: Any, graph: Graph, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(number)
    overlap = chance.choice([8, 14, 30])
    diverge(graph, "main", chance, overlap)
    diverge(graph, "dev", chance, overlap)
    if number % 3 == 0:  # compaction replaced the files: row ids tell which rows are the same
        monkeypatch.setattr(row_difference, "FEW_ROWS", 0)
        graph.maintenance.optimize("dev")
        graph.maintenance.optimize("main")
    both_ways(spark, graph, **OPTIONS[number])


def clash(graph: Graph) -> None:
    """A conflict of every kind that rows can meet."""
    put = {"mail": None, "tags": ["a"], "score": 0.5}
    graph.load({"Person": [{"name": "p10", "age": 5, **put}, {"name": "x", "age": 5}]}, "merge", "dev")
    graph.load({"Person": [{"name": "p10", "age": 6, **put}, {"name": "x", "age": 6}]}, "merge")
    graph.delete("Person", ["p20", "p28"], "dev")
    graph.load({"Person": [{"name": "p20", "age": 7, **put}, {"name": "own1", "mail": "one"}]}, "merge")
    graph.load({"Person": [{"name": "own2", "mail": "one"}]}, "merge", "dev")
    graph.delete("Person", ["p29"])
    graph.load({"Knows": [{"id": "to29", "from": "p0", "to": "p29"}]}, "merge", "dev")
    graph.load({"Knows": [{"id": "to28", "from": "p0", "to": "p28"}]}, "merge")
    graph.load({"In": [{"id": "i2", "from": "p0", "to": "blue"}]}, "merge")
    graph.load({"In": [{"id": "i3", "from": "p0", "to": "green"}]}, "merge", "dev")


def test_every_kind_of_conflict(spark: Any, graph: Graph) -> None:
    clash(graph)
    found = both_ways(spark, graph)
    assert sorted((str(c["kind"]), c["entity_id"]) for c in found["refused"]) == [
        ("CardinalityViolation", "p0"), ("DeleteVsUpdate", "p20"), ("DivergentInsert", "x"),
        ("DivergentUpdate", "p10"), ("OrphanEdge", "to28"), ("OrphanEdge", "to29"), ("UniqueViolation", "own2"),
    ]  # fmt: skip
    [orphan] = [c for c in found["refused"] if c["entity_id"] == "to29"]
    assert orphan["theirs"] == {"id": "to29", "from": "p0", "to": "p29", "since": None}


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_orphans_are_decided(spark: Any, graph: Graph, side: str) -> None:
    """Edges that tasks took and the checks withhold, nodes that come back or stay."""
    known = [{"id": "to29", "from": "p0", "to": "p29"}, {"id": "to1", "from": "p0", "to": "p1"}]
    graph.load({"Knows": known}, "merge", "dev")
    graph.delete("Person", ["p28"], "dev")
    graph.load({"Knows": [{"id": "to28", "from": "p0", "to": "p28"}]}, "merge")
    graph.delete("Person", ["p29"])
    found = both_ways(spark, graph, strategy=side)
    assert [(str(c["kind"]), c["entity_id"]) for c in found["conflicts"]] == [
        ("OrphanEdge", "to29"), ("OrphanEdge", "to28"),
    ]  # fmt: skip
    ids = {i for key in ("node:Person", "edge:Knows") for i in graph.rows(key)["id"].to_pylist()}
    kept = {"p28", "to28"} if side == "ours" else {"p29", "to29"}
    assert ids & {"p28", "p29", "to28", "to29", "to1"} == {"to1", *kept}


def test_rows_are_joined_and_nodes_come_back(spark: Any, graph: Graph) -> None:
    """Edits of different properties of one edge, which arrives at a node that the target deleted."""
    graph.load({"Knows": [{"id": "k3", "from": "p3", "to": "p25", "since": 1}]}, "merge", "dev")
    graph.load({"Knows": [{"id": "k3", "from": "p3", "to": "p4", "since": 9}]}, "merge")
    graph.delete("Person", ["p25", "p26"])
    found = both_ways(spark, graph, property_level=True, strategy="theirs")
    assert [(str(c["kind"]), c["resolution"]) for c in found["conflicts"]] == [("OrphanEdge", "theirs")]
    assert graph.entity_at("edge:Knows", "k3") == {"id": "k3", "src": "p3", "dst": "p25", "since": 9}
    back = graph.entity_at("node:Person", "p25")
    assert back is not None
    assert (back["mail"], back["tags"], back["score"]) == ("p25@x", ["a"], 0.5)
    assert graph.entity_at("node:Person", "p26") is None
    assert graph.maintenance.fsck().problems == ()


def test_schemas_that_differ_and_fast_forwards_need_no_tasks(spark: Any, graph: Graph) -> None:
    graph.load({"Team": [{"name": "pink"}]}, branch="dev")
    assert both_ways(spark, graph)["outcome"] == "fast_forward"
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  size: I32?"), branch="dev")
    graph.load({"Person": [{"name": "p1", "size": 3}]}, "merge", "dev")
    graph.load({"Person": [{"name": "p2", "age": 3}]}, "merge")

    def refuse(work: Any, item: Any) -> Any:
        raise StorageError("there was to be no task")

    result = merge_branch(graph.repository, "dev", "main", comparing=spark_comparing(spark, refuse))
    assert result.outcome == "merged"
    assert graph.entity_at("node:Person", "p1")["size"] == 3  # type: ignore[index]
    assert pipeline.merge(spark, graph, "dev").outcome == "already_up_to_date"


def test_tasks_that_fail_at_first_are_tried_again(spark: Any, graph: Graph) -> None:
    diverge(graph, "main", random.Random(1), 30)
    diverge(graph, "dev", random.Random(2), 30)
    twin = copied(graph.uri, Path(f"{graph.uri}-twin"))

    def fails_first(work: Any, item: Any) -> Any:
        from pyspark import TaskContext

        found = work(item)
        context = TaskContext.get()
        if context.partitionId() == 0 and context.attemptNumber() < 1:  # one task of every round
            raise RuntimeError("this attempt fails")
        return found

    comparing = spark_comparing(spark, fails_first)
    there = outcome(graph, lambda g: merge_branch(g.repository, "dev", "main", strategy="theirs", comparing=comparing))
    assert there == outcome(twin, lambda g: g.branches.merge("dev", strategy="theirs"))
    assert graph.maintenance.fsck().problems == ()


@pytest.mark.parametrize("step", ["cut_side", "compare_buckets", "write_taken", "driver"])
def test_a_merge_that_fails_leaves_nothing(spark: Any, graph: Graph, step: str) -> None:
    diverge(graph, "main", random.Random(1), 30)
    diverge(graph, "dev", random.Random(2), 30)
    before = {b: (graph.commits.head(b), content(graph, b)) for b in ("main", "dev")}

    def fails(work: Any, item: Any) -> Any:
        if work.func.__name__ == step:
            raise Unsupported("this step")
        return work(item)

    begin = spark_comparing(spark, fails)

    @contextmanager
    def comparing(txn: Any, terms: Any) -> Iterator[Any]:
        with begin(txn, terms) as comparison:
            assert announced(graph) == [f"{txn.commit_id}.json"]
            yield comparison

    if step == "driver":
        with failing_driver(), pytest.raises(RuntimeError, match="the driver"):
            merge_branch(graph.repository, "dev", "main", strategy="ours", comparing=begin)
    else:
        with pytest.raises(Unsupported, match="this step"):
            merge_branch(graph.repository, "dev", "main", strategy="ours", comparing=comparing)
    assert {b: (graph.commits.head(b), content(graph, b)) for b in ("main", "dev")} == before
    assert announced(graph) == []
    assert not list(Path(graph.uri, "__staging").rglob("*.arrow"))
    assert graph.branches.merge("dev", strategy="ours").outcome == "merged"


@contextmanager
def failing_driver() -> Iterator[None]:
    """The driver's process meets an error that nobody foresaw, when everything is staged."""

    def fail() -> None:
        raise RuntimeError("the driver")

    failpoints.arm({Point.INTENT_COMPLETED: fail})
    try:
        yield
    finally:
        failpoints.arm(None)


def test_a_target_that_moves_meanwhile_refuses_the_merge(spark: Any, graph: Graph) -> None:
    """As in one process: what the checks relied on may not hold any more."""
    diverge(graph, "main", random.Random(1), 30)
    diverge(graph, "dev", random.Random(2), 30)
    rival = Graph.open(graph.uri)
    begin = spark_comparing(spark)

    def comparing(txn: Any, terms: Any) -> Any:
        assert announced(graph) == []
        rival.load({"Person": [{"name": "p0", "age": 99}]}, "merge")
        return begin(txn, terms)

    with pytest.raises(ExpectedVersionMismatch):
        merge_branch(graph.repository, "dev", "main", strategy="ours", comparing=comparing)
    assert announced(graph) == []
    assert pipeline.merge(spark, graph, "dev", strategy="ours", delete_branch=True).branch_deleted


def test_the_facade_and_the_command_take_an_engine(spark: Any, graph: Graph) -> None:
    diverge(graph, "main", random.Random(1), 30)
    diverge(graph, "dev", random.Random(2), 30)
    preview = graph.branches.merge("dev", strategy="ours", dry_run=True, engine="spark")
    assert (preview.outcome, preview.commit) == ("merged", None)
    words = ["branch", "merge", "dev", "--strategy", "ours", "--engine", "spark", "--store", graph.uri]
    done = CliRunner().invoke(app, [*words, "--quiet", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["outcome"] == "merged"
    assert graph.commits.head().kind == "merge"
    with pytest.raises(InvalidArgument):
        graph.branches.merge("dev", engine="sparc")
