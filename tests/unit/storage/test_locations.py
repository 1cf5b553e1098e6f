"""Where a graph may lie: below any directory that Lance can name, never inside another graph, and nothing beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import lance
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.storage.layout import GraphRoot
from tests.conftest import SCHEMA
from tests.support.rows import knows, person
from tests.support.s3 import S3Server

NAMES = [
    "plain", "two words", "50%", "a%20b", "%2F", "a#b", "a?b", "a&b=c", "it's", 'a"b', "a\\b", "a:b", "s3:x", "file:x",
    "~", "~nobody", "-x", "a;b", "a*b", "[x]", "{x}", "a|b", "<x>", "a^b", "a`b", "a@b", ".hidden", "..x", "x" * 250,
    "\u00e9", "e\u0301", "\u65e5\u672c", "\u200b", "\U0001d518", " leading", "trailing ",
]  # fmt: skip
REFUSED = ["new\nline", "tab\tx", "\x01", "\x7f", "nul\0", "\udcff"]
QUERY = "query q() { match { $p: Person } return { $p.name as name } order { name } }"


def use_everything(root: str | Path, outside: Path) -> None:
    """Every operation that touches the disk, each from a handle of its own where that differs."""
    graph = Graph.init(root, SCHEMA)
    graph.load([person("a"), person("b"), knows("a", "b")])
    graph.branches.create("feature/x")
    graph.tags.create("v1")
    graph.load([person("a", 7), person("c")], branch="feature/x", mode="merge")
    graph.delete("Person", ["b"], branch="feature/x")
    graph.branches.merge("feature/x", "main")
    graph.maintenance.optimize()
    graph.maintenance.cleanup(keep=10, confirm=True)
    again = Graph.open(root)
    again.load([person("d")])
    assert again.query(QUERY).table["name"].to_pylist() == ["a", "c", "d"]
    assert again.rows("node:Person", "v1").num_rows == 2
    again.export(outside / "out.jsonl")
    again.branches.delete("feature/x")
    assert not Graph.open(root, mode="ro").maintenance.fsck().problems


@pytest.mark.parametrize("name", NAMES, ids=lambda n: ascii(n)[:30])
def test_below_any_directory(tmp_path: Path, name: str) -> None:
    root = tmp_path / "top" / name / "graph"
    root.parent.mkdir(parents=True)
    use_everything(root, tmp_path)
    assert [each.name for each in (tmp_path / "top").iterdir()] == [name]
    assert [each.name for each in root.parent.iterdir()] == ["graph"]


@pytest.mark.parametrize("name", NAMES, ids=lambda n: ascii(n)[:30])
def test_a_root_of_any_name_by_uri(tmp_path: Path, name: str) -> None:
    root = tmp_path / "top" / name
    uri = f"file://{quote(str(root))}"
    Graph.init(uri, SCHEMA).load([person("a")])
    assert Graph.open(root).rows("node:Person").num_rows == 1
    assert [each.name for each in (tmp_path / "top").iterdir()] == [name]


@pytest.mark.parametrize("name", ["a%20b", "\u00e9", "a#b", "it's"])
def test_the_command_line(tmp_path: Path, name: str) -> None:
    root = tmp_path / "top" / name
    schema = tmp_path / "schema.pg"
    schema.write_text(SCHEMA)
    for arguments in (["init", str(root), "--schema", str(schema), "--quiet"], ["snapshot", "--store", str(root)]):
        program = [sys.executable, "-c", "from omnigraph.cli.main import run; raise SystemExit(run())"]
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert [each.name for each in (tmp_path / "top").iterdir()] == [name]


@pytest.mark.parametrize("name", REFUSED, ids=lambda n: ascii(n))
def test_names_that_lance_cannot_write_are_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    for location in (
        f"{tmp_path}/top/{name}/graph",
        f"file://{quote(f'{tmp_path}/top/{name}', errors='surrogatepass')}",
    ):
        with pytest.raises(InvalidArgument):
            Graph.init(location, SCHEMA)
        with pytest.raises(InvalidArgument):
            Graph.open(location)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "location",
    [
        "", " ", "file://host/x", "file:///tmp/a?b", "file:///tmp/a#b", "s3://", "s3://bucket",
        "s3://b/a b", "s3://b/a?b", "s3://b/a#b", "s3://b/50%", "s3://b/\u00e9", "s3://b/a//b", "s3://b/../x", "s3://b/.",
        "s3://[/x",
        "http://x/y", "gs://b/x", "~no-such-user-anywhere/x",
    ],
)  # fmt: skip
def test_locations_that_are_none(location: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        GraphRoot.parse(location)
    assert caught.value.hint


def test_a_path_with_dots_is_the_path_without(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Graph.init(f"{tmp_path}/a/../b/./g", SCHEMA).load([person("x")])
    assert Graph.open(tmp_path / "b/g").rows("node:Person").num_rows == 1
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_the_guard_tag_is_one_that_lance_reads(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for entry in graph.snapshot().tables.values():
        tags = lance.dataset(f"{graph.uri}/{entry.location}").tags.list()
        assert [tag["version"] for tag in tags.values()] == [1]


@pytest.mark.s3
def test_every_character_that_a_key_may_have(s3: S3Server, tmp_path: Path) -> None:
    use_everything(f"s3://graphs/{tmp_path.name}/a.b_c=d+e@f,g:h-i/graph", tmp_path)


def test_no_graph_inside_another(root: str) -> None:
    outer = Graph.init(root, SCHEMA)
    for inner in ("x", "nodes/x", "a/b/c", "__derived/x"):
        with pytest.raises(InvalidArgument, match="lies inside the graph at"):
            Graph.init(f"{root}/{inner}", SCHEMA)
    outer.load([person("a")])
    beside = f"{root}-2/below"
    Graph.init(beside, SCHEMA)
    with pytest.raises(OmnigraphError, match="already"):
        Graph.init(root, SCHEMA)
