"""Texts that name a state."""

from __future__ import annotations

import datetime as dt

import pytest

from omnigraph import Graph
from omnigraph.api.target import Back, Place, parse_target
from omnigraph.errors import CommitNotFound, InvalidArgument, NotFound, OmnigraphError, VersionNotFound

UTC = dt.UTC


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("main", None),
        ("dev/one", None),
        ("17", Place(None, 17)),
        ("dev@17", Place("dev", 17)),
        ("2026-01-31", Place(None, dt.datetime(2026, 1, 31, tzinfo=UTC))),
        ("dev@2026-01-31T12:00Z", Place("dev", dt.datetime(2026, 1, 31, 12, tzinfo=UTC))),
        ("2026-01-31T12:00+02:00", Place(None, dt.datetime(2026, 1, 31, 10, tzinfo=UTC))),
        ("main~", Back("main", 1)),
        ("main~0", Back("main", 0)),
        ("main~3", Back("main", 3)),
        ("main~1~2", Back("main~1", 2)),
        ("dev@17~2", Back("dev@17", 2)),
        ("~1", None),
    ],
)
def test_forms(text: str, parsed: object) -> None:
    assert parse_target(text) == parsed


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = Graph.init(tmp_path_factory.mktemp("targets") / "g", "node P { name: String @key }")
    for name in "ab":
        graph.load({"P": [{"name": name}]})
    graph.branches.create("dev")
    graph.load({"P": [{"name": "c"}]}, branch="dev")
    graph.load({"P": [{"name": "d"}]})
    graph.tags.create("v1", "main~1")
    return graph


def names(graph: Graph, at: object) -> str:
    return "".join(sorted(graph.rows("P", at=at)["name"].to_pylist()))  # type: ignore[arg-type]


def test_every_form_names_a_state(graph: Graph) -> None:
    dev, main = graph.commits.head("dev"), graph.commits.head()
    after = dt.datetime.fromtimestamp(dev.created_at / 1e6, UTC).isoformat()
    for target, expected in {
        "main": "abd", "dev": "abc", "v1": "ab", "3": "ab", "main@2": "a", f"dev@{after}": "abc",
        after: "ab", "main~1": "ab", "main~3": "", "v1~1": "a", "dev~1": "ab", "main@4~2": "a",
        dev.graph_commit_id: "abc", main.graph_commit_id: "abd", main.graph_commit_id.lower(): "abd",
        dev.graph_commit_id[:25]: "abc", f"{main.graph_commit_id}~1": "ab",
    }.items():  # fmt: skip
        assert names(graph, target) == expected, target
    text = "query q() { match { $p: P } return { $p.name } }"
    assert graph.query(text, at="main~2").row_count == 1
    assert graph.explain(text, at="main~2", analyze=True).row_count == 1
    assert graph.entity_at("P", "d", at="main~1") is None
    assert {c.entity_id for c in graph.diff("main~1", "main")} == {"d"}


@pytest.mark.parametrize(
    ("target", "error", "says"),
    [
        ("nowhere", NotFound, "no branch, tag or commit"),
        ("nowhere~1", NotFound, "no branch, tag or commit"),
        ("main~4", NotFound, "before the first commit: there are 3 commits"),
        ("nowhere@1", NotFound, "nowhere"),
        ("main@99", VersionNotFound, "no version 99"),
        ("9" * 40, VersionNotFound, "there is no version 999"),
        ("main~" + "9" * 40, VersionNotFound, "there is no version 999"),
        ("2026-13-45", InvalidArgument, "is not a time"),
        ("1999-01-01", NotFound, "did not exist"),
        ("01ABCDEFGHJKMNPQRSTVWXYZ00", NotFound, "no branch, tag or commit"),
        ("", NotFound, "no branch, tag or commit"),
        ("~", NotFound, "no branch, tag or commit"),
        ("@", NotFound, "no branch, tag or commit"),
    ],
)
def test_what_names_nothing(graph: Graph, target: str, error: type[OmnigraphError], says: str) -> None:
    with pytest.raises(error, match=says):
        graph.snapshot(target)


def test_a_beginning_of_several_commit_ids_names_none(graph: Graph) -> None:
    ids = [c.graph_commit_id for c in graph.commits.list()]
    shared = ids[0][:6]
    with pytest.raises(NotFound, match=f"commit ids begin with '{shared}'"):
        graph.snapshot(shared)
    with pytest.raises(CommitNotFound):
        graph.commits.get(shared)


def test_a_branch_or_tag_of_that_name_comes_first(graph: Graph) -> None:
    graph.branches.create("2026-01-31", at="v1")
    graph.tags.create("ABCDEF", "main~3")
    try:
        assert names(graph, "2026-01-31") == "ab"
        assert names(graph, "ABCDEF") == ""
    finally:
        graph.branches.delete("2026-01-31")
        graph.tags.delete("ABCDEF")


def test_one_state_is_named_once(graph: Graph) -> None:
    text = "query q() { match { $p: P } return { $p.name } }"
    with pytest.raises(InvalidArgument, match="several are named"):
        graph.query(text, branch="dev", at="main")
    assert graph.query(text, at="dev").branch == "dev"
    assert graph.query(text, at="dev~1").branch is None
