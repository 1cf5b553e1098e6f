"""Queries on Spark: the rows of the embedded engine and of the naive interpreter, for the corpus and generated ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, InvalidValue, LimitExceeded
from omnigraph.query import bind_params, compile_query, parse_queries
from omnigraph.query.ir import QueryIR
from omnigraph.versioning.store import Settings
from tests.golden import test_corpus as golden
from tests.property import test_query_differential as differential
from tests.reference.compare import difference, is_total
from tests.reference.data import plain_graph
from tests.reference.interpreter import interpret
from tests.reference.worlds import make_world

pytestmark = pytest.mark.usefixtures("few_tasks")
EVERY = 16
ALWAYS = {"traversal_09"}  # an edge from a node to itself


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = Graph.init(tmp_path_factory.mktemp("golden") / "g", golden.HERE / "graph.pg")
    rows = golden.stored_rows()
    made.load(rows[: len(rows) // 2])
    made.load(rows[len(rows) // 2 :])
    return made


def corpus(every: int) -> list[tuple[Path, str]]:
    """Queries of all files; of a file at least the first."""
    found = []
    for path in golden.FILES:
        names = [query.name.text for query in parse_queries(path.read_text()).queries]
        found += [(path, name) for name in names if name in ALWAYS or name in names[::every]]
    return found


def compare(graph: Graph, path: Path, name: str) -> None:
    text = path.read_text()
    given = {query: json.loads(values) for values, query in golden.GIVEN.findall(text)}.get(name, {})
    query = compile_query(text, graph.catalog(), name=name)
    assert isinstance(query, QueryIR)
    embedded = graph.query(text, name, given)
    found = graph.query(text, name, given, engine="spark")
    assert found.table.schema == embedded.table.schema, name
    assert found.graph_commit_id == embedded.graph_commit_id
    if path.stem in golden.NO_REFERENCE:
        assert found.to_pylist() == embedded.to_pylist(), name
        return
    plain = plain_graph(golden.stored_rows(), graph.catalog())
    wanted = interpret(query, plain, graph.catalog(), bind_params(query, given))
    assert difference(query, found.to_pylist(), wanted, plain, graph.catalog()) is None, name
    if is_total(query) and not query.is_aggregate and path.stem != "paths":
        assert found.to_pylist() == embedded.to_pylist(), name


@pytest.mark.parametrize(("path", "name"), corpus(EVERY), ids=lambda value: value if isinstance(value, str) else "")
def test_a_sample_of_the_corpus(spark: Any, graph: Graph, path: Path, name: str) -> None:
    compare(graph, path, name)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "name"), corpus(1), ids=lambda value: value if isinstance(value, str) else "")
def test_the_whole_corpus(spark: Any, graph: Graph, path: Path, name: str) -> None:
    compare(graph, path, name)


def test_the_corpus_is_large() -> None:
    assert len(corpus(1)) >= 250


def generated(folder: Path, seed: int, count: int) -> int:
    """Ask generated queries of a generated graph; how many were asked."""
    rng = random.Random(seed)
    world = make_world(rng)
    graph = world.create(str(folder / f"w{seed}"))

    def ask(text: str, params: dict[str, Any]) -> Any:
        return graph.query(text, params=params, engine="spark")

    for _ in range(count):
        written, _wanted = differential.interesting(rng, world)
        wrong, shown = differential.check(ask, world, written)
        assert wrong is None, f"seed {seed}: {wrong}\n{world.describe()}\n{written.text()}\n{shown}"
    return count


def test_generated_queries(spark: Any, tmp_path: Path) -> None:
    assert generated(tmp_path, 1, 6) == 6


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_generated_queries(spark: Any, tmp_path: Path, seed: int) -> None:
    assert generated(tmp_path, seed, 15) == 15


def test_an_error_in_a_task_is_the_error_of_the_query(spark: Any, graph: Graph) -> None:
    query = "query q() { match { $p: Person $p.age / ($p.age - $p.age) > 1 } return { $p.name } }"
    with pytest.raises(InvalidValue, match="division by zero") as refused:
        graph.query(query, engine="spark")
    assert refused.value.hint == "filter out zero divisors first"


def test_more_rows_than_allowed_are_refused(spark: Any, graph: Graph) -> None:
    small = Graph.open(graph.uri, settings=Settings(query_max_rows=2))
    with pytest.raises(LimitExceeded, match="limit is 2"):
        small.query("query q() { match { $p: Person } return { $p.name } }", engine="spark")


def test_an_unknown_engine_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="'flink' is unknown"):
        graph.query("query q() { match { $p: Person } return { $p.name } }", engine="flink")


def test_old_states_are_asked_like_new_ones(spark: Any, graph: Graph) -> None:
    query = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
    for version in (1, 2, 3):
        expected = graph.query(query, snapshot=version).to_pylist()
        assert graph.query(query, snapshot=version, engine="spark").to_pylist() == expected
