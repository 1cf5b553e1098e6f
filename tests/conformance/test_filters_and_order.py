"""Filters, values, order, cuts and what a row looks like."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, OmnigraphError, TypeCheckError
from tests.conformance.asking import FRIENDS, bag, rows, text
from tests.conformance.conftest import Created
from tests.support.rows import knows, person

NAMES = "$p.name"


def names(graph: Graph, condition: str, declared: str = "", **params: Any) -> list[str]:
    return bag(graph, f"$p: Person {condition}", NAMES, "", declared, **params)


# --- order ------------------------------------------------------------------------------------------------------------


def test_order_by_age(friends: Graph) -> None:
    down = ["Charlie", "Alice", "Diana", "Bob"]
    assert rows(friends, "$p: Person", NAMES, "order { $p.age desc }") == down
    assert rows(friends, "$p: Person", NAMES, "order { $p.age asc }") == down[::-1]
    assert rows(friends, "$p: Person", NAMES, "order { $p.age }") == down[::-1]
    assert rows(friends, "$p: Person", NAMES, "order { $p.age desc } limit 2") == down[:2]


def test_ties_are_broken_by_the_second_key_then_by_id(created: Created) -> None:
    graph = created(rows=[person("Zoe", 1), person("Max", 1), person("Ann", 1), person("Bea", 2)])
    assert rows(graph, "$p: Person", NAMES, "order { $p.age desc, $p.name desc }") == ["Bea", "Zoe", "Max", "Ann"]
    assert rows(graph, "$p: Person", NAMES, "order { $p.age desc }") == ["Bea", "Ann", "Max", "Zoe"]
    assert rows(graph, "$p: Person", NAMES, "order { $p.age }") == ["Ann", "Max", "Zoe", "Bea"]


def test_ties_of_several_variables_are_broken_by_the_ids_in_the_order_of_their_names(friends: Graph) -> None:
    found = rows(friends, "$b: Person $a: Person $a.age < 30 $b.age < 30", "$a.name, $b.name", "order { 1 + 1 }")
    assert found == [("Bob", "Bob"), ("Bob", "Diana"), ("Diana", "Bob"), ("Diana", "Diana")]


def test_an_anonymous_node_takes_no_part_in_the_order(created: Created) -> None:
    graph = created(rows=[*(person(name) for name in "abyz"), knows("a", "z"), knows("b", "y")])
    assert rows(graph, "$p: Person $p knows $_", NAMES, "order { $p.age }") == ["a", "b"]


def test_an_anonymous_node_decides_when_nothing_else_does(created: Created) -> None:
    graph = created(rows=[*(person(name) for name in "acb"), knows("a", "c"), knows("a", "b")])
    found = rows(graph, "$p: Person $x: shortest $p knows $_", "nodes($x)", "order { $p.age }")
    assert found == [["a", "b"], ["a", "c"]]


def test_parallel_named_edges_are_ordered_by_their_id(created: Created) -> None:
    edges = [{"edge": "Knows", "from": "a", "to": "b", "data": {"id": each}} for each in ("k3", "k1", "k2")]
    graph = created(rows=[person("a"), person("b"), *edges])
    assert rows(graph, "$p: Person $p $w:knows $f", "$w.@id", "order { $p.name }") == ["k1", "k2", "k3"]


def test_nulls_come_first_ascending_and_last_descending(created: Created) -> None:
    graph = created(rows=[person("a", 31), person("b"), person("c", 5)])
    assert rows(graph, "$p: Person", NAMES, "order { $p.age }") == ["b", "c", "a"]
    assert rows(graph, "$p: Person", NAMES, "order { $p.age desc }") == ["a", "c", "b"]
    assert rows(graph, "$p: Person $p.age > 30", NAMES) == ["a"]


def test_order_by_expressions_and_aliases(friends: Graph) -> None:
    assert rows(friends, "$p: Person", NAMES, "order { $p.age % 10, $p.name }") == ["Alice", "Bob", "Charlie", "Diana"]
    assert rows(friends, "$p: Person", "$p.name as who, -$p.age as rank", "order { rank } limit 1") == [
        ("Charlie", -35)
    ]
    assert rows(friends, "$p: Person", NAMES, "order { $p.age > 29 desc, $p.age }") == [
        "Alice",
        "Charlie",
        "Bob",
        "Diana",
    ]


def test_order_by_the_far_end_of_an_optional(friends: Graph) -> None:
    found = rows(friends, "$p: Person optional { $p worksAt $c }", NAMES, "order { $c.name desc, $p.name }")
    assert found == ["Bob", "Alice", "Charlie", "Diana"]


# --- cuts -------------------------------------------------------------------------------------------------------------


def test_offset_and_limit(friends: Graph) -> None:
    everyone = ["Alice", "Bob", "Charlie", "Diana"]
    for tail, found in {
        "limit 0": [],
        "limit 2": everyone[:2],
        "offset 3": everyone[3:],
        "offset 1 limit 2": everyone[1:3],
        "limit 2 offset 1": everyone[1:3],
        "offset 9": [],
        "limit 99": everyone,
    }.items():
        assert rows(friends, "$p: Person", NAMES, f"order {{ $p.name }} {tail}") == found, tail


def test_offset_and_limit_may_be_parameters(friends: Graph) -> None:
    tail, declared = "order { $p.name } offset $skip limit $take", "$skip: I64, $take: I64"
    assert rows(friends, "$p: Person", NAMES, tail, declared, skip=1, take=2) == ["Bob", "Charlie"]
    for skip, take in ((-1, 2), (0, -1)):
        with pytest.raises(InvalidArgument):
            rows(friends, "$p: Person", NAMES, tail, declared, skip=skip, take=take)


def test_a_limit_without_order_still_counts(friends: Graph) -> None:
    assert len(rows(friends, "$p: Person", NAMES, "limit 3")) == 3


def test_distinct(friends: Graph) -> None:
    assert rows(friends, "$p: Person $p knows $f", "distinct $p.name", "order { $p.name }") == ["Alice", "Bob"]
    assert rows(friends, "$p: Person", "distinct $p.age / 10 as decade", "order { decade }") == [2, 3]
    assert bag(friends, "$p: Person $p $w:knows $f", "distinct $w.since is null as open") == [False, True]
    assert rows(friends, "$p: Person $p knows $f", "distinct $p", "limit 5") in (
        [{"@id": a, "name": a, "age": x}, {"@id": b, "name": b, "age": y}]
        for a, x, b, y in (("Alice", 30, "Bob", 25), ("Bob", 25, "Alice", 30))
    )


# --- comparisons ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$p.age < 28", ["Bob"]),
        ("$p.age <= 28", ["Bob", "Diana"]),
        ("$p.age > 30", ["Charlie"]),
        ("$p.age >= 30", ["Alice", "Charlie"]),
        ("$p.age = 30", ["Alice"]),
        ("$p.age != 30", ["Bob", "Charlie", "Diana"]),
        ("30 <= $p.age", ["Alice", "Charlie"]),
        ("$p.age = 30.0", ["Alice"]),
        ("$p.age > 29.5", ["Alice", "Charlie"]),
        ("$p.age = 9999999999", []),
        ("$p.age < 9999999999", ["Alice", "Bob", "Charlie", "Diana"]),
        ("$p.age > -1", ["Alice", "Bob", "Charlie", "Diana"]),
        ("$p.age < 3e1", ["Bob", "Diana"]),
        ('$p.name > "Bob"', ["Charlie", "Diana"]),
        ("$p.age < 28 or $p.age > 30", ["Bob", "Charlie"]),
        ("$p.age < 28 or $p.age > 30 and $p.age > 99", ["Bob"]),
        ("($p.age < 28 or $p.age > 30) and $p.age > 26", ["Charlie"]),
        ("not ($p.age > 28)", ["Bob", "Diana"]),
        ("not $p.age > 28 and $p.age > 26", ["Diana"]),
        ("$p.age in [25, 30, 99]", ["Alice", "Bob"]),
        ("not ($p.age in [25, 30])", ["Charlie", "Diana"]),
        ("$p.age in []", []),
        ('$p.name in ["Bob", "Zed"]', ["Bob"]),
        ("$p.age is null", []),
        ("$p.age is not null", ["Alice", "Bob", "Charlie", "Diana"]),
        ("$p.age + 5 = 30", ["Bob"]),
        ("$p.age * 2 - 10 > 50", ["Charlie"]),
        ("$p.age / 10 = 2", ["Bob", "Diana"]),
        ("$p.age % 7 = 0", ["Charlie", "Diana"]),
        ("$p.age / 10.0 = 2.5", ["Bob"]),
        ("-$p.age < -29", ["Alice", "Charlie"]),
        ('$p.@id = "Bob"', ["Bob"]),
        ("true", ["Alice", "Bob", "Charlie", "Diana"]),
        ("1 > 2", []),
    ],
)  # fmt: skip
def test_conditions(friends: Graph, condition: str, found: list[str]) -> None:
    assert names(friends, condition) == found


def test_logic_has_three_values(created: Created) -> None:
    graph = created(rows=[person("a", 10), person("b")])
    assert names(graph, "$p.age != 99") == ["a"]
    assert names(graph, "not ($p.age = 99)") == ["a"]
    assert names(graph, '$p.age > 5 or $p.name = "b"') == ["a", "b"]
    assert names(graph, "$p.age is null") == ["b"]
    assert names(graph, "$p.age = $x", "$x: I32?", x=None) == []
    assert names(graph, "not ($p.age = $x)", "$x: I32?", x=None) == []
    assert names(graph, "$x is null", "$x: I32?", x=None) == ["a", "b"]
    returned = "$p.age > 5 as old, not ($p.age > 5) as young, $p.age > 5 and false as never"
    assert rows(graph, "$p: Person", returned, "order { $p.name }") == [(True, False, False), (None, None, False)]
    assert rows(graph, "$p: Person", "$p.age + 1 as next", "order { $p.name }") == [11, None]


def test_lists_as_parameters(friends: Graph) -> None:
    assert names(friends, "$p.age in $ages", "$ages: [I32]", ages=[25, 28]) == ["Bob", "Diana"]
    assert names(friends, "$p.name in $who", "$who: [String]", who=[]) == []


def test_comparisons_across_variables(friends: Graph) -> None:
    found = bag(friends, "$p: Person $q: Person $p.age > $q.age + 6", "$p.name, $q.name")
    assert found == [("Charlie", "Bob"), ("Charlie", "Diana")]
    assert bag(friends, "$p: Person $p knows $f $f.age > $p.age", "$f.name") == ["Charlie", "Diana"]


@pytest.mark.parametrize(
    "expression",
    [
        "$p.age / 0",
        "$p.age % 0",
        "$p.age / ($p.age - 30)",
        "$p.age / 0.0",
        "$p.age * 9223372036854775807",
        "9223372036854775807 + $p.age",
        "1e308 * $p.age",
    ],
)
def test_impossible_arithmetic_is_a_typed_error(friends: Graph, expression: str) -> None:
    with pytest.raises(OmnigraphError):
        rows(friends, "$p: Person", f"{expression} as x")
    with pytest.raises(OmnigraphError):
        rows(friends, f"$p: Person {expression} > 0", NAMES)


def test_integer_division_truncates_toward_zero(friends: Graph) -> None:
    pattern = '$p: Person { name: "Bob" }'
    assert rows(friends, pattern, "-$p.age / 10 as q, -$p.age % 10 as r, $p.age / -10 as s") == [(-2, -5, -2)]


# --- kinds of values --------------------------------------------------------------------------------------------------

SAMPLES = """
node Sample {
  name: String @key
  count: I32?  big: U64?  ratio: F64?  single: F32?  active: Bool?
  day: Date?  moment: DateTime?  tags: [String]?  label: String?  firstName: String?
  vector: Vector(2)?  blob: Blob?
}
node Prefix { name: String @key }
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = Graph.init(tmp_path_factory.mktemp("samples") / "graph", SAMPLES)
    first = {
        "name": "m1", "count": 2, "big": 2**64 - 1, "ratio": 0.5, "single": 0.1, "active": True, "day": "2024-01-31",
        "moment": "2024-01-31T12:00:00Z", "tags": ["red", "blue"], "label": "alpha", "firstName": "Ada",
        "vector": [1.0, 2.0], "blob": b"x",
    }  # fmt: skip
    second = {
        "name": "m2", "count": 3, "big": 7, "ratio": 2.0, "single": 0.25, "active": False, "day": "2023-05-01",
        "moment": "2023-05-01T00:00:00.250Z", "tags": [], "label": "alphabet 100%",
    }  # fmt: skip
    third = {"name": "m3", "label": "beta ray", "tags": ["green"]}
    found = [{"type": "Sample", "data": each} for each in (first, second, third, {"name": "m4"})]
    prefixes = [{"type": "Prefix", "data": {"name": each}} for each in ("alp", "beta", "zeta")]
    graph.load([*found, *prefixes])
    return graph


