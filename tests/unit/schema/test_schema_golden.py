"""Every broken schema in `golden/` fails with exactly the text beside it: place, caret, message and hint.

`UPDATE_GOLDEN=1 pytest tests/unit/schema` rewrites the expected texts; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.errors import LanguageError
from omnigraph.schema import lint_schema
from omnigraph.schema.catalog import compile_schema

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.pg"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_broken_schema_says_what_is_wrong(path: Path) -> None:
    with pytest.raises(LanguageError) as caught:
        compile_schema(path.read_text(), lambda: "id", path.name)
    expected = path.with_suffix(".txt")
    found = f"{caught.value}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_broken_schema_has_a_place_a_hint_and_a_lint_error(path: Path) -> None:
    report = lint_schema(path.read_text(), path.name)
    assert report.status == "error"
    assert all(error.span is not None and error.hint for error in report.errors)


def test_the_table_is_large_and_every_text_has_its_schema() -> None:
    assert len(GOLDEN) >= 30
    texts = {path.stem for path in GOLDEN[0].parent.glob("*.txt")}
    assert texts == {path.stem for path in GOLDEN}
