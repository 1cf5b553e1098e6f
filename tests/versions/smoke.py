"""What every version of Spark must do, in a few steps: `python -m tests.versions.smoke DIRECTORY`.

The last line of the output is a JSON object.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from omnigraph import Graph, pipeline

SCHEMA = """
node Person { name: String @key  age: I32?  seen: DateTime?  big: U64?  place: Vector(2)? }
edge Knows: Person -> Person { since: I32? }
"""
FRAME = """
select concat('f', id) name, cast(id as int) age, timestamp'2024-05-01 12:00:00' seen,
       array(cast(id as float), cast(1.5 as float)) place from range(4)
union all select 'f0', 9, null, null
"""
QUERY = "query grown() { match { $p: Person  $p.age > 1 } return { $p.name } order { $p.name } }"


def main(folder: Path) -> None:
    """Load, read, query, merge, and load again."""
    warnings.simplefilter("ignore")
    spark = pipeline.session("local[2]")
    graph = Graph.init(folder / "g", SCHEMA)
    big = pa.array([2**64 - 1, 0, 1], pa.uint64())
    people = pa.table({"name": ["a", "b", "a"], "age": pa.array([1, 2, 3], pa.int32()), "big": big})
    pq.write_table(people, folder / "people.parquet")
    frame = spark.sql(FRAME)
    loaded = pipeline.load(spark, graph, {"Person": [str(folder / "people.parquet"), frame]}, max_errors=5)
    edges = pa.table({"from": ["a", "a"], "to": ["b", "b"]})
    pipeline.load(spark, graph, edges={"Knows": edges}, dedupe_edges=True)
    graph.branches.create("side")
    graph.load({"Person": [{"name": "s", "age": 7}]}, branch="side")
    graph.load({"Person": [{"name": "m", "age": 8}]})
    pipeline.merge(spark, graph, "side")
    spark.createDataFrame([("w", 5)], "name string, age int").write.format("omnigraph").option("type", "Person").mode(
        "append"
    ).save(graph.uri)
    before = dict(spark.conf.getAll)
    found = {
        "version": pyspark.__version__,
        "rejected": sorted(each.data["name"] if each.data else "" for each in loaded.rejected),
        "read": graph.spark.table("Person").count(),
        "sql": graph.spark.sql("select count(*) n from Person p join Knows k on k.src = p.id").collect()[0]["n"],
        "query": [row["p.name"] for row in graph.query(QUERY, engine="spark").to_pylist()],
        "degrees": graph.spark.analytics.degrees("Knows").count(),
        "unchanged": dict(spark.conf.getAll) == before,
    }
    pipeline.export(spark, graph, str(folder / "out"), types=["Person"])
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