def matching(graph: Graph, condition: str, declared: str = "", **params: Any) -> list[str]:
    return bag(graph, f"$m: Sample {condition}", "$m.name", "", declared, **params)


@pytest.mark.parametrize(
    ("name", "op", "literal", "found"),
    [
        ("ratio", "=", "0.5", ["m1"]),
        ("ratio", "=", "2", ["m2"]),
        ("single", "=", "0.1", ["m1"]),
        ("single", "=", "0.25", ["m2"]),
        ("active", "=", "true", ["m1"]),
        ("active", "=", "false", ["m2"]),
        ("day", "=", 'date("2024-01-31")', ["m1"]),
        ("moment", "=", 'datetime("2024-01-31T12:00:00Z")', ["m1"]),
        ("moment", "=", 'datetime("2023-05-01T02:00:00.250+02:00")', ["m2"]),
        ("count", "=", "2", ["m1"]),
        ("count", "=", "2.7", []),
        ("big", "=", "18446744073709551615", ["m1"]),
        ("label", "=", '"alpha"', ["m1"]),
        ("firstName", "=", '"Ada"', ["m1"]),
        ("label", "=", '"x\' OR 1=1 --"', []),
    ],
)
def test_literals_match_inline_and_in_filters(
    samples: Graph, name: str, op: str, literal: str, found: list[str]
) -> None:
    assert matching(samples, f"$m.{name} {op} {literal}") == found
    assert bag(samples, f"$m: Sample {{ {name}: {literal} }}", "$m.name") == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$m.count < 2.7", ["m1"]),
        ("$m.count > 2.7", ["m2"]),
        ("$m.single < 0.2", ["m1"]),
        ('$m.day < date("2024-01-01")', ["m2"]),
        ('$m.moment >= datetime("2024-01-31T12:00:00Z")', ["m1"]),
        ("$m.active", ["m1"]),
        ("not $m.active", ["m2"]),
        ("$m.active is null", ["m3", "m4"]),
        ("$m.blob is not null", ["m1"]),
        ("$m.vector is null", ["m2", "m3", "m4"]),
        ("$m.count < $m.ratio", []),
        ("$m.big > $m.count", ["m1", "m2"]),
        ("$m.moment < now()", ["m1", "m2"]),
    ],
)
def test_conditions_on_kinds(samples: Graph, condition: str, found: list[str]) -> None:
    assert matching(samples, condition) == found


