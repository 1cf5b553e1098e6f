"""The corpus: every query of the `.gq` files here, from its text to its rows, against the text beside it.

For each query the expected text has its source as formatted, its syntax tree, its meaning, its plan and its rows. The
rows are those of the naive interpreter too. `// with {...}` above a query gives its parameters.
`UPDATE_GOLDEN=1 pytest tests/golden` rewrites the expected texts; review the diff.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.json_values import json_value
from omnigraph.query import bind_params, compile_query, parse_queries
from omnigraph.query.format import format_query
from omnigraph.query.ir import QueryIR
from omnigraph.query.ir_text import explain_ir
from omnigraph.query.plan.describe import describe
from omnigraph.versioning.store import Settings
from tests.reference.compare import difference
from tests.reference.data import plain_graph
from tests.reference.interpreter import interpret

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.gq"))
NO_REFERENCE = {"search"}  # the interpreter ranks and matches no text; tests/conformance states those by hand
GIVEN = re.compile(r"// with (\{.*\})\nquery (\w+)")
MODES = ("auto", "csr", "btree")


def stored_rows() -> list[dict[str, Any]]:
    """The rows of the graph, days and moments as values."""
    rows = [json.loads(line) for line in (HERE / "graph.jsonl").read_text().splitlines()]
    for row in rows:
        for name, value in row.get("data", {}).items():
            if name in ("born", "since"):
                row["data"][name] = dt.date.fromisoformat(value)
            elif name == "joined":
                row["data"][name] = dt.datetime.fromisoformat(value)
    return rows


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = Graph.init(tmp_path_factory.mktemp("golden") / "g", HERE / "graph.pg")
    rows = stored_rows()
    graph.load(rows[: len(rows) // 2])
    graph.load(rows[len(rows) // 2 :])
    return graph.uri


def tree(node: Any) -> str:
    """A syntax tree in one line, places left out."""
    if is_dataclass(node):
        inside = [tree(getattr(node, f.name)) for f in fields(node) if f.name not in ("span", "source", "path")]
        return f"({type(node).__name__} {' '.join(inside)})" if inside else f"({type(node).__name__})"
    if isinstance(node, tuple):
        return "[" + " ".join(map(tree, node)) + "]"
    return node.name if isinstance(node, Enum) else repr(node)


def ordered(query: QueryIR, rows: list[Any]) -> list[str]:
    lines = [json.dumps({k: json_value(v) for k, v in row.items()}, ensure_ascii=False) for row in rows]
    return lines if query.order else sorted(lines)


def shown(graph: Graph, text: str, name: str, given: dict[str, Any]) -> tuple[str, QueryIR, list[Any]]:
    syntax = next(q for q in parse_queries(text).queries if q.name.text == name)
    query = compile_query(text, graph.catalog(), name=name)
    assert isinstance(query, QueryIR)
    plan = graph.local.executor.plan(query, graph.snapshot(), graph.catalog())
    steps = [f"{'  ' * line.depth}{line.operator} {line.detail}".rstrip() for line in describe(plan)]
    rows = graph.query(text, name, given).to_pylist()
    parts = [format_query(syntax).rstrip("\n"), "--- ast", tree(syntax), "--- ir", explain_ir(query).rstrip("\n")]
    parts += ["--- plan", *steps, "--- rows", *ordered(query, rows)]
    return "\n".join(parts) + "\n", query, rows


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_stage_of_every_query(uri: str, path: Path) -> None:
    graph = Graph.open(uri)
    text = path.read_text()
    given = {name: json.loads(values) for values, name in GIVEN.findall(text)}
    plain = plain_graph(stored_rows(), graph.catalog())
    parts = []
    for syntax in parse_queries(text).queries:
        name = syntax.name.text
        part, query, rows = shown(graph, text, name, given.get(name, {}))
        parts.append(part)
        if path.stem not in NO_REFERENCE:
            wanted = interpret(query, plain, graph.catalog(), bind_params(query, given.get(name, {})))
            assert difference(query, rows, wanted, plain, graph.catalog()) is None, name
    found = "\n".join(parts)
    expected = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_way_of_execution_gives_the_same_rows(uri: str, path: Path, mode: str) -> None:
    graph = Graph.open(uri, settings=Settings(query_expansion=mode, derived_min_rows=0))
    text = path.read_text()
    given = {name: json.loads(values) for values, name in GIVEN.findall(text)}
    expected = dict(_rows(path))
    for syntax in parse_queries(text).queries:
        name = syntax.name.text
        query = compile_query(text, graph.catalog(), name=name)
        assert isinstance(query, QueryIR)
        assert ordered(query, graph.query(text, name, given.get(name, {})).to_pylist()) == expected[name], name


def _rows(path: Path) -> list[tuple[str, list[str]]]:
    found = []
    for part in re.split(r"\n(?=query )", path.with_suffix(".txt").read_text()):
        name = part.split("(")[0].removeprefix("query ")
        if "--- rows" in part:
            found.append((name, [line for line in part.split("--- rows\n", 1)[1].splitlines() if line]))
    return found


def test_the_corpus_is_large_enough() -> None:
    assert sum(len(parse_queries(path.read_text()).queries) for path in FILES) >= 250
