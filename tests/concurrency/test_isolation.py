"""The lines of docs/user/isolation.md, each shown by an exact interleaving on handles of their own."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    BranchGone,
    ConstraintConflict,
    EndpointConflict,
    ExpectedVersionMismatch,
    HistoricalVersionReclaimed,
    KeyConflict,
    NotFound,
    PreconditionFailed,
    SchemaMoved,
)
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.support.graphs import EXPIRED, crash_at, while_armed

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
edge Knows: Person -> Person @card(0..2)
"""
OLDER = 'query older() { update Person set { age: age + 1 } where name = "ann" }'
RETIRE = "query retire() { update Person set { age: 99 } where age = 1 }"
PAIRS = "query pairs() { match { $a: Person $a knows $b } return { $a.name as a, $b.name as b } }"


@pytest.fixture
def graph(root: str) -> Graph:
    graph = Graph.init(root, SCHEMA)
    graph.load({"Person": persons("ann", "bob", age=1), "Knows": [{"from": "ann", "to": "bob"}]})
    return graph


@pytest.fixture
def other(graph: Graph) -> Graph:
    """Another process, as far as the store can tell."""
    other = Graph.open(graph.uri)
    names(other)
    return other


def persons(*names: str, age: int = 1) -> list[dict[str, Any]]:
    return [{"name": name, "age": age} for name in names]


def names(graph: Graph, at: Any = None) -> set[str]:
    return set(graph.rows("node:Person", at)["name"].to_pylist())


def age(graph: Graph, name: str) -> int | None:
    found = graph.entity_at("node:Person", name)
    return found["age"] if found is not None else None


def once(point: Point, action: Callable[[], object], hits: int = 1) -> Any:
    """Do something when this process comes to a place for the given time, with nothing armed meanwhile."""
    count = itertools.count(1)

    def act() -> None:
        if next(count) == hits:
            failpoints.arm(None)
            action()

    return while_armed({point: act})


def before_swap(action: Callable[[], object]) -> Any:
    """Between everything that a write reads and the moment at which it becomes visible."""
    return once(Point.BEFORE_SWAP, action)


# --- reads --------------------------------------------------------------------------------------------------------


def test_dirty_read(graph: Graph, other: Graph) -> None:
    """A write of two types is staged, its intent complete, and nobody sees anything of it."""
    seen = []

    def look() -> None:
        fresh = Graph.open(graph.uri)
        seen.extend([names(other), names(fresh), other.query(PAIRS).table.num_rows, len(fresh.commits.list())])

    with before_swap(look):
        graph.load({"Person": persons("cyd"), "Knows": [{"from": "cyd", "to": "ann"}]})
    assert seen == [{"ann", "bob"}, {"ann", "bob"}, 1, 2]
    assert (names(other), other.query(PAIRS).table.num_rows) == ({"ann", "bob", "cyd"}, 2)


def test_read_skew_inside_an_operation(graph: Graph, other: Graph) -> None:
    """A stream has begun; nodes and edges it has not read yet change under it."""
    stream = graph.stream(PAIRS, max_rows=1)
    other.load({"Person": persons("cyd"), "Knows": [{"from": "bob", "to": "cyd"}]})
    other.delete("Person", ["ann"])
    assert [batch.to_pylist() for batch in stream] == [[{"a": "ann", "b": "bob"}]]
    assert graph.query(PAIRS).table.to_pylist() == [{"a": "bob", "b": "cyd"}]


def test_non_repeatable_read_between_operations(graph: Graph, other: Graph) -> None:
    """Two reads of a branch are two snapshots; two reads of a commit are one."""
    head = graph.commits.head().graph_commit_id
    assert age(graph, "ann") == 1
    other.mutate(OLDER)
    assert age(graph, "ann") == 2
    assert graph.entity_at("node:Person", "ann", head)["age"] == 1  # type: ignore[index]


