"""Parameter values: what each declared type takes, what it refuses, and that all is settled before a query runs."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.query import bind_params, compile_query, ir
from omnigraph.schema.catalog import Catalog


def declared(catalog: Catalog, type_name: str) -> ir.QueryIR | ir.MutationIR:
    return compile_query(f"query q($x: {type_name}) {{ match {{ $p: Person }} return {{ $p }} }}", catalog)


@pytest.mark.parametrize(
    ("type_name", "given", "bound"),
    [
        ("String", "a", "a"),
        ("I32", -(2**31), -(2**31)),
        ("I64", "9007199254740993", 9007199254740993),
        ("U32", 2**32 - 1, 2**32 - 1),
        ("U64", 2**64 - 1, 2**64 - 1),
        ("I32", np.int64(7), 7),
        ("F64", 3, 3.0),
        ("F32", 0.1, 0.10000000149011612),
        ("F64", np.float32(0.5), 0.5),
        ("Bool", True, True),
        ("Date", "2024-02-29", dt.date(2024, 2, 29)),
        ("Date", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        ("DateTime", "2024-01-31T12:00:00+02:00", dt.datetime(2024, 1, 31, 10, tzinfo=dt.UTC)),
        ("DateTime", dt.datetime(2024, 1, 31, 12, 0, 0, 123000), dt.datetime(2024, 1, 31, 12, 0, 0, 123000, dt.UTC)),
        ("Blob", "base64:AA==", "base64:AA=="),
        ("Blob", b"\0", b"\0"),
        ("[String]", ["a"], ["a"]),
        ("[I32]", (1, "2"), [1, 2]),
        ("[Date]", [], []),
        ("Vector(2)", [1, 0.5], [1.0, 0.5]),
        ("Vector(2)", np.array([1, 2], dtype=np.float32), [1.0, 2.0]),
        ("I32?", None, None),
    ],
)
def test_accepted(people: Catalog, type_name: str, given: Any, bound: Any) -> None:
    found = bind_params(declared(people, type_name), {"x": given})["x"]
    assert found == bound
    assert type(found) is type(bound)


@pytest.mark.parametrize(
    ("type_name", "given", "says"),
    [
        ("String", 3, "expected a String"),
        ("I32", 2**31, "outside the I32 range"),
        ("U32", -1, "outside the U32 range"),
        ("U64", 2**64, "outside the U64 range"),
        ("I64", 1.0, "expected a whole number"),
        ("I64", True, "expected a whole number"),
        ("I64", "1.5", "expected a whole number"),
        ("F64", "1.5", "expected a number"),
        ("F64", True, "expected a number"),
        ("F64", float("nan"), "finite"),
        ("F64", float("inf"), "finite"),
        ("F64", 10**400, "outside the F64 range"),
        ("F32", 1e39, "outside the F32 range"),
        ("Bool", 1, "expected a Bool"),
        ("Date", "2024-13-01", "not a date"),
        ("Date", dt.datetime(2024, 1, 1), "expected a date"),
        ("Date", 3, "expected a date"),
        ("DateTime", "yesterday", "not a moment"),
        ("DateTime", "0001-01-01T00:00:00+10:00", "not a moment"),
        ("DateTime", 3, "expected a moment"),
        ("DateTime", dt.datetime(2024, 1, 31, 12, 0, 0, 123456), "finer than a millisecond"),
        ("DateTime", "2024-01-31T12:00:00.1230001Z", "finer than a millisecond"),
        ("Blob", 3, "expected a Blob"),
        ("[String]", "abc", "expected a list"),
        ("[String]", {"a": 1}, "expected a list"),
        ("[I32]", [1, None], "item 1 is null"),
        ("[I32]", [1, "x"], "item 1: expected a whole number"),
        ("Vector(2)", [1.0], "expected 2 numbers, got 1"),
        ("Vector(2)", ["a", "b"], "item 0: expected a number"),
        ("I32", None, "must not be null"),
    ],
)
def test_refused(people: Catalog, type_name: str, given: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as caught:
        bind_params(declared(people, type_name), {"x": given})
    assert "'x'" in caught.value.message


def test_missing_and_unknown_parameters(people: Catalog) -> None:
    query = declared(people, "String")
    with pytest.raises(InvalidArgument, match="parameter 'x' not provided"):
        bind_params(query, {})
    with pytest.raises(InvalidArgument, match="no parameter 'y'"):
        bind_params(query, {"x": "a", "y": 1})
    assert bind_params(declared(people, "String?"), {}) == {"x": None}


def test_mutations_take_parameters_too(shop: Catalog) -> None:
    query = compile_query("query q($sku: String) { delete Item where sku = $sku }", shop)
    assert bind_params(query, {"sku": "a"}) == {"sku": "a"}


@pytest.mark.parametrize(
    ("query", "values", "says"),
    [
        ("match { $p: Person } return { $p } limit $n", {"n": -1}, "limit must be at least 0"),
        ("match { $p: Person } return { $p } offset $n", {"n": -1}, "offset must be at least 0"),
        ("match { $p knows{$n,3} $f } return { $p }", {"n": 0}, "the lower hop bound must be at least 1"),
        ("match { $p knows{$n,3} $f } return { $p }", {"n": 4}, "between 4 and 3"),
        ("match { $p: Person not { $p knows{2,$n} $f } } return { $p }", {"n": 1}, "between 2 and 1"),
        ('match { $p: Person fuzzy($p.name, "x", $n) } return { $p }', {"n": -1}, "edits of fuzzy"),
        (
            'match { $p: Person } return { rrf(bm25($p.name, "x"), bm25($p.name, "y"), $n) }',
            {"n": 0},
            "k of rrf must be at least 1",
        ),
    ],
)
def test_impossible_numbers_are_refused_before_the_query_runs(
    people: Catalog, query: str, values: dict[str, Any], says: str
) -> None:
    compiled = compile_query(f"query q($n: I64) {{ {query} }}", people)
    assert bind_params(compiled, {"n": 2}) == {"n": 2}
    with pytest.raises(InvalidArgument, match=says):
        bind_params(compiled, values)
