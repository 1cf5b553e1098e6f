"""Columns in the names of folders: read by splits and by job sources, and written by our own export."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidArgument, UnknownField
from omnigraph.pipeline.job import parse_job

SCHEMA = """
node Person {
  name: String @key  land: String?  born: Date?  seen: DateTime?  rank: I64?  big: U64?  sure: Bool?  score: F64?
  kind: enum(a, b)?  tags: [String]?  body: Blob?
}
edge Knows: Person -> Person { since: Date? }
"""
ODD = [
    "a/b",
    "x=y",
    "100%",
    "two words",
    "é ü 雪",
    "%2F",
    "a:b?*",
    '"quoted"',
    "back\\slash",
    "it's",
    " edge ",
    "+",
    "#1",
    "{a,b}",
]
ROWS = [
    {
        "name": f"p{i}", "land": land, "born": dt.date(1 + i * 700, 2, 28), "rank": (-1) ** i * (2**63 - 1 - i),
        "seen": dt.datetime(1969 + 10 * i, 3, 31, 2, 30, 0, 123_000 * (i % 2), dt.UTC), "big": 2**64 - 1 - i,
        "sure": i % 2 == 0, "score": [0.1, -1e300, 5e-324, 3.0][i % 4], "kind": "ab"[i % 2], "tags": ["t"],
    }
    for i, land in enumerate(ODD)
]  # fmt: skip
ROWS.append({"name": "nulls"})


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    found = Graph.init(tmp_path / "g", SCHEMA)
    found.load({"Person": ROWS, "Knows": [{"from": "p1", "to": f"p{i}", "since": dt.date(2020, 1, i)} for i in (2, 3)]})
    return found


def content(graph: Graph) -> Any:
    edges = graph.rows("edge:Knows").drop(["id"]).to_pylist()
    return sorted(graph.rows("node:Person").to_pylist(), key=str), sorted(edges, key=str)


BY = ["land", "born", "seen", "rank", "big", "sure", "score", "kind", "since"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("format", ["parquet", "jsonl", "orc", "csv"])
def test_a_partitioned_export_is_loaded_as_it_was(
    spark: Any, tmp_path: Path, graph: Graph, format: str, zone: str
) -> None:
    if format == "csv":  # it has no place for lists and blobs
        kept = [{k: v for k, v in row.items() if k != "tags"} for row in ROWS]
        graph = Graph.init(tmp_path / "plain", SCHEMA.replace("  tags: [String]?  body: Blob?", ""))
        graph.load({"Person": kept})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        out = tmp_path / "out"
        pipeline.export(spark, graph, str(out), format=format, partition_by=BY)
        assert list(out.glob("nodes/Person/land=*/born=*/*"))
        for number, load in enumerate((spark_load, job_load, one_process_load)):
            again = Graph.init(tmp_path / f"again{number}", graph.schema.show())
            load(spark, again, out, format)
            assert content(again) == content(graph), load.__name__
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def spark_load(spark: Any, graph: Graph, out: Path, format: str) -> None:
    knows = {"Knows": str(out / "edges/Knows")} if format != "csv" else {}
    pipeline.load(spark, graph, {"Person": str(out / "nodes/Person")}, knows)


def job_load(spark: Any, graph: Graph, out: Path, format: str) -> None:
    known = f"format: {format}, " if format == "jsonl" else ""
    text = f"nodes: {{Person: {{path: out/nodes/Person, {known}where: \"land IS NULL OR land <> 'never'\"}}}}\n"
    if format != "csv":
        text += "edges: {Knows: {path: out/edges/Knows, where: \"since > '1999-01-01'\"}}\n"
    pipeline.run(spark, parse_job(text, out.parent / "job.yaml"), graph)


def one_process_load(spark: Any, graph: Graph, out: Path, format: str) -> None:
    data = {"Person": str(out / "nodes/Person")}
    graph.load(data | ({"Knows": str(out / "edges/Knows")} if format != "csv" else {}), engine="arrow")


def test_conditions_and_casts_see_the_columns_of_folders(spark: Any, tmp_path: Path) -> None:
    for land, year in (("NO", 1990), ("SE", 2000)):
        folder = tmp_path / f"people/country={land}/year={year}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"who": [f"{land}{i}" for i in range(3)]}), folder / "part-0.parquet")
    graph = Graph.init(tmp_path / "g", SCHEMA)
    job = parse_job(
        """
nodes:
  Person:
    path: people
    where: "country = 'NO' AND year < 1995"
    columns: {name: who, land: country, rank: year}
    cast: {rank: bigint}
""",
        tmp_path / "job.yaml",
    )
    pipeline.run(spark, job, graph)
    rows = graph.rows("node:Person").select(["name", "land", "rank"]).to_pylist()
    assert sorted(rows, key=str) == [{"name": f"NO{i}", "land": "NO", "rank": 1990} for i in range(3)]


def test_folders_that_are_no_property(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "day=1/p.parquet")
    graph = Graph.init(tmp_path / "g", SCHEMA)
    file = str(tmp_path / "day=1/p.parquet")
    with pytest.raises(UnknownField, match="no property 'day', a folder of it"):
        pipeline.load(spark, graph, {"Person": file})
    pipeline.load(spark, graph, {"Person": pipeline.Files("Person", (file,), "parquet", partitions=False)})
    assert graph.rows("node:Person").num_rows == 1


def test_what_folders_cannot_say_is_not_exported(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": "empty", "land": ""}}])
    for by, words in (
        (["land"], "'land' of Person is empty text"),
        (["tags"], "'tags' of Person has no place in the name of a folder"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            pipeline.export(spark, graph, str(tmp_path / by[0]), partition_by=by)
    with pytest.raises(InvalidArgument, match="Knows has no other property than"):
        pipeline.export(spark, graph, str(tmp_path / "k"), types=["Knows"], partition_by=["from", "to", "since", "id"])
