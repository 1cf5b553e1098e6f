"""Generated loads, once in one process and once on Spark: the same graph, the same rejected rows, the same errors."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline
from omnigraph.api.results import LoadResult
from omnigraph.errors import OmnigraphError, Violation
from tests.spark.generated import Generator, LoadCase, plain

MINTED = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
SHORT, LONG = 15, 200


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few rows are cut, too."""
    monkeypatch.setattr("omnigraph.pipeline.sources._SPLIT_BYTES", 700)
    monkeypatch.setattr("omnigraph.pipeline.sources._SPLIT_ROWS", 4)


def prepared(generator: Generator, folder: Path) -> Graph:
    """A graph with some rows in several files of each table, and some rows deleted."""
    graph = Graph.init(folder / "before", generator.schema())
    catalog = graph.catalog()
    for _ in range(generator.rng.choice([0, 1, 2])):
        rows = []
        for entity in [*catalog.nodes.values(), *catalog.edges.values()]:
            case = Generator(generator.rng.randrange(1 << 30))
            for row in case.rows(entity, 6, 0.0):
                rows.append((entity, row))
        keep_valid(graph, rows)
    ids = graph.rows("node:City")["id"].to_pylist()
    if len(ids) > 4 and not any("1.." in line for line in graph.schema.show().splitlines() if "@card" in line):
        graph.delete("City", ids[:1])
    return graph


def keep_valid(graph: Graph, rows: list[Any]) -> None:
    """Load the rows that fit; none where a rule concerns the graph as a whole."""
    by_type: dict[str, list[dict[str, Any]]] = {}
    for entity, row in rows:
        by_type.setdefault(entity.table_key, []).append(plain(row))
    try:
        graph.load(by_type, mode="merge", max_errors=1000)
    except OmnigraphError:
        return


def content(graph: Graph, at: str) -> dict[str, Counter[str]]:
    found = {}
    for key in graph.snapshot(at).tables:
        rows = graph.rows(key, at).to_pylist()
        for row in rows:
            row["id"] = "*" if MINTED.fullmatch(row["id"]) else row["id"]
        found[key] = Counter(str(sorted(row.items())) for row in rows)
    return found


def named(violations: tuple[Violation, ...]) -> Counter[Any]:
    """Violations by rule and place. Rows of frames are counted per partition on Spark: only their number is equal."""
    return Counter(
        (v.rule, v.type_key, v.field, *((v.path, v.row) if v.path and not v.path.startswith("<") else (None, None)))
        for v in violations
    )


def outcome(graph: Graph, case: LoadCase, load: Any) -> dict[str, Any]:
    """What became of a load, in a form in which two of them can be compared."""
    try:
        result: LoadResult = load()
    except OmnigraphError as error:
        branches = {b.name for b in graph.branches.list()}
        assert branches == {"main"}, "a refused load leaves no branch behind"
        violations = named(getattr(error, "violations", ()))
        if case.max_errors is not None and sum(violations.values()) > case.max_errors:
            # Reading stopped at the limit: which rows were seen first depends on the pieces they were read in.
            return {"error": "too many", "content": content(graph, "main")}
        return {"error": type(error).__name__, "rows": violations, "content": content(graph, "main")}
    return {
        "nodes": dict(result.nodes), "edges": dict(result.edges), "rows": named(result.rejected),
        "committed": result.commit is not None, "content": content(graph, case.branch),
    }  # fmt: skip


def check(spark: Any, folder: Path, seed: int) -> str:
    """Make one load twice; how it ended."""
    folder.mkdir()
    generator = Generator(seed)
    before = prepared(generator, folder)
    schema = before.schema.show()
    case = generator.case(before.catalog(), folder / "input")
    shutil.copytree(folder / "before", folder / "here")
    shutil.copytree(folder / "before", folder / "there")
    here, there = Graph.open(folder / "here"), Graph.open(folder / "there")
    fork = "main" if case.branch != "main" else None
    terms = {"mode": case.mode, "branch": case.branch, "from_branch": fork, "max_errors": case.max_errors}
    given: Any = list(case.envelopes)
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    if not given:
        given = {s.type_name: list(s.paths) if s.table is None else s.table for s in case.sources}
        for s in case.sources:
            (edges if s.is_edge else nodes)[s.type_name] = list(s.paths) or spark.createDataFrame(s.table)
    wanted = outcome(here, case, lambda: here.load(given, **terms))
    found = outcome(
        there, case, lambda: pipeline.load(spark, there, nodes, edges, data=list(case.envelopes) or None, **terms)
    )
    assert found == wanted, f"seed {seed}\n{schema}\n{case.describe()}"
    assert there.recovery.list() == []
    assert not [f for _, _, files in os.walk(folder / "there" / "__staging") for f in files]
    shutil.rmtree(folder)
    return wanted.get("error") or ("loaded" if wanted["committed"] else "nothing")


@pytest.mark.parametrize("seed", range(SHORT))
def test_generated_loads(spark: Any, tmp_path: Path, seed: int) -> None:
    assert check(spark, tmp_path / "run", seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_generated_loads(spark: Any, tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    wrong = []
    for seed in range(1000, 1000 + LONG):
        try:
            ends[check(spark, tmp_path / str(seed), seed)] += 1
        except (AssertionError, pa.ArrowException, OmnigraphError) as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    print(dict(ends))
    assert not wrong, "\n\n".join([f"{len(wrong)} of {LONG} differ", *wrong])
    assert ends["loaded"] > LONG // 5
    assert {"DuplicateKey", "InvalidValue", "KeyConflict", "MissingEndpoint"} <= set(ends)
