"""What goes wrong: the exit code, one clear message on stderr (or JSON on stdout), never a traceback."""

from __future__ import annotations

import io
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest

from omnigraph import Graph, errors
from omnigraph.cli import failures, options
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.support.graphs import while_armed
from tests.unit.cli.conftest import Cli


def test_a_missing_graph(cli: Cli, tmp_path: Path) -> None:
    for command in (["snapshot"], ["branch", "list"], ["log"], ["recovery", "run"], ["schema", "show"]):
        failed = cli(*command, tmp_path / "nowhere")
        assert failed.code == 1
        assert f"error: there is no graph at {tmp_path}/nowhere" in failed.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://example.org/g", "http:// is not a storage location"),
        ("s3://bucket-only", "needs a bucket and a path"),
        ("gs://bucket/g", "gs:// is not a storage location"),
        ("file://host/g", "names a host"),
        (" ", "the graph location is empty"),
    ],
)
def test_a_bad_uri(cli: Cli, schema_file: Path, uri: str, message: str) -> None:
    for arguments in (["snapshot", uri], ["init", uri, "--schema", schema_file]):
        failed = cli(*arguments)
        assert (failed.code, failed.out) == (1, "")
        assert message in failed.err


def test_a_path_that_is_a_file(cli: Cli, schema_file: Path) -> None:
    assert cli("snapshot", schema_file).code == 1
    assert cli("init", schema_file, "--schema", schema_file).code == 1


def test_unknown_names(cli: Cli, graph: Graph) -> None:
    store = ("--store", graph.uri)
    row = b'{"type": "Person", "data": {"name": "Z"}}'
    for arguments in (
        ("snapshot", "--branch", "nope"), ("commit", "list", "--branch", "nope"), ("log", "--branch", "nope"),
        ("branch", "delete", "nope"), ("load", "--data", "-", "--mode", "append", "--branch", "nope"),
        ("snapshot", "--at", "nope@3"),
    ):  # fmt: skip
        failed = cli(*arguments, *store, stdin=row)
        assert failed.code == 1
        assert "error: there is no branch 'nope'" in failed.err
        assert "hint: branches: main" in failed.err
    assert "is no branch, tag or commit" in cli("snapshot", "--at", "nope", *store).err
    assert "is no branch, tag or commit" in cli("branch", "create", "x", "--from", "nope", *store).err
    assert "no branch knows commit 'nope'" in cli("commit", "show", "nope", *store).err
    assert "there is no tag 'nope'" in cli("tag", "delete", "nope", *store).err
    assert "has no version 99" in cli("snapshot", "--at", "99", *store).err
    assert "there is no version" in cli("schema", "show", "--at", "9" * 40, *store).err


def test_a_tag_is_not_a_branch(cli: Cli, graph: Graph) -> None:
    graph.tags.create("v1")
    assert cli("snapshot", graph.uri, "--branch", "v1").code == 1
    assert cli("snapshot", graph.uri, "--at", "v1").code == 0


def test_taken_and_forbidden_names(cli: Cli, graph: Graph, schema_file: Path) -> None:
    store = ("--store", graph.uri)
    assert cli("branch", "create", "exp", *store).code == 0
    assert "branch 'exp' exists" in cli("branch", "create", "exp", *store).err
    assert "is not a branch name" in cli("branch", "create", "a b", *store).err
    assert "belongs to the system" in cli("branch", "create", "__manifest", *store).err
    assert "'main' cannot be deleted" in cli("branch", "delete", "main", *store).err
    assert "already" in cli("init", graph.uri, "--schema", schema_file).err


def test_a_missing_schema_file(cli: Cli, tmp_path: Path) -> None:
    failed = cli("init", tmp_path / "g", "--schema", tmp_path / "none.pg")
    assert failed.code == 1
    assert "there is no schema file" in failed.err
    assert not (tmp_path / "g").exists()
    assert "cannot be read: No such file" in cli("schema", "lint", tmp_path / "none.pg").err
    assert "cannot be read: Is a directory" in cli("schema", "lint", tmp_path).err
    (tmp_path / "latin.pg").write_bytes(b"// \xff")
    assert "is not UTF-8: byte 3 is 0xff" in cli("schema", "lint", tmp_path / "latin.pg").err


def test_a_schema_with_an_error_shows_the_place(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.pg"
    file.write_text("node Person {\n    name: Strin @key\n}\n")
    failed = cli("init", tmp_path / "g", "--schema", file)
    assert failed.code == 1
    assert f"error: {file}:2:11: " in failed.err
    assert "\n      name: Strin @key\n            ^^^^^\n" in failed.err
    assert "hint: " in failed.err
    body = cli("init", tmp_path / "g", "--schema", file, "--json").json
    assert (body["code"], body["line"], body["column"], body["path"]) == ("parse_error", 2, 11, str(file))
    assert not (tmp_path / "g").exists()


def test_a_missing_data_file(cli: Cli, graph: Graph, tmp_path: Path) -> None:
    failed = cli("load", graph.uri, "--data", tmp_path / "none.jsonl", "--mode", "append")
    assert failed.code == 1
    assert "none.jsonl cannot be read: No such file or directory" in failed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["snapshot", "--nope"], "--nope"),
        (["nope"], "nope"),
        (["branch", "nope"], "nope"),
        (["branch", "create"], "NAME"),
        (["load", "g", "--data", "x"], "--mode"),
        (["load", "g", "--mode", "append"], "--data"),
        (["load", "g", "--data", "x", "--mode", "replace"], "replace"),
        (["init", "g"], "--schema"),
        (["snapshot"], "which graph? Pass --store URI, or set OMNIGRAPH_STORE"),
        (["snapshot", "g", "--store", "g"], "the graph is named twice"),
        (["snapshot", "g", "--branch", "a", "--at", "b"], "--branch and --at exclude each other"),
        (["log", "g", "--branch", "a", "--all"], "--branch and --all exclude each other"),
        (["log", "g", "--limit", "0"], "--limit"),
        (["commit", "list", "g", "--filter", "who=me"], "write actor=NAME"),
        (["snapshot", "g", "--as", "me"], "--as"),
    ],
)
def test_a_wrong_command_line(cli: Cli, graph: Graph, arguments: list[str], message: str) -> None:
    known = [graph.uri if a == "g" else a for a in arguments]
    failed = cli(*known)
    assert (failed.code, failed.out) == (2, "")
    assert failed.err.startswith("error: ")
    assert message in failed.err
    body = cli(*known, "--json")
    assert (body.code, body.json["code"]) == (2, "usage")


