"""`branch merge`, `diff`, `commit changes`, `changes` and `schema plan|apply` as programs call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.cli.main import run
from tests.support.graphs import SMALL, knows, people


@pytest.fixture
def uri(tmp_path: Path) -> str:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob", age=1), "Knows": knows(("ann", "bob"))})
    graph.branches.create("dev")
    graph.load({"Person": people("ann", age=2)}, "merge", "dev")
    graph.load({"Person": people("ann", age=3)}, "merge")
    return graph.uri


def asked(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_conflict_fails_and_says_both_values(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = asked(capsys, 1, "branch", "merge", "dev", "--store", uri, "--quiet")
    assert body["code"] == "merge_conflict"
    [conflict] = body["merge_conflicts"]
    assert (conflict["base"]["age"], conflict["ours"]["age"], conflict["theirs"]["age"]) == (1, 3, 2)
    assert run(["branch", "merge", "dev", "--store", uri, "--quiet"]) == 1
    shown = capsys.readouterr()
    assert " * age       1     3     2\n" in shown.out
    assert "nothing was merged" in shown.err


def test_strategies_and_what_is_misused(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--strategy", "ours", "--strategy", "theirs"], ["--strategy", "ours", "--strategy", "Person=ours"]):
        assert run(["branch", "merge", "dev", "--store", uri, *words]) == 2
    assert run(["branch", "merge", "dev", "--store", uri, "--strategy", "Person=mine"]) == 1
    capsys.readouterr()
    words = ["--strategy", "DivergentUpdate=theirs", "--as", "ada", "--message", "m", "--delete-branch", "--quiet"]
    body = asked(capsys, 0, "branch", "merge", "dev", "--store", uri, *words)
    assert (body["outcome"], body["branch_deleted"], body["actor_id"]) == ("merged", True, "ada")
    assert body["commit"]["merged_parent_commit_id"]
    assert body["conflicts"][0]["resolution"] == "theirs"


def test_a_branch_that_cannot_be_deleted_is_a_warning(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    Graph.open(uri).branches.create("child", "dev")
    assert run(["branch", "merge", "dev", "--store", uri, "--strategy", "ours", "--delete-branch", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "merged dev into main: merged" in shown.out
    assert "warning: branch dev was not deleted" in shown.err


def test_diff_and_changes_as_json(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = asked(capsys, 0, "diff", "main", "dev", "--store", uri)
    assert [(c["entity_id"], c["op"], c["before"]["age"], c["after"]["age"]) for c in body["changes"]] == [
        ("ann", "update", 3, 2)
    ]
    assert asked(capsys, 0, "diff", "main", "dev", "--store", uri, "--stat")["stat"][0]["update"] == 1
    commit = Graph.open(uri, "ro").commits.head().graph_commit_id
    assert len(asked(capsys, 0, "commit", "changes", commit, "--store", uri)["changes"]) == 1
    assert asked(capsys, 0, "commit", "changes", commit, "--store", uri, "--kind", "edge")["changes"] == []
    assert asked(capsys, 1, "diff", "main", "dev", "--op", "upsert", "--store", uri)["code"] == "invalid_argument"
    assert asked(capsys, 1, "diff", "main", "nowhere", "--store", uri)["code"] == "not_found"


def test_polling_goes_on_where_it_ended(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = asked(capsys, 0, "changes", "poll", uri, "--start", "beginning", "--limit", "2")
    assert (len(first["blocks"]), first["caught_up"]) == (2, False)
    rest = asked(capsys, 0, "changes", "poll", uri, "--cursor", first["cursor"])
    assert (len(rest["blocks"]), rest["caught_up"]) == (1, True)
    assert asked(capsys, 0, "changes", "poll", uri, "--cursor", rest["cursor"])["blocks"] == []
    assert asked(capsys, 1, "changes", "poll", uri, "--cursor", "nonsense")["code"] == "cursor_invalid"
    out = tmp_path / "rows.jsonl"
    body = asked(capsys, 0, "changes", "baseline", uri, "--out", str(out))
    assert body["resume_cursor"] == rest["cursor"]
    copy = tmp_path / "copy"
    Graph.init(copy, SMALL)
    assert run(["load", "--store", str(copy), "--data", str(out), "--mode", "append", "--quiet"]) == 0
    a, b = Graph.open(uri), Graph.open(copy)
    for key in a.snapshot().tables:
        assert a.rows(key).sort_by("id").equals(b.rows(key).sort_by("id"))
    capsys.readouterr()
    assert (
        asked(capsys, 1, "changes", "baseline", uri, "--out", str(tmp_path / "no" / "x"))["code"] == "invalid_argument"
    )


def test_schema_plan_and_apply(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "next.pg"
    file.write_text(SMALL.replace("age: I32?", "age: I32?  city: String"))
    plan = asked(capsys, 1, "schema", "plan", uri, "--schema", str(file))
    assert (plan["supported"], plan["steps"][0]["code"]) == (False, "OG-MF-103")
    refused = asked(capsys, 1, "schema", "apply", uri, "--schema", str(file), "--quiet")
    assert (refused["code"], refused["supported"]) == ("schema_change_refused", False)
    file.write_text(SMALL.replace("age: I32?", "age: I32?  city: String?"))
    done = asked(capsys, 0, "schema", "apply", uri, "--schema", str(file), "--quiet", "--branch", "dev", "--as", "ada")
    assert (done["applied"], done["step_count"], done["steps"][0]["kind"]) == (True, 1, "add_property")
    again = asked(capsys, 0, "schema", "apply", uri, "--schema", str(file), "--quiet", "--branch", "dev")
    assert (again["applied"], again["steps"]) == (False, [])
    assert "classDiagram" in asked(capsys, 0, "schema", "show", uri, "--mermaid")["schema"]


def test_schema_plans_are_applied_by_digest_and_drops_by_name(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "next.pg"
    file.write_text(SMALL.replace("age: I32?", ""))
    plan = asked(capsys, 0, "schema", "plan", uri, "--schema", str(file))
    assert plan["drops"] == ["Person.age"]
    apply = ("schema", "apply", uri, "--schema", str(file), "--quiet", "--plan", plan["plan"])
    refused = asked(capsys, 1, *apply)
    assert (refused["code"], refused["flags"]) == ("drop_not_allowed", ["--drop Person.age"])
    assert run(["schema", "plan", uri, "--schema", str(file)]) == 0
    shown = capsys.readouterr().out
    assert f"plan: {plan['plan']}\ndrops: to be allowed by --drop Person.age\n" in shown
    assert asked(capsys, 0, *apply, "--drop", "Person.age")["applied"]
    moved = asked(capsys, 1, *apply, "--allow-drops")
    assert (moved["code"], moved["retryable"]) == ("schema_moved", False)
    file.write_text(SMALL)
    back = asked(capsys, 0, "schema", "plan", uri, "--schema", str(file))
    assert [step["kind"] for step in back["steps"]] == ["restore_property"]
    fresh = asked(capsys, 0, "schema", "plan", uri, "--schema", str(file), "--fresh", "Person.age")
    assert [step["kind"] for step in fresh["steps"]] == ["add_property"]
    file.write_text("")
    assert asked(capsys, 1, "schema", "apply", uri, "--schema", str(file), "--quiet")["code"] == "schema_error"


def test_a_baseline_of_some_types_goes_on_with_their_feed(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, only = tmp_path / "rows.jsonl", ("--type", "Knows", "--op", "delete")
    body = asked(capsys, 0, "changes", "baseline", uri, "--out", str(out), *only)
    assert {json.loads(line).get("edge") for line in out.read_text().splitlines()} == {"Knows"}
    poll = ("changes", "poll", uri, "--cursor", body["resume_cursor"])
    assert asked(capsys, 0, *poll, *only)["blocks"] == []
    assert asked(capsys, 1, *poll)["code"] == "cursor_invalid"
