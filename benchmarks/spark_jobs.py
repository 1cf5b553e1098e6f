"""What the Spark scenario measures, each in a process of its own: `python -m benchmarks.spark_jobs NAME FILES WORK`.

A process starts its session, does the job with a twentieth of the rows, so that every worker has begun and imported
what it needs, then does it in full and prints seconds and peaks of memory as JSON. Files are made before, and indexes
are built after what is timed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MASTER = os.environ.get("BENCH_SPARK_MASTER", "local[2]")
SCHEMA = """
node Person { name: String @key  email: String @unique  age: I32  city: String  @range(age, 0..150) }
edge Knows: Person -> Person @card(0..1000) { since: I32 }
"""
WARM = (50_000, 250_000)
_ROWS = 250_000


@dataclass(frozen=True)
class Done:
    """One job: seconds, megabytes at the peak of the driver and of all its workers together, and the commit."""

    seconds: float
    driver_mb: float
    workers_mb: float
    commit: str = ""


def make_files(directory: Path, nodes: int, edges: int, updated: int = 0) -> None:
    """Persons and whom they know as Parquet; with `updated`, a second pair of files that changes so many persons."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(11)
    _write(directory / "people.parquet", (_people(begin, min(begin + _ROWS, nodes), rng) for begin in _steps(nodes)))
    _write(
        directory / "knows.parquet", (_knows(min(_ROWS, edges - begin), nodes, rng, nodes) for begin in _steps(edges))
    )
    if updated:
        first = nodes - updated  # these are there already; as many new ones follow as the load has others
        _write(
            directory / "people-merge.parquet",
            (_people(first + b, first + min(b + _ROWS, nodes), rng) for b in _steps(nodes)),
        )


def _steps(count: int) -> range:
    return range(0, count, _ROWS)


def _people(begin: int, end: int, rng: np.random.Generator) -> pa.Table:
    names = pc.binary_join_element_wise("person-", pa.array(np.arange(begin, end)).cast(pa.string()), "")
    cities = pa.array([f"city {i}" for i in range(100)])
    return pa.table(
        {"name": names, "email": pc.binary_join_element_wise(names, "@example.org", ""),
         "age": pa.array(rng.integers(0, 100, end - begin), pa.int32()),
         "city": cities.take(pa.array(rng.integers(0, 100, end - begin)))}
    )  # fmt: skip


def _knows(count: int, nodes: int, rng: np.random.Generator, _: int) -> pa.Table:
    ends = [
        pc.binary_join_element_wise("person-", pa.array(rng.integers(0, nodes, count)).cast(pa.string()), "")
        for _ in range(2)
    ]
    since = pa.array(rng.integers(1970, 2025, count), pa.int32())
    return pa.table({"from": ends[0], "to": ends[1], "since": since})


def _write(path: Path, tables: Iterator[pa.Table]) -> None:
    writer = None
    for table in tables:
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=_ROWS)
    if writer is not None:
        writer.close()


