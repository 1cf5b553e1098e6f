"""What a worker imports: every new worker pays for it before its first row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.execution.analytics.view import GraphView
from omnigraph.pipeline.load_commit import LoadTerms, begin_load, stage_job
from omnigraph.pipeline.sources import Split
from omnigraph.pipeline.staging import StageJob, stage_split
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.pipeline.topology import _described
from omnigraph.pipeline.topology_tasks import resolve_alone

UNUSED = (
    "pydantic", "rich", "typer", "networkx", "scipy", "sklearn", "yaml", "pytest", "fastapi", "pyspark.pandas",
    "omnigraph.analytics", "omnigraph.cli", "omnigraph.execution.arrow", "omnigraph.execution.analytics",
    "omnigraph.graph", "omnigraph.maintenance", "omnigraph.query", "omnigraph.server", "omnigraph.pipeline.api",
    "omnigraph.pipeline.bulk_load", "omnigraph.pipeline.job",
)  # fmt: skip
"""Packages without which rows are staged. Not pandas: pyarrow imports it by itself when it makes its first array."""


def staged_and_modules(stage: Callable[[StageJob, Split], Any], job: StageJob) -> Callable[[Split], list[str]]:
    """A task that stages a split and lists the modules of its process. Spark sends it by value: no test is imported."""

    def work(split: Split) -> list[str]:
        import sys

        assert stage(job, split).error is None
        return sorted(sys.modules)

    return work


def test_a_staging_task_imports_only_what_it_uses(spark: Any, tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person {\n  name: String @key\n}\n")
    file = tmp_path / "people.jsonl"
    file.write_text('{"name": "Ada"}\n')
    terms = LoadTerms(mode="append", branch="main", actor=None, message=None)
    job = stage_job(graph.repository.store, begin_load(graph.repository, terms), terms)
    split = Split(number=0, path=str(file), format="jsonl", type_name="Person", end=file.stat().st_size)
    # A worker that ran another test may have imported more: these tasks get workers of their own.
    with own_workers(spark):
        runner = TaskRunner(spark, "list the modules of a worker")
        (modules,) = runner.map(partial(staged_and_modules(stage_split, job)), [split], "stage")
    found = {name for name in modules for unused in UNUSED if name == unused or name.startswith(f"{unused}.")}
    assert "omnigraph.pipeline.staging" in modules
    assert found == set()


def test_building_a_topology_imports_only_what_it_uses(spark: Any, tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key }\nedge Knows: Person -> Person")
    graph.load([{"type": "Person", "data": {"name": "Ada"}}, {"edge": "Knows", "from": "Ada", "to": "Ada"}])
    view = GraphView(graph.local.data(None), ("Knows",))
    job, splits = _described(graph, view)
    with own_workers(spark):
        runner = TaskRunner(spark, "list the modules of a worker")
        (modules,) = runner.map(resolved_and_modules(resolve_alone), [(job, splits)], "build")
    used = {"omnigraph.execution.analytics"}
    found = {name for name in modules for unused in UNUSED if name == unused or name.startswith(f"{unused}.")}
    assert "omnigraph.pipeline.topology_tasks" in modules
    assert {name for name in found if not name.startswith(tuple(used))} == set()


def resolved_and_modules(resolve: Callable[[Any], Any]) -> Callable[[Any], list[str]]:
    """A task that finds the ends of edges and lists the modules of its process."""

    def work(given: Any) -> list[str]:
        import sys

        assert len(resolve(given)) == 1
        return sorted(sys.modules)

    return work


class own_workers:
    """New Python workers for a while: Spark keeps one pool for each environment."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext

    def __enter__(self) -> None:
        self._context.environment["OMNIGRAPH_TEST_WORKERS"] = "own"

    def __exit__(self, *_: object) -> None:
        del self._context.environment["OMNIGRAPH_TEST_WORKERS"]


@pytest.mark.parametrize("name", ["lint_schema", "parse_schema"])
def test_names_of_the_schema_package_are_found_when_asked_for(name: str) -> None:
    import omnigraph.schema

    assert callable(getattr(omnigraph.schema, name))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = omnigraph.schema.nothing  # type: ignore[attr-defined]
