"""Every query in `golden/` compiles to the IR beside it, or fails with the text beside it: place, caret, message, hint.

The first line of a query file names its schema. `UPDATE_GOLDEN=1 pytest tests/unit/query` rewrites the expected texts;
review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.errors import LanguageError, ParseError
from omnigraph.query import compile_file, lint_queries, parse_queries
from omnigraph.query.format import format_file, format_query
from omnigraph.query.ir_text import explain_ir
from omnigraph.schema.catalog import Catalog
from tests.unit.query.conftest import GOLDEN, catalog

FILES = sorted(GOLDEN.glob("*.gq"))
GOOD = [path for path in FILES if path.stem.startswith("good_")]
BROKEN = [path for path in FILES if path not in GOOD]


def schema_of(path: Path) -> Catalog:
    return catalog(path.read_text().splitlines()[0].removeprefix("// schema: "))


def expect(path: Path, found: str) -> None:
    expected = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_query_means_what_the_text_beside_it_says(path: Path) -> None:
    file = parse_queries(path.read_text(), path.name)
    compiled = compile_file(path.read_text(), schema_of(path), path.name)
    parts = [f"{format_query(query)}---\n{explain_ir(compiled[query.name.text])}" for query in file.queries]
    expect(path, "\n".join(parts))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_formatted_query_is_the_same_query(path: Path) -> None:
    file = parse_queries(path.read_text())
    formatted = format_file(file)
    assert parse_queries(formatted) == file
    assert format_file(parse_queries(formatted)) == formatted


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_broken_query_says_what_is_wrong(path: Path) -> None:
    with pytest.raises(LanguageError) as caught:
        compile_file(path.read_text(), schema_of(path), path.name)
    expect(path, f"{caught.value}\n")
    assert caught.value.span is not None
    assert caught.value.hint


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_broken_query_has_the_code_of_its_file_name(path: Path) -> None:
    with pytest.raises(LanguageError) as caught:
        compile_file(path.read_text(), schema_of(path), path.name)
    error = caught.value
    prefix = path.stem.split("_")[0]
    if prefix == "parse":
        assert isinstance(error, ParseError)
    elif prefix[1:].isdigit():
        assert error.rule == prefix.upper()
        assert error.message.startswith(f"{error.rule}: ")
    else:
        assert error.rule is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lint_agrees_with_the_compiler(path: Path) -> None:
    report = lint_queries(path.read_text(), schema_of(path), path.name)
    # Mixing writes and deletes is refused when a query is run, not when it is checked.
    accepted = path in GOOD or path.stem.startswith("d2_")
    assert report.status == ("ok" if accepted else "error")


def test_the_table_is_large_and_every_text_has_its_query() -> None:
    queries = [query for path in GOOD for query in parse_queries(path.read_text()).queries]
    assert len(queries) >= 120
    assert len(BROKEN) >= 60
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {path.stem for path in FILES}


def test_every_type_rule_has_a_broken_query() -> None:
    rules = {path.stem.split("_")[0] for path in BROKEN}
    assert {f"t{number}" for number in range(1, 25)} <= rules
