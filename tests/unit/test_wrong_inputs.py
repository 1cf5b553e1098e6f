"""Wrong schemas, queries, rows, files, command lines, settings: typed errors with place and remedy, nothing lost."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.cli.main import run
from omnigraph.errors import DataError, LanguageError, OmnigraphError, Span, TypeCheckError
from omnigraph.pipeline.job import parse_job
from omnigraph.query import lint_queries
from tests.unit import wrong_inputs as wrong

TYPES = {"$s": "String", "$n": "I32", "$t": "DateTime", "$d": "Date", "$l": "[String]", "$v": "Vector(2)", "$b": "Bool"}
TYPES["$f"] = "F32"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_FSYNC", "off")
        found = Graph.init(tmp_path_factory.mktemp("wrong") / "g", wrong.SCHEMA)
        found.load({"Person": [{"name": "a", "email": "a@b"}, {"name": "b"}], "Number": [{"n": 1}, {"n": 2}]})
        found.load({"Knows": [{"from": "a", "to": "b"}], "Owns": [{"from": "a", "to": "1"}]})
        found.branches.create("side")
        found.branches.create("ahead")
        found.load({"Free": [{"text": "here"}]})
        found.load({"Free": [{"text": "there"}]}, branch="ahead")
        found.tags.create("v1")
        yield found


def state(graph: Graph) -> Any:
    return [(b.name, graph.snapshot(b.name).commit_id) for b in graph.branches.list()], graph.tags.list()


def refuse(graph: Graph, call: Callable[[], Any], words: str) -> OmnigraphError:
    before = state(graph)
    with pytest.raises(OmnigraphError, match=words) as caught:
        call()
    assert state(graph) == before
    assert caught.value.code != "internal"
    assert caught.value.hint, f"no remedy: {caught.value}"
    assert "Value error" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("text", wrong.SCHEMAS)
def test_schemas(graph: Graph, text: str) -> None:
    error = refuse(graph, lambda: graph.schema.plan(text, path="s.pg"), wrong.SCHEMAS[text])
    assert isinstance(error, LanguageError)
    assert error.path == "s.pg"
    assert error.span is not None or not text


@pytest.mark.parametrize("text", wrong.READS)
def test_reads(graph: Graph, text: str) -> None:
    error = refuse(graph, lambda: graph.query(f"query q() {{ {text} }}"), wrong.READS[text])
    assert isinstance(error, LanguageError)
    assert error.excerpt is not None


@pytest.mark.parametrize("text", wrong.MUTATIONS)
def test_mutations(graph: Graph, text: str) -> None:
    error = refuse(graph, lambda: graph.mutate(f"query q() {{ {text} }}"), wrong.MUTATIONS[text])
    assert isinstance(error, LanguageError)
    assert error.excerpt is not None


@pytest.mark.parametrize("text", wrong.WRITES)
def test_writes(graph: Graph, text: str) -> None:
    params, words = wrong.WRITES[text]
    declared = ", ".join(f"{name}: {kind}" for name, kind in TYPES.items() if name in text)
    refuse(graph, lambda: graph.mutate(f"query q({declared}) {{ {text}\n}}", params=params), words)


@pytest.mark.parametrize("case", wrong.FILES, ids=[f"{name} {what}" for what, name, _ in wrong.FILES])
def test_files(graph: Graph, case: tuple[str, str, bytes], tmp_path: Path) -> None:
    path = tmp_path / case[1]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(case[2])
    error = refuse(graph, lambda: graph.load(path), wrong.FILES[case])
    if isinstance(error, DataError):
        assert error.path == str(path)
        assert str(path) in error.message


@pytest.mark.parametrize("text", wrong.JOBS)
def test_jobs(graph: Graph, text: str) -> None:
    error = refuse(graph, lambda: parse_job(text, "job.yaml"), wrong.JOBS[text])
    assert isinstance(error, LanguageError)
    assert error.path == "job.yaml"


@pytest.mark.parametrize("case", wrong.VARIABLES, ids=lambda case: case[0])
def test_variables(graph: Graph, case: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*case)
    with pytest.raises(OmnigraphError, match=wrong.VARIABLES[case]) as caught:
        Graph.open(graph.uri)
    assert caught.value.hint


@pytest.fixture(scope="module")
def folder(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("cli")
    person = '{"type": "Person", "data": {"name": "%s"}}\n'
    files = {
        "good.jsonl": person % "new", "bad.jsonl": "not JSON\n" + person % "other", "clash.jsonl": person % "a",
        "p.csv": "name\nx\n", "q.gq": wrong.GQ, "two.gq": wrong.GQ + wrong.GQ.replace("all", "names"),
        "bad.gq": wrong.GQ.replace("name", "nam"), "s.pg": wrong.SCHEMA, "bad.pg": "node Person { name }",
        "empty.pg": "",
        "unsupported.pg": wrong.SCHEMA.replace("age: I32?", "age: String?").replace("@range(age, 0..150)", ""),
        "job.yaml": f"graph: {graph.uri}\nmode: upsert\n",
    }  # fmt: skip
    for name, text in files.items():
        (found / name).write_text(text)
    (found / "binary").write_bytes(b"\xff\xfe")
    (found / "folder").mkdir()
    (found / "folder/q.gq").write_text(wrong.GQ)
    (found / "empty").mkdir()
    return found


NO_STORE = ("init", "--nope", "--json", "frobnicate", "lod", "stats nowhere", "snapshot nowhere", "schema lint")


NO_JSON = ("export", "blob get", "query -e")
LINES = [(line, False) for line in wrong.COMMANDS]
LINES += [(line, True) for line in list(wrong.COMMANDS)[12::5] if not line.startswith(NO_JSON)]


@pytest.mark.parametrize(("line", "as_json"), LINES)
def test_command_lines(
    graph: Graph, folder: Path, line: str, as_json: bool, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    code, words = wrong.COMMANDS[line]
    monkeypatch.chdir(folder)
    before, files = state(graph), sorted(folder.rglob("*"))
    swaps = {"GQ": [wrong.GQ], "STORE": ["--store", graph.uri], "GRAPH": [graph.uri]}
    given = line.split(" ") if "{" in line else shlex.split(line)
    command = [word for each in given for word in swaps.get(each, [each])]
    if not line.startswith(NO_STORE) and line:
        monkeypatch.setenv("OMNIGRAPH_STORE", graph.uri)
    if as_json:
        command.append("--json")
    assert run(command) == code, capsys.readouterr()
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert "internal" not in out
    assert "OMNIGRAPH_TRACEBACK" not in err, err
    assert state(graph) == before
    assert sorted(folder.rglob("*")) == files
    if as_json:
        body = json.loads(out)
        assert body.get("error") or body.get("problems") or "supported" in body or "results" in body or "errors" in body
    else:
        assert re.search(words, out + err), out + err
    for python in ("mode=", "max_errors=", "params={", "expect_head", "hint: use mode"):
        assert python not in err, f"a hint speaks Python: {err}"


def test_one_unknown_function_leaves_the_other_queries_of_a_file(graph: Graph, tmp_path: Path) -> None:
    broken = 'query broken() { match { $p: Person } return { upper(trim($p.name, (1)), ")"), $p.age } }'
    (tmp_path / "q.gq").write_text(f"{broken}\n{wrong.GQ}")
    assert graph.query(tmp_path / "q.gq", "all").row_count == 2
    assert graph.query(tmp_path, "all").row_count == 2
    with pytest.raises(TypeCheckError, match="there is no function `upper`") as caught:
        graph.query(tmp_path / "q.gq", "broken")
    assert caught.value.span == Span(1, 48, 5)
    report = lint_queries((tmp_path / "q.gq").read_text(), graph.catalog(), "q.gq")
    assert [each.error is None for each in report.results] == [False, True]


SOURCES = {path: path.read_text() for path in Path(omnigraph.__file__).parent.rglob("*.py")}


def test_hints_name_extras_that_exist() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    named = {extra for text in SOURCES.values() for extra in re.findall(r"omnigraph\[(\w+)\]", text)}
    assert named
    assert named <= set(project["optional-dependencies"])


def test_hints_have_no_keyword_arguments_of_python() -> None:
    """A hint is read on the command line too. Parameters of a query have no other word."""
    python = re.compile(r"\b[a-z_]+=(True|False|None|'|\"|\[|\{)")
    for path, text in SOURCES.items():
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        for hint in (each.value for call in calls for each in call.keywords if each.arg == "hint"):
            words = [c.value for c in ast.walk(hint) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
            found = [word for word in words if python.search(word) and "params=" not in word]
            assert not found, f"{path}: {found}"