def test_json_belongs_after_the_command(cli: Cli, graph: Graph) -> None:
    failed = cli("--json", "snapshot", graph.uri)
    assert failed.code == 2
    assert failed.json["error"] == "--json belongs after the command"


@pytest.mark.parametrize("arguments", [[], ["branch"], ["tag"], ["commit"], ["schema"], ["recovery"]])
def test_no_command_shows_the_help(cli: Cli, arguments: list[str]) -> None:
    shown = cli(*arguments)
    assert shown.code == 2
    assert "Usage: omnigraph" in shown.out + shown.err


def test_the_table_of_exit_codes_knows_every_error() -> None:
    assert failures.EXIT_CODES[-1] == (errors.OmnigraphError, 1)
    lost = errors.PreconditionFailed(expected="a", actual="b")
    assert failures.report(lost, json=False) == 4
    assert failures.report(errors.KeyConflict("node:A", "a"), json=False) == 1


def test_destructive_changes_of_remote_graphs_need_consent(cli: Cli) -> None:
    remote = ("--store", "s3://bucket/graph")
    for arguments in (("branch", "delete", "exp"), ("load", "--data", "-", "--mode", "overwrite")):
        refused = cli(*arguments, *remote, stdin=b"")
        assert refused.code == 1
        assert "on s3://bucket/graph needs your consent\n  hint: pass --yes" in refused.err
        assert cli(*arguments, *remote, "--json", stdin=b"").json["code"] == "invalid_argument"


def test_consent_by_flag_or_by_place() -> None:
    options.require_consent("s3://bucket/graph", "branch delete", yes=True, json=True)
    options.require_consent("/local/graph", "branch delete", yes=False, json=True)


class Terminal(io.StringIO):
    """A stream that a person sits at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "is_given"), [("yes\n", True), ("y\n", False), ("", False)])
def test_consent_is_asked_for_on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str, is_given: bool) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with nullcontext() if is_given else pytest.raises(errors.InvalidArgument, match="was not confirmed"):
        options.require_consent("s3://bucket/graph", "branch delete exp", yes=False, json=False)
    assert screen.getvalue() == "branch delete exp on s3://bucket/graph: type yes to go on: "


def test_a_terminal_gets_colours_and_progress(
    cli: Cli, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eve.jsonl").write_text('{"type": "Person", "data": {"name": "Eve"}}\n')
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    load = ("load", graph.uri, "--data", tmp_path / "eve.jsonl", "--mode", "merge")
    assert cli(*load).out.startswith("loaded ")
    assert "reading" in screen.getvalue()
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    assert cli(*load, "--quiet").code == 0
    assert screen.getvalue() == ""
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    assert cli("log", graph.uri, "--graph").code == 0
    assert "\x1b[" in screen.getvalue()


@pytest.mark.parametrize(
    ("problem", "code", "shown"),
    [
        (RuntimeError("broken\nin two lines"), 1, "error: RuntimeError: broken\n  hint: set OMNIGRAPH_TRACEBACK=1"),
        (AssertionError(), 1, "error: AssertionError\n"),
        (KeyboardInterrupt(), 130, ""),
        (errors.StoreUnavailable("no answer", hint="look"), 1, "error: no answer\n  hint: look\n"),
    ],
)
def test_anything_a_command_raises(cli: Cli, graph: Graph, problem: BaseException, code: int, shown: str) -> None:
    def fail() -> None:
        raise problem

    with while_armed({Point.OBJECT_BEFORE_PROBE: fail}):
        failed = cli("log", graph.uri)
    assert (failed.code, failed.out) == (code, "")
    assert failed.err.startswith(shown)
    assert bool(failed.err) == bool(shown)


def test_the_traceback_is_there_for_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRACEBACK", "1")
    assert failures.report_unexpected(RuntimeError("broken"), json=False) == 1
    assert "RuntimeError: broken" in capsys.readouterr().err


def test_warnings_are_one_line_on_stderr(cli: Cli, graph: Graph) -> None:
    def warn() -> None:
        failpoints.arm(None)
        warnings.warn("something\n   odd", RuntimeWarning, stacklevel=2)

    with while_armed({Point.OBJECT_BEFORE_PROBE: warn}):
        warned = cli("log", graph.uri)
    assert warned.code == 0
    assert warned.err.splitlines() == ["warning: something odd"]
