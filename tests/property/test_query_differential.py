"""Generated queries over generated graphs: the engine and the naive interpreter must agree on every one, in every mode.

Queries are made as text, so parser, type checker and lowering are tested along. A disagreement is cut down to a small
query before it is shown, with its schema and rows. Set `DIFFERENTIAL_SEED` to begin elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.api.query_result import Result
from omnigraph.errors import LanguageError, OmnigraphError
from omnigraph.query import bind_params, compile_query
from omnigraph.query.ir import QueryIR
from omnigraph.versioning.store import Settings
from tests.reference.compare import difference, null_columns
from tests.reference.expressions import EvaluationError
from tests.reference.interpreter import Outcome, TooManyRows, interpret
from tests.reference.queries import QueryText, make_query
from tests.reference.worlds import World, make_world

QUERIES_PER_WORLD = 10
Ask = Callable[[str, dict[str, Any]], Result]
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "0"))


@dataclass
class Tally:
    """What a run has seen."""

    queries: int = 0
    empty: int = 0
    errors: int = 0
    features: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"{self.queries} queries, {self.empty} without rows, {self.errors} refused by both"]
        lines += [f"  {count:6} {name}" for name, count in sorted(self.features.items(), key=lambda each: -each[1])]
        return "\n".join(lines)


class Disagreement(AssertionError):
    """The engine and the interpreter do not agree on a query."""


def expected(query: QueryIR, written: QueryText, world: World) -> Outcome | None:
    """What the interpreter says; None when it refuses to compute."""
    try:
        return interpret(query, world.plain, world.catalog, bind_params(query, written.given()))
    except EvaluationError:
        return None


def check(ask: Ask, world: World, written: QueryText) -> tuple[str | None, str]:
    """What is wrong with the engine's answer, or None; and both answers."""
    query = compile_query(written.text(), world.catalog)
    assert isinstance(query, QueryIR)
    wanted = expected(query, written, world)
    shown = f"expected: {pformat(wanted.rows if wanted else 'an error')}"
    try:
        result = ask(written.text(), written.given())
    except OmnigraphError as error:
        return (f"the engine refuses it: {error}" if wanted else None), shown
    except Exception as error:  # noqa: BLE001 - an engine that breaks is what is looked for
        return f"the engine breaks: {error!r}", shown
    rows = result.to_pylist()
    shown = f"{shown}\nfound:    {pformat(rows)}"
    if wanted is None:
        return "the engine computes what overflows or divides by zero", shown
    wrong = difference(query, rows, wanted, world.plain, world.catalog)
    if wrong is None and null_columns(query, wanted.all_rows):
        wrong = f"null in {null_columns(query, wanted.all_rows)}, which the type checker says cannot be null"
    return wrong or wrong_types(query, result.to_arrow()), shown


def wrong_types(query: QueryIR, table: object) -> str | None:
    """Columns whose Arrow type is not that of the checked query."""
    for each in query.outputs:
        kind = each.type.value
        found = table.schema.field(each.name).type  # type: ignore[attr-defined]
        if kind is not None and found != kind.to_arrow():
            return f"column {each.name} is {found}, expected {kind.to_arrow()}"
    return None


def cut_down(is_wrong: Callable[[QueryText], bool], written: QueryText) -> QueryText:
    """The query without everything that it can lose and still fail."""
    while True:
        smaller = next((each for each in written.smaller() if is_wrong(each)), None)
        if smaller is None:
            return written
        written = smaller


def is_still_wrong(ask: Ask, world: World, written: QueryText) -> bool:
    if not written.block.clauses:
        return False
    try:
        return check(ask, world, written)[0] is not None
    except (LanguageError, TooManyRows):
        return False


def report(mode: str, ask: Ask, world: World, written: QueryText, seed: int, wrong: str) -> Disagreement:
    small = cut_down(lambda each: is_still_wrong(ask, world, each), written)
    wrong_now, shown = check(ask, world, small)
    parts = [
        f"seed {seed}, mode {mode}: {wrong_now or wrong}",
        f"schema and rows:\n{world.describe()}",
        f"query, parameters {small.given()}:\n{small.text()}",
        shown,
        f"before it was cut down:\n{written.text()}",
    ]
    return Disagreement("\n\n".join(parts))


