"""Driver programs that tests start in processes of their own: `python -m tests.spark.driver NAME ARGUMENT...`.

The last line of the output is a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph import Graph, pipeline
from omnigraph.errors import OmnigraphError
from omnigraph.execution.spark.versions import stream_limits
from omnigraph.storage.failpoints import VARIABLE

EXECUTORS = "OMNIGRAPH_TEST_EXECUTOR_FAILPOINT"
"""Failpoints for the executors only: this process has read its own variable already."""
ATTEMPTS = "16"
"""More attempts of a task than loads of tests have tasks. Where every process fails at its second write, each failure
follows a write that worked, and a task may meet the failures of all others; Spark's four attempts may be too few."""
_STREAM_SECONDS = 240
_SMALL = {
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.excludeOnFailure.enabled": "false",
    "spark.task.maxFailures": ATTEMPTS,
}


def session(**config: str) -> Any:
    """A session on the cluster that the environment names."""
    armed = os.environ.get(EXECUTORS)
    if armed:
        config[f"spark.executorEnv.{VARIABLE}"] = armed
    return pipeline.session(config={**_SMALL, **config})


def counted(uri: str) -> dict[str, Any]:
    """Rows by table, and how many different ids they have."""
    graph = Graph.open(uri)
    return {
        key: [entry.row_count, len(set(graph.rows(key)["id"].to_pylist()))]
        for key, entry in graph.snapshot().tables.items()
    }


def files(uri: str, folder: str) -> dict[str, Any]:
    """Load every file of a folder: `p*` are people, `k*` are edges."""
    spark = session()
    people = sorted(str(p) for p in Path(folder).glob("p*.parquet"))
    knows = sorted(str(p) for p in Path(folder).glob("k*.parquet"))
    pipeline.load(spark, Graph.open(uri), {"Person": people}, {"Knows": knows} if knows else {})
    return counted(uri)


def refused(uri: str, folder: str) -> dict[str, Any]:
    """The error that a load of files ends with."""
    try:
        return files(uri, folder)
    except OmnigraphError as error:
        return {"error": type(error).__name__, "message": error.message}


def speculate(uri: str, marks: str) -> dict[str, Any]:
    """Load a DataFrame whose last partition is slow until Spark starts its double."""
    spark = session(
        **{
            "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.1",
            "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "100ms",
        }
    )  # fmt: skip

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        Path(marks, f"{number}-{context.attemptNumber()}").touch()
        for batch in batches:
            names = [f"p{n}" for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"name": names})
        if number == 3 and context.attemptNumber() == 0:  # slow, and still alive when its double has finished
            while not Path(marks, "3-1").exists():
                time.sleep(0.1)
            time.sleep(1.0)

    frame = spark.range(0, 400, 1, 4).mapInArrow(rows, "name string")
    pipeline.load(spark, Graph.open(uri), {"Person": frame})
    return counted(uri)


def events(changes: Any) -> Any:
    """A row for each change, with a key of its own: one that is delivered twice cannot be appended."""
    return changes.selectExpr("concat(_commit_id, '/', id) as name", "_op as op", "id as who")


def one_commit() -> dict[str, str]:
    """The option for batches of one commit, where Spark has limits."""
    return {} if stream_limits() is None else {"maxCommitsPerTrigger": "1"}


def stream(source: str, target: str, checkpoint: str, way: str) -> dict[str, Any]:
    """Copy the change feed of a graph into another one, a commit for each batch, until all is copied."""
    spark = session()
    reader = spark.readStream.format("omnigraph").option("changes", "true").option("type", "Person")
    changes = reader.options(startingVersion="earliest", **one_commit()).load(source)
    writer = changes.writeStream.foreachBatch(
        pipeline.write_batch(Graph.open(target), {"Event": events, "Seen": seen}, mode="merge")
    )
    if way == "sink":
        writer = events(changes).writeStream.format("omnigraph").option("type", "Event").option("path", target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination(_STREAM_SECONDS)
    assert not query.isActive
    return counted(target)


def seen(changes: Any) -> Any:
    """The people that changes are about."""
    return changes.selectExpr("id as name").distinct()


def sent(uri: str, folder: str, sends: str) -> dict[str, Any]:
    """Load files and rank them by workers that get the code of omnigraph from here, or do not."""
    spark = session()
    graph = Graph.init(uri, "node Person { name: String @key }\nedge Knows: Person -> Person")
    if sends == "yes":
        pipeline.send_code(spark)
    try:
        pipeline.load(spark, graph, {"Person": folder})
    except OmnigraphError as error:
        return {"error": error.message}
    return {
        "rows": graph.rows("node:Person").num_rows,
        "ranked": pipeline.analytics(spark, graph).pagerank("Knows").count(),
    }


def main() -> None:
    """Run one program."""
    warnings.simplefilter("ignore")
    programs = {"sent": sent, "files": files, "refused": refused, "speculate": speculate, "stream": stream}
    print(json.dumps(programs[sys.argv[1]](*sys.argv[2:])), flush=True)


if __name__ == "__main__":
    main()
