"""Public names use the words of docs/dev/vocabulary.md: no coined word, no participle as a function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import omnigraph

SRC = Path(omnigraph.__file__).parent
COINED = (
    "crew", "slate", "linger", "standing", "driving", "narrowing", "settle", "settled", "slips", "stamp", "told",
    "tell", "condemned", "worn", "gathering", "tips", "warming", "upkeep", "somebody", "whoever", "handover",
    "reprepared",
)  # fmt: skip
"""Words that name nothing in the field, or that have a better word in the vocabulary."""
PARTICIPLE = re.compile(r"[a-z]{2,}(ed|ten|ken|wn)")
NO_PARTICIPLES = {"seed", "need", "feed", "embed", "speed", "shed", "exceed", "bed"}
DECORATORS = {"checked"}
"""Decorators are read as adjectives: `@checked class Graph`."""


def public_names() -> Iterator[tuple[str, str, bool]]:
    """Where, name, and whether it is a function, of every module and everything public in one."""
    for path in sorted(SRC.rglob("*.py")):
        where = path.relative_to(SRC).as_posix()
        yield where, path.stem, False
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                yield where, node.name, isinstance(node, ast.FunctionDef)


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def test_no_public_name_uses_a_coined_word() -> None:
    found = [f"{where}: {name}" for where, name, _ in public_names() if set(words(name)) & set(COINED)]
    assert found == []


def test_no_function_is_named_by_a_participle_alone() -> None:
    found = [
        f"{where}: {name}"
        for where, name, is_function in public_names()
        if is_function and PARTICIPLE.fullmatch(name) and name not in NO_PARTICIPLES | DECORATORS
    ]
    assert found == []


def test_the_page_names_files_that_are_there() -> None:
    text = (SRC.parents[1] / "docs" / "dev" / "vocabulary.md").read_text()
    places = set(re.findall(r"`([a-z_/]+(?:\.py|/))`", text))
    assert len(places) > 25
    for place in places:
        found = [path for path in (SRC / place, SRC.parents[1] / place, SRC / "maintenance" / place) if path.exists()]
        assert found, f"docs/dev/vocabulary.md names {place}"
