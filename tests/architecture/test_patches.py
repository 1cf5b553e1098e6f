"""Tests run the code as it is: they replace nothing of it, neither by fixtures nor by assignment.

What a test needs otherwise is a setting, a failpoint, an environment variable or a real condition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(path for path in TESTS.rglob("*.py") if path != Path(__file__))
OURS = ("omnigraph", "tests")
EXCEPTIONS = {
    "spark/test_generated_loads.py": 2,  # how files are split
    "spark/test_load.py": 1,  # how files are split
    "spark/test_merge.py": 2,  # rows per task, and from how many rows two versions are compared by files
    "spark/test_restaging.py": 2,  # rows per task
    "spark/test_screening.py": 4,  # rows per task, and a write that comes between two steps of the driver
    "spark/test_selection.py": 1,  # how files are split
    "spark/test_upkeep.py": 1,  # rows per piece
    "unit/write/inputs/test_file_options.py": 5,  # how much of a file is read at a time
}
"""How many patches a file may have. Numbers only go down."""


def foreign_names(tree: ast.Module) -> set[str]:
    """Names that a file imports from elsewhere: the only ones that may be patched."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(a.asname or a.name.split(".")[0] for a in node.names if not a.name.startswith(OURS))
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(OURS):
            found.update(a.asname or a.name for a in node.names)
    return found


def patches(source: str) -> Iterator[str]:
    """Each place where a test replaces something that is ours, or that nobody can tell whose it is."""
    tree = ast.parse(source)
    foreign = foreign_names(tree)
    mine = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names} - foreign
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
            if any(name.endswith("mock") for name in names):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and _is_setattr(node.func):
            if not node.args or not _is_foreign(node.args[0], foreign):
                yield ast.unparse(node)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (ast.unparse(t) for t in targets if isinstance(t, ast.Attribute) and _is_one_of(t.value, mine))


def _is_setattr(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "setattr"


def _is_foreign(target: ast.expr, foreign: set[str]) -> bool:
    if isinstance(target, ast.Constant):
        return not str(target.value).startswith(OURS)
    while isinstance(target, ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name) and target.id in foreign


def _is_one_of(value: ast.expr, names: set[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_nothing_of_ours_is_patched(path: Path) -> None:
    found = list(patches(path.read_text()))
    assert len(found) == EXCEPTIONS.get(path.relative_to(TESTS).as_posix(), 0), found


@pytest.mark.parametrize(
    "plant",
    [
        "monkeypatch.setattr('omnigraph.write.index_fold.fold', None)",
        "from omnigraph.write import index_fold\nmonkeypatch.setattr(index_fold, 'fold', None)",
        "import omnigraph\npatch.setattr(omnigraph.write.index_fold, 'fold', None)",
        "from omnigraph import Graph\nwith monkeypatch.context() as rival:\n    rival.setattr(Graph, 'load', None)",
        "from omnigraph import Graph\nsetattr(Graph, 'load', None)",
        "from omnigraph import Graph\nGraph.load = None",
        "from omnigraph.storage import durability\ndurability.QUICK_SECONDS += 1",
        "def test(graph):\n    cls = type(graph)\n    monkeypatch.setattr(cls, 'load', None)",
        "from unittest import mock",
        "from unittest.mock import patch",
        "import unittest.mock",
        "def test(mocker): ...\nimport pytest_mock",
    ],
)
def test_every_way_of_patching_is_seen(plant: str) -> None:
    assert len(list(patches(plant))) == 1


@pytest.mark.parametrize(
    "harmless",
    [
        "import os\nmonkeypatch.setattr(os, 'fsync', None)",
        "import sys\nmonkeypatch.setattr(sys.stdin, 'read', None)",
        "from pathlib import Path\npatch.setattr(Path, 'unlink', None)",
        "monkeypatch.setattr('os.fsync', None)",
        "monkeypatch.setenv('OMNIGRAPH_FSYNC', 'off')",
        "graph.attribute = 3",
    ],
)
def test_what_is_not_ours_may_be_replaced(harmless: str) -> None:
    assert list(patches(harmless)) == []
