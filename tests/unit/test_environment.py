"""Variables that cannot be read are refused by name; none of them ends in a traceback or in a guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument
from omnigraph.versioning.store import Settings
from tests.conftest import SCHEMA

NUMBERS = ("OMNIGRAPH_INTENT_LEASE", "OMNIGRAPH_PUBLISH_DEADLINE", "OMNIGRAPH_QUERY_TIMEOUT")
COUNTS = ("OMNIGRAPH_QUERY_MAX_ROWS", "OMNIGRAPH_QUERY_MAX_MEMORY", "OMNIGRAPH_MAINTENANCE_CONCURRENCY")
SWITCHES = ("OMNIGRAPH_FSYNC", "OMNIGRAPH_DERIVED")
WRONG = {
    **dict.fromkeys(NUMBERS, ("x", "-1", "nan", "inf", "1e999", "1,5")),
    **dict.fromkeys(COUNTS, ("x", "-1", "1.5", "9" * 5000)),
    **dict.fromkeys(SWITCHES, ("maybe", "2", "onn")),
    "OMNIGRAPH_LOG": ("loud", "info,xml", ","),
}
CASES = [(name, text) for name, texts in WRONG.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), CASES, ids=lambda v: str(v)[:40])
def test_a_value_that_cannot_be_read(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Graph.init(tmp_path / "g", SCHEMA)
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidArgument, match=name) as caught:
        Graph.open(tmp_path / "g").maintenance.optimize()
    assert caught.value.hint


def test_values_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_INTENT_LEASE", " 2.5 ")
    monkeypatch.setenv("OMNIGRAPH_PUBLISH_DEADLINE", "7")
    monkeypatch.setenv("OMNIGRAPH_DERIVED", "NO")
    found = Settings.from_env()
    assert (found.lease, found.lease_margin, found.publish_deadline, found.derived) == (2.5, 2.5, 7.0, False)
    monkeypatch.setenv("OMNIGRAPH_DERIVED", "")
    assert Settings.from_env().derived
