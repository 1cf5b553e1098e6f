"""What storage libraries raise never leaves as itself: every call that reads or writes through Lance is translated."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

STORAGE = Path(__file__).parents[2] / "src" / "omnigraph" / "storage"
CALLS = frozenset(
    {
        "to_table", "to_batches", "to_reader", "describe_indices", "prewarm_index", "create_index_uncommitted",
        "explain_plan", "delete_rows", "count_rows", "get_fragments", "commit", "write_dataset", "write_fragments",
        "dataset", "execute",
    }
)  # fmt: skip
TRANSLATED_BY_CALLERS = {
    ("manifest_table.py", "_create_first"),
    ("manifest_table.py", "_open"),
    ("index_prefetch.py", "_unread"),
}


def untranslated(name: str, text: str) -> Iterator[tuple[str, str]]:
    """File and function of every call that is not inside `with translate_faults(...)`."""

    def walk(node: ast.AST, function: str, inside: bool) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.With):
            contexts = [item.context_expr for item in node.items]
            inside |= any(isinstance(c, ast.Call) and ast.unparse(c.func) == "translate_faults" for c in contexts)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CALLS
            and not inside
        ):
            yield name, function
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function, inside)

    yield from walk(ast.parse(text), "", False)


def test_every_call_of_lance_is_translated() -> None:
    found = {each for path in STORAGE.glob("*.py") for each in untranslated(path.name, path.read_text())}
    assert found == TRANSLATED_BY_CALLERS


@pytest.mark.parametrize("call", sorted(CALLS))
def test_a_planted_call_is_found(call: str) -> None:
    planted = f"def read(table):\n    with opened():\n        return table.dataset.{call}(1)\n"
    assert list(untranslated("planted.py", planted)) == [("planted.py", "read")]
    assert not list(untranslated("planted.py", planted.replace("opened()", "translate_faults('reading')")))
