"""The examples for schedulers and for declarative pipelines do what they say."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.pipeline.java import provide_java
from tests.spark.cluster import ROOT

EXAMPLES = ROOT / "examples" / "orchestration"
PEOPLE = "name,age\nAda,36\nBob,\nCy,17\n"


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PEOPLE_FOLDER", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a.csv").write_text(PEOPLE)
    return tmp_path


def names(folder: Path, at: str = "main") -> list[str]:
    return sorted(Graph.open(folder / "people.omni").rows("node:Person", at=at)["name"].to_pylist())


def test_airflow_tasks(spark: Any, folder: Path) -> None:
    example = module_of(EXAMPLES / "airflow_dag.py")
    run = example.load()
    assert [(each["written"], each["dropped"]) for each in run["types"]] == [(2, 1)]
    assert names(folder) == []
    assert example.check() == 2
    assert (example.publish(), example.publish()) == ("fast_forward", "already_up_to_date")
    assert names(folder) == ["Ada", "Cy"]
    assert example.load()["types"] == []  # Airflow tries again: nothing is loaded twice
    (folder / "landing/b.csv").write_text("name,age\nDan,999\n")
    example.load()
    with pytest.raises(ValueError, match="older than 150"):
        example.check()
    assert names(folder) == ["Ada", "Cy"]
    if example.dag is None:
        pytest.skip("Airflow is not installed: the DAG itself is not built")
    assert [task.task_id for task in example.DAG.tasks] == ["load", "check", "publish"]


def test_dagster_assets(spark: Any, folder: Path) -> None:
    example = module_of(EXAMPLES / "dagster_defs.py")
    assert {k: v for k, v in example.incoming_metadata().items() if k in ("written", "rejected")} == {
        "written": 2, "rejected": 0,
    }  # fmt: skip
    assert example.people_metadata()["people"] == 2
    assert names(folder) == ["Ada", "Cy"]
    if example.dagster is None:
        pytest.skip("Dagster is not installed: the assets themselves are not built")
    assets = list(example.defs.assets)
    assert example.dagster.materialize(assets).success


class Config(dict[str, Any]):
    """`dbt.config` of a Python model: called with values, asked for them."""

    def __call__(self, **values: Any) -> None:
        self.update({name: value for name, value in values.items() if name not in self})


class Refs:
    """What dbt hands to a Python model: the tables of other models, and the configuration."""

    def __init__(self, spark: Any, config: dict[str, Any]) -> None:
        self._spark = spark
        self.config = Config(config)

    def ref(self, model: str) -> Any:
        """The rows that the SQL of a model gives, on tables of this session."""
        text = (EXAMPLES / f"dbt/models/{model}.sql").read_text()
        return self._spark.sql(re.sub(r"\{\{ source\('(\w+)', '(\w+)'\) \}\}", r"\1_\2", text))


def test_a_dbt_model(spark: Any, tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person")
    people = [("Ada", 36), ("Bob", 18), ("Cy", 7)]
    spark.createDataFrame(people, "name string, age int").createOrReplaceTempView("crm_people")
    spark.createDataFrame([("Ada", "Bob")], "a string, b string").createOrReplaceTempView("crm_friends")
    example = module_of(EXAMPLES / "dbt/models/people_graph.py")
    dbt = Refs(spark, {"graph": str(tmp_path / "g"), "key": "invocation-1"})
    log = [tuple(row) for row in example.model(dbt, spark).collect()]
    commit = graph.commits.list()[0].graph_commit_id
    assert log == [("Person", 2, commit), ("Knows", 1, commit)]
    example.model(dbt, spark)
    assert graph.commits.list()[0].graph_commit_id == commit
    for view in ("crm_people", "crm_friends"):
        spark.catalog.dropTempView(view)


def spark_pipeline(folder: Path) -> str:
    """What `spark-pipelines run` says of the example, moved to a folder."""
    provide_java()
    spec = (EXAMPLES / "declarative/spark-pipeline.yaml").read_text()
    (folder / "spark-pipeline.yaml").write_text(spec.replace("/tmp/people-pipeline", f"{folder}/storage"))
    shutil.copy(EXAMPLES / "declarative/people.py", folder)
    env = {**os.environ, "SPARK_REMOTE": "local[2]", "PYSPARK_PYTHON": sys.executable, "OMNIGRAPH_FSYNC": "off"}
    command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", "spark-pipeline.yaml"]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
    return ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_sink_of_a_declarative_pipeline(tmp_path: Path) -> None:
    dp = pytest.importorskip("pyspark.pipelines", reason="this Spark has no declarative pipelines")
    if not hasattr(dp, "create_sink"):
        pytest.skip("the declarative pipelines of this Spark have no sinks")
    graph = Graph.init(tmp_path / "people.omni", "node Person { name: String @key  age: I32? }")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a.csv").write_text(PEOPLE)
    said = spark_pipeline(tmp_path)
    assert "Run is COMPLETED" in said, said[-3000:]
    assert names(tmp_path) == ["Ada"]
    (tmp_path / "landing/b.csv").write_text("name,age\nDee,44\n")
    assert "Run is COMPLETED" in spark_pipeline(tmp_path)
    assert names(tmp_path) == ["Ada", "Dee"]
    assert [each.kind for each in graph.commits.list()] == ["load", "load", "init"]
