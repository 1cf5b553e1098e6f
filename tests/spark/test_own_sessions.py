"""The user's session is as it was, whatever is done on it, and a submitted program has the options it was given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidArgument
from omnigraph.pipeline.spark_session import frame_of, session

SCHEMA = """
node Person { name: String @key  age: I32?  aGe: I32?  seen: DateTime? }
edge Knows: Person -> Person
query adults() { match { $p: Person  $p.age > 20 } return { $p.name } order { $p.name } }
"""
ODD = {
    "spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": "3", "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.enabled": "false", "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
}  # fmt: skip
HERE = Path(__file__).parents[2]


@pytest.fixture
def odd(spark: Any) -> Iterator[Any]:
    """The session of all tests with the settings of somebody else."""
    for name in views(spark):  # of other tests, which the odd settings might not find
        spark.catalog.dropTempView(name)
    before = {name: spark.conf.get(name) for name in ODD}
    for name, value in ODD.items():
        spark.conf.set(name, value)
    spark.range(3).createOrReplaceTempView("person")
    yield spark
    spark.catalog.dropTempView("person")
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA.partition("query")[0])


def views(spark: Any) -> list[str]:
    return sorted(row["viewName"] for row in spark.sql("show views").collect())


def state(spark: Any) -> dict[str, Any]:
    """Everything that work on a session could change."""
    from pyspark.sql import SparkSession

    active = SparkSession.active()
    return {
        "conf": dict(spark.conf.getAll), "views": views(spark),
        "active": active._jsparkSession.equals(spark._jsparkSession), "person": spark.table("person").count(),
        "rdd": spark.sparkContext.parallelize([(1,)]).toDF(["n"]).sparkSession is spark,
    }  # fmt: skip


def load(spark: Any, graph: Graph, folder: Path) -> None:
    people = pa.table({"name": ["a", "b"], "age": pa.array([30, 10], pa.int32())})
    pq.write_table(people, folder / "people.parquet")
    pipeline.load(spark, graph, {"Person": str(folder / "people.parquet")}, mode="merge")
    pipeline.load(spark, graph, {"Person": people}, mode="merge")
    graph.load({"Person": spark.createDataFrame([("c", 40)], "name string, age int")}, mode="merge")
    job = folder / "job.yaml"
    source = "{path: people.parquet, where: age > 5, cast: {age: int}}"
    job.write_text(f"graph: {graph.uri}\nmode: merge\nnodes: {{Person: {source}}}")
    pipeline.run(spark, pipeline.read_job(job))


def export(spark: Any, graph: Graph, folder: Path) -> None:
    pipeline.export(spark, graph, str(folder / "out"), types=["Knows"])


def sql(spark: Any, graph: Graph, folder: Path) -> None:
    assert graph.spark.sql("select count(name) n from PERSON").collect()[0]["n"] == 2
    assert graph.query(SCHEMA[SCHEMA.index("query") :], engine="spark").to_pylist() == [{"p.name": "a"}]


def merge(spark: Any, graph: Graph, folder: Path) -> None:
    graph.branches.create("side")
    graph.load({"Person": [{"name": "z"}]}, branch="side")
    graph.load({"Person": [{"name": "y"}]})
    pipeline.merge(spark, graph, "side")


def analytics(spark: Any, graph: Graph, folder: Path) -> None:
    assert graph.spark.analytics.degrees("Knows").count() == 2


def optimize(spark: Any, graph: Graph, folder: Path) -> None:
    pipeline.optimize(spark, graph)
    graph.maintenance.optimize(engine="spark")


@pytest.mark.parametrize("in_thread", [False, True], ids=["main thread", "another thread"])
@pytest.mark.parametrize("work", [load, export, sql, merge, analytics, optimize])
def test_a_session_is_as_it_was(
    odd: Any, graph: Graph, tmp_path: Path, work: Callable[[Any, Graph, Path], None], in_thread: bool
) -> None:
    graph.load({"Person": [{"name": "a", "age": 30}, {"name": "b", "age": 10}], "Knows": [{"from": "a", "to": "b"}]})
    before = state(odd)
    if in_thread:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work(session(), graph, tmp_path)
            except BaseException as error:  # noqa: BLE001  # raised below
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        for error in failed:
            raise error
    else:
        work(odd, graph, tmp_path)
    assert state(odd) == before


def test_another_thread_is_given_the_running_session(odd: Any) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(pipeline.session(config={"spark.sql.ansi.enabled": "true"})))
    thread.start()
    thread.join()
    assert found[0]._jsparkSession.equals(odd._jsparkSession)
    assert odd.conf.get("spark.sql.ansi.enabled") == "false"


def test_views_that_were_asked_for_are_on_the_session(odd: Any, graph: Graph) -> None:
    graph.load({"Person": [{"name": "a", "age": 30}]})
    odd.catalog.dropTempView("person")
    assert pipeline.register_views(odd, graph, prefix="g_") == ["g_Person", "g_Knows"]
    assert odd.sql("select name from G_PERSON").collect()[0]["name"] == "a"
    odd.range(1).createOrReplaceTempView("mine")
    query = "select p.name, m.id from Person p cross join mine m join g_Person g on g.id = p.id"
    joined = graph.spark.sql(query)
    joined.createOrReplaceTempView("joined")
    assert odd.sql("select count(*) c from joined").collect()[0]["c"] == 1
    for name in ("mine", "joined", "g_Person", "g_Knows", "person"):
        odd.catalog.dropTempView(name)
    odd.range(3).createOrReplaceTempView("person")


def test_types_that_a_session_cannot_tell_apart_are_refused(odd: Any, tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key }\nnode PERSON { name: String @key }")
    with pytest.raises(InvalidArgument, match="ignores case"):
        pipeline.register_views(odd, graph, prefix="x_")


@pytest.mark.parametrize("rows", [2, 200_000], ids=["few", "many"])
def test_tables_in_memory_are_frames_of_the_session(odd: Any, rows: int) -> None:
    before = state(odd)
    frame = frame_of(odd, pa.table({"n": pa.array(range(rows), pa.int64())}))
    assert frame.sparkSession is odd
    frame.createOrReplaceTempView("numbers")
    assert odd.sql("select sum(n) s from numbers").collect()[0]["s"] == rows * (rows - 1) // 2
    odd.catalog.dropTempView("numbers")
    assert state(odd) == before


def test_a_moment_without_a_zone_is_one_of_utc(odd: Any, graph: Graph) -> None:
    frame = pd.DataFrame({"name": ["a"], "seen": pd.to_datetime(["2024-05-01 12:00:00"])})
    pipeline.load(odd, graph, {"Person": frame})
    assert graph.rows("node:Person")["seen"].to_pylist()[0].isoformat() == "2024-05-01T12:00:00+00:00"


# --- new sessions -----------------------------------------------------------------------------------------------------

PROGRAM = """
import json, warnings
warnings.simplefilter("ignore")
from omnigraph import Graph, pipeline

