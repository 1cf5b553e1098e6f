"""Generated queries over generated graphs: the engine and the naive interpreter must agree on every one.

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

import pytest

from omnigraph import Graph
from omnigraph.errors import LanguageError, OmnigraphError
from omnigraph.query import bind_params, compile_query
from omnigraph.query.ir import QueryIR
from tests.reference.compare import difference, null_columns
from tests.reference.expressions import EvaluationError
from tests.reference.interpreter import Outcome, TooManyRows, interpret
from tests.reference.queries import QueryText, make_query
from tests.reference.worlds import World, make_world

QUERIES_PER_WORLD = 10
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


def check(graph: Graph, world: World, written: QueryText) -> tuple[str | None, str]:
    """What is wrong with the engine's answer, or None; and both answers."""
    query = compile_query(written.text(), world.catalog)
    assert isinstance(query, QueryIR)
    wanted = expected(query, written, world)
    shown = f"expected: {pformat(wanted.rows if wanted else 'an error')}"
    try:
        result = graph.query(written.text(), params=written.given())
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


def is_still_wrong(graph: Graph, world: World, written: QueryText) -> bool:
    if not written.block.clauses:
        return False
    try:
        return check(graph, world, written)[0] is not None
    except (LanguageError, TooManyRows):
        return False


def report(graph: Graph, world: World, written: QueryText, seed: int, wrong: str) -> Disagreement:
    small = cut_down(lambda each: is_still_wrong(graph, world, each), written)
    wrong_now, shown = check(graph, world, small)
    parts = [
        f"seed {seed}: {wrong_now or wrong}",
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


def run_world(path: Path, seed: int, tally: Tally) -> None:
    rng = random.Random(seed)
    world = make_world(rng)
    graph = world.create(str(path / f"graph-{seed}"))
    for _ in range(QUERIES_PER_WORLD):
        written, wanted = interesting(rng, world)
        tally.queries += 1
        tally.empty += wanted is not None and not wanted.rows
        tally.errors += wanted is None
        tally.features.update(set(written.features.elements()))
        wrong, _ = check(graph, world, written)
        if wrong is not None:
            raise report(graph, world, written, seed, wrong)


@pytest.mark.parametrize("seed", range(SEED, SEED + 15))
def test_engine_and_interpreter_agree(tmp_path: Path, seed: int) -> None:
    run_world(tmp_path, seed, Tally())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_engine_and_interpreter_agree_on_thousands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for seed in range(SEED + 1_000, SEED + 1_500):
        run_world(tmp_path, seed, tally)
    with capsys.disabled():
        print(f"\n{tally}")
