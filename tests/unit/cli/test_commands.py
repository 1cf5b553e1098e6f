"""Every command: what it prints for people, and the JSON it prints for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from omnigraph import Graph, __version__
from tests.unit.cli.conftest import Cli

COMMIT_FIELDS = {
    "graph_commit_id", "graph_branch", "graph_manifest_version", "parent_commit_id", "merged_parent_commit_id",
    "actor_id", "created_at", "kind", "op_class", "message", "recovery_for_actor",
}  # fmt: skip


def test_init_creates_a_graph(cli: Cli, tmp_path: Path, schema_file: Path) -> None:
    done = cli("init", tmp_path / "new", "--schema", schema_file, "--as", "ada")
    assert (done.code, done.out) == (0, f"initialized {tmp_path}/new\n")
    assert done.err == f"omnigraph init -> {tmp_path}/new (local)\n"
    assert Graph.open(tmp_path / "new").commits.head().actor_id == "ada"


def test_init_as_json(cli: Cli, tmp_path: Path, schema_file: Path) -> None:
    body = cli("init", "--store", f"file://{tmp_path}/new", "--schema", schema_file, "--json", "--quiet").json
    assert body["uri"] == f"{tmp_path}/new"
    assert set(body["commit"]) == COMMIT_FIELDS


def test_quiet_silences_the_announcement(cli: Cli, tmp_path: Path, schema_file: Path) -> None:
    assert cli("init", tmp_path / "new", "--schema", schema_file, "--quiet").err == ""


def test_load_says_what_it_did(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Cleo"}}\n')
    done = cli("load", graph.uri, "--data", file, "--mode", "append", "--as", "bob", "--message", "one more")
    head = graph.commits.head()
    assert done.code == 0
    assert done.out == (
        f"loaded {graph.uri} branch main mode append: 1 entity (1 node type, 0 edge types), "
        f"commit {head.graph_commit_id}\n"
    )
    assert (head.actor_id, head.message) == ("bob", "one more")


def test_load_as_json_on_a_new_branch(cli: Cli, graph: Graph) -> None:
    rows = b'{"edge": "Knows", "from": "Bob", "to": "Cleo"}\n{"type": "Person", "data": {"name": "Cleo"}}\n'
    arguments = ("--data", "-", "--mode", "merge", "--branch", "exp", "--from", "main", "--as", "bob", "--json")
    body = cli("load", "--store", graph.uri, *arguments, stdin=rows).json
    commit = body.pop("commit")
    assert body == {
        "uri": graph.uri, "branch": "exp", "mode": "merge", "base_branch": "main", "branch_created": True,
        "nodes": [{"name": "Person", "entities_loaded": 1}], "edges": [{"name": "Knows", "entities_loaded": 1}],
        "total_entities": 2, "actor_id": "bob", "dry_run": False, "rejected": [],
            "duplicates": {},
            "sniffed": {},
    }  # fmt: skip
    assert commit["graph_commit_id"] == graph.commits.head("exp").graph_commit_id
    assert graph.entity_at("node:Person", "Cleo", "main") is None


def test_load_tells_of_the_branch_it_made(cli: Cli, graph: Graph) -> None:
    row = b'{"type": "Person", "data": {"name": "Cleo"}}'
    made = cli("load", graph.uri, "--data", "-", "--mode", "append", "--branch", "exp", "--from", "main", stdin=row)
    assert made.out.startswith("created branch exp from main\nloaded ")


def test_load_if_commit(cli: Cli, graph: Graph) -> None:
    row = b'{"type": "Person", "data": {"name": "Cleo"}}'
    head = graph.commits.head().graph_commit_id
    arguments = ("load", graph.uri, "--data", "-", "--mode", "merge", "--if-commit", head)
    assert cli(*arguments, stdin=row).code == 0
    lost = cli(*arguments, stdin=row)
    assert lost.code == 4
    assert f"the branch head is {graph.commits.head().graph_commit_id}, not {head}" in lost.err
    body = cli(*arguments, "--json", stdin=row)
    assert body.code == 4
    assert body.json["code"] == "precondition_failed"
    assert body.json["precondition_failure"]["expected"] == head


def test_snapshot_for_people(cli: Cli, graph: Graph) -> None:
    head = graph.commits.head().graph_commit_id
    assert cli("snapshot", graph.uri).out == (
        f"branch           main\nmanifest version 2\ninternal schema  100\ncommit           {head}\n\n"
        "kind  type    version  entities\n"
        "node  Note    1        0\n"
        "node  Person  2        2\n"
        "edge  Knows   2        1\n"
    )


def test_snapshot_at_every_kind_of_target(cli: Cli, graph: Graph) -> None:
    old = graph.commits.list()[-1].graph_commit_id
    graph.branches.create("exp")
    graph.load([{"type": "Person", "data": {"name": "Cleo"}}], branch="exp")
    graph.tags.create("v1", 2)
    graph.branches.create("7", old)

    def people(*arguments: str) -> tuple[str, int, int]:
        body = cli("snapshot", graph.uri, *arguments, "--json").json
        counts = {d["type_name"]: d["entity_count"] for d in body["datasets"]}
        return body["graph_branch"], body["graph_manifest_version"], counts["Person"]

    assert people() == ("main", 2, 2)
    assert people("--branch", "exp") == ("exp", 2, 3)
    assert people("--at", "exp") == ("exp", 2, 3)
    assert people("--at", "exp@1") == ("exp", 1, 2)
    assert people("--at", "1") == ("main", 1, 0)
    assert people("--at", "v1") == ("main", 2, 2)
    assert people("--at", old) == ("main", 1, 0)
    assert people("--at", "7") == ("7", 1, 0)


def test_snapshot_as_json(cli: Cli, graph: Graph) -> None:
    body = cli("snapshot", graph.uri, "--json").json
    assert body["internal_schema_version"] == graph.internal_schema_version
    assert body["graph_commit_id"] == graph.commits.head().graph_commit_id
    person = next(d for d in body["datasets"] if d["type_name"] == "Person")
    assert person == {
        "entity_kind": "node", "type_name": "Person", "dataset_path": graph.snapshot().table("node:Person").location,
        "published_dataset_version": 2, "entity_count": 2,
    }  # fmt: skip


def test_branches(cli: Cli, graph: Graph) -> None:
    store = ("--store", graph.uri)
    assert cli("branch", "create", "exp", *store).out == "created branch exp from main\n"
    body = cli("branch", "create", "old", "--from", "1", *store, "--json").json
    assert body == {"uri": graph.uri, "from": "1", "name": "old", "graph_commit_id": graph.snapshot(1).commit_id}
    assert cli("branch", "list", graph.uri).out == "main\nexp\nold\n"
    assert cli("branch", "list", *store, "--json").json == {"branches": ["main", "exp", "old"]}
    assert cli("branch", "delete", "exp", *store).out == "deleted branch exp\n"
    assert cli("branch", "delete", "old", *store, "--yes", "--json").json["deleted"] is True
    assert [b.name for b in graph.branches.list()] == ["main"]


def test_tags(cli: Cli, graph: Graph) -> None:
    store = ("--store", graph.uri)
    head = graph.commits.head().graph_commit_id
    assert cli("tag", "create", "v1", *store).out == f"created tag v1 at {head} (main version 2)\n"
    body = cli("tag", "create", "v0", "--at", "main@1", *store, "--json").json
    assert (body["name"], body["graph_branch"], body["graph_manifest_version"]) == ("v0", "main", 1)
    table = cli("tag", "list", graph.uri).out.splitlines()
    assert table[0].split() == ["tag", "commit", "branch", "version", "created", "(UTC)"]
    assert [line.split()[0] for line in table[1:]] == ["v0", "v1"]
    assert [t["name"] for t in cli("tag", "list", graph.uri, "--json").json["tags"]] == ["v0", "v1"]
    assert cli("tag", "delete", "v0", *store).out == "deleted tag v0\n"
    assert cli("tag", "delete", "v1", *store, "--json").json["deleted"] is True
    assert cli("tag", "list", graph.uri).out == "(none)\n"


def test_commits(cli: Cli, graph: Graph) -> None:
    newest, oldest = graph.commits.list()
    lines = cli("commit", "list", graph.uri).out.splitlines()
    assert [line.split()[0] for line in lines] == ["commit", newest.graph_commit_id, oldest.graph_commit_id]
    assert lines[1].endswith("first people")
    body = cli("commit", "list", graph.uri, "--json").json
    assert [set(commit) for commit in body["commits"]] == [COMMIT_FIELDS, COMMIT_FIELDS]
    assert len(cli("commit", "list", graph.uri, "--limit", "1", "--json").json["commits"]) == 1
    assert len(cli("commit", "list", graph.uri, "--filter", "actor=ada", "--json").json["commits"]) == 1
    assert cli("commit", "list", graph.uri, "--filter", "actor=nobody").out == "(none)\n"


def test_commit_show(cli: Cli, graph: Graph) -> None:
    head = graph.commits.head()
    shown = cli("commit", "show", head.graph_commit_id, "--store", graph.uri)
    assert "graph commit id         " + head.graph_commit_id in shown.out
    assert "merged parent commit id -" in shown.out
    body = cli("commit", "show", head.graph_commit_id, "--store", graph.uri, "--json").json
    assert (body["graph_commit_id"], body["created_at"]) == (head.graph_commit_id, head.created_at)


def test_messages_cannot_drive_the_terminal(cli: Cli, graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": "Eve"}}], message="two\nlines \x1b[31mred")
    for command in (["commit", "list"], ["log"], ["log", "--graph"]):
        shown = cli(*command, graph.uri)
        assert r"two\nlines \x1b[31mred" in shown.out
        assert "\x1b" not in shown.out


def forked(graph: Graph) -> dict[str, str]:
    """main has two more commits, `exp` one of its own, `new` none; the fork is tagged."""
    ids = {"load": graph.commits.head().graph_commit_id, "init": graph.commits.list()[-1].graph_commit_id}
    graph.branches.create("exp")
    graph.tags.create("v1")
    for name, branch in (("m1", "main"), ("x1", "exp"), ("m2", "main")):
        commit = graph.load([{"type": "Note", "data": {"text": name}}], branch=branch, message=name).commit
        assert commit is not None
        ids[name] = commit.graph_commit_id
    graph.branches.create("new", "exp")
    return ids


def drawn(out: str, ids: dict[str, str]) -> str:
    """The picture with names for ids, without times."""
    lines = []
    for line in out.splitlines():
        kept = re.split(r" (?:load|init|mutate) ", line)[0]
        for name, commit_id in ids.items():
            kept = kept.replace(commit_id, name)
        lines.append(kept)
    return "\n".join(lines)


def test_log_draws_the_graph(cli: Cli, graph: Graph) -> None:
    ids = forked(graph)
    shown = cli("log", graph.uri, "--graph", "--all")
    assert shown.code == 0
    assert drawn(shown.out, ids) == (
        "* m2 [main]\n| * x1 [exp, new]\n* | m1\n|/\n* load [tag: v1]\n* init"
    )  # fmt: skip


def test_log_of_one_branch(cli: Cli, graph: Graph) -> None:
    ids = forked(graph)
    assert drawn(cli("log", graph.uri).out, ids) == "m2 [main]\nm1\nload [tag: v1]\ninit"
    assert drawn(cli("log", graph.uri, "--branch", "exp").out, ids) == "x1 [exp, new]\nload [tag: v1]\ninit"


def test_log_limit_keeps_the_newest(cli: Cli, graph: Graph) -> None:
    ids = forked(graph)
    limited = cli("log", graph.uri, "--graph", "--all", "--limit", "3")
    assert drawn(limited.out, ids) == "* m2 [main]\n| * x1 [exp, new]\n* | m1"


def test_log_as_json_has_names(cli: Cli, graph: Graph) -> None:
    ids = forked(graph)
    commits = cli("log", graph.uri, "--all", "--json").json["commits"]
    assert [c["graph_commit_id"] for c in commits] == [ids[name] for name in ("m2", "x1", "m1", "load", "init")]
    assert commits[1]["branches"] == ["exp", "new"]
    assert commits[3]["tags"] == ["v1"]
    assert set(commits[0]) == COMMIT_FIELDS | {"branches", "tags"}


def test_schema_show(cli: Cli, graph: Graph, schema_file: Path) -> None:
    assert cli("schema", "show", graph.uri).out == schema_file.read_text()
    body = cli("schema", "show", graph.uri, "--at", "1", "--json").json
    assert body["schema"] == schema_file.read_text()
    assert body["schema_hash"] == graph.snapshot().schema_hash


def test_schema_lint_of_a_good_file(cli: Cli, schema_file: Path) -> None:
    done = cli("schema", "lint", schema_file)
    assert done.code == 0
    assert f"warning: {schema_file}:6:6: node type `Note` has no `@key`" in done.out
    assert done.out.endswith("0 errors, 1 warning\n")
    body = cli("schema", "lint", schema_file, "--json").json
    assert (body["path"], body["status"], body["errors"]) == (str(schema_file), "ok", [])


def test_schema_lint_shows_every_error(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.pg"
    file.write_text("node A { x: String }\nedge E: A -> B\nedge F: C -> A\n")
    done = cli("schema", "lint", file)
    assert done.code == 1
    assert f"error: {file}:2:14: " in done.out
    assert "\n  edge E: A -> B\n               ^\n" in done.out
    assert f"error: {file}:3:9: " in done.out
    body = cli("schema", "lint", file, "--json")
    assert body.code == 1
    assert [error["line"] for error in body.json["errors"]] == [2, 3]


def test_recovery_of_a_graph_with_nothing_to_recover(cli: Cli, graph: Graph) -> None:
    for command in ("list", "run", "audit"):
        assert cli("recovery", command, graph.uri).out == "(none)\n"
    assert cli("recovery", "list", graph.uri, "--json").json == {"intents": []}
    assert cli("recovery", "run", graph.uri, "--json").json == {"resolved": []}
    assert cli("recovery", "audit", graph.uri, "--json").json == {"recoveries": []}


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-v"]])
def test_version(cli: Cli, arguments: list[str]) -> None:
    assert cli(*arguments).out == f"omnigraph {__version__}\ninternal-schema 100\n"
    assert cli(*arguments, "--json").json == {"version": __version__, "internal_schema_version": 100}


def test_the_environment_names_the_graph(cli: Cli, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", graph.uri)
    assert cli("branch", "list").out == "main\n"
    assert cli("branch", "create", "exp").code == 0
    assert cli("snapshot", "elsewhere").code == 1


@pytest.mark.parametrize("text", ["Zoë 日本", "\udcff"], ids=["unicode", "undecodable"])
def test_json_output_survives_any_text(cli: Cli, graph: Graph, text: str) -> None:
    body = cli("commit", "show", text, "--store", graph.uri, "--json")
    assert body.code == 1
    assert json.loads(body.out)["code"] == "commit_not_found"


def test_maintenance_is_hidden_unless_asked_for(cli: Cli, graph: Graph) -> None:
    # After this many single rows the writer folds its fragments, in a maintenance commit.
    for number in range(64):
        graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], message=f"m{number}")
    graph.repository.store.wait_for_background_work()
    fold, last = graph.commits.list(limit=2)
    assert (fold.op_class, last.op_class, last.message) == ("maintenance", "logical", "m63")
    ids = {commit.message: commit.graph_commit_id for commit in graph.commits.list() if commit.message}

    # The head is hidden, so its branch is shown at the nearest commit that is not.
    assert drawn(cli("log", graph.uri, "--graph", "--limit", "2").out, ids) == "* m63 [main]\n* m62"
    everything = cli("log", graph.uri, "--graph", "--limit", "2", "--maintenance")
    assert everything.out.startswith(f"* {fold.graph_commit_id} [main] optimize")

    graph.branches.create("exp", last.graph_commit_id)
    graph.load([{"type": "Note", "data": {"text": "x"}}], branch="exp", message="x1")
    graph.load([{"type": "Note", "data": {"text": "x"}}], message="m64")
    ids |= {name: graph.commits.head(branch).graph_commit_id for name, branch in (("x1", "exp"), ("m64", "main"))}
    shown = drawn(cli("log", graph.uri, "--graph", "--all", "--limit", "3").out, ids)
    assert shown == "* m64 [main]\n| * x1 [exp]\n|/\n* m63"