spark = pipeline.session({arguments})
names = ["spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.sql.caseSensitive", "spark.app.name"]
print(json.dumps({{**{{n: spark.conf.get(n) for n in names}}, "master": spark.sparkContext.master}}))
"""

CLI = "from omnigraph.cli.main import run; run()"


def ran(command: list[str], **environment: str) -> dict[str, Any]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        command, env={**kept, "PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE}", **environment}, capture_output=True,
        text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def written(folder: Path, arguments: str = "") -> str:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(arguments=arguments))
    return str(path)


@pytest.mark.processes
def test_a_submitted_program_has_its_options(tmp_path: Path) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    options = ["--master", "local[2]", "--name", "mine", "--conf", "spark.sql.shuffle.partitions=3"]
    found = ran([submit, *options, written(tmp_path)], PYSPARK_PYTHON=sys.executable, SPARK_MASTER="local[1]")
    assert found == {
        "master": "local[2]", "spark.sql.shuffle.partitions": "3", "spark.app.name": "mine",
        "spark.sql.session.timeZone": "UTC", "spark.sql.caseSensitive": "true",
    }  # fmt: skip


@pytest.mark.processes
def test_defaults_are_those_of_the_file_then_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[3]\nspark.sql.session.timeZone Asia/Tokyo\nspark.sql.shuffle.partitions 5\n"
    )
    program = written(tmp_path, 'config={"spark.sql.shuffle.partitions": 6}')
    found = ran([sys.executable, program], SPARK_CONF_DIR=str(tmp_path))
    assert found == {
        "master": "local[3]", "spark.sql.shuffle.partitions": "6", "spark.app.name": "omnigraph",
        "spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.caseSensitive": "true",
    }  # fmt: skip


@pytest.mark.processes
def test_settings_of_a_job_reach_its_session(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA.partition("query")[0])
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "people.parquet")
    (tmp_path / "job.yaml").write_text(f"graph: {graph.uri}\nnodes: {{Person: people.parquet}}\n")
    logs = tmp_path / "events"
    logs.mkdir()
    conf = {
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": str(logs), "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false", "spark.app.name": "nightly=1",
    }  # fmt: skip
    given = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-c", CLI, "pipeline", "run", str(tmp_path / "job.yaml"), "--master", "local[1]"]
    assert ran([*command, *given, "--json", "--quiet"])["nodes"] == {"Person": 1}
    [log] = logs.iterdir()
    assert '"App Name":"nightly=1"' in log.read_text()


def test_a_setting_is_a_key_and_a_value(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from omnigraph.cli.main import app

    graph = Graph.init(tmp_path / "g", SCHEMA.partition("query")[0])
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "people.parquet")
    (tmp_path / "job.yaml").write_text(f"graph: {graph.uri}\nnodes: {{Person: people.parquet}}\n")
    ran = CliRunner().invoke(app, ["pipeline", "run", str(tmp_path / "job.yaml"), "--conf", "nonsense"])
    assert ran.exit_code == 2
    assert "--conf nonsense: write --conf KEY=VALUE" in ran.output
