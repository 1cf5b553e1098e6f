"""What the program imports: counted in modules, because times are of the machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.cli.command_table import ENTRIES, load_command

NEVER = ("pandas", "pyspark", "polars", "prompt_toolkit", "yaml", "IPython", "torch", "scipy", "networkx")
"""Libraries that are installed beside the program, and that no command imports unless it is about them."""
ENGINE = ("lance", "pyarrow", "numpy", "obstore", "lark", "omnigraph.graph")
QUERY = "query q() { match { $p: Person } return { $p.name } }"

pytestmark = pytest.mark.processes


@dataclass(frozen=True)
class Budget:
    """A command line, what it must not import, and how many modules it may, of this package and in all."""

    arguments: tuple[str, ...]
    ours: int
    all: int
    never: tuple[str, ...] = ()


BUDGETS = (
    Budget(("--help",), ours=20, all=420, never=ENGINE),
    Budget(("--version",), ours=30, all=420, never=("lance", "lark", "omnigraph.graph")),
    Budget(("branch", "list"), ours=280, all=820, never=("lark",)),
    Budget(("query", "-e", QUERY), ours=295, all=900),
    Budget(("mutate", "-e", 'query m() { insert Person { name: "Eve" } }'), ours=300, all=900),
    Budget(("load", "--data", "people.jsonl", "--mode", "append"), ours=300, all=900, never=("lark",)),
)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.arguments[0])
def test_a_command_imports_what_it_needs(tmp_path: Path, budget: Budget) -> None:
    Graph.init(tmp_path / "g", "node Person { name: String @key }")
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    script = f"""
import importlib.util, sys
assert all(importlib.util.find_spec(name) is not None for name in ("pandas", "pyspark", "prompt_toolkit"))
from omnigraph.cli.main import run
assert run({list(budget.arguments)!r}) == 0
print(*sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "OMNIGRAPH_STORE": str(tmp_path / "g"), "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    modules = ran.stdout.splitlines()[-1].split()
    assert [name for name in (*NEVER, *budget.never) if name in modules] == []
    ours = [name for name in modules if name.startswith("omnigraph")]
    assert len(ours) <= budget.ours, ours
    assert len(modules) <= budget.all


def test_a_command_does_not_import_the_others() -> None:
    script = """
import sys
from omnigraph.cli.main import run
run(["tag", "list", "--help"])
print(*(name for name in sys.modules if name.startswith("omnigraph.cli.commands.")))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].split() == ["omnigraph.cli.commands.tag"]


@pytest.mark.parametrize("name", ENTRIES)
def test_the_table_says_of_a_command_what_its_help_says(name: str) -> None:
    command = load_command(name)
    assert command.name == name
    assert " ".join(command.help.split("\n\n")[0].split()) == ENTRIES[name].summary
