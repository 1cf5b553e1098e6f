"""The caches of a session are bounded, by sizes that the environment may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument
from omnigraph.storage.caches import INDEX_VARIABLE, METADATA_VARIABLE

COMMITS = 150
BOUND = 256 << 10


def size_after_commits(root: Path) -> int:
    graph = Graph.init(root, "node P { k: String @key }")
    for number in range(COMMITS):
        graph.load([{"type": "P", "data": {"k": f"k{number}"}}])
    graph.repository.store.wait_for_background_work()
    return int(graph.repository.store.tables.session.size_bytes())


def test_a_session_does_not_grow_with_the_number_of_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "off")
    assert size_after_commits(tmp_path / "wide") > 4 * BOUND, "the commits must be enough to outgrow the bound"
    monkeypatch.setenv(METADATA_VARIABLE, str(BOUND))
    monkeypatch.setenv(INDEX_VARIABLE, str(BOUND))
    assert size_after_commits(tmp_path / "narrow") <= 2 * BOUND + BOUND


@pytest.mark.parametrize("variable", [METADATA_VARIABLE, INDEX_VARIABLE])
@pytest.mark.parametrize("text", ["many", "-1", "0", "1.5", "1e9", "64MB", "٣", "9" * 30])
def test_a_size_that_is_no_number_of_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidArgument, match=variable):
        Graph.init(tmp_path / "g", "node P { k: String @key }")
    assert not (tmp_path / "g").exists() or not any((tmp_path / "g").iterdir())
