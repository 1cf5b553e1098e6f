"""Vectors that are computed as rows are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import MissingValue, Unsupported

SCHEMA = """
node Doc { name: String @key  text: String?  v: Vector(4)? @embed("text") }
node Must { name: String @key  v: Vector(4) @embed("name", model="mock") }
"""


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    for name in ("OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBEDDINGS_MOCK", "OMNIGRAPH_EMBED_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return Graph.init(tmp_path / "docs", SCHEMA)


def test_without_a_provider_a_vector_stays_null_or_is_required(docs: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key for queries is no order")
    docs.load([{"type": "Doc", "data": {"name": "a", "text": "hello"}}])
    assert docs.rows("node:Doc")["v"].to_pylist() == [None]
    with pytest.raises(MissingValue, match=r"Must\.v is required"):
        docs.load([{"type": "Must", "data": {"name": "a"}}])
    with pytest.raises(MissingValue, match=r"Must\.v is required"):
        docs.mutate('query q() { insert Must { name: "a" } }')


def test_with_a_provider_vectors_are_computed(docs: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    given = [1.0, 0.0, 0.0, 0.0]
    docs.load({"Doc": [{"name": "a", "text": "hello"}, {"name": "b"}, {"name": "c", "text": "x", "v": given}]})
    docs.mutate('query q() { insert Doc { name: "d", text: "hello" } }')
    docs.load([{"type": "Must", "data": {"name": "a"}}])
    vectors = {row["name"]: row["v"] for row in docs.rows("node:Doc").to_pylist()}
    assert vectors["a"] == vectors["d"] is not None
    assert (vectors["b"], vectors["c"]) == (None, given)
    found = docs.query('query q() { match { $d: Doc } return { $d.name } order { nearest($d.v, "hello") } limit 2 }')
    assert {row["d.name"] for row in found.to_pylist()} == {"a", "d"}


def test_another_model_is_refused(docs: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "other")
    with pytest.raises(Unsupported, match="made by the model 'mock', not by 'other'"):
        docs.load([{"type": "Must", "data": {"name": "a"}}])