def test_phantom_between_operations(graph: Graph, other: Graph) -> None:
    head = graph.commits.head().graph_commit_id
    assert names(graph) == {"ann", "bob"}
    other.load({"Person": persons("cyd")})
    assert names(graph) == {"ann", "bob", "cyd"}
    assert names(graph, head) == {"ann", "bob"}


def test_stale_read(graph: Graph, other: Graph) -> None:
    """What is acknowledged is seen by every read that begins later, through a handle that was warm a moment ago."""
    for number in range(5):
        graph.load({"Person": persons(f"n{number}")})
        assert f"n{number}" in names(other)


def test_monotonic_reads(graph: Graph, other: Graph) -> None:
    """A thread that has opened an older version when the handle learns of a newer one answers with the newer."""
    other.load({"Person": persons("cyd")})
    seen = []
    hits = 1 if graph.uri.startswith("s3:") else 3  # there a newer version is listed, here it is looked at
    with once(Point.OBJECT_BEFORE_PROBE, lambda: seen.append(graph.load({"Person": persons("dan")})), hits):
        version = graph.snapshot().version
    assert version >= seen[0].commit.manifest_version


def test_stale_base_of_inserts(graph: Graph, other: Graph) -> None:
    """An insert may begin with a state that is seconds old, and is judged by the newest all the same."""
    graph.load({"Person": persons("cyd")})
    with pytest.raises(KeyConflict):
        other.load({"Person": persons("cyd")})
    graph.delete("Person", ["bob"])
    assert other.load({"Person": persons("bob")}).commit is not None
    graph.load({"Person": persons("dan")})
    assert other.load({"Knows": [{"from": "dan", "to": "cyd"}]}).commit is not None


def test_stale_dry_run(graph: Graph, other: Graph) -> None:
    """Only a rehearsal, which is not published, can be wrong about the last seconds, and only on an object store."""
    graph.load({"Person": persons("cyd")})
    if graph.uri.startswith("s3:"):
        assert other.load({"Person": persons("cyd")}, dry_run=True).nodes == {"Person": 1}
    else:
        with pytest.raises(KeyConflict):
            other.load({"Person": persons("cyd")}, dry_run=True)


def test_stale_schema(graph: Graph, other: Graph) -> None:
    """A type that another process has added a moment ago can be written and asked for."""
    graph.schema.apply(SCHEMA + "node Pet { name: String @key }")
    assert other.mutate('query q() { insert Pet { name: "rex" } }').affected_nodes == 1
    graph.schema.apply(SCHEMA + "node Pet { name: String @key  age: I32? }")
    assert other.mutate('query q() { update Pet set { age: 3 } where name = "rex" }').affected_nodes == 1


def test_deleted_branch_of_a_killed_deleter(graph: Graph, other: Graph) -> None:
    """A warm handle may still read it, until somebody tries to write to it or a cleanup closes it."""
    for name in ("dev", "exp"):
        graph.branches.create(name)
        assert names(other, name) == {"ann", "bob"}
        with crash_at(Point.BRANCH_UNCLAIMED):
            graph.branches.delete(name)
        assert names(other, name) == {"ann", "bob"}
        with pytest.raises(NotFound):
            Graph.open(graph.uri).rows("node:Person", name)
    with pytest.raises((BranchGone, NotFound)):
        other.load({"Person": persons("cyd")}, branch="dev")
    with pytest.raises(NotFound):
        names(other, "dev")
    Graph.open(graph.uri, settings=EXPIRED).maintenance.cleanup(confirm=True)
    with pytest.raises(NotFound):
        names(other, "exp")


# --- writes -------------------------------------------------------------------------------------------------------


def test_lost_update(graph: Graph, other: Graph) -> None:
    """Both read age 1 and add one: the second is refused, and repeated it gives 3."""
    with before_swap(lambda: other.mutate(OLDER)), pytest.raises(ExpectedVersionMismatch) as caught:
        graph.mutate(OLDER)
    assert caught.value.retryable
    graph.mutate(OLDER)
    assert age(graph, "ann") == 3