def interesting(rng: random.Random, world: World) -> tuple[QueryText, Outcome | None]:
    """A query that finds something, mostly."""
    while True:
        written = make_query(rng, world)
        query = compile_query(written.text(), world.catalog)
        assert isinstance(query, QueryIR)
        with contextlib.suppress(TooManyRows):
            wanted = expected(query, written, world)
            if wanted is None or wanted.rows or rng.random() < 0.15:
                return written, wanted


def asking(graph: Graph, **target: str) -> Ask:
    return lambda text, given: graph.query(text, params=given, **target)


def streaming(graph: Graph) -> Ask:
    def ask(text: str, given: Any) -> Result:
        with graph.stream(text, params=given, max_rows=3) as rows:
            return Result(pa.Table.from_batches(rows, rows.schema), rows.query_name, rows.graph_commit_id)

    return ask


def modes(world: World, uri: str) -> dict[str, Ask]:
    """The same graph asked in every way that the engine has of answering."""
    graph = world.create(uri)

    def opened(**settings: object) -> Graph:
        return Graph.open(uri, settings=Settings(**settings))  # type: ignore[arg-type]

    kept = opened(derived_min_rows=0)
    for edge in world.catalog.edges.values():  # keeps the topologies, so that the next handle finds them
        for text in (f"$a {edge.name.lower()} $b", f"$a $e:{edge.name.lower()} $b"):
            kept.query(f"query q() {{ match {{ $a: {edge.source}  {text} }} return {{ count(*) as n }} }}")
    kept.local.executor.topologies.wait_until_kept()
    graph.branches.create("copy")
    graph.tags.create("then", "main")
    return {
        "auto": asking(graph),
        "csr": asking(opened(query_expansion="csr", derived=False)),
        "btree": asking(opened(query_expansion="btree", derived=False)),
        "kept": asking(opened(derived_min_rows=0)),
        "streamed": streaming(opened(derived=False)),
        "branch": asking(graph, branch="copy"),
        "old snapshot": asking(opened(derived_min_rows=0), snapshot="then"),
        "old snapshot by index": asking(opened(query_expansion="btree"), snapshot="then"),
    }


def disturb(graph: Graph, world: World) -> None:
    """Main goes on: what the branch and the tag hold must not change with it."""
    for type_name in list(world.catalog.nodes)[:1]:
        graph.delete(type_name, ["n0", "n1"])
    for edge in world.catalog.edges.values():
        ids = [row["data"]["id"] for batch in world.batches for row in batch if row.get("edge") == edge.name]
        if ids:
            graph.delete(edge.name, ids[:1])


def run_world(path: Path, seed: int, tally: Tally) -> None:
    rng = random.Random(seed)
    world = make_world(rng)
    uri = str(path / f"graph-{seed}")
    ways = modes(world, uri)
    queries: list[QueryText] = []
    for _ in range(QUERIES_PER_WORLD):
        written, wanted = interesting(rng, world)
        tally.queries += 1
        tally.empty += wanted is not None and not wanted.rows
        tally.errors += wanted is None
        tally.features.update(set(written.features.elements()))
        queries.append(written)
        for mode, ask in ways.items():
            compare(mode, ask, world, written, seed)
    disturb(Graph.open(uri), world)
    for written in queries[: QUERIES_PER_WORLD // 2]:
        for mode in ("branch", "old snapshot", "old snapshot by index"):
            compare(mode, ways[mode], world, written, seed)


def compare(mode: str, ask: Ask, world: World, written: QueryText, seed: int) -> None:
    wrong, _ = check(ask, world, written)
    if wrong is not None:
        raise report(mode, ask, world, written, seed, wrong)


@pytest.mark.parametrize("seed", range(SEED, SEED + 15))
def test_engine_and_interpreter_agree(tmp_path: Path, seed: int) -> None:
    run_world(tmp_path, seed, Tally())


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_engine_and_interpreter_agree_on_thousands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for seed in range(SEED + 1_000, SEED + 1_500):
        run_world(tmp_path, seed, tally)
    with capsys.disabled():
        print(f"\n{tally}")
