"""Search on Spark: rows, scores and distances of the embedded engine to the last bit; written and generated queries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, Unsupported

pytestmark = pytest.mark.usefixtures("few_tasks")
SCHEMA = """
interface Titled { title: String? }
node Doc implements Titled {
  slug: String @key
  title: String?
  body: String?
  year: I32
  near: Vector(3)?
  angle: Vector(3)? @index(metric="cosine")
  said: Vector(3)? @embed("title", model="mock")
}
node Song implements Titled { slug: String @key  title: String?  near: Vector(3)?  body: I32? }
node Author { name: String @key }
edge Wrote: Author -> Doc
edge Sings: Author -> Song
"""
WORDS = [
    "graph", "graphs", "learning", "learned", "the", "of", "deep", "table", "tables", "walk", "walked", "Café", "cafe",
    "straße", "art", "music", "2020", "x",
]  # fmt: skip
VECTOR = "[0.5, 0.25, 0.0]"


def text(rng: random.Random) -> str | None:
    return None if rng.random() < 0.15 else " ".join(rng.choices(WORDS, k=rng.randint(0, 7)))


def vector(rng: random.Random) -> list[float] | None:
    return None if rng.random() < 0.2 else [rng.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(3)]


def library(uri: Path, seed: int, count: int = 40) -> Graph:
    """Documents and songs with few words and few vectors, so that much is equal, in several fragments."""
    rng = random.Random(seed)
    graph = Graph.init(uri, SCHEMA)
    for part in range(3):
        rows: list[dict[str, Any]] = []
        for i in range(part, count, 3):
            doc = {"slug": f"d{i}", "title": text(rng), "body": text(rng), "year": rng.randint(2015, 2024)}
            rows.append(
                {"type": "Doc", "data": {**doc, "near": vector(rng), "angle": vector(rng), "said": vector(rng)}}
            )
            # A song may have the id of a document.
            song = {"slug": rng.choice([f"d{i}", f"s{i}"]), "title": text(rng), "near": vector(rng), "body": i}
            rows.append({"type": "Song", "data": song})
        graph.load(rows)
    authors = [{"type": "Author", "data": {"name": f"a{i}"}} for i in range(8)]
    wrote = [{"edge": "Wrote", "from": f"a{rng.randrange(7)}", "to": f"d{rng.randrange(count)}"} for _ in range(60)]
    graph.load([*authors, *wrote])
    graph.mutate('query m() { delete Doc where slug = "d4" }')
    return graph


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return library(tmp_path_factory.mktemp("search") / "g", 1)


def answer(graph: Graph, query: str, params: dict[str, Any], engine: str) -> Any:
    """Rows and types, or the refusal."""
    try:
        found = graph.query(query, params=params, engine=engine)
    except OmnigraphError as error:
        return type(error), error.message
    return found.to_pylist(), found.table.schema


def compare(graph: Graph, query: str, **params: Any) -> list[dict[str, Any]]:
    wanted = answer(graph, query, params, "arrow")
    assert answer(graph, query, params, "spark") == wanted, query
    rows: list[dict[str, Any]] = wanted[0]
    assert isinstance(rows, list), f"{wanted}: {query}"
    return rows


BM25, NEAREST = 'bm25($d.title, "learning graphs")', f"nearest($d.near, {VECTOR})"
WRITTEN = {
    "fusion of the ends of a traversal": f"""match {{ $a: Author $a wrote $d $d.year > 2016 }}
        return {{ $a.name, $d.slug, rrf({NEAREST}, {BM25}) as s }} order {{ s }} limit 7 offset 2""",
    "two types, one id": """match { $t: Titled } return { $t.title, $t.@id, bm25($t.title, "graph") as s }
        order { s, $t.title } limit 9""",
    "an optional without a match": f"""match {{ $a: Author optional {{ $a wrote $d }} }}
        return {{ $a.name, {BM25} as s, search($d.title, "graph") as t, {NEAREST} as n }} order {{ $a.name, s }}""",
    "one name in two negations": """match { $a: Author not { $a wrote $d search($d.body, "walk") }
        not { $a sings $d search($d.title, "art") } } return { $a.name } order { $a.name }""",
    "groups": """match { $a: Author $a wrote $d } return { fuzzy($d.title, "lerning", 1) as hit, count($a) as n,
        max(bm25($d.title, "deep")) as best } order { n, hit }""",
    "another node": """match { $a: Author $a wrote $d $e: Song $e.body < 3 }
        return { $d.slug, $e.slug, nearest($d.near, $e.near) as far } order { nearest($d.near, $e.near) } limit 5""",
}


FEW = ("fusion of the ends of a traversal", "an optional without a match", "another node")


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in WRITTEN]
)
def test_rows_are_those_of_the_embedded_engine(spark: Any, shelf: Graph, name: str) -> None:
    assert compare(shelf, f"query q() {{ {WRITTEN[name]} }}")


def test_text_is_embedded_once_and_on_the_driver(spark: Any, shelf: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    query = """query q($q: String) { match { $d: Doc } return { $d.slug, nearest($d.said, $q) as far }
               order { far } limit 4 }"""
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    assert len(compare(shelf, query, q="graphs")) == 4


def test_a_fusion_that_nothing_is_ordered_by_is_refused(spark: Any, shelf: Graph) -> None:
    query = f"query q() {{ match {{ $d: Doc }} return {{ rrf({NEAREST}, {BM25}) as s }} }}"
    assert answer(shelf, query, {}, "arrow")[0] is Unsupported
    assert answer(shelf, query, {}, "spark") == answer(shelf, query, {}, "arrow")


def searching(rng: random.Random) -> str:
    """A query with searches in its filters, its columns and its order."""
    words = " ".join(rng.choices([*WORDS, "lerning", "tabel"], k=rng.randint(1, 3)))
    point = f"[{rng.choice(['0.0', '0.5'])}, {rng.choice(['0.25', '1.0'])}, 0.5]"
    field = rng.choice(["title", "body"])
    tests = [
        f'search($d.{field}, "{words}")', f'not search($d.{field}, "{words}")', f'match_text($d.{field}, "{words}")',
        f'fuzzy($d.{field}, "{words}", {rng.randint(0, 2)})', f'bm25($d.{field}, "{words}") > 0.5',
        f"nearest($d.near, {point}) < 0.6", "$d.year > 2019",
    ]  # fmt: skip
    scores = [f'bm25($d.{field}, "{words}")', f"nearest($d.near, {point})", f"nearest($d.angle, {point})"]
    scores.append(f"rrf({scores[rng.randint(1, 2)]}, {scores[0]}, {rng.choice([1, 60])})")
    pattern = rng.choice(["$d: Doc", "$a: Author $a wrote $d"])
    named = "$a.name, $d.slug" if "$a" in pattern else "$d.slug"
    filters = " ".join(rng.sample(tests, k=rng.randint(0, 2)))
    score = rng.choice(scores)
    distinct = "distinct " if rng.random() < 0.2 else ""
    order = "s" if distinct else "s, t"
    return f"""query q() {{ match {{ {pattern} {filters} }}
        return {distinct}{{ {named}, {score} as s, {tests[0]} as t }}
        order {{ {order} }} limit {rng.choice([1, 3, 50])} }}"""


def test_generated_searches(spark: Any, shelf: Graph) -> None:
    rng = random.Random(5)
    assert sum(bool(compare(shelf, searching(rng))) for _ in range(4)) >= 2


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_generated_searches(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    graph = library(tmp_path / "g", seed)
    assert sum(bool(compare(graph, searching(rng))) for _ in range(25)) >= 10
