"""Conflicts as a file: written, decided one by one, read by the next merge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.cli.main import run
from omnigraph.errors import InvalidArgument, MergeConflict
from tests.support.graphs import SMALL, knows, people
from tests.support.invariants import check_every_version


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Both branches changed ann, bob and cyd; the branch deleted dan, whom an edge of main names, and so does eve's."""
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob", "cyd", "dan", "eve", age=1)})
    graph.branches.create("dev")
    graph.load({"Person": people("ann", "bob", "cyd", age=2)}, "merge", "dev")
    graph.delete("Person", ["dan", "eve"], "dev")
    graph.load({"Person": people("ann", "bob", "cyd", age=3)}, "merge")
    graph.load({"Knows": knows(("ann", "dan"), ("ann", "eve"))})
    return graph


def decide(path: Path, **sides: str) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["resolution"] = sides.get(line["entity_id"].replace("-", "_"), line["resolution"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def ages(graph: Graph) -> dict[str, int]:
    rows = graph.rows("Person")
    return dict(sorted(zip(rows["name"].to_pylist(), rows["age"].to_pylist(), strict=True)))


def test_conflicts_are_decided_one_by_one(graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "open.jsonl"
    merge = ["branch", "merge", "dev", "--store", graph.uri, "--quiet"]
    assert run([*merge, "--conflicts", str(path)]) == 1
    assert f"5 conflicts written to {path}" in capsys.readouterr().err
    assert {line["resolution"] for line in map(json.loads, path.read_text().splitlines())} == {None}
    decide(path, ann="ours", bob="theirs", ann_dan="ours")
    assert run([*merge, "--resolutions", str(path), "--conflicts", str(tmp_path / "rest.jsonl")]) == 1
    rest = [json.loads(line) for line in (tmp_path / "rest.jsonl").read_text().splitlines()]
    assert {(line["entity_id"], line["resolution"]) for line in rest if line["resolution"] is None} == {
        ("cyd", None), ("ann-eve", None),
    }  # fmt: skip
    decide(path, cyd="theirs", ann_eve="theirs")
    assert run([*merge, "--resolutions", str(path)]) == 0
    assert ages(graph) == {"ann": 3, "bob": 2, "cyd": 2, "dan": 1}
    assert graph.rows("Knows")["id"].to_pylist() == ["ann-dan"]
    check_every_version(graph.uri)


def test_a_decision_counts_for_the_values_that_it_was_made_about(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev")
    decided = [replace(each, resolution="theirs") for each in caught.value.conflicts]
    graph.load({"Person": people("ann", age=4)}, "merge")
    with pytest.raises(MergeConflict) as again:
        graph.branches.merge("dev", resolutions=decided)
    assert [(c.entity_id, c.ours["age"]) for c in again.value.conflicts if c.resolution is None] == [("ann", 4)]
    assert graph.branches.merge("dev", strategy="ours", resolutions=decided).commit is not None
    assert ages(graph) == {"ann": 4, "bob": 2, "cyd": 2}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", r"open\.jsonl:1: this is not JSON"),
        ("[]", r"open\.jsonl:1: this is no conflict"),
        ('{"kind": "DivergentUpdate", "resolution": "mine"}', r"open\.jsonl:1: resolution 'mine' is unknown"),
        ('{"kind": "UniqueViolation", "resolution": "ours"}', r"UniqueViolation has no side to choose"),
        ('{"kind": "DivergentUpdate", "resolution": "ours"}', r"has no entity_kind and type_name and entity_id"),
    ],
)
def test_a_file_that_is_none_of_conflicts(graph: Graph, tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "open.jsonl"
    path.write_text(f"{line}\n")
    head = graph.commits.head()
    with pytest.raises(InvalidArgument, match=says):
        graph.branches.merge("dev", resolutions=path)
    with pytest.raises(InvalidArgument, match="there is no file"):
        graph.branches.merge("dev", resolutions=tmp_path / "nowhere")
    assert graph.commits.head() == head
