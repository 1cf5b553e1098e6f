"""Jobs that load each file once: also when two runs meet, after a crash and when the graph is cleaned up."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidArgument, JobError, OmnigraphError
from omnigraph.pipeline.job import parse_job
from omnigraph.storage.failpoints import VARIABLE, Point
from omnigraph.storage.layout import LOADS, RECOVERY
from omnigraph.versioning.store import Settings

SCHEMA = """
node Person { name: String @key  age: I32? }
node Visit { who: String }
"""
JOB = "graph: g\nincremental: files\n{more}\nnodes:\n  Visit: in/*.csv\n"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    (tmp_path / "in").mkdir()
    return Graph.init(tmp_path / "g", SCHEMA)


def visits(folder: Path, name: str, *who: str) -> Path:
    path = folder / "in" / name
    path.write_text("who\n" + "".join(f"{each}\n" for each in who))
    return path


def job_in(folder: Path, more: str = "", text: str = JOB) -> Any:
    path = folder / "visits.yaml"
    path.write_text(text.replace("{more}", more))
    return pipeline.read_job(path)


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(row["who"] for row in graph.rows("node:Visit", branch).to_pylist())


def states(graph: Graph, job: Any) -> list[tuple[str, str]]:
    return [(Path(each.path).name, each.state) for each in pipeline.job_status(graph, job)]


def test_a_run_loads_the_files_that_are_new(spark: Any, tmp_path: Path, graph: Graph) -> None:
    job = job_in(tmp_path)
    visits(tmp_path, "1.csv", "a", "b")
    assert states(graph, job) == [("1.csv", "pending")]
    assert pipeline.run(spark, job, graph).nodes == {"Visit": 2}
    visits(tmp_path, "2.csv", "c")
    assert states(graph, job) == [("1.csv", "loaded"), ("2.csv", "pending")]
    assert pipeline.run(spark, job, graph).nodes == {"Visit": 1}
    before = len(graph.commits.list())
    result = pipeline.run(spark, job, graph)
    assert (result.nodes, result.commit, len(graph.commits.list())) == ({}, None, before)
    assert names(graph) == ["a", "b", "c"]
    [first, second] = pipeline.job_status(graph, job)
    assert [first.commit_id, second.commit_id] == [c.graph_commit_id for c in graph.commits.list()[:2]][::-1]


def test_jobs_and_branches_have_lists_of_their_own(spark: Any, tmp_path: Path, graph: Graph) -> None:
    visits(tmp_path, "1.csv", "a")
    pipeline.run(spark, job_in(tmp_path), graph)
    graph.branches.create("side")
    visits(tmp_path, "2.csv", "b")
    pipeline.run(spark, job_in(tmp_path), graph)
    side = job_in(tmp_path, "branch: side")
    assert states(graph, side) == [("1.csv", "loaded"), ("2.csv", "pending")]
    assert pipeline.run(spark, side, graph).nodes == {"Visit": 1}
    assert names(graph, "side") == ["a", "b"]
    other = job_in(tmp_path, "name: visits2")
    assert states(graph, other) == [("1.csv", "pending"), ("2.csv", "pending")]
    new = job_in(tmp_path, "branch: new\nfrom: main")
    assert pipeline.run(spark, new, graph).commit is None


def test_a_file_that_has_changed(spark: Any, tmp_path: Path, graph: Graph) -> None:
    visits(tmp_path, "1.csv", "a")
    pipeline.run(spark, job_in(tmp_path), graph)
    visits(tmp_path, "1.csv", "a", "b")
    assert states(graph, job_in(tmp_path)) == [("1.csv", "changed")]
    with pytest.raises(JobError, match="has changed since commit"):
        pipeline.run(spark, job_in(tmp_path), graph)
    text = "graph: g\nmode: merge\nincremental: files\nnodes:\n  Person: {path: in/*.csv, columns: {name: who}}\n"
    people = job_in(tmp_path, text=text.replace("incremental", "name: people\nincremental"))
    assert pipeline.run(spark, people, graph).nodes == {"Person": 2}
    visits(tmp_path, "1.csv", "a", "b", "c")
    assert pipeline.run(spark, people, graph).nodes == {"Person": 3}
    assert pipeline.run(spark, people, graph).commit is None


def test_a_load_that_fails_or_writes_nothing_leaves_its_files_for_the_next(
    spark: Any, tmp_path: Path, graph: Graph
) -> None:
    path = visits(tmp_path, "1.csv", "a")
    path.write_text("who,age\na,1\n")
    with pytest.raises(OmnigraphError):
        pipeline.run(spark, job_in(tmp_path), graph)
    visits(tmp_path, "1.csv", "a")
    from dataclasses import replace

    assert pipeline.run(spark, replace(job_in(tmp_path), dry_run=True), graph).nodes == {"Visit": 1}
    assert states(graph, job_in(tmp_path)) == [("1.csv", "pending")]
    assert pipeline.run(spark, job_in(tmp_path), graph).nodes == {"Visit": 1}


def test_lists_stay_as_long_as_a_branch_needs_them(spark: Any, tmp_path: Path, graph: Graph) -> None:
    for number in range(3):
        visits(tmp_path, f"{number}.csv", str(number))
        pipeline.run(spark, job_in(tmp_path), graph)
    objects = graph.repository.store.objects
    objects.put_new_json(f"{LOADS}/01M7FZW8PE6BRX5GD934ZTQBRN.json", {"of": "a load that was never published"})
    graph.maintenance.cleanup(keep=3, grace=0, confirm=True, force=True)
    assert len(objects.list(LOADS)) == 3
    assert states(Graph.open(tmp_path / "g"), job_in(tmp_path)) == [(f"{n}.csv", "loaded") for n in range(3)]
    assert graph.maintenance.fsck().problems == ()


def test_every_64th_list_names_all_files(tmp_path: Path, graph: Graph) -> None:
    from omnigraph.versioning.load_lists import InputFile, LoadedFiles

    files = {("Visit", str(n)): InputFile("Visit", str(n), n, n) for n in range(63)}
    known = LoadedFiles(files, {}, None, 63)
    mine = known.next_list("run", [InputFile("Visit", "new", 1, 1), InputFile("Visit", "3", 9, 9)])
    assert (mine.is_whole, mine.number, len(mine.files)) == (True, 64, 64)
    assert InputFile("Visit", "3", 9, 9) in mine.files
    assert not LoadedFiles(files, {}, None, 64).next_list("run", []).is_whole


def cli(folder: Path, *arguments: str, failpoint: str) -> subprocess.Popen[str]:
    """A run in a process of its own."""
    env = {**os.environ, VARIABLE: failpoint}
    command = [
        sys.executable,
        "-c",
        "from omnigraph.cli.main import run; raise SystemExit(run())",
        "pipeline",
        *arguments,
    ]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.processes
def test_two_runs_that_meet_load_each_file_once(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """The other process waits before its swap; this one publishes the same files meanwhile, and then one more."""
    visits(tmp_path, "1.csv", "a", "b")
    job = job_in(tmp_path)
    other = cli(
        tmp_path, "run", "visits.yaml", "--master", "local[1]", "--json", "--quiet",
        failpoint=f"{Point.BEFORE_SWAP}:pause:40",
    )  # fmt: skip
    try:
        until = time.monotonic() + 150
        while not list((tmp_path / "g" / RECOVERY).glob("*.staged")) and time.monotonic() < until:
            assert other.poll() is None, other.communicate()
            time.sleep(0.1)
        assert pipeline.run(spark, job, graph).nodes == {"Visit": 2}
        out, complaint = other.communicate(timeout=200)
    finally:
        other.kill()
        other.wait()
    assert other.returncode == 0, complaint
    assert json.loads(out)["nodes"] == {}
    assert names(Graph.open(tmp_path / "g")) == ["a", "b"]
    assert len(list((tmp_path / "g" / LOADS).iterdir())) == 2  # that of the loser is garbage


@pytest.mark.processes
@pytest.mark.parametrize("point", [pytest.param(Point.BEFORE_SWAP, marks=pytest.mark.slow), Point.SWAPPED])
def test_a_run_that_is_killed_loads_its_files_once(spark: Any, tmp_path: Path, graph: Graph, point: Point) -> None:
    visits(tmp_path, "1.csv", "a", "b")
    job = job_in(tmp_path)
    killed = cli(tmp_path, "run", "visits.yaml", "--master", "local[1]", "--quiet", failpoint=f"{point}:kill")
    killed.communicate(timeout=200)
    assert killed.returncode != 0
    fresh = Graph.open(tmp_path / "g")
    result = pipeline.run(spark, job, fresh)
    assert result.nodes == ({"Visit": 2} if point == Point.BEFORE_SWAP else {})
    late = Graph.open(tmp_path / "g", settings=Settings(lease=0.2, lease_margin=0.1))
    until = time.monotonic() + 60
    while list((tmp_path / "g" / RECOVERY).glob("*")) and time.monotonic() < until:
        late.recovery.run()
        time.sleep(0.1)
    assert not list((tmp_path / "g" / RECOVERY).glob("*"))
    assert names(late) == ["a", "b"]
    assert states(late, job) == [("1.csv", "loaded")]


def test_a_backfill_loads_files_again(spark: Any, tmp_path: Path, graph: Graph) -> None:
    text = "graph: g\nmode: merge\nincremental: files\nnodes:\n  Person: {path: in/*.csv, columns: {name: who}}\n"
    job = job_in(tmp_path, text=text)
    old, new = visits(tmp_path, "1.csv", "a"), visits(tmp_path, "2.csv", "b")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    pipeline.run(spark, job, graph)
    graph.delete("Person", ["a", "b"])
    since = dt.datetime(2010, 1, 1, tzinfo=dt.UTC)
    assert pipeline.backfill(spark, job, graph, since=since).nodes == {"Person": 1}
    assert [row["name"] for row in graph.rows("node:Person").to_pylist()] == ["b"]
    assert pipeline.backfill(spark, job, graph).nodes == {"Person": 2}
    assert pipeline.run(spark, job, graph).commit is None
    assert new.exists()
    with pytest.raises(InvalidArgument, match="would add rows twice"):
        pipeline.backfill(spark, job_in(tmp_path), graph)
    with pytest.raises(JobError, match="not incremental"):
        pipeline.backfill(spark, parse_job(text.replace("incremental: files\n", ""), tmp_path / "j.yaml"), graph)


MISTAKES = {
    "no such way": ("incremental: rows\nnodes: {P: a.csv}", 1, 14, "incremental 'rows' is unknown"),
    "overwrite": ("incremental: files\nmode: overwrite\nnodes: {P: a.csv}", 2, 7, "cannot overwrite"),
    "a key": ("incremental: files\nidempotency_key: k\nnodes: {P: a.csv}", 2, 18, "makes its own keys"),
    "a colon": ("incremental: files\nname: 'a:b'\nnodes: {P: a.csv}", 2, 7, "has no colon"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    text, line, column, words = MISTAKES[name]
    with pytest.raises(JobError, match=words) as refused:
        parse_job(text, Path("job.yaml"))
    assert refused.value.span is not None
    assert (refused.value.span.line, refused.value.span.column) == (line, column)