def test_lost_update_between_operations(graph: Graph, other: Graph) -> None:
    """An application reads, computes and replaces the row: what came between is overwritten."""
    seen = age(graph, "ann") or 0
    other.mutate(OLDER)
    graph.load({"Person": persons("ann", age=seen + 1)}, "merge")
    assert age(graph, "ann") == 2


def test_compare_and_set(graph: Graph, other: Graph) -> None:
    """With the commit that it read, the application is told instead."""
    head = graph.commits.head().graph_commit_id
    seen = age(graph, "ann") or 0
    other.mutate(OLDER)
    with pytest.raises(PreconditionFailed):
        graph.load({"Person": persons("ann", age=seen + 1)}, "merge", expect_head=head)
    assert age(graph, "ann") == 2
    head = graph.commits.head().graph_commit_id
    with before_swap(lambda: other.mutate(OLDER)), pytest.raises(PreconditionFailed):
        graph.load({"Person": persons("cyd")}, expect_head=head)
    assert names(graph) == {"ann", "bob"}


def test_blind_writes(graph: Graph, other: Graph) -> None:
    """An upsert reads nothing: of two, the later one stands, whole."""
    with before_swap(lambda: other.load({"Person": persons("ann", age=50)}, "merge")):
        graph.load({"Person": [{"name": "ann", "age": 60, "email": "a@x"}]}, "merge")
    assert graph.entity_at("node:Person", "ann") == {"id": "ann", "name": "ann", "age": 60, "email": "a@x"}


def test_phantom_inside_an_operation(graph: Graph, other: Graph) -> None:
    """A row that meets the condition of an update appears after it was read: the update is refused as a whole."""
    with before_swap(lambda: other.load({"Person": persons("cyd")})), pytest.raises(ExpectedVersionMismatch):
        graph.mutate(RETIRE)
    assert {name: age(graph, name) for name in names(graph)} == {"ann": 1, "bob": 1, "cyd": 1}
    graph.mutate(RETIRE)
    assert {name: age(graph, name) for name in names(graph)} == {"ann": 99, "bob": 99, "cyd": 99}


def test_writes_of_other_rows_do_not_conflict(graph: Graph, other: Graph) -> None:
    with before_swap(lambda: other.load({"Person": persons("bob", age=40)}, "merge")):
        graph.mutate(OLDER)
    assert (age(graph, "ann"), age(graph, "bob")) == (2, 40)


def test_write_skew_inside_the_rules(graph: Graph, other: Graph) -> None:
    """Each of two writes keeps the rule by what it read, and both together would break it."""
    graph.load({"Person": persons("cyd", "dan")})
    with (
        before_swap(lambda: other.load({"Person": [{"name": "eve", "email": "x@y"}]})),
        pytest.raises(ConstraintConflict),
    ):
        graph.mutate('query q() { update Person set { email: "x@y" } where name = "cyd" }')
    with before_swap(lambda: other.load({"Knows": [{"from": "ann", "to": "dan"}]})), pytest.raises(EndpointConflict):
        graph.delete("Person", ["dan"])
    graph.load({"Person": persons("fay")})
    assert graph.query(PAIRS).table.num_rows == 2


def test_write_skew_between_operations(graph: Graph, other: Graph) -> None:
    """Each goes off duty because the other one is on: rows that were only queried are not checked again."""
    head = graph.commits.head().graph_commit_id
    off = "query off($who: String) { update Person set { age: 0 } where name = $who }"
    assert age(graph, "bob") == 1
    assert age(other, "ann") == 1
    graph.mutate(off, params={"who": "ann"})
    with pytest.raises(PreconditionFailed):
        other.mutate(off, params={"who": "bob"}, expect_head=head)
    other.mutate(off, params={"who": "bob"})
    assert (age(graph, "ann"), age(graph, "bob")) == (0, 0)


