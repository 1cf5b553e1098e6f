"""Odd calls of the Python facade: each a typed error that names the argument, and the graph as it was before."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.api.arguments import Arguments, checked
from omnigraph.errors import ArgumentRefused, InvalidArgument, OmnigraphError
from omnigraph.pipeline.engine import SparkView
from omnigraph.pipeline.spark_analytics import SparkAnalytics

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  photo: Blob?  seen: DateTime?  height: F32? }
node Number { n: I64 @key  big: U64? }
node Day { day: Date @key }
node Place { x: I32  y: I32  @key(x, y) }
edge Knows: Person -> Person { since: Date? }
"""
READ = "query all() { match { $p: Person } return { $p.name } }"
WRITE = "query add($n: String) { insert Person { name: $n } }"
Call = Callable[[Any], Any]  # not typed as Graph: type checkers refuse most of these calls


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    found = Graph.init(tmp_path_factory.mktemp("odd") / "g", SCHEMA)
    found.load({"Person": [{"name": "a", "photo": "base64:aGk="}, {"name": "b"}]})
    found.load({"Number": [{"n": 1}, {"n": 2}, {"n": 12}], "Day": [{"day": "2024-01-31"}], "Place": [{"x": 1, "y": 2}]})
    found.load({"Knows": [{"from": "a", "to": "b"}]})
    found.branches.create("side")
    found.tags.create("v1")
    return found


