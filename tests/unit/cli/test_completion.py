"""What a shell is offered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.unit.cli.conftest import PEOPLE, SCHEMA

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = Graph.init(tmp_path_factory.mktemp("completion") / "people.omni", SCHEMA)
    graph.load(PEOPLE)
    graph.branches.create("draft")
    graph.tags.create("v1")
    return graph.uri


def offered(line: str, uri: str | None, shell: str = "bash") -> list[str]:
    """What the program answers to the function that a shell has for it."""
    words = line.split(" ")
    environment = {name: value for name, value in os.environ.items() if name != "OMNIGRAPH_STORE"}
    environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    environment |= {"_OMNIGRAPH_COMPLETE": f"complete_{shell}"} | ({"OMNIGRAPH_STORE": uri} if uri else {})
    program = Path(sys.executable).parent / "omnigraph"
    ran = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_commands_branches_tags_and_types(uri: str) -> None:
    assert offered("omnigraph cherr", None) == ["cherry-pick"]
    assert offered("omnigraph branch delete ", uri) == ["draft", "main"]
    assert offered("omnigraph snapshot --at v", uri) == ["v1"]
    assert offered(f"omnigraph snapshot --store {uri} --at ", None) == ["draft", "main", "v1"]
    assert offered("omnigraph diff main draft --type K", uri) == ["Knows"]
    assert "draft" in " ".join(offered("omnigraph branch delete d", uri, "zsh"))


def test_a_graph_that_cannot_be_read_offers_nothing(tmp_path: Path) -> None:
    assert offered("omnigraph branch delete ", str(tmp_path / "nowhere")) == []
    assert offered("omnigraph branch delete ", None) == []
