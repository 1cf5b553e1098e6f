"""The schema page of the user guide: every schema in it compiles, every lint code and slip in it is real."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.schema import Catalog, lint, lint_schema

PAGE = Path(__file__).parents[3] / "docs" / "user" / "schema.md"
BLOCKS = re.findall(r"^```pg\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", BLOCKS)
def test_schemas_on_the_page_compile(compiled: Callable[[str], Catalog], text: str) -> None:
    assert list(compiled(text).entity_types)


def test_schemas_on_the_page_are_many_and_lint_clean_of_slips() -> None:
    assert len(BLOCKS) >= 8
    codes = {finding.code for text in BLOCKS for finding in lint_schema(text).warnings}
    # The page of types shows a vector before it explains indexes.
    assert codes <= {"S102"}


def test_every_lint_code_is_on_the_page() -> None:
    assert lint.__doc__ is not None
    codes = set(re.findall(r"^(S\d{3}) ", lint.__doc__, flags=re.MULTILINE))
    assert codes == set(re.findall(r"\| (S\d{3}) \|", PAGE.read_text()))
