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


def bare(words: list[str]) -> list[str]:
    """Names without what the script of zsh stands around them."""
    kept = " ".join(words).removeprefix("_arguments '*: :((").removesuffix("))'").replace('"', "").split()
    return sorted(word for word in kept if word != "_files")


def offered(line: str, uri: str | None, shell: str = "bash", **variables: str) -> list[str]:
    """What the program answers to the function that a shell has for it."""
    words = line.split(" ")
    environment = {name: value for name, value in os.environ.items() if name != "OMNIGRAPH_STORE"}
    environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    environment |= {"_OMNIGRAPH_COMPLETE": f"complete_{shell}"} | ({"OMNIGRAPH_STORE": uri} if uri else {})
    environment |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", **variables}
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


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("omnigraph branch create x --from ", ["draft", "main", "v1"]),
        ("omnigraph branch merge draft --into m", ["main"]),
        ("omnigraph diff v", ["v1"]),
        ("omnigraph load --branch d", ["draft"]),
        ("omnigraph load --mode m", ["merge"]),
        ("omnigraph mutate --branch m", ["main"]),
        ("omnigraph export --type No", ["Note"]),
        ("omnigraph restore --at v1 --type Per", ["Person"]),
        ("omnigraph analytics degrees --edge ", ["Knows"]),
        ("omnigraph analytics sh", ["shortest-paths"]),
        ("omnigraph blob get node N", ["Note"]),
        ("omnigraph shell --at v", ["v1"]),
        ("omnigraph query --format js", ["json", "jsonl"]),
    ],
)
def test_names_where_commands_take_them(uri: str, line: str, names: list[str]) -> None:
    assert sorted(offered(line, uri)) == names


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_queries_of_a_file_a_directory_or_the_environment(tmp_path: Path, shell: str) -> None:
    stored = tmp_path / "stored"
    (stored / "deep").mkdir(parents=True)
    (stored / "a.gq").write_text(
        'query friends() { match { $p: Person } return { $p } }\nquery fans() { delete Person where name = "x" }'
    )
    (stored / "deep" / "b.gq").write_text("query all() { match { $p: Person } return { $p } }")
    for command in ("query", "mutate", "explain"):
        assert bare(offered(f"omnigraph {command} --query {stored / 'a.gq'} f", None, shell)) == ["fans", "friends"]
    assert bare(offered(f"omnigraph query --query {stored} ", None, shell)) == ["all", "fans", "friends"]
    assert bare(offered("omnigraph query a", None, shell, OMNIGRAPH_QUERIES=str(stored))) == ["all"]
    (stored / "a.gq").write_text("query {")
    assert bare(offered(f"omnigraph query --query {stored / 'a.gq'} f", None, shell)) == []


def test_the_function_that_bash_gets(uri: str) -> None:
    """The script of `--show-completion` is read by bash, which calls it as it does after a key press."""
    program = Path(sys.executable).parent
    script = f"""
        PATH={program}:$PATH OMNIGRAPH_STORE={uri}; export OMNIGRAPH_STORE
        source <(omnigraph --show-completion bash)
        COMP_WORDS=(omnigraph branch delete d) COMP_CWORD=3
        _omnigraph_completion omnigraph
        echo "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("draft\n", "")


def test_a_graph_that_cannot_be_read_offers_nothing(tmp_path: Path) -> None:
    assert offered("omnigraph branch delete ", str(tmp_path / "nowhere")) == []
    assert offered("omnigraph branch delete ", None) == []
