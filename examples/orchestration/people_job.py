"""The three steps that schedulers run in these examples: load into a branch, check it, merge it into main.

Each step may be repeated: files that were loaded are not loaded again, and merging a branch twice changes nothing. So a
scheduler may retry whatever failed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph import Graph, pipeline

JOB = """
graph: people.omni
name: people
branch: incoming
from: main
mode: merge
incremental: files
on_error: reject
rejects: rejected.jsonl
nodes:
  Person: {path: landing/*.csv, expect: [{rule: age is not null, on_fail: drop}]}
"""
SCHEMA = "node Person { name: String @key  age: I32? }"


def prepare(folder: Path) -> None:
    """What is there before the first run: an empty graph, the job file, and a folder where files land."""
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    (folder / "people.yaml").write_text(JOB)
    if not (folder / "people.omni").exists():
        Graph.init(folder / "people.omni", SCHEMA)


def load(folder: Path) -> dict[str, Any]:
    """Load new files into the branch `incoming`; the numbers of the run, for whoever watches."""
    result = pipeline.run(pipeline.session(), pipeline.read_job(folder / "people.yaml"))
    assert result.summary is not None
    return result.summary.as_dict()


def check(folder: Path) -> int:
    """Refuse a branch that nobody should see on main; how many people it has."""
    rows = Graph.open(folder / "people.omni").rows("node:Person", at="incoming")
    ages = [age for age in rows["age"].to_pylist() if age is not None]
    if any(age > 150 for age in ages):
        raise ValueError("somebody is older than 150: main stays as it is")
    return rows.num_rows


def publish(folder: Path) -> str:
    """Merge the branch into main: one commit."""
    return str(Graph.open(folder / "people.omni").branches.merge("incoming", "main").outcome)
