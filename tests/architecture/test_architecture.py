"""The tree is the architecture: what may import what, how large things may grow, and that there is one door."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import omnigraph

SRC = Path(omnigraph.__file__).parent
ORDER = [
    "errors", "logs", "json_values", "datatypes", "parsing", "schema", "query", "api", "storage", "versioning",
    "execution",
    "write",
    "maintenance", "local", "handles", "graph",
    "pipeline", "server", "cli",
]  # fmt: skip
WALLS = {("storage", "schema"), ("storage", "query"), ("server", "pipeline")}
ONLY_IN = {
    "lance": ("storage/",),
    "obstore": ("storage/",),
    "pyspark": ("execution/spark/", "pipeline/"),
    "typer": ("cli/",),
    "rich": ("cli/",),
    "fastapi": ("server/",),
}
PURE = ("parsing/", "schema/", "query/", "api/", "errors/", "datatypes.py")
NAMES_TYPES_OF = {  # paths and streams are types of arguments
    "api/arguments.py": {"os", "io"},
    "api/requests.py": {"os"},
    "api/write_requests.py": {"os"},
}
IMPURE_MODULES = {
    "os",
    "io",
    "time",
    "random",
    "socket",
    "subprocess",
    "pathlib",
    "ulid",
    "lance",
    "obstore",
    "secrets",
}
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
FILES = sorted(SRC.rglob("*.py"))
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(SRC).as_posix())


def where(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_names(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where(path)} has a relative import"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@EVERY_FILE
def test_imports_only_point_up_the_list(path: Path) -> None:
    here = where(path).split("/")[0].removesuffix(".py")
    for name in imported_names(path):
        root, *rest = name.split(".")
        if root == "omnigraph" and here != "__init__" and rest[0] != here and rest[0] in ORDER:
            assert rest[0] in ORDER[: ORDER.index(here)], f"{where(path)} imports {name}"
            assert (here, rest[0]) not in WALLS, f"{where(path)} imports {name}"
        if root in ONLY_IN:
            assert where(path).startswith(ONLY_IN[root]), f"{where(path)} imports {name}"


@EVERY_FILE
def test_languages_are_pure(path: Path) -> None:
    if not where(path).startswith(PURE):
        return
    impure = {name.split(".")[0] for name in imported_names(path)} & IMPURE_MODULES
    impure -= NAMES_TYPES_OF.get(where(path), set())
    assert not impure, f"{where(path)} imports {impure}"


@EVERY_FILE
def test_files_and_functions_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{where(path)}: {node.name} has {length} lines"


@EVERY_FILE
def test_modules_say_what_they_are(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring, f"{where(path)} has no docstring"
    assert len(docstring.split()) >= 4, f"{where(path)} says nothing: {docstring!r}"


def calls_of(method: str) -> list[str]:
    found = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                found.append(where(path))
    return found


def test_one_door() -> None:
    """The compare-and-swap has one caller, and it is the publisher."""
    assert calls_of("compare_and_swap") == ["versioning/publish.py"]


def test_public_names() -> None:
    for name in omnigraph.__all__:
        assert getattr(omnigraph, name) is not None


MAY_CATCH_ALL = {
    "cli/main.py",  # the last line of defence: a user never sees a traceback
    "versioning/group_commit.py",  # the leader of a group hands every member's failure to the caller who waits for it
    "pipeline/user_functions.py",  # a function of the user may raise anything; it is raised again with its place
    "storage/faults.py",  # a panic of the substrate has no importable class; everything else is raised again
}


def test_nothing_catches_everything() -> None:
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler) and where(path) not in MAY_CATCH_ALL:
                caught = ast.unparse(node.type) if node.type else "everything"
                assert caught not in ("everything", "Exception", "BaseException"), f"{where(path)} catches {caught}"


READS_STORES = ("storage/", "versioning/", "write/", "maintenance/", "pipeline/")


def wordless_asserts(source: str) -> list[str]:
    """Assertions that would fail without a word of what they met."""
    return [ast.unparse(n) for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Assert) and n.msg is None]


@EVERY_FILE
def test_what_meets_data_says_what_it_met(path: Path) -> None:
    """Where data comes from a store or a user, even what should never happen has a message."""
    if where(path).startswith(READS_STORES):
        assert wordless_asserts(path.read_text()) == []


TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["history/driver.py", "history/checker.py", "history/log.py", "support/invariants.py"])
def test_what_checks_histories_says_what_it_met(name: str) -> None:
    """pytest explains the assertions of test files only."""
    assert wordless_asserts((TESTS / name).read_text()) == []


def test_a_wordless_assert_is_seen() -> None:
    assert wordless_asserts("def f(x):\n    assert x\n    assert x, 'said'") == ["assert x"]
