"""Lint: all errors at once, and warnings with stable codes."""

from __future__ import annotations

import json

import pytest

from omnigraph.schema import lint_schema


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        ("node A { x: I32 }", "S101", (1, 6), "put `@key` on the property that names a node"),
        ("node A { k: I32 @key v: Vector(3) }", "S102", (1, 22), 'write `@index(metric="cosine")`'),
        ("node A { k: I32 @key }\nedge WORKS_AT: A -> A", "S103", (2, 6), "queries read best with `WorksAt`"),
        ("node A { k: I32 @key @uniqe }", "S104", (1, 22), "did you mean `@unique`?"),
        ("node A @tier(gold) { k: I32 @key }", "S104", (1, 8), "it is kept but has no effect"),
        ("interface I { x: I32 }", "S105", (1, 11), "implement or remove it"),
        ("node A { k: I32 @key @unique }", "S106", (1, 22), "a key is unique already"),
    ],
)
def test_warnings(text: str, code: str, place: tuple[int, int], hint: str) -> None:
    report = lint_schema(text)
    assert report.status == "ok"
    (found,) = report.warnings
    assert (found.code, (found.span.line, found.span.column), found.hint) == (code, place, hint)


def test_clean_schema() -> None:
    text = """
    interface Named { name: String @key }
    node Person implements Named { about: Vector(3) @index(metric="cosine") }
    edge Knows: Person -> Person
    """
    report = lint_schema(text)
    assert (report.status, report.errors, report.warnings) == ("ok", (), ())


def test_all_errors_in_the_order_of_the_text() -> None:
    text = "node A { id: I32 @key\n tags: [String] @index }\nedge R: A -> B\nedge R: A -> A"
    report = lint_schema(text, "a.pg")
    lines = [error.span.line for error in report.errors if error.span]
    assert report.status == "error"
    assert lines == [1, 2, 3, 4]


def test_an_error_in_an_interface_is_reported_once() -> None:
    text = "interface I { x: [I32] @key } node A implements I {} node B implements I {}"
    assert len(lint_schema(text).errors) == 1


def test_parse_error_and_json() -> None:
    report = lint_schema("node A {\n  x I32\n}", "a.pg")
    body = json.loads(json.dumps(report.to_json()))
    assert body["status"] == "error"
    assert body["errors"] == [
        {
            "error": "expected `:` after `x`",
            "code": "parse_error",
            "retryable": False,
            "hint": "write `x: I32`",
            "path": "a.pg",
            "line": 2,
            "column": 5,
            "width": 3,
        }
    ]
    warning = lint_schema("node A { x: I32 }").to_json()["warnings"][0]
    assert warning["code"] == "S101"
    assert (warning["line"], warning["column"], warning["width"]) == (1, 6, 1)
