"""A copy of a graph is the graph: on disk, on S3, again and again, beside writers, and after a crash."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.cli.main import run
from omnigraph.errors import HistoricalVersionReclaimed, InvalidArgument, NotFound, OmnigraphError
from tests.maintenance.scenes import busy_graph, contents, files_below, leftovers, sweep
from tests.support.graphs import Crash, people
from tests.support.invariants import check_every_version
from tests.support.s3 import S3Server


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = busy_graph(tmp_path, 3)
    graph.branches.create("dev/one")
    graph.load({"Person": people("on-dev")}, branch="dev/one")
    graph.branches.create("gone")
    graph.branches.delete("gone")
    graph.tags.create("v1", "main~2")
    return graph


def whole(graph: Graph) -> dict[str, object]:
    """Everything that readers can see."""
    names = [branch.name for branch in graph.branches.list()]
    tags = [tag.name for tag in graph.tags.list()]
    commits = {name: [c.graph_commit_id for c in graph.commits.list(name)] for name in names}
    return {"commits": commits, "tags": tags} | {at: contents(graph, at) for at in (*names, *tags, "main~2")}


def test_a_backup_is_the_graph_and_follows_it(graph: Graph, tmp_path: Path) -> None:
    first = graph.maintenance.backup(tmp_path / "copy")
    copy = Graph.open(tmp_path / "copy", mode="ro")
    assert (first.is_clean, first.objects_skipped, first.objects_removed) == (True, 0, 0)
    assert whole(copy) == whole(graph)
    assert whole(Graph.open(tmp_path / "copy", mode="ro")) == whole(graph)

    again = graph.maintenance.backup(tmp_path / "copy")
    assert (again.objects_copied, again.bytes_copied) == (0, 0)
    graph.load({"Person": people("later")})
    graph.branches.delete("dev/one")
    graph.tags.delete("v1")
    graph.tags.create("v2")
    graph.maintenance.optimize()
    news = graph.maintenance.backup(tmp_path / "copy")
    assert 0 < news.objects_copied < first.objects_copied
    assert news.objects_removed == 2  # both records of the tag that was deleted
    assert whole(Graph.open(tmp_path / "copy", mode="ro")) == whole(graph)
    sweep(graph)
    graph.load({"Person": people("after cleanup")})
    assert graph.maintenance.backup(tmp_path / "copy").is_clean
    assert contents(Graph.open(tmp_path / "copy", mode="ro")) == contents(graph)
    check_every_version(str(tmp_path / "copy"))


def test_what_is_named_is_there_before_its_name(graph: Graph, tmp_path: Path) -> None:
    graph.maintenance.backup(tmp_path / "copy")
    written = {
        path.relative_to(tmp_path / "copy").as_posix(): path.stat().st_mtime_ns
        for path in (tmp_path / "copy").rglob("*") if path.is_file()
    }  # fmt: skip
    main = written.pop("__refs/main/000000.json")
    names = [at for path, at in written.items() if path.startswith(("__refs/", "__tags/"))]
    versions = [at for path, at in written.items() if path.startswith("__manifest/") and "/_versions/" in path]
    files = [at for path, at in written.items() if not (at in names or at in versions)]
    assert len(files) > len(versions) > len(names) > 0
    assert max(files) <= min(versions)
    assert max(versions) <= min(names)
    assert max(names) <= main


def test_a_clone_lives_on_its_own(graph: Graph, tmp_path: Path) -> None:
    before = whole(graph)
    clone = Graph.clone(graph.uri, tmp_path / "clone")
    clone.load({"Person": people("only-here")})
    clone.branches.merge("dev/one")
    clone.branches.create("gone")
    clone.maintenance.optimize()
    sweep(clone)
    assert leftovers(clone) == {}
    assert whole(graph) == before
    check_every_version(clone.uri)


@pytest.mark.s3
def test_between_stores_and_back(graph: Graph, tmp_path: Path, s3: S3Server) -> None:
    away, back = f"s3://graphs/{tmp_path.name}/copy", tmp_path / "back"
    assert graph.maintenance.backup(away).is_clean
    assert whole(Graph.open(away, mode="ro")) == whole(graph)
    graph.load({"Person": people("later")})
    news = graph.maintenance.backup(away)
    assert 0 < news.objects_copied < 12
    clone = Graph.clone(away, back)
    assert whole(clone) == whole(graph)
    clone.load({"Person": people("only-here")})
    check_every_version(clone.uri)


def test_what_is_no_copy_is_left_alone(graph: Graph, tmp_path: Path) -> None:
    graph.maintenance.backup(tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "second")
    Graph.open(tmp_path / "second").load({"Person": people("written there")}, branch="dev/one")
    with pytest.raises(InvalidArgument, match="is no copy of"):
        graph.maintenance.backup(tmp_path / "second")
    Graph.open(tmp_path / "copy").load({"Person": people("written there")})
    files = files_below(Graph.open(tmp_path / "copy", mode="ro"))
    with pytest.raises(InvalidArgument, match="is no copy of"):
        graph.maintenance.backup(tmp_path / "copy")
    Graph.init(tmp_path / "other", graph.schema.show())
    with pytest.raises(InvalidArgument, match="is no copy of"):
        graph.maintenance.backup(tmp_path / "other")
    shutil.copytree(tmp_path / "copy", tmp_path / "diverged")
    graph.load({"Person": people("written here")})
    with pytest.raises(InvalidArgument, match="is no copy of"):
        graph.maintenance.backup(tmp_path / "diverged")
    with pytest.raises(InvalidArgument, match="holds something already"):
        Graph.clone(graph.uri, tmp_path / "copy")
    with pytest.raises(InvalidArgument, match="onto itself"):
        graph.maintenance.backup(graph.uri)
    with pytest.raises(InvalidArgument, match="lies inside the graph"):
        graph.maintenance.backup(f"{graph.uri}/copy")
    with pytest.raises(InvalidArgument, match="holds the graph"):
        graph.maintenance.backup(Path(graph.uri).parent)
    with pytest.raises(NotFound):
        Graph.clone(tmp_path / "nowhere", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert files_below(Graph.open(tmp_path / "copy", mode="ro")) == files


def cut_short(graph: Graph, target: Path, after: int) -> None:
    """A backup whose process dies after so many objects."""
    seen: list[int] = []

    def crash(count: int) -> None:
        seen.append(count)
        if len(seen) == after:
            raise Crash

    with pytest.raises(Crash):
        graph.maintenance.backup(target, progress=crash)


@pytest.mark.parametrize("left", [1, 2, 3, 5, 10, 30])
def test_a_copy_that_was_cut_short_is_finished(graph: Graph, tmp_path: Path, left: int) -> None:
    total = graph.maintenance.backup(tmp_path / "whole").objects_copied
    cut_short(graph, tmp_path / "copy", total - left)
    with contextlib.suppress(OmnigraphError):  # no graph yet, or main is complete
        assert contents(Graph.open(tmp_path / "copy", mode="ro")) == contents(graph)
    shutil.copytree(tmp_path / "copy", tmp_path / "probe")
    with pytest.raises(OmnigraphError):
        Graph.open(tmp_path / "probe").load({"Person": people("early")})
    report = graph.maintenance.backup(tmp_path / "copy")
    assert report.is_clean
    assert report.objects_skipped > 0
    assert whole(Graph.open(tmp_path / "copy", mode="ro")) == whole(graph)


def test_a_copy_that_was_not_brought_up_to_date_is_as_it_was(graph: Graph, tmp_path: Path) -> None:
    graph.maintenance.backup(tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "probe")
    before = contents(graph)
    graph.load({"Person": people("later")})
    graph.branches.create("new")
    total = graph.maintenance.backup(tmp_path / "probe").objects_copied
    states = []
    for after in range(1, total):
        shutil.copytree(tmp_path / "copy", tmp_path / f"{after}")
        cut_short(graph, tmp_path / f"{after}", after)
        states.append(contents(Graph.open(tmp_path / f"{after}", mode="ro")))
    assert states[0] == before
    assert all(state in (before, contents(graph)) for state in states)


def test_commits_beside_a_copy_are_in_it_or_not(graph: Graph, tmp_path: Path) -> None:
    written: list[str] = []

    def write(_: int) -> None:
        if len(written) < 8:
            written.append(f"beside-{len(written)}")
            graph.load({"Person": people(written[-1])})

    report = graph.maintenance.backup(tmp_path / "copy", progress=write)
    assert report.is_clean
    copy = Graph.open(tmp_path / "copy", mode="ro")
    head = copy.commits.head().graph_commit_id
    assert contents(copy) == contents(graph, head)
    assert graph.maintenance.backup(tmp_path / "copy").is_clean
    assert contents(Graph.open(tmp_path / "copy", mode="ro")) == contents(graph)


def test_a_cleanup_that_takes_what_is_to_be_copied_is_told(graph: Graph, tmp_path: Path) -> None:
    cleaned: list[int] = []

    def clean(_: int) -> None:
        if not cleaned:
            cleaned.append(1)
            sweep(graph)

    with pytest.raises(HistoricalVersionReclaimed, match="reclaimed by a cleanup while it was to be copied"):
        graph.maintenance.backup(tmp_path / "copy", progress=clean)
    assert graph.maintenance.backup(tmp_path / "copy").is_clean
    assert contents(Graph.open(tmp_path / "copy", mode="ro")) == contents(graph)


def test_the_commands(graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", str(tmp_path / "copy"), "--store", graph.uri]) == 0
    assert f"backed up {graph.uri} to {tmp_path / 'copy'}: " in capsys.readouterr().out
    assert run(["backup", str(tmp_path / "copy"), "--store", graph.uri, "--json"]) == 0
    assert '"objects_copied": 0' in capsys.readouterr().out
    assert run(["clone", graph.uri, str(tmp_path / "clone"), "--json"]) == 0
    assert '"clean": true' in capsys.readouterr().out
    assert run(["clone", graph.uri, str(tmp_path / "clone")]) == 1
    assert "holds something already" in capsys.readouterr().err
