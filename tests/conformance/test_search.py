"""Search through queries: text tests, rankings, vectors and their fusion, exact and without any index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph import Graph
from omnigraph.errors import TypeCheckError, Unsupported

SCHEMA = """
node Doc {
  slug: String @key
  title: String?
  body: String?
  kind: String
  year: I32
  vec: Vector(4)? @embed("title", model="mock")
  plain: Vector(4)?
  angle: Vector(4)? @index(metric="cosine")
}
node Author { name: String @key }
edge Wrote: Author -> Doc { page: I32? }
"""

DOCS: list[dict[str, Any]] = [
    {"slug": "ml-intro", "title": "Machine Learning Introduction", "body": "Learning machines from data", "year": 2019},
    {
        "slug": "dl-basics",
        "title": "Deep Learning Basics",
        "body": "Neural networks and deep neural models",
        "year": 2020,
    },
    {"slug": "nlp-guide", "title": "A Guide to Language", "body": "The processing of natural language", "year": 2021},
    {"slug": "rl-intro", "title": "Reinforcement Learning", "body": "Learning by learning from rewards", "year": 2022},
    {"slug": "cooking", "title": "The Art of Cooking", "body": "Soup and bread", "year": 2018},
    {"slug": "untitled", "title": None, "body": None, "year": 2017},
]


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = Graph.init(tmp_path_factory.mktemp("search") / "g", SCHEMA)
    rows: list[dict[str, Any]] = []
    for i, doc in enumerate(DOCS):
        vector = None if doc["slug"] == "untitled" else [float(i), 1.0, 0.0, 0.0]
        kind = "food" if doc["slug"] == "cooking" else "tech"
        rows.append({"type": "Doc", "data": {**doc, "kind": kind, "plain": vector, "angle": vector}})
    rows += [{"type": "Author", "data": {"name": n}} for n in ("ada", "bob")]
    wrote = [("ada", "ml-intro"), ("ada", "rl-intro"), ("bob", "rl-intro"), ("bob", "cooking")]
    rows += [{"edge": "Wrote", "from": a, "to": d, "data": {"page": i}} for i, (a, d) in enumerate(wrote)]
    graph.load(rows)
    return graph


def slugs(graph: Graph, pattern: str, rest: str = "order { $d.slug }", **params: Any) -> list[str]:
    declared = ", ".join(f"${k}: {'Vector(4)' if isinstance(v, list) else 'String'}" for k, v in params.items())
    text = f"query q({declared}) {{ match {{ $d: Doc {pattern} }} return {{ $d.slug as slug }} {rest} }}"
    return [row["slug"] for row in graph.query(text, params=params).to_pylist()]


def test_search_finds_any_word_in_any_form(docs: Graph) -> None:
    assert slugs(docs, 'search($d.title, "learn")') == ["dl-basics", "ml-intro", "rl-intro"]
    assert slugs(docs, 'search($d.title, "LEARNING cooking")') == ["cooking", "dl-basics", "ml-intro", "rl-intro"]
    assert slugs(docs, 'search($d.title, "zebra")') == []
    assert slugs(docs, 'search($d.title, "the of")') == []
    assert slugs(docs, "search($d.title, $q)", q="introduction") == ["ml-intro"]


def test_match_text_is_a_phrase(docs: Graph) -> None:
    assert slugs(docs, 'match_text($d.body, "neural networks")') == ["dl-basics"]
    assert slugs(docs, 'match_text($d.body, "networks neural")') == []
    assert slugs(docs, 'match_text($d.title, "machine learning")') == ["ml-intro"]


def test_fuzzy_finds_a_typo(docs: Graph) -> None:
    assert slugs(docs, 'fuzzy($d.title, "machin")') == ["ml-intro"]
    assert slugs(docs, 'fuzzy($d.title, "lerning", 1)') == ["dl-basics", "ml-intro", "rl-intro"]
    assert slugs(docs, 'fuzzy($d.title, "lerning", 0)') == []


def test_text_tests_compose_with_everything(docs: Graph) -> None:
    assert slugs(docs, 'search($d.title, "learning") $d.year > 2019') == ["dl-basics", "rl-intro"]
    assert slugs(docs, 'search($d.title, "guide") or search($d.body, "soup")') == ["cooking", "nlp-guide"]
    assert slugs(docs, 'not (search($d.title, "learning"))') == ["cooking", "nlp-guide", "untitled"]


def test_search_on_what_a_traversal_reached_and_inside_not(docs: Graph) -> None:
    text = (
        'query q() { match { $a: Author { name: "ada" } $a wrote $d search($d.title, "machine") } return { $d.slug } }'
    )
    assert docs.query(text).to_pylist() == [{"d.slug": "ml-intro"}]
    text = (
        'query q() { match { $a: Author not { $a wrote $d search($d.title, "machine") } } '
        "return { $a.name } order { $a.name } }"
    )
    assert docs.query(text).to_pylist() == [{"a.name": "bob"}]


def test_bm25_orders_best_first_and_drops_what_does_not_match(docs: Graph) -> None:
    assert slugs(docs, "", 'order { bm25($d.body, "learning") }') == ["rl-intro", "ml-intro"]
    text = (
        'query q() { match { $d: Doc } return { $d.slug, bm25($d.body, "learning") as score } '
        "order { score desc } limit 1 }"
    )
    [row] = docs.query(text).to_pylist()
    assert row["d.slug"] == "rl-intro"
    assert row["score"] > 0


def test_nearest_is_exact_and_filters_come_first(docs: Graph) -> None:
    near = [2.2, 1.0, 0.0, 0.0]
    assert slugs(docs, "", "order { nearest($d.plain, $v) } limit 3", v=near) == ["nlp-guide", "rl-intro", "dl-basics"]
    old = slugs(docs, "$d.year < 2021", "order { nearest($d.plain, $v) } limit 2", v=near)
    assert old == ["dl-basics", "cooking"] or old == ["dl-basics", "ml-intro"]
    everything = slugs(docs, "", "order { nearest($d.plain, $v) } limit 100", v=near)
    assert "untitled" not in everything, "what has no vector is not near anything"
    assert len(everything) == 5


def test_the_metric_of_the_property_decides(docs: Graph) -> None:
    query = (
        "query q($v: Vector(4)) { match { $d: Doc } return { $d.slug, nearest($d.angle, $v) as far } "
        "order { far } limit 5 }"
    )
    rows = docs.query(query, params={"v": [1.0, 0.0, 0.0, 0.0]}).to_pylist()
    expected = []
    for i, doc in enumerate(DOCS[:5]):
        vector = np.array([i, 1, 0, 0], float)
        expected.append((1 - vector[0] / np.linalg.norm(vector), doc["slug"]))
    assert [r["d.slug"] for r in rows] == [slug for _, slug in sorted(expected)]
    assert [r["far"] for r in rows] == pytest.approx(sorted(d for d, _ in expected), abs=1e-6)


def test_rrf_adds_up_two_rankings(docs: Graph) -> None:
    rest = 'order { rrf(nearest($d.plain, $v), bm25($d.title, "learning")) } limit 3'
    found = slugs(docs, "", rest, v=[0.0, 1.0, 0.0, 0.0])
    assert found[0] == "ml-intro"
    assert len(found) == 3
    both = 'order { rrf(bm25($d.title, "learning"), bm25($d.body, "learning")) } limit 10'
    assert set(slugs(docs, "", both)) == {"ml-intro", "dl-basics", "rl-intro"}


def test_rank_survives_fan_out(docs: Graph) -> None:
    text = (
        "query q() { match { $d: Doc $a $w:wrote $d } return { $d.slug, $a.name } "
        'order { bm25($d.body, "learning") } limit 10 }'
    )
    rows = [(r["d.slug"], r["a.name"]) for r in docs.query(text).to_pylist()]
    assert rows == [("rl-intro", "ada"), ("rl-intro", "bob"), ("ml-intro", "ada")]


def test_a_text_is_embedded_for_nearest(docs: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    query = 'query q() { match { $d: Doc } return { $d.slug } order { nearest($d.vec, "a title") } limit 2 }'
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "OMNIGRAPH_EMBED_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OMNIGRAPH_EMBEDDINGS_MOCK", raising=False)
    with pytest.raises(Unsupported, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
        docs.query(query)
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert docs.query(query).to_pylist() == []


def test_search_sees_the_newest_rows_and_the_oldest_snapshot(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Doc { slug: String @key  text: String }")
    graph.load([{"type": "Doc", "data": {"slug": "a", "text": "apples"}}])
    query = 'query q() { match { $d: Doc search($d.text, "apple") } return { $d.slug } order { $d.slug } }'
    assert graph.query(query).row_count == 1
    graph.load([{"type": "Doc", "data": {"slug": "b", "text": "an apple"}}])
    graph.load([{"type": "Doc", "data": {"slug": "a", "text": "pears"}}], mode="merge")
    assert [r["d.slug"] for r in graph.query(query).to_pylist()] == ["b"]
    assert [r["d.slug"] for r in graph.query(query, snapshot=2).to_pylist()] == ["a"]


def test_ranking_needs_a_limit(docs: Graph) -> None:
    with pytest.raises(TypeCheckError, match="T17"):
        slugs(docs, "", "order { nearest($d.plain, $v) }", v=[0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_equal_vectors_are_equally_near(tmp_path: Path, metric: str) -> None:
    index = "" if metric == "l2" else f'@index(metric="{metric}")'
    graph = Graph.init(tmp_path / "g", f"node N {{ k: String @key  v: Vector(384)? {index} }}")
    vector = np.random.default_rng(3).normal(size=384).astype(np.float32).tolist()
    graph.load([{"type": "N", "data": {"k": f"n{(i * 7) % 103:03}", "v": vector}} for i in range(103)])
    query = "query q($q: Vector(384)) { match { $n: N } return { $n.k } order { nearest($n.v, $q) } limit 9 }"
    found = [row["n.k"] for row in graph.query(query, params={"q": [0.5] * 384}).to_pylist()]
    assert found == [f"n{i:03}" for i in range(9)]


def test_nearest_to_the_vector_of_another_node_is_measured_row_by_row(docs: Graph) -> None:
    query = """query q() { match { $a: Doc $d: Doc } return { $a.slug, $d.slug, nearest($d.plain, $a.plain) as far }
               order { far desc } limit 40 }"""
    rows = docs.query(query).to_pylist()
    place = {doc["slug"]: i for i, doc in enumerate(DOCS)}
    assert len(rows) == 25  # one of six has no vector
    assert all(row["far"] == (place[row["a.slug"]] - place[row["d.slug"]]) ** 2 for row in rows)


def test_no_vector_is_near_to_nothing(docs: Graph) -> None:
    query = "query q($q: Vector(4)?) { match { $d: Doc } return { $d.slug } order { nearest($d.plain, $q) } limit 3 }"
    assert docs.query(query).to_pylist() == []