@pytest.mark.parametrize(
    ("kind", "name", "value", "found"),
    [
        ("F64", "single", 0.25, ["m2"]),
        ("F32", "single", 0.1, ["m1"]),
        ("I64", "count", 3, ["m2"]),
        ("Date", "day", "2023-05-01", ["m2"]),
        ("DateTime", "moment", "2023-05-01T00:00:00.250Z", ["m2"]),
        ("Bool", "active", True, ["m1"]),
        ("U64", "big", 2**64 - 1, ["m1"]),
    ],
)
def test_parameters_of_every_kind(samples: Graph, kind: str, name: str, value: Any, found: list[str]) -> None:
    assert matching(samples, f"$m.{name} = $x", f"$x: {kind}", x=value) == found


def test_prefixes_and_substrings(samples: Graph) -> None:
    assert matching(samples, '$m.label starts_with "alp"') == ["m1", "m2"]
    assert matching(samples, '$m.label contains "ta r"') == ["m3"]
    assert matching(samples, '$m.label contains "y"') == ["m3"]
    assert matching(samples, '$m.label contains "%"') == ["m2"]
    assert matching(samples, '$m.label contains "_"') == []
    assert matching(samples, '$m.label contains "ALPHA"') == []
    assert matching(samples, '$m.label contains ""') == ["m1", "m2", "m3"]
    assert matching(samples, 'not ($m.label contains "alpha")') == ["m3"]


