"""The graph that acceptance tests read, and the shortest way to ask it something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from tests.conformance.asking import FRIENDS
from tests.conftest import SCHEMA

Created = Callable[..., Graph]


@pytest.fixture(scope="session")
def friends(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Four people and two companies. Only for reading: all tests share it."""
    graph = Graph.init(tmp_path_factory.mktemp("friends") / "graph", SCHEMA)
    graph.load(FRIENDS)
    return graph


@pytest.fixture
def created(tmp_path: Path) -> Created:
    """Makes a graph of its own for a test: a schema and rows."""
    made = iter(range(100))

    def create(schema: str = SCHEMA, rows: list[dict[str, Any]] | None = None) -> Graph:
        graph = Graph.init(tmp_path / f"graph-{next(made)}", schema)
        if rows:
            graph.load(rows)
        return graph

    return create
