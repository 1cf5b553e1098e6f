"""The checker can fail: histories that are wrong in one place, each of which has to be found."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from tests.history import model, operations
from tests.history.checker import Away, Checker, Store
from tests.history.driver import read_store
from tests.history.log import FAIL, OK, PENDING, UNKNOWN, Operation


class History:
    """A graph, and the log of what was done to it one after the other."""

    def __init__(self, graph: Graph, log: list[Operation] | None = None) -> None:
        self.graph = graph
        self.log = log or []

    def do(self, outcome: str = OK, **arguments: Any) -> Operation:
        """Run an operation and log it; how it ended may be a lie."""
        number = float(len(self.log))
        each = Operation(f"o-{len(self.log)}", arguments, number, number + 0.5, outcome)
        if outcome != PENDING and arguments["do"] in ("load", "mutate") and "Event" not in str(arguments):
            arguments["message"] = each.op
        each.result = operations.run(self.graph, arguments) if outcome in (OK, PENDING) else {}
        self.log.append(each)
        return each

    def people(self, *names: str, age: int = 0, branch: str = "main") -> Operation:
        rows = {"Person": [{"name": name, "age": age, "op": "x"} for name in names]}
        return self.do(do="load", mode="merge", rows=rows, branch=branch)

    def event(self, op: str) -> Operation:
        return self.do(do="load", mode="append", rows={"Event": [{"op": op, "number": 0}]}, branch="main")

    def findings(self, *aways: Away, store: Store | None = None) -> list[str]:
        return Checker(self.log, store or read_store(self.graph), aways).run().findings


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(Graph.init(tmp_path_factory.mktemp("template") / "g", model.SCHEMA))
    history.people("ann", "bob", "cyd")
    history.do(do="load", mode="merge", rows={"Knows": [{"from": "ann", "to": "bob", "op": "x"}]}, branch="main")
    history.do(do="mutate", steps=[["update", "Person", {"age": 7}, {"age": 0}]], branch="main")
    history.event("o-3")
    history.do(do="branch", name="side-0", **{"from": "main"})
    history.people("dan", branch="side-0")
    history.do(do="delete", type="Person", ids=["bob"], branch="main", message="o-6")
    history.do(do="read", at="main")
    history.do(do="tag", name="tag-0", **{"from": "main"})
    merged = {"source": "side-0", "into": "main", "strategy": None, "delete_branch": False, "message": "o-9"}
    history.do(do="merge", **merged)
    return history


@pytest.fixture
def history(template: History, tmp_path: Path) -> History:
    shutil.copytree(template.graph.uri, tmp_path / "g")
    return History(Graph.open(tmp_path / "g"), copy.deepcopy(template.log))


def test_a_history_without_fault_has_no_finding(history: History) -> None:
    assert history.findings() == []


def test_a_lost_acknowledgement_is_found(history: History, tmp_path: Path) -> None:
    """The log says that it was acknowledged, and the store does not know its commit."""
    other = History(Graph.init(tmp_path / "other", model.SCHEMA))
    lost = other.people("eve")
    lost.op = lost.arguments["message"] = "o-lost"
    history.log.append(lost)
    [finding] = history.findings()
    assert finding.startswith("lost acknowledgement")


def test_a_wrong_row_is_found(history: History) -> None:
    """The log says another age than the store."""
    history.log[0].arguments["rows"]["Person"][2]["age"] = 5
    findings = history.findings()
    assert findings[0].startswith("wrong rows: main version 2")
    assert "'cyd'" in findings[0]


def test_an_update_that_missed_a_row_is_found(history: History) -> None:
    history.log[2].arguments["steps"][0][3] = {"age": 1}
    assert any(finding.startswith("wrong rows: main version 4") for finding in history.findings())


def test_a_duplicated_write_is_found(history: History) -> None:
    history.graph.load({"Event": [{"op": "o-3", "number": 0}]})
    assert any(finding.startswith("duplicated write: a row is there twice") for finding in history.findings())


def test_one_operation_in_two_commits_is_found(history: History) -> None:
    rows = {"Person": [{"name": "dan", "age": 1, "op": "x"}]}
    history.graph.load(rows, "merge", message="o-0")
    assert any(finding.startswith("duplicated write: one operation") for finding in history.findings())


def test_a_failure_that_is_visible_is_found(history: History) -> None:
    failed = history.people("eve")
    failed.outcome, failed.result = FAIL, {"error": "key_conflict"}
    assert any(finding.startswith("failed and is visible") for finding in history.findings())


def test_a_failed_event_that_is_visible_is_found(history: History) -> None:
    failed = history.event("o-10")
    failed.outcome, failed.result = FAIL, {"error": "key_conflict"}
    assert any(finding.startswith("wrong rows") and "o-10#0" in finding for finding in history.findings())


@pytest.mark.parametrize("outcome", [PENDING, UNKNOWN])
def test_what_nobody_knows_may_be_visible(history: History, outcome: str) -> None:
    written = history.event("o-10")
    written.outcome, written.result = outcome, {}
    assert history.findings() == []


def test_what_nobody_knows_may_be_absent(history: History) -> None:
    rows = {"Person": [{"name": "eve", "age": 0, "op": "x"}]}
    history.do(UNKNOWN, do="load", mode="merge", rows=rows, branch="main")
    assert history.findings() == []


def test_a_wrong_read_is_found(history: History) -> None:
    history.log[7].result["digests"]["node:Person"] = "another"
    [finding] = history.findings()
    assert finding.startswith("wrong read of ['node:Person']")


def test_a_stale_read_is_found(history: History) -> None:
    """It is said to have begun after the merge that it does not see."""
    read = history.log[7]
    read.invoked, read.ended = 100.0, 101.0
    [finding] = history.findings()
    assert finding.startswith("stale read")


def test_a_lost_update_is_found(history: History) -> None:
    history.log[6].result["expected"] = history.log[0].commit
    [finding] = history.findings()
    assert finding.startswith("lost update")


def test_a_branch_and_a_tag_that_nobody_deleted_are_missed(history: History) -> None:
    history.graph.tags.delete("tag-0")
    history.graph.branches.delete("side-0")
    kinds = {finding.partition(":")[0] for finding in history.findings()}
    assert kinds == {"lost branch", "lost branch with an acknowledged write", "lost tag"}
    history.do(UNKNOWN, do="unbranch", name="side-0")
    history.do(UNKNOWN, do="untag", name="tag-0")
    assert history.findings() == []


def test_a_branch_that_was_deleted_and_is_there_is_found(history: History) -> None:
    history.log.append(Operation("o-10", {"do": "unbranch", "name": "side-0"}, 20.0, 21.0, OK))
    [finding] = history.findings()
    assert finding.startswith("deleted and there")


def test_a_merge_that_took_the_wrong_side_is_found(history: History) -> None:
    history.people("ann", age=1, branch="side-0")
    history.people("ann", age=2)
    arguments = {"source": "side-0", "into": "main", "strategy": "ours", "delete_branch": False, "message": "o-12"}
    merge = history.do(do="merge", **arguments)
    assert history.findings() == []
    merge.arguments["strategy"] = "theirs"
    assert any(finding.startswith("wrong rows") for finding in history.findings())
    merge.arguments["strategy"] = None
    assert any(finding.startswith("merged in spite of") for finding in history.findings())


def test_an_error_that_nobody_expects_is_found(history: History) -> None:
    failed = Operation("o-10", {"do": "read", "at": "main"}, 20.0, 21.0, FAIL, {"error": "corrupt_graph"})
    history.log.append(failed)
    [finding] = history.findings()
    assert finding.startswith("unexpected error corrupt_graph")
    assert history.findings(Away(19.0, 22.0)) == [], "while the store was away anything can be missing"


def test_what_came_after_the_copy_that_was_restored_is_forgotten(history: History, tmp_path: Path) -> None:
    restored = read_store(history.graph)
    history.people("eve")
    assert any(finding.startswith("lost acknowledgement") for finding in history.findings(store=restored))
    assert history.findings(Away(30.0, 31.0, copied=9.9), store=restored) == []


def test_a_read_of_a_commit_that_was_published_again_in_a_restored_copy_is_not_judged(history: History) -> None:
    """The copy held its intent: its commit is in the store, as another version, on another parent."""
    read = history.do(do="read", at="main")
    assert history.findings() == []
    read.result["version"] += 1
    read.result["digests"] = dict.fromkeys(read.result["digests"], "of another line")
    assert len(history.findings()) == 1, "without a restore, a version with other rows is a wrong read"
    before = Away(read.invoked - 2, read.invoked - 1, copied=read.invoked - 3)
    assert len(history.findings(before)) == 1, "a restore that ended before the read explains nothing"
    later = Away(read.ended + 1, read.ended + 2, copied=read.ended + 0.5)
    report = Checker(history.log, read_store(history.graph), [later]).run()
    assert report.findings == []
    assert report.counts["reads of a line that a restore replaced"] == 1
