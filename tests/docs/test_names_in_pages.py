"""Modules and functions that the pages name are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import omnigraph

ROOT = Path(__file__).parents[2]
SRC = Path(omnigraph.__file__).parent
SUPERSEDED = "0025-tasks-that-stay.md"
"""A decision that another one replaced names what was there."""
PAGES = sorted([ROOT / "ARCHITECTURE.md", *(ROOT / "docs" / "dev").glob("*.md"), *(ROOT / "docs" / "adr").glob("*.md")])
MODULES = {path.relative_to(SRC).with_suffix("").as_posix(): path for path in SRC.rglob("*.py")}
FOLDERS = ("src", "tests", "benchmarks", "examples", "docs")
FILES = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}


def names_in(path: Path) -> set[str]:
    """Functions, classes, methods and module-level names of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != SUPERSEDED], ids=lambda page: page.name)
def test_named_modules_and_functions_exist(page: Path) -> None:
    missing: list[str] = []
    for text in re.findall(r"`([^`\n]+)`", page.read_text()):
        if re.fullmatch(r"[a-z_]+\.py", text) and text not in FILES:
            missing.append(text)
        found = re.fullmatch(r"([a-z_]+(?:/[a-z_]+)+)(?:\.py)?(?:(?:\.|::|: )(\w+))?", text)
        if found is None or found[1].split("/")[0] not in {name.split("/")[0] for name in MODULES}:
            continue
        module = MODULES.get(found[1])
        if module is None:
            if not (SRC / found[1]).is_dir():
                missing.append(text)
        elif found[2] is not None and found[2] != "py" and found[2] not in names_in(module):
            missing.append(text)
    assert missing == []