class Peaks:
    """Watches memory: this process, and the Python workers below it (shared pages counted once)."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self.driver = 0.0
        self.workers = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        self._look()  # also at a job that is over before the first pause
        while not self._over.wait(0.3):
            self._look()

    def _look(self) -> None:
        me = psutil.Process()
        self.driver = max(self.driver, me.memory_info().rss / 1e6)
        found = 0.0
        for child in me.children(recursive=True):
            try:
                if "python" in child.name():
                    found += child.memory_full_info().pss / 1e6
            except psutil.Error:
                continue
        self.workers = max(self.workers, found)


def timed(job: Callable[[], Any]) -> Done:
    """Seconds and peaks of a job."""
    with Peaks() as peaks:
        begun = time.perf_counter()
        commit = job()
        seconds = time.perf_counter() - begun
    return Done(seconds, peaks.driver, peaks.workers, commit if isinstance(commit, str) else "")


def _session() -> Any:
    from omnigraph import pipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.session(MASTER)


def _warm_files(work: Path) -> Path:
    make_files(work / "warm", *WARM)
    return work / "warm"


def _warm(spark: Any, work: Path) -> None:
    """Start every worker and import what tasks import."""
    from omnigraph import Graph, pipeline

    files = _warm_files(work)
    graph = Graph.init(work / "warm-graph", SCHEMA)
    pipeline.load(spark, graph, {"Person": str(files / "people.parquet")}, {"Knows": str(files / "knows.parquet")})
    graph.repository.store.wait_for_background_work()


def load_spark(files: Path, work: Path) -> Done:
    """The load on Spark, rows never in the JVM."""
    from omnigraph import Graph, pipeline

    spark = _session()
    _warm(spark, work)
    graph = Graph.init(work / "graph", SCHEMA)
    done = timed(
        lambda: (
            pipeline.load(
                spark, graph, {"Person": str(files / "people.parquet")}, {"Knows": str(files / "knows.parquet")}
            ).commit.graph_commit_id
        )
    )
    _check(graph, files)
    return done


def _check(graph: Any, files: Path) -> None:
    tables = graph.snapshot().tables
    assert tables["node:Person"].row_count == pq.read_metadata(files / "people.parquet").num_rows
    assert tables["edge:Knows"].row_count == pq.read_metadata(files / "knows.parquet").num_rows
    graph.repository.store.wait_for_background_work()


def load_embedded(files: Path, work: Path) -> Done:
    """The same in one process, without Spark."""
    from omnigraph import Graph

    graph = Graph.init(work / "warm-graph", SCHEMA)
    warm = _warm_files(work)
    graph.load({"Person": str(warm / "people.parquet"), "Knows": str(warm / "knows.parquet")})
    graph.repository.store.wait_for_background_work()
    graph = Graph.init(work / "graph", SCHEMA)
    done = timed(
        lambda: (
            graph.load(
                {"Person": str(files / "people.parquet"), "Knows": str(files / "knows.parquet")}, engine="arrow"
            ).commit.graph_commit_id
        )
    )
    _check(graph, files)
    return done


def append_and_merge(files: Path, work: Path, mode: str) -> Done:
    """Persons into a graph that holds as many: all new (`append`), or a tenth of them there already (`merge`)."""
    from omnigraph import Graph, pipeline

    spark = _session()
    _warm(spark, work)
    graph = Graph.init(work / "graph", SCHEMA)
    pipeline.load(spark, graph, {"Person": str(files / "people.parquet")})
    graph.repository.store.wait_for_background_work()
    name = "people-merge.parquet"
    if mode == "append":
        count, rng = pq.read_metadata(files / name).num_rows, np.random.default_rng(3)
        _write(work / name, (_people(2 * count + b, 2 * count + min(b + _ROWS, count), rng) for b in _steps(count)))
    path = str((work if mode == "append" else files) / name)
    return timed(lambda: pipeline.load(spark, graph, {"Person": path}, mode=mode).commit.graph_commit_id)


def append(files: Path, work: Path) -> Done:
    """A large append into a large table."""
    return append_and_merge(files, work, "append")


def merge(files: Path, work: Path) -> Done:
    """An upsert of which a tenth changes rows that are there."""
    return append_and_merge(files, work, "merge")


def load_through_jvm(files: Path, work: Path) -> Done:
    """The usual way, with the same checks: Spark reads, joins and hands rows to tasks that write Lance."""
    spark = _session()
    (work / "small").mkdir()
    _through_jvm(spark, _warm_files(work), work / "small")
    return timed(lambda: _through_jvm(spark, files, work))


def _through_jvm(spark: Any, files: Path, work: Path) -> None:
    people = spark.read.parquet(str(files / "people.parquet"))
    knows = spark.read.parquet(str(files / "knows.parquet"))
    wrong = {
        "duplicate keys": people.groupBy("name").count().where("count > 1"),
        "unique values": people.groupBy("email").count().where("count > 1"),
        "ranges": people.where("age < 0 OR age > 150 OR name IS NULL OR email IS NULL OR city IS NULL"),
        "sources": knows.select("from").distinct().join(people, knows["from"] == people["name"], "left_anti"),
        "targets": knows.select("to").distinct().join(people, knows["to"] == people["name"], "left_anti"),
        "cardinality": knows.groupBy("from").count().where("count > 1000"),
    }
    for rule, rows in wrong.items():
        assert rows.limit(1).count() == 0, rule
    _write_lance(people.selectExpr("name AS id", "name", "email", "age", "city"), str(work / "people.lance"))
    _write_lance(knows.selectExpr("`from` AS src", "`to` AS dst", "since"), str(work / "knows.lance"))


def _write_lance(frame: Any, uri: str) -> None:
    import lance
    from lance.fragment import FragmentMetadata
    from pyspark.sql.pandas.types import to_arrow_schema

    needs_id = "id" not in frame.columns
    schema = to_arrow_schema(frame.schema)
    if needs_id:
        schema = schema.insert(0, pa.field("id", pa.string()))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lance.fragment import write_fragments

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = list(batch.columns)
                if needs_id:
                    first = uuid.uuid4().hex[:20]
                    numbers = pa.array(np.arange(batch.num_rows)).cast(pa.string())
                    columns.insert(0, pc.binary_join_element_wise(first, numbers, "-"))
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        written = write_fragments(pa.RecordBatchReader.from_batches(schema, rows()), uri, schema=schema)
        yield pa.RecordBatch.from_pydict({"fragment": [json.dumps(f.to_json()) for f in written]})

    rows = frame.mapInArrow(task, "fragment string").collect()
    fragments = [FragmentMetadata.from_json(row["fragment"]) for row in rows]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(schema, fragments))


RANK_SCHEMA = "node P { name: String @key }\nedge F: P -> P"


def rank(files: Path, work: Path, spark: Any = None) -> Done:
    """PageRank, the topology in memory; in the place of a commit, the highest rank."""
    from omnigraph import Graph, pipeline

    graph = Graph.init(work / "graph", RANK_SCHEMA)
    graph.load({"P": str(files / "nodes.parquet"), "F": str(files / "edges.parquet")}, engine="arrow")
    graph.repository.store.wait_for_background_work()
    runs = graph.analytics if spark is None else pipeline.analytics(spark, graph)
    runs.pagerank("F", iterations=1)
    found: list[Any] = []
    done = timed(lambda: found.append(runs.pagerank("F", iterations=20)))
    [result] = found
    ranks = (result if spark is None else result.toArrow())["pagerank"]
    return replace(done, commit=repr(pc.max(ranks).as_py()))


def rank_spark(files: Path, work: Path) -> Done:
    """The same by Spark tasks."""
    spark = _session()
    _warm(spark, work)
    return rank(files, work, spark)


JOBS = {
    "rank": rank,
    "rank-spark": rank_spark,
    "spark": load_spark,
    "embedded": load_embedded,
    "jvm": load_through_jvm,
    "append": append,
    "merge": merge,
}

if __name__ == "__main__":
    print(json.dumps(asdict(JOBS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3])))))
