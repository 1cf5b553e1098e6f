"""`index status` and `index build`."""

from __future__ import annotations

from omnigraph import Graph
from tests.unit.cli.conftest import Cli


def test_status_build_and_nothing_more_to_build(cli: Cli, graph: Graph) -> None:
    found = cli("index", "status", graph.uri, "--json").json["indexes"]
    assert {(i["table_key"], i["property"], i["kind"], i["state"]) for i in found} >= {
        ("node:Person", "id", "btree", "pending"),
        ("edge:Knows", "dst", "btree", "pending"),
    }
    built = cli("index", "build", graph.uri, "--quiet", "--as", "ada", "--json").json
    assert built["commit"] == graph.commits.head().graph_commit_id
    assert {i["state"] for i in built["indexes"]} == {"indexed"}
    assert cli("index", "build", graph.uri, "--quiet").out.splitlines()[-1] == "nothing to build"
    assert cli("index", "status", graph.uri, "--branch", "nope").code == 1