def test_text_tests_across_variables(samples: Graph) -> None:
    found = bag(samples, "$m: Sample $x: Prefix $m.label starts_with $x.name", "$m.name, $x.name")
    assert found == [("m1", "alp"), ("m2", "alp"), ("m3", "beta")]
    assert matching(samples, '"alphabetical" contains $m.label') == ["m1"]
    assert matching(samples, "$m.label contains $m.label") == ["m1", "m2", "m3"]


def test_text_test_inside_a_negation(friends: Graph) -> None:
    assert names(friends, 'not { $p knows $f $f.name contains "ia" }') == ["Alice", "Charlie", "Diana"]


def test_list_membership(samples: Graph) -> None:
    assert matching(samples, "$m.tags contains $t", "$t: String", t="red") == ["m1"]
    assert matching(samples, "$t in $m.tags", "$t: String", t="green") == ["m3"]
    assert bag(samples, '$m: Sample { tags: "blue" }', "$m.name") == ["m1"]
    assert matching(samples, '$m.tags contains "re"') == []
    assert matching(samples, 'not ($m.tags contains "red")') == ["m2", "m3"]


NUMBERS = """
node Number { name: String @key  long: I64?  unsigned: U64?  float: F64?  single: F32? }
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = Graph.init(tmp_path_factory.mktemp("numbers") / "graph", NUMBERS)
    found = [
        {"name": "big", "long": 2**53 + 1, "unsigned": 2**64 - 1, "float": 0.0, "single": 0.1},
        {"name": "less", "long": -1, "unsigned": 3, "float": -0.0, "single": 0.5},
    ]
    graph.load({"Number": found})
    return graph


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$n.long = 9007199254740993", ["big"]),
        ("$n.long > 1.5", ["big"]),
        ("$n.long + 0.5 > 0", ["big"]),
        ("$n.long < $n.unsigned", ["big", "less"]),
        ("$n.unsigned > $n.float", ["big", "less"]),
        ("$n.unsigned < 1e30", ["big", "less"]),
        ("$n.float = 0", ["big", "less"]),
        ("$n.float in [0]", ["big", "less"]),
        ("$n.float in [0.0, 7.5]", ["big", "less"]),
        ("$n.single in [0.1]", ["big"]),
        ("$n.single = $n.float + 0.5", ["less"]),
        ("$n.long in [-1.0, 0.5]", ["less"]),
    ],
)
def test_numbers_of_different_kinds_meet(numbers: Graph, condition: str, found: list[str]) -> None:
    assert bag(numbers, f"$n: Number {condition}", "$n.name") == found


def test_both_zeros_are_one_value(numbers: Graph) -> None:
    assert rows(numbers, "$n: Number", "distinct $n.float") == [0.0]
    assert rows(numbers, "$n: Number", "$n.float, count(*) as n") == [(0.0, 2)]
    assert rows(numbers, "$n: Number", "count(distinct $n.float)") == [1]
    assert rows(numbers, "$n: Number", "$n.name", "order { $n.float desc, $n.name }") == ["big", "less"]


@pytest.mark.parametrize("expression", ["-$n.unsigned", "$n.unsigned + 1", "1 - $n.unsigned", "$n.long * $n.long"])
def test_overflow_of_large_numbers_is_a_typed_error(numbers: Graph, expression: str) -> None:
    with pytest.raises(OmnigraphError):
        rows(numbers, '$n: Number { name: "big" }', f"{expression} as x")


# --- what a row looks like --------------------------------------------------------------------------------------------


def test_a_whole_node_is_an_object(friends: Graph, samples: Graph) -> None:
    found = friends.query(text('$p: Person { name: "Alice" }', "$p"))
    assert found.columns == ["p"]
    assert found.to_pylist() == [{"p": {"@id": "Alice", "name": "Alice", "age": 30}}]
    whole = rows(samples, '$m: Sample { name: "m1" }', "$m")[0]
    assert "vector" not in whole
    assert "blob" not in whole
    assert whole["day"] == dt.date(2024, 1, 31)
    assert whole["tags"] == ["red", "blue"]
    assert rows(samples, '$m: Sample { name: "m4" }', "$m") == [{"@id": "m4", "name": "m4"}]


def test_columns_are_named_by_alias_or_text(friends: Graph) -> None:
    found = friends.query(
        text('$p: Person { name: "Bob" }', "$p.name, $p.@id as id, $p.age + 1, 7, $p.age, $p.name as n")
    )
    assert found.columns[:2] == ["p.name", "id"]
    assert found.columns[3:] == ["literal", "p.age", "n"]
    assert list(found.to_pylist()[0].values()) == ["Bob", "Bob", 26, 7, 25, "Bob"]


def test_values_keep_their_kind(samples: Graph) -> None:
    returned = "$m.day, $m.moment, $m.tags, $m.big, $m.active, $m.single"
    (found,) = rows(samples, '$m: Sample { name: "m1" }', returned)
    moment = dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)
    assert found[:5] == (dt.date(2024, 1, 31), moment, ["red", "blue"], 2**64 - 1, True)
    assert found[5] == pytest.approx(0.1)


def test_a_missing_or_unknown_parameter_is_an_error_before_execution(friends: Graph) -> None:
    for pattern in ("$p: Person { name: $who }", "$p: Person $p.name = $who"):
        with pytest.raises(InvalidArgument):
            rows(friends, pattern, NAMES, "", "$who: String")
        with pytest.raises(TypeCheckError):
            rows(friends, pattern, NAMES)
    with pytest.raises(InvalidArgument):
        rows(friends, "$p: Person", NAMES, nobody="asked")


def test_one_of_several_queries_is_chosen_by_name(friends: Graph) -> None:
    both = text("$p: Person", "count(*) as n") + text("$c: Company", "count(*) as n").replace("query q", "query other")
    assert friends.query(both, name="other").to_pylist() == [{"n": 2}]
    assert friends.query(both, "q").to_pylist() == [{"n": 4}]
    with pytest.raises(InvalidArgument):
        friends.query(both)


def test_filters_and_order_after_writes_and_elsewhere(created: Created) -> None:
    graph = created(rows=FRIENDS)
    graph.tags.create("before")
    graph.branches.create("side")
    graph.load([person("Alice", 99)], mode="merge")
    graph.load([person("Eve", 1)], branch="side")
    graph.delete("Person", ["Diana"], branch="side")
    assert rows(graph, "$p: Person", NAMES, "order { $p.age desc } limit 2") == ["Alice", "Charlie"]
    assert rows(graph, "$p: Person", NAMES, "order { $p.age }", branch="side") == ["Eve", "Bob", "Alice", "Charlie"]
    assert rows(graph, "$p: Person $p.age > 90", NAMES, snapshot="before") == []
    assert rows(graph, "$p: Person $p.age > 90", NAMES) == ["Alice"]
