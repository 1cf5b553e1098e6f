"""`omnigraph analytics`: the rows of an algorithm, in every format, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from tests.unit.cli.conftest import Cli

SCHEMA = """node Town { name: String @key }
node Club { name: String @key }
edge Road: Town -> Town { km: F64 }
edge Plays: Town -> Club
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    rows = [{"type": "Town", "data": {"name": name}} for name in "abc"]
    rows += [{"edge": "Road", "from": a, "to": b, "data": {"km": km}} for a, b, km in ("ab1", "bc2", "ac9")]
    graph.load(
        [{**row, "data": {**row["data"], "km": float(row["data"]["km"])}} if "edge" in row else row for row in rows]
    )
    graph.tags.create("before", "main")
    graph.load([{"edge": "Road", "from": "c", "to": "a", "data": {"km": 0.5}}])
    return graph


def test_algorithms_answer_like_queries(store: Graph, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", store.uri)
    told = cli("analytics", "shortest-paths", "--edge", "Road", "--source", "a", "--weight", "km", "--json").json
    assert told["query_name"] == "shortest-paths"
    assert told["target"]["branch"] == "main"
    assert {row["id"]: row["distance"] for row in told["rows"]} == {"a": 0.0, "b": 1.0, "c": 3.0}
    hops = cli(
        "analytics", "shortest-paths", "--edge", "Road", "--source", "a", "--max-hops", "1", "--format", "csv"
    ).out
    assert sorted(hops.splitlines()[1:]) == ["Town,a,a,0", "Town,b,a,1", "Town,c,a,1"]
    top = cli("analytics", "degrees", "--edge", "Road", "--top", "1", "--format", "csv").out
    assert top.splitlines() == ["type,id,out_degree,in_degree,degree", "Town,a,2,1,3"]
    older = cli("analytics", "degrees", "--edge", "Road", "--at", "before", "--format", "csv").out
    assert "Town,a,2,0,2" in older.splitlines()
    for algorithm in ("components", "communities", "triangles"):
        assert cli("analytics", algorithm, "--edge", "Road", "--edge", "Plays", "--json").json["row_count"] == 3
    options = ("--weight", "km", "--source", "b", "--type", "Town", "--damping", "0.5", "--iterations", "90")
    ranks = cli("analytics", "pagerank", "--edge", "Road", *options, "--tolerance", "1e-12", "--json").json["rows"]
    assert sum(row["pagerank"] for row in ranks) == pytest.approx(1.0)
    assert max(ranks, key=lambda row: row["pagerank"])["id"] == "b"
    assert store.analytics.pagerank("Road", weight="km", sources=["b"], damping=0.5, iterations=90).num_rows == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("triangles", "--edge", "Road", "--weight", "km"), "--weight is no option of triangles"),
        (("pagerank", "--edge", "Road", "--max-hops", "2"), "--max-hops is no option of pagerank"),
        (("shortest-paths", "--edge", "Road"), "shortest-paths needs --source ID"),
        (("degrees", "--edge", "Road", "--format", "xml"), "--format xml is unknown"),
    ],
)
def test_options_that_do_not_belong_are_refused(
    store: Graph, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", store.uri)
    told = cli("analytics", *arguments)
    assert told.code == 2
    assert message in told.err


def test_bad_weights_and_sources_are_refused(store: Graph, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", store.uri)
    store.load([{"edge": "Road", "from": "a", "to": "b", "data": {"km": -2.0}}])
    told = cli("analytics", "pagerank", "--edge", "Road", "--weight", "km", "--json")
    assert told.code == 1
    assert told.json["code"] == "invalid_value"
    assert "from 'a' to 'b' has the weight -2.0 in 'km'" in told.json["error"]
    told = cli("analytics", "shortest-paths", "--edge", "Road", "--source", "nowhere", "--json")
    assert told.json["code"] == "not_found"
