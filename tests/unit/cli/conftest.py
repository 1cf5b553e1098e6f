"""Shared by the CLI tests: a runner that calls the program in this process, and a small graph."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.cli.main import run

SCHEMA = """node Person {
    name: String @key
    age: I32?
    score: F64?
}
node Note {
    text: String
}
edge Knows: Person -> Person {
    since: Date?
}
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36}},
    {"type": "Person", "data": {"name": "Bob"}},
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": "1843-01-01"}},
]


@dataclass(frozen=True)
class Outcome:
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line; nothing it prints may look like a traceback."""
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    monkeypatch.delenv("OMNIGRAPH_TRACEBACK", raising=False)

    def call(*arguments: object, stdin: bytes | None = None) -> Outcome:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run([str(a) for a in arguments])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        return Outcome(code, shown.out, shown.err)

    return call


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "people.pg"
    path.write_text(SCHEMA)
    return path


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph with one load on main."""
    opened = Graph.init(tmp_path / "graph", SCHEMA)
    opened.load(PEOPLE, mode="append", actor="ada", message="first people")
    return opened
