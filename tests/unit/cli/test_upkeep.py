"""`optimize`, `cleanup`, `fsck`, `stats` and `--trace-io` as a user types them."""

from __future__ import annotations

import pytest

from omnigraph import Graph
from omnigraph.storage import calls
from tests.unit.cli.conftest import Cli


def test_optimize_reports_each_table_and_then_has_nothing_to_do(cli: Cli, graph: Graph) -> None:
    for number in range(3):
        graph.load({"Person": [{"name": f"p{number}"}]})
    done = cli("optimize", graph.uri, "--json").json
    person = next(d for d in done["datasets"] if d["type_key"] == "node:Person")
    assert done["commit"] == graph.commits.head().graph_commit_id
    assert (person["fragments_removed"], person["fragments_added"], person["committed"]) == (4, 1, True)
    assert "nothing to optimize" in cli("optimize", graph.uri).out


def test_cleanup_previews_then_removes(cli: Cli, graph: Graph) -> None:
    graph.load({"Person": [{"name": "more"}]})
    assert cli("cleanup", graph.uri).out == "nothing to remove\n"
    options = ("--keep", 1, "--grace", "0s")
    preview = cli("cleanup", graph.uri, *options)
    assert "would remove" in preview.out
    assert "leaves little" in preview.err
    assert graph.rows("node:Person", 1).num_rows == 0
    done = cli("cleanup", graph.uri, *options, "--confirm", "--json").json
    assert done["keep_versions"] == 1
    assert done["manifest_versions_removed"] == 2
    assert cli("snapshot", graph.uri, "--at", "1").code == 1
    assert cli("cleanup", graph.uri, "--older-than", "7d", "--json").json["keep_versions"] is None


@pytest.mark.parametrize("text", ["0", "5", "d", "-1d", "1y", "1.5h", ""])
def test_a_bad_duration_is_refused(cli: Cli, graph: Graph, text: str) -> None:
    outcome = cli("cleanup", graph.uri, f"--older-than={text}")
    assert outcome.code == 1
    assert "is not a duration" in outcome.err


def test_stats_and_fsck_as_json(cli: Cli, graph: Graph) -> None:
    assert cli("fsck", graph.uri, "--json").json["clean"] is True
    assert cli("stats", graph.uri, "--json").json["history_depth"] == 2


def test_storage_calls_are_told_on_stderr_and_counted_once(cli: Cli, graph: Graph) -> None:
    told = cli("--trace-io", "snapshot", graph.uri, "--json")
    assert told.json["datasets"]
    assert "storage calls: " in told.err
    assert "manifest open 1" in told.err
    assert "storage calls" not in cli("snapshot", graph.uri).err
    counts = calls.start()
    graph.load({"Person": [{"name": "counted"}]})
    calls.stop()
    assert (counts["table write"], counts["table commit"], counts["manifest swap"]) == (1, 1, 1)
