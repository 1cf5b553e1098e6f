"""Loads on Spark: the same graph, the same errors and the same rejected rows as a load in one process."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, Progress, pipeline
from omnigraph.errors import (
    CardinalityViolation,
    DataError,
    DuplicateKey,
    InvalidArgument,
    InvalidValue,
    KeyConflict,
    MissingEndpoint,
    TypeNotFound,
    UnknownField,
)  # fmt: skip

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  born: Date?
  seen: DateTime?
  big: U64?
  place: Vector(3)?
  tags: [String]?
  @range(age, 0..150)
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""
PEOPLE = pa.table(
    {
        "name": [f"p{i}" for i in range(200)],
        "age": pa.array([i % 90 for i in range(200)], pa.int32()),
        "email": [f"p{i}@x.org" if i % 3 else None for i in range(200)],
    }
)
CITIES = pa.table({"name": ["Rome", "Oslo"]})
KNOWS = pa.table(
    {
        "from": [f"p{i}" for i in range(199)],
        "to": [f"p{i + 1}" for i in range(199)],
        "since": pa.array(range(199), pa.int32()),
    }
)
LIVES = pa.table({"from": ["p1", "p2"], "to": ["Rome", "Oslo"]})


@pytest.fixture
def graph(tmp_path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


@pytest.fixture
def twin(tmp_path) -> Graph:
    return Graph.init(tmp_path / "twin", SCHEMA)


def parquet(tmp_path, name: str, table: pa.Table, rows: int = 50) -> str:
    path = str(tmp_path / f"{name}.parquet")
    pq.write_table(table, path, row_group_size=rows)
    return path


def content(graph: Graph, at=None) -> dict:
    found = {}
    for key in graph.snapshot(at).tables:
        rows = graph.rows(key, at).to_pylist()
        if key.startswith("edge:"):
            for row in rows:
                row.pop("id")
        found[key] = sorted(rows, key=str)
    return found


def test_parquet_of_every_type_in_one_commit(spark, graph, twin, tmp_path) -> None:
    people, knows = parquet(tmp_path, "people", PEOPLE), parquet(tmp_path, "knows", KNOWS)
    cities, lives = parquet(tmp_path, "cities", CITIES), parquet(tmp_path, "lives", LIVES)
    result = pipeline.load(
        spark,
        graph,
        {"Person": people, "City": cities},
        {"Knows": knows, "LivesIn": lives},
        actor="etl",
        message="first",
    )
    assert (dict(result.nodes), dict(result.edges)) == ({"City": 2, "Person": 200}, {"Knows": 199, "LivesIn": 2})
    assert result.commit.kind == "load"
    assert (result.commit.actor_id, result.commit.message) == ("etl", "first")
    assert [c.kind for c in graph.commits.list()] == ["load", "init"]
    twin.load({"Person": PEOPLE, "City": CITIES, "Knows": KNOWS, "LivesIn": LIVES})
    assert content(graph) == content(twin)
    assert graph.recovery.list() == []
    assert not [f for _, _, files in os.walk(tmp_path / "g" / "__staging") for f in files], "scratch is removed"


def test_every_value_type_and_format(spark, tmp_path) -> None:
    rows = [
        {"name": "a", "age": 3, "born": "2020-02-29", "seen": "2021-01-01T00:00:00.123Z", "big": 2**64 - 1,
         "place": [1.0, 2.5, -3.0], "tags": ["x", ""], "email": "é@ü"},
        {"name": "b"},
    ]  # fmt: skip
    expected = Graph.init(tmp_path / "expected", SCHEMA)
    expected.load([{"type": "Person", "data": row} for row in rows])
    table = expected.rows("node:Person").drop(["id"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with gzip.open(tmp_path / "t2.jsonl.gz", "wt") as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows))
    for number, name in enumerate(("t.parquet", "t.arrow", "t.jsonl", "t2.jsonl.gz")):
        graph = Graph.init(tmp_path / f"g{number}", SCHEMA)
        pipeline.load(spark, graph, {"Person": str(tmp_path / name)})
        assert content(graph)["node:Person"] == content(expected)["node:Person"], name


def test_csv_and_orc(spark, graph, twin, tmp_path) -> None:
    pacsv.write_csv(PEOPLE, tmp_path / "p.csv")
    orc.write_table(KNOWS, str(tmp_path / "k.orc"))
    pipeline.load(spark, graph, {"Person": str(tmp_path / "p.csv")}, {"Knows": str(tmp_path / "k.orc")})
    twin.load({"Person": PEOPLE, "Knows": KNOWS})
    assert content(graph) == content(twin)


def test_envelope_lines_cut_at_bytes(spark, graph, twin, tmp_path, monkeypatch) -> None:
    lines = [json.dumps({"type": "Person", "data": {"name": f"p{i}", "age": i % 90}}) for i in range(500)]
    lines += [json.dumps({"edge": "Knows", "from": f"p{i}", "to": f"p{499 - i}"}) for i in range(500)]
    path = tmp_path / "graph.jsonl"
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("omnigraph.pipeline.sources._SPLIT_BYTES", 4_001)
    pipeline.load(spark, graph, data=str(path))
    twin.load(str(path))
    assert content(graph) == content(twin)
    bad = [*lines[:730], json.dumps({"edge": "Knows", "from": "p1", "to": "nobody"}), *lines[730:]]
    path.write_text("\n".join(bad) + "\n")
    with pytest.raises(MissingEndpoint, match=r"graph\.jsonl:731: .*'nobody' not found in Person"):
        pipeline.load(spark, graph, data=str(path), mode="merge")


def test_dataframes_with_joins_and_casts(spark, graph) -> None:
    people = spark.createDataFrame([("ada", 36), ("bob", 40)], ["name", "age"]).selectExpr(
        "name", "cast(age AS int) age"
    )
    knows = people.alias("a").crossJoin(people.alias("b")).where("a.name < b.name")
    knows = knows.selectExpr("a.name AS `from`", "b.name AS `to`")
    result = pipeline.load(spark, graph, {"Person": people}, {"Knows": knows})
    assert result.total_entities == 3
    assert graph.rows("edge:Knows").select(["src", "dst"]).to_pylist() == [{"src": "ada", "dst": "bob"}]


def test_merge_and_overwrite(spark, graph, twin, tmp_path) -> None:
    first = parquet(tmp_path, "first", PEOPLE)
    newer = PEOPLE.slice(190).set_column(1, "age", pa.array([99] * 10, pa.int32()))
    more = pa.concat_tables([newer, pa.table({"name": ["new"], "age": pa.array([1], pa.int32()), "email": ["n@x"]})])
    second = parquet(tmp_path, "second", more, rows=3)
    for load in (
        lambda path, mode: pipeline.load(spark, graph, {"Person": path}, mode=mode),
        lambda path, mode: twin.load({"Person": path}, mode=mode),
    ):
        load(first, "append")
        load(second, "merge")
    assert content(graph) == content(twin)
    assert graph.snapshot().table("node:Person").row_count == 201
    pipeline.load(spark, graph, {"Person": second}, mode="overwrite")
    assert graph.snapshot().table("node:Person").row_count == 11


def test_a_branch_is_forked_for_a_load_and_removed_when_it_fails(spark, graph, tmp_path) -> None:
    good, bad = parquet(tmp_path, "good", PEOPLE), parquet(tmp_path, "bad", pa.table({"name": ["x"], "age": [999]}))
    with pytest.raises(DataError):
        pipeline.load(spark, graph, {"Person": bad}, branch="nightly", from_branch="main")
    assert [b.name for b in graph.branches.list()] == ["main"]
    result = pipeline.load(spark, graph, {"Person": good}, branch="nightly", from_branch="main")
    assert result.branch_created
    assert graph.snapshot("main").table("node:Person").row_count == 0
    assert graph.snapshot("nightly").table("node:Person").row_count == 200


BAD = {
    "range": ({"Person": pa.table({"name": ["a"], "age": pa.array([151], pa.int32())})}, {}, InvalidValue),
    "duplicate key": ({"Person": pa.table({"name": ["a", "b", "a"]})}, {}, DuplicateKey),
    "duplicate value": ({"Person": pa.table({"name": ["a", "b"], "email": ["e", "e"]})}, {}, DuplicateKey),
    "endpoint": ({}, {"Knows": pa.table({"from": ["p1"], "to": ["nobody"]})}, MissingEndpoint),
    "cardinality": ({}, {"LivesIn": pa.table({"from": ["p1", "p1"], "to": ["Rome", "Oslo"]})}, CardinalityViolation),
    "taken key": ({"Person": pa.table({"name": ["p1"]})}, {}, KeyConflict),
    "taken value": ({"Person": pa.table({"name": ["q"], "email": ["p1@x.org"]})}, {}, DuplicateKey),
    "unknown column": ({"Person": pa.table({"name": ["a"], "agee": [1]})}, {}, UnknownField),
    "wrong type": ({"Person": pa.table({"name": ["a"], "age": ["x"]})}, {}, DataError),
}


@pytest.mark.parametrize("name", BAD)
def test_what_one_process_refuses_spark_refuses(spark, graph, twin, tmp_path, name) -> None:
    nodes, edges, kind = BAD[name]
    for each in (graph, twin):
        each.load({"Person": PEOPLE, "City": CITIES})
    nodes = {key: parquet(tmp_path, f"n{key}", table, rows=1) for key, table in nodes.items()}
    edges = {key: parquet(tmp_path, f"e{key}", table, rows=1) for key, table in edges.items()}
    before = content(graph)
    with pytest.raises(kind) as here:
        pipeline.load(spark, graph, nodes, edges)
    with pytest.raises(kind) as there:
        twin.load({**nodes, **edges})
    assert here.value.message == there.value.message
    assert content(graph) == before
    assert len(graph.commits.list()) == 2
    assert graph.recovery.list() == []


def test_rows_of_a_frame_are_told_by_its_number_among_those_of_its_type_and_their_partition(spark, graph) -> None:
    rows = [(f"p{i}", 20 + i) for i in range(4)]
    first = spark.createDataFrame(rows, "name string, age int").coalesce(1)
    again = spark.createDataFrame([("q0", 1), ("p3", 2)], "name string, age int").repartition(2, "name")
    found = pipeline.load(spark, graph, {"Person": [first, again]}, max_errors=9)
    [rejected] = found.rejected
    assert rejected.path in ("<Person 2 partition 0>", "<Person 2 partition 1>")
    assert rejected.row is not None


def test_rejected_rows_are_left_out_and_listed(spark, graph, twin, tmp_path) -> None:
    people = pa.table({"name": ["a", "b", "a", "c"], "age": pa.array([1, 200, 3, 4], pa.int32())})
    knows = pa.table({"from": ["a", "a", "b"], "to": ["c", "b", "c"]})
    files = parquet(tmp_path, "p", people, 2), parquet(tmp_path, "k", knows, 1)
    here = pipeline.load(spark, graph, {"Person": files[0]}, {"Knows": files[1]}, max_errors=10)
    there = twin.load({"Person": files[0], "Knows": files[1]}, max_errors=10)
    assert content(graph) == content(twin)
    assert {(v.rule, v.path, v.row) for v in here.rejected} == {(v.rule, v.path, v.row) for v in there.rejected}
    assert len(here.rejected) == 4
    with pytest.raises(DataError, match="and 3 more"):
        pipeline.load(spark, graph, {"Person": files[0]}, {"Knows": files[1]}, max_errors=3, mode="overwrite")


def test_what_can_be_known_is_refused_before_a_task_starts(spark, graph, tmp_path) -> None:
    with pytest.raises(TypeNotFound, match="Persn"):
        pipeline.load(spark, graph, {"Persn": "x.parquet"})
    with pytest.raises(InvalidArgument, match="no such file"):
        pipeline.load(spark, graph, {"Person": str(tmp_path / "absent.parquet")})
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"torn\.parquet: cannot be read as parquet"):
        pipeline.load(spark, graph, {"Person": str(tmp_path / "torn.parquet")})
    with pytest.raises(InvalidArgument, match="nothing to load"):
        pipeline.load(spark, graph)
    with pytest.raises(InvalidArgument, match="mode"):
        pipeline.load(spark, graph, {"Person": "x"}, mode="upsert")


def test_an_empty_input_is_no_commit(spark, graph, tmp_path) -> None:
    empty = parquet(tmp_path, "empty", PEOPLE.slice(0, 0))
    result = pipeline.load(spark, graph, {"Person": empty})
    assert result.commit is None
    assert len(graph.commits.list()) == 1
    assert graph.recovery.list() == []


def test_dry_run_checks_and_writes_nothing(spark, graph, tmp_path) -> None:
    result = pipeline.load(spark, graph, {"Person": parquet(tmp_path, "p", PEOPLE)}, dry_run=True)
    assert (result.commit, result.total_entities) == (None, 200)
    assert len(graph.commits.list()) == 1
    assert graph.recovery.list() == []


def test_a_load_follows_a_branch_that_moves(spark, graph, tmp_path) -> None:
    """A writer commits between staging and publishing: the load is checked again and lands on top."""
    path = parquet(tmp_path, "p", PEOPLE)
    rival = Graph.open(graph.uri)

    def meddle(_: Progress) -> None:
        if rival.snapshot().table("node:Person").row_count == 0:
            rival.load([{"type": "Person", "data": {"name": "rival"}}])

    slow = spark.createDataFrame([("x",)], ["name"])
    pipeline.load(spark, graph, {"Person": [pipeline.Files("Person", (path,), "parquet"), slow]}, progress=meddle)
    assert graph.snapshot().table("node:Person").row_count in (201, 202)
    names = graph.rows("node:Person")["name"].to_pylist()
    assert len(names) == len(set(names))


def test_the_facade_finds_the_engine(spark, graph, tmp_path) -> None:
    path = parquet(tmp_path, "p", PEOPLE)
    assert graph.load({"Person": path}, engine="spark").nodes == {"Person": 200}
    frame = spark.createDataFrame([("p0", "p1")], ["from", "to"])
    assert graph.load({"Knows": frame}).edges == {"Knows": 1}
    with pytest.raises(InvalidArgument, match="engine 'dask' is unknown"):
        graph.load({"Person": path}, engine="dask")