def test_half_a_write(graph: Graph, other: Graph) -> None:
    """No version holds a part of a commit, and a mutation of several statements is one commit."""
    text = """query q() {
        insert Person { name: "cyd" }
        insert Knows { from: "cyd", to: "ann" }
        update Person set { age: 5 } where name = "cyd"
    }"""
    commit = graph.mutate(text).commit
    assert commit is not None
    before, after = (other.snapshot_at_version(commit.manifest_version + step) for step in (-1, 0))
    assert [s.tables["node:Person"].row_count for s in (before, after)] == [2, 3]
    assert [s.tables["edge:Knows"].row_count for s in (before, after)] == [1, 2]
    assert age(other, "cyd") == 5, "a statement sees what those before it did"


# --- branches, schemas, maintenance -------------------------------------------------------------------------------


def test_causal_order_across_branches(graph: Graph, other: Graph) -> None:
    """Who sees what was written second, on one branch, sees what was written first, on another."""
    graph.branches.create("dev")
    assert names(other, "dev") == names(other)
    for number in range(4):
        graph.load({"Person": persons(f"m{number}")})
        graph.load({"Person": persons(f"d{number}")}, branch="dev")
        assert f"d{number}" in names(other, "dev")
        assert f"m{number}" in names(other)


def test_read_skew_across_branches(graph: Graph, other: Graph) -> None:
    """Two branches are two snapshots, also where one call reads both."""
    graph.branches.create("dev")
    names(graph, "dev")

    for hits in range(1, 12):  # the place between the two looks is the same in every run, and not known here

        def write_both(number: int = hits) -> None:
            other.load({"Person": persons(f"first-{number}")})
            other.load({"Person": persons(f"second-{number}")}, branch="dev")

        with once(Point.OBJECT_BEFORE_PROBE, write_both, hits):
            found = {change.entity_id for change in graph.diff("main", "dev")}
        if f"second-{hits}" in found and f"first-{hits}" not in found:
            return
    raise AssertionError("no interleaving separates the two looks")


def test_a_merge_reads_both_heads_once(graph: Graph, other: Graph) -> None:
    graph.branches.create("dev")
    graph.load({"Person": persons("cyd")}, branch="dev")
    with before_swap(lambda: other.load({"Person": persons("late")}, branch="dev")):
        graph.branches.merge("dev")
    assert names(graph) == {"ann", "bob", "cyd"}
    with before_swap(lambda: other.load({"Person": persons("dan")})), pytest.raises(ExpectedVersionMismatch):
        graph.branches.merge("dev")
    graph.branches.merge("dev")
    assert names(graph) == {"ann", "bob", "cyd", "dan", "late"}


def test_schema_apply_beside_readers_and_writers(graph: Graph, other: Graph) -> None:
    wider = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    stream = graph.stream(PAIRS)
    with before_swap(lambda: other.schema.apply(wider)):
        graph.load({"Person": persons("cyd")})  # prepared again under the new schema
    assert sum(batch.num_rows for batch in stream) == 1
    assert set(graph.rows("node:Person").column_names) == {"id", "name", "age", "email", "city"}
    with before_swap(lambda: other.schema.apply(SCHEMA, allow_drops=True)), pytest.raises(SchemaMoved):
        graph.mutate(OLDER)
    assert age(graph, "ann") == 1


def test_maintenance_changes_no_answer(graph: Graph, other: Graph) -> None:
    """Compaction under a stream is not seen; a version that cleanup takes is an error, never other rows."""
    for number in range(4):
        other.load({"Person": persons(f"n{number}")})
    head = graph.commits.head().graph_commit_id
    stream = graph.stream("query all() { match { $p: Person } return { $p.name as name } }", max_rows=1)
    other.mutate(OLDER)
    other.maintenance.optimize()
    assert sorted(row["name"] for batch in stream for row in batch.to_pylist()) == sorted(names(graph))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Graph.open(graph.uri, settings=EXPIRED).maintenance.cleanup(1, 0, True, 0, force=True)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.rows("node:Person", head)
    assert len(names(graph)) == 6


def test_every_line_of_the_page_has_its_test() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/user/isolation.md").read_text()
    named = {word for word in page.replace("`", " ").split() if word.startswith("test_")}
    here = {name for name in globals() if name.startswith("test_")} - {"test_every_line_of_the_page_has_its_test"}
    assert named == here
