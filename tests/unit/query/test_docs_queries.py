"""The query page of the user guide: every query on it compiles, every code and function of the language is on it."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest

from omnigraph.errors import LanguageError
from omnigraph.query import compile_file, lint, lint_queries, typecheck
from omnigraph.query.grammar import FUNCTIONS
from omnigraph.schema.catalog import Catalog, compile_schema

PAGE = (Path(__file__).parents[3] / "docs" / "user" / "queries.md").read_text()
BLOCKS = re.findall(r"^```gq\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    (schema,) = re.findall(r"^```pg\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    ids = count(1)
    return compile_schema(schema, lambda: f"{next(ids):026}")


@pytest.mark.parametrize("text", BLOCKS, ids=lambda text: text.split("(")[0].removeprefix("query "))
def test_queries_on_the_page_compile(catalog: Catalog, text: str) -> None:
    assert compile_file(text, catalog)
    assert lint_queries(text, catalog).status == "ok"


def test_the_page_has_many_queries_of_different_names(catalog: Catalog) -> None:
    assert len(compile_file("\n".join(BLOCKS), catalog)) >= 15


def test_every_code_is_on_the_page() -> None:
    assert typecheck.__doc__ is not None
    assert lint.__doc__ is not None
    rules = set(re.findall(r"^(T\d+) ", typecheck.__doc__, flags=re.MULTILINE))
    listed = {code for row in re.findall(r"^\| (T[T\d, ]*) \|", PAGE, flags=re.MULTILINE) for code in row.split(", ")}
    assert listed == rules == {f"T{number}" for number in range(1, 25)}
    codes = set(re.findall(r"^([QL]\d{3}) ", lint.__doc__, flags=re.MULTILINE))
    assert codes == set(re.findall(r"^\| ([QL]\d{3}) \|", PAGE, flags=re.MULTILINE))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_is_on_the_page(function: str) -> None:
    assert f"{function}(" in PAGE or f"`{function}`" in PAGE


def test_the_error_on_the_page_is_real(catalog: Catalog) -> None:
    text = "query q() {\n    match {\n        $p: Person\n        $p.agee > 3\n    }\n    return { $p.name }\n}\n"
    with pytest.raises(LanguageError) as caught:
        compile_file(text, catalog, "friends.gq")
    shown = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert [f"{caught.value}\n"] == shown
