"""The list of modules is the one that the source gives."""

from __future__ import annotations

from tests.docs.modules_page import PAGE, SRC, render, sentence


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text() == render(), "run `python -m tests.docs.modules_page`"


def test_every_module_has_a_sentence() -> None:
    for path in SRC.rglob("*.py"):
        assert len(sentence(path)) > 10, path