CALLS: dict[str, tuple[Call, str]] = {
    # a text is no list, an odd value no name
    "delete: text for ids": (lambda g: g.delete("Number", "12"), "ids is '12', not a list"),
    "delete: bytes for ids": (lambda g: g.delete("Number", b"12"), "ids is b'12', not a list"),
    "delete: number for ids": (lambda g: g.delete("Number", 12), "ids is 12, not a list"),
    "delete: mapping for ids": (lambda g: g.delete("Number", {"1": 2}), "not a list"),
    "delete: None among ids": (lambda g: g.delete("Number", [None]), "ids has None in place 1, not an id"),
    "delete: list among ids": (lambda g: g.delete("Number", [["1"]]), "ids has \\['1'\\] in place 1"),
    "delete: NaN": (lambda g: g.delete("Number", [math.nan]), "ids has nan in place 1"),
    "delete: True for a number": (lambda g: g.delete("Number", [True]), "True is no id of Number: its key `n` is I64"),
    "delete: fraction for a number": (lambda g: g.delete("Number", [1.5]), "1.5 is no id of Number"),
    "delete: number for a text": (lambda g: g.delete("Person", [5]), "5 is no id of Person: its key `name` is String"),
    "delete: moment for a date": (lambda g: g.delete("Day", [dt.datetime(2024, 1, 31)]), "is no id of Day"),
    "delete: key of two": (lambda g: g.delete("Place", [1]), "1 is no id of Place: an id is a text"),
    "delete: number for an edge": (lambda g: g.delete("Knows", [1]), "1 is no id of Knows"),
    "delete: half a surrogate": (lambda g: g.delete("Person", ["\ud800"]), "not valid Unicode"),
    "delete: unknown type": (lambda g: g.delete("Persn", ["a"]), "no node type and no edge type `Persn`"),
    "delete: unknown node type": (lambda g: g.delete("node:Persn", ["a"]), "no node type `Persn`"),
    "delete: type is a list": (lambda g: g.delete(["Person"], ["a"]), "type_name is \\['Person'\\], not a text"),
    "delete: type is None": (lambda g: g.delete(None, ["a"]), "type_name is None, not a text"),
    "delete: no ids": (lambda g: g.delete("Person"), "needs `ids`"),
    "delete: misspelt": (lambda g: g.delete("Person", ["a"], brnch="main"), "no argument `brnch`"),
    "delete: too many": (lambda g: g.delete("Person", ["a"], "main", "me", "why"), "takes 5 arguments without a name"),
    "delete: unknown branch": (lambda g: g.delete("Person", ["a"], "sid"), "sid"),
    "diff: text for types": (lambda g: g.diff("main", "side", types="Person"), "types is 'Person', not a list"),
    "diff: unknown type": (lambda g: g.diff("main", "side", types=("Persn",)), "no node type and no edge type `Persn`"),
    "diff: text for kinds": (lambda g: g.diff("main", "side", kinds="node"), "kinds is 'node', not a list"),
    "diff: unknown kind": (lambda g: g.diff("main", "side", kinds=["nod"]), "kinds 'nod' is unknown"),
    "diff: unknown op": (lambda g: g.diff("main", "side", ops=("updated",)), "ops 'updated' is unknown"),
    "diff: number among types": (lambda g: g.diff("main", "side", types=[1]), "types has 1 in place 1"),
    "diff: no target": (lambda g: g.diff(), "needs `a`"),
    "diff: odd target": (lambda g: g.diff(1.5), "a is 1.5"),
    "diff: true as target": (lambda g: g.diff(True), "a is True"),
    "diff: unknown target": (lambda g: g.diff("nowhere"), "nowhere"),
    "changes: unknown type": (lambda g: g.changes(start="beginning", types=["Persn"]), "`Persn`"),
    "changes: text for ops": (lambda g: g.changes(ops="insert"), "ops is 'insert', not a list"),
    "changes: unknown start": (lambda g: g.changes(start="yesterday"), "start 'yesterday' is unknown"),
    "changes: limit 0": (lambda g: g.changes(limit=0), "limit is 0, not a whole number of at least 1"),
    "changes: limit text": (lambda g: g.changes(limit="3"), "limit is '3', not a whole number"),
    "changes: limit true": (lambda g: g.changes(limit=True), "limit is True"),
    "changes: cursor number": (lambda g: g.changes(cursor=7), "cursor is 7, not a text"),
    "changes: odd cursor": (lambda g: g.changes(cursor="AAAA"), "is no cursor"),
    "commit changes: unknown type": (lambda g: g.commits.changes(g.commits.head().graph_commit_id, types=["X"]), "`X`"),
    "commit changes: text": (lambda g: g.commits.changes("x", kinds="node"), "kinds is 'node'"),
    "commits: limit": (lambda g: g.commits.list(limit=-1), "limit is -1"),
    "commits: actor": (lambda g: g.commits.list(actor=3), "actor is 3"),
    "commits: unknown": (lambda g: g.commits.get("01ARZ3NDEKTSV4RRFFQ69G5FAV"), "no branch knows commit"),
    "commits: number": (lambda g: g.commits.get(5), "commit_id is 5"),
    "commits: export": (lambda g: g.commits.export(5), "target is 5"),
    # loads
    "load: nothing": (lambda g: g.load(None), "cannot load NoneType"),
    "load: number": (lambda g: g.load(5), "cannot load int"),
    "load: bytes": (lambda g: g.load(b"{}"), "cannot load bytes"),
    "load: empty path": (lambda g: g.load(""), "'' is no path"),
    "load: NUL": (lambda g: g.load("a\0b"), "is no path"),
    "load: mode": (lambda g: g.load([], mode="upsert"), "mode 'upsert' is unknown"),
    "load: near mode": (lambda g: g.load([], mode="apend"), "did you mean `append`"),
    "load: mode number": (lambda g: g.load([], 1), "mode is 1, not one of append, merge, overwrite"),
    "load: misspelt option": (lambda g: g.load([], max_error=3), "did you mean `max_errors`"),
    "load: dry_run text": (lambda g: g.load([], dry_run="no"), "dry_run is 'no', not True or False"),
    "load: dry_run 1": (lambda g: g.load([], dry_run=1), "dry_run is 1"),
    "load: max_errors": (lambda g: g.load([], max_errors=-1), "max_errors is -1"),
    "load: engine": (lambda g: g.load([], engine="dask"), "engine 'dask' is unknown"),
    "load: progress": (lambda g: g.load([], progress="yes"), "progress is 'yes', not a function"),
    "load: branch list": (lambda g: g.load([], branch=["main"]), "branch is \\['main'\\]"),
    "load: rows of numbers": (lambda g: g.load([1, 2]), "row 1"),
    "load: unknown type": (lambda g: g.load({"Persn": [{"name": "x"}]}), "`Persn`"),
    "load: unknown node type": (lambda g: g.load({"node:Persn": [{"name": "x"}]}), "no node type `Persn`"),
    "load: row is a list": (lambda g: g.load({"Person": [["x"]]}), "row 1"),
    "load: frame is a number": (lambda g: g.load({"Person": 5}), "cannot load int"),
    "load: a Path of a URI": (lambda g: g.load(Path("s3://bucket/x.csv")), "s3:/bucket/x.csv is no path and no URI"),
    "load: moment too fine": (
        lambda g: g.load({"Person": [{"name": "x", "seen": dt.datetime(2024, 1, 1, 0, 0, 0, 1)}]}), "finer than a",
    ),
    "load: column too fine": (
        lambda g: g.load({"Person": pa.table({"name": ["x"], "seen": pa.array([1], pa.timestamp("us", "UTC"))})}),
        "finer than a millisecond",
    ),
    "load: column of nanoseconds": (
        lambda g: g.load({"Person": pa.table({"name": ["x"], "seen": pa.array([1], pa.timestamp("ns", "UTC"))})}),
        "finer than a millisecond",
    ),
    "load: text too fine": (
        lambda g: g.load({"Person": [{"name": "x", "seen": "2024-01-01T00:00:00.0000001Z"}]}), "finer than a",
    ),
    # exports and blobs
    "export: format": (lambda g: g.export("x", "xml"), "format 'xml' is unknown"),
    "export: wrong name": (lambda g: g.export("x.parquet"), "x.parquet has the name of a parquet file"),
    "export: wrong name of folder": (lambda g: g.export("x.csv", "parquet"), "x.csv has the name of a csv file"),
    "export: types text": (lambda g: g.export("x", types="Person"), "types is 'Person', not a list"),
    "export: unknown type": (lambda g: g.export(io.BytesIO(), types=["Persn"]), "`Persn`"),
    "export: nothing": (lambda g: g.export(None), "target is None"),
    "export: stream of text": (lambda g: g.export(io.StringIO()), "target is .*, not a text or a path or a stream"),
    "export: stream of Parquet": (lambda g: g.export(io.BytesIO(), "parquet"), "is a directory of files"),
    "export: two targets": (lambda g: g.export(io.BytesIO(), branch="main", snapshot="v1"), "one state"),
    "export: a Path of a URI": (lambda g: g.export(Path("s3://bucket/x")), "is no path and no URI"),
    "export: into a file": (lambda g: g.export(__file__, "parquet"), "cannot be written"),
    "blobs: offset": (lambda g: g.blobs.get("node:Person", "a", "photo", offset=-1), "offset is -1"),
    "blobs: length": (lambda g: g.blobs.get("node:Person", "a", "photo", length=0), "length is 0"),
    "blobs: behind the end": (lambda g: g.blobs.get("node:Person", "a", "photo", offset=9), "lies behind the end"),
    "blobs: no blob": (lambda g: g.blobs.get("node:Person", "a", "age"), "not a Blob"),
    "blobs: unknown property": (lambda g: g.blobs.get("Person", "a", "foto"), "foto"),
    "blobs: id of another type": (lambda g: g.blobs.stat("Person", 5, "photo"), "5 is no id of Person"),
    # queries
    "query: parameters for the name": (lambda g: g.query(READ, {"n": 1}), "name is \\{'n': 1\\}, not a text"),
    "query: list of parameters": (lambda g: g.query(READ, params=["n"]), "params is \\['n'\\], not a mapping"),
    "query: names that are numbers": (lambda g: g.query(READ, params={1: 2}), "each name is a text"),
    "query: number": (lambda g: g.query(5), "query is 5"),
    "query: empty": (lambda g: g.query(""), "no query|holds queries|empty"),
    "query: no such file": (lambda g: g.query("nowhere.gq"), "there is no query file 'nowhere.gq'"),
    "query: engine": (lambda g: g.query(READ, engine="duck"), "engine 'duck' is unknown"),
    "query: at a date": (lambda g: g.query(READ, at=dt.date(2024, 1, 1)), "at is .* or a datetime"),
    "query: at a text": (lambda g: g.query(READ, at="2024-13-01"), "2024-13-01"),
    "query: before it all": (lambda g: g.query(READ, at=dt.datetime(1, 1, 1)), "did not exist"),
    "query: no such version": (lambda g: g.query(READ, snapshot=10**6), "no version 1000000"),
    "query: a number too large": (lambda g: g.query(READ, snapshot=2**70), "snapshot is "),
    "query: not a time": (lambda g: g.query(READ, at=cast("Any", np.datetime64("NaT"))), "at is "),
    "query: a mutation": (lambda g: g.query(WRITE, params={"n": "x"}), "is a mutation"),
    "query: a branch and a snapshot": (lambda g: g.query(READ, branch="main", snapshot="v1"), "one state"),
    "mutate: a read": (lambda g: g.mutate(READ), "is a read"),
    "mutate: bound": (lambda g: g.mutate(WRITE, params={"n": "x"}, max_entities=-1), "max_entities is -1"),
    "result: rows": (lambda g: list(g.query(READ).to_batches(0)), "at least one row"),
    "stream: rows": (lambda g: g.stream(READ, max_rows=0), "max_rows is 0"),
    "explain: analyze": (lambda g: g.explain(READ, analyze="yes"), "analyze is 'yes'"),
    # reading
    "rows: unknown": (lambda g: g.rows("Persn"), "`Persn`"),
    "entity_at: None": (lambda g: g.entity_at("Person", None), "entity_id is None"),
    "entity_at: wrong key": (lambda g: g.entity_at("Number", "1", 2.5), "at is 2.5"),
    "table: unknown": (lambda g: g.table("edge:Know"), "no edge type `Know`"),
    "snapshot_at_version: text": (lambda g: g.snapshot_at_version("1"), "version is '1'"),
    "snapshot_at_version: negative": (lambda g: g.snapshot_at_version(-1), "-1"),
    "snapshot_at_time: number": (lambda g: g.snapshot_at_time(0), "moment is 0"),
    "open: mode": (lambda g: Graph.open(g.uri, cast("Any", "r")), "mode 'r' is unknown"),
    "open: settings": (lambda g: Graph.open(g.uri, settings=cast("Any", 1)), "settings is 1, not a Settings"),
    "open: number": (lambda g: Graph.open(cast("Any", 5)), "uri is 5"),
    "init: no schema": (lambda g: Graph.init(g.uri + "x", cast("Any", None)), "schema is None"),
    "init: a Path of a URI": (lambda g: Graph.init(Path("s3://bucket/g"), SCHEMA), "is no path and no URI"),
    # names, merges, schema, upkeep
    "branches: number": (lambda g: g.branches.create(5), "name is 5"),
    "branches: odd name": (lambda g: g.branches.create("a b"), "a b"),
    "branches: from": (lambda g: g.branches.create("c", 1.5), "at is 1.5"),
    "branches: strategy": (lambda g: g.branches.merge("side", strategy="mine"), "mine"),
    "branches: strategy number": (lambda g: g.branches.merge("side", strategy=1), "strategy is 1"),
    "branches: strategy of numbers": (lambda g: g.branches.merge("side", strategy={"Person": 1}), "strategy"),
    "branches: into itself": (lambda g: g.branches.merge("main"), "main"),
    "tags: number": (lambda g: g.tags.create(1), "name is 1"),
    "tags: main": (lambda g: g.tags.create("main"), "main"),
    "tags: unknown": (lambda g: g.tags.delete("v2"), "v2"),
    "schema: drop text": (lambda g: g.schema.plan(SCHEMA, drop="Person"), "drop is 'Person', not a list"),
    "schema: fresh text": (lambda g: g.schema.apply(SCHEMA, fresh="Person"), "fresh is 'Person', not a list"),
    "schema: branch for data loss": (lambda g: g.schema.plan(SCHEMA, "main"), "allow_data_loss is 'main'"),
    "schema: no text": (lambda g: g.schema.plan(5), "text is 5"),
    "optimize: rows": (lambda g: g.maintenance.optimize(target_rows=0), "target_rows is 0"),
    "cleanup: duration": (lambda g: g.maintenance.cleanup(older_than="7d"), "older_than is '7d'"),
    "cleanup: not a number": (lambda g: g.maintenance.cleanup(older_than=math.nan), "older_than is nan"),
    "cleanup: too long": (lambda g: g.maintenance.cleanup(older_than=1e300), "older_than"),
    "cleanup: confirm text": (lambda g: g.maintenance.cleanup(confirm="no"), "confirm is 'no'"),
    "cleanup: keep": (lambda g: g.maintenance.cleanup(keep=-1), "keep is -1"),
    "fsck: unknown type": (lambda g: g.maintenance.fsck(type_name="Persn"), "Persn"),
    "recovery: unknown": (lambda g: g.recovery.discard("x"), "no intent"),
    "analytics: no edges": (lambda g: g.analytics.degrees([]), "at least one edge type"),
    "analytics: number": (lambda g: g.analytics.degrees(5), "edges is 5"),
    "analytics: unknown edge": (lambda g: g.analytics.degrees("Know"), "no edge type `Know`"),
    "analytics: sources text": (lambda g: g.analytics.shortest_paths("Knows", "a"), "sources is 'a', not a list"),
    "analytics: source number": (lambda g: g.analytics.shortest_paths("Knows", [1]), "has the id 1"),
    "analytics: unknown type": (lambda g: g.analytics.shortest_paths("Knows", ["a"], type="Persn"), "`Persn`"),
    "analytics: iterations": (lambda g: g.analytics.pagerank("Knows", iterations=0), "iterations is 0"),
    "analytics: damping": (lambda g: g.analytics.pagerank("Knows", damping=math.inf), "damping is inf"),
    "analytics: result": (lambda g: g.analytics.write([1], "x"), "result is \\[1\\], not a Table"),
    "analytics: no ids": (lambda g: g.analytics.write(pa.table({"x": [1]}), "x"), "needs one column 'type'"),
    "analytics: does not fit": (
        lambda g: g.analytics.write(pa.table({"type": ["Person"], "id": ["a"], "x": ["z"]}), "x", "age"),
        "does not fit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_odd_call_is_refused_and_changes_nothing(
    graph: Graph, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = [(each.name, graph.snapshot(each.name).commit_id) for each in graph.branches.list()]
    call, words = CALLS[name]
    with pytest.raises(OmnigraphError, match=words) as caught:
        call(graph)
    assert caught.value.code != "internal"
    assert [(each.name, graph.snapshot(each.name).commit_id) for each in graph.branches.list()] == before
    assert list(tmp_path.iterdir()) == []


def test_values_of_keys_name_entities_too(graph: Graph) -> None:
    assert graph.entity_at("Number", 12) == graph.entity_at("node:Number", "12") == {"id": "12", "n": 12, "big": None}
    assert graph.entity_at("Day", dt.date(2024, 1, 31)) is not None
    assert graph.blobs.get("Person", "a", "photo") == b"hi"
    branch = graph.branches.create("by-key").name
    ids = np.array([1, 2])
    assert graph.delete("Number", cast("Any", ids), branch).affected_nodes == 2
    assert graph.delete("Number", iter(["12"]), branch=branch).affected_nodes == 1  # type: ignore[arg-type]
    assert graph.rows("Number", branch).num_rows == 0
    assert [change.entity_id for change in graph.diff("main", branch, kinds=["node"], types=["Number"])] == [
        "1",
        "12",
        "2",
    ]
    graph.branches.delete(branch)


def test_a_type_that_was_dropped_can_be_asked_for(graph: Graph) -> None:
    branch = graph.branches.create("dropped").name
    graph.schema.apply(SCHEMA.replace("node Day { day: Date @key }", ""), branch=branch, allow_drops=True)
    assert list(graph.diff(branch, branch, types=["Day"])) == []
    graph.branches.delete(branch)


FREE = {(Graph, "load", "data"), (SparkAnalytics, "write", "result")}
"""Arguments that take anything: what they are decides how they are read."""


def surfaces(graph: Graph) -> list[type]:
    handles = [type(each) for each in vars(graph).values() if type(each).__module__.startswith("omnigraph.handles")]
    return [Graph, SparkView, SparkAnalytics, *(each for each in handles if each.__name__ != "Queries")]


def test_every_argument_of_the_facade_is_checked(graph: Graph) -> None:
    found = 0
    for cls in surfaces(graph):
        for name, member in vars(cls).items():
            function = getattr(member, "__func__", member)
            if name.startswith("_") or not callable(function):
                continue
            arguments: Arguments = function.arguments
            for argument, check in arguments.checks.items():
                found += 1
                is_free = argument in ("self", "cls") or (cls, name, argument) in FREE
                assert takes_anything(check) == is_free, f"{cls.__name__}.{name}: {argument}"
    assert found > 150


def takes_anything(check: Callable[[Any], Any]) -> bool:
    try:
        check(object())
    except ValueError:
        return False
    return True


def test_arguments_without_names_cannot_be_checked() -> None:
    class Handle:
        def read(self, *names: str) -> None: ...

    with pytest.raises(TypeError, match="takes arguments without a name"):
        checked(Handle)


def test_refusals_say_what_to_do(graph: Graph) -> None:
    odd = cast("Any", graph)
    with pytest.raises(ArgumentRefused) as caught:
        odd.delete("Number", "12")
    assert caught.value.hint == "a single one is a list too: ['12']"
    assert caught.value.argument == "ids"
    with pytest.raises(InvalidArgument) as unknown:
        odd.load([], max_error=1)
    assert unknown.value.hint == "did you mean `max_errors`?"
    with pytest.raises(ArgumentRefused, match=r"diff\(\): ops 'updat' is unknown") as word:
        odd.diff("main", ops=["updat"])
    assert word.value.hint == "did you mean `update`? use one of insert, update, delete"


def test_quotes_inside_values_are_characters(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "Person.csv").write_text('name,age\n5" pipe,1\n"a ""quoted"" one",2\n')
    branch = graph.branches.create("quotes").name
    graph.load(tmp_path / "Person.csv", branch=branch)
    assert {'5" pipe', 'a "quoted" one'} <= set(graph.rows("Person", branch)["name"].to_pylist())
    graph.branches.delete(branch)
