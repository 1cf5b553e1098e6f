"""The validator: every rule of a schema, on rows of one write and on what the graph holds, now and when it moved."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import (
    CardinalityViolation,
    ConstraintConflict,
    DataError,
    DuplicateKey,
    InvalidValue,
    KeyConflict,
    MissingEndpoint,
    MissingValue,
)
from omnigraph.versioning.plan import (
    CardinalityWithin,
    KeysAbsent,
    KeysPresent,
    NoIncident,
    Requirement,
    Unmoved,
    ValuesAbsent,
    _requirement_from_json,
    _requirement_to_json,
)
from omnigraph.versioning.requirements import check
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import TableDelta, no_ids, validate

RULES = """
node Person {
  name: String @key
  email: String? @unique
  born: Date? @unique
  first: String?
  last: String?
  age: I32?
  ratio: F64?
  code: String?
  size: enum(s, m, l)?
  @unique(first, last)
  @range(age, 0..150)
  @range(ratio, ..1.5)
  @check(code, "^[A-Z]{2}-[0-9]+$")
}
node Task { title: String @key }
edge Owns: Person -> Task @card(1..2) { role: String? }
edge Likes: Person -> Person { @unique(src, dst) }
"""


@pytest.fixture
def rules(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "rules", RULES)


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def task(title: str) -> dict[str, Any]:
    return {"type": "Task", "data": {"title": title}}


def owns(who: str, what: str, edge_id: str | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"edge": "Owns", "from": who, "to": what}
    return row if edge_id is None else {**row, "data": {"id": edge_id}}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"age": -1}, r"@range violation: Person.age is -1, outside 0..150"),
        ({"age": 151}, "@range violation"),
        ({"ratio": 1.6}, r"@range violation: Person.ratio is 1.6, outside ..1.5"),
        ({"code": "x"}, "@check violation: Person.code 'x' does not match"),
        ({"size": "xl"}, "invalid enum value 'xl'"),
    ],
)
@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_rules_of_one_value(rules: Graph, data: dict[str, Any], text: str, as_frame: bool, mode: str) -> None:
    rows: Any = [person("ok"), person("bad", **data)]
    if as_frame:
        rows = {"Person": pa.Table.from_pylist([row["data"] for row in reversed(rows)])}
    with pytest.raises(InvalidValue, match=text) as caught:
        rules.load(rows, mode=mode)
    [violation] = caught.value.violations
    assert (violation.type_key, violation.field, violation.row) == (
        "node:Person",
        next(iter(data)),
        1 if as_frame else 2,
    )
    assert rules.snapshot().version == 1


def test_bounds_are_inclusive_and_null_is_exempt(rules: Graph) -> None:
    rules.load([person("a", age=0, ratio=1.5, code="AB-1"), person("b", age=150), person("c")])
    assert rules.rows("node:Person").num_rows == 3


def test_all_violations_are_reported_up_to_a_limit(rules: Graph) -> None:
    with pytest.raises(InvalidValue, match=r"\(and 3 more\)\n") as caught:
        rules.load([person("a", age=-1), person("b", size="xl"), person("c", age=200), person("d", age="x")])
    found = sorted((v.row or 0, v.rule) for v in caught.value.violations)
    assert found == [(1, "range"), (2, "enum"), (3, "range"), (4, "type")]
    with pytest.raises(DataError) as many:
        rules.load([person(f"p{i}", age=-1) for i in range(500)])
    assert len(many.value.violations) == 100
    assert "violations" in many.value.as_dict()


@pytest.mark.parametrize(
    ("held", "given", "name"),
    [
        ({"email": "a@x"}, {"email": "a@x"}, r"Person\.email"),
        ({"born": dt.date(2000, 1, 1)}, {"born": dt.date(2000, 1, 1)}, r"Person\.born"),
        ({"first": "A", "last": "B"}, {"first": "A", "last": "B"}, r"Person\.\(first, last\)"),
    ],
)
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_unique_in_the_batch_and_across_versions(
    rules: Graph, held: dict[str, Any], given: dict[str, Any], name: str, mode: str
) -> None:
    with pytest.raises(DuplicateKey, match=rf"row 2: @unique violation on {name}: .* is also in row 1"):
        rules.load([person("a", **held), person("b", **given)], mode=mode)
    rules.load([person("a", **held)])
    rules.load([person("z")])
    with pytest.raises(DuplicateKey, match=rf"row 1: @unique violation on {name}: .* belongs to 'a'"):
        rules.load([person("b", **given)], mode=mode)
    rules.load([person("a", **held, age=1)], mode="merge")
    rules.load([person("a"), person("b", **given)], mode="merge")  # the value is freed and taken in one write
    assert rules.rows("node:Person").num_rows == 3


def test_composite_values_are_compared_as_tuples_and_null_is_no_value(rules: Graph) -> None:
    rules.load([person("a", first="x|y", last="z"), person("b", first="x", last="y|z")])
    rules.load([person("c", first="x"), person("d", first="x"), person("e"), person("f")])
    assert rules.rows("node:Person").num_rows == 6


def test_unique_over_the_ends_of_an_edge(rules: Graph) -> None:
    likes = {"edge": "Likes", "from": "a", "to": "b"}
    rules.load([person("a"), person("b"), likes])
    with pytest.raises(DuplicateKey, match=r"Likes\.\(src, dst\): \('a', 'b'\)"):
        rules.load([likes])
    rules.load([{"edge": "Likes", "from": "b", "to": "a"}])


def test_cardinality_on_insert(rules: Graph) -> None:
    rules.load([person("a"), task("t1"), task("t2"), task("t3")])
    rules.load([owns("a", "t1", "e1")])
    rules.load([owns("a", "t2", "e2")])
    with pytest.raises(CardinalityViolation, match=r"@card violation on edge Owns: 'a' would have 3 \(max 2\)"):
        rules.load([owns("a", "t3")])
    with pytest.raises(CardinalityViolation):
        rules.load([owns("a", "t1", "n1"), owns("a", "t2", "n2"), owns("a", "t3", "n3")], mode="overwrite")
    rules.load([owns("a", "t3", "e2")], mode="merge")  # the same edge again counts once
    assert rules.rows("edge:Owns").num_rows == 2


def test_a_vacated_source_is_checked(rules: Graph) -> None:
    rules.load([person("a"), person("b"), task("t1"), task("t2"), owns("a", "t1", "e1"), owns("b", "t2", "e2")])
    with pytest.raises(CardinalityViolation, match=r"'a' would have 0 \(min 1\)"):
        rules.load([owns("b", "t1", "e1")], mode="merge")
    with pytest.raises(CardinalityViolation, match=r"min 1"):
        rules.delete("Owns", ["e1"])
    with pytest.raises(CardinalityViolation, match=r"min 1"):
        rules.delete("Task", ["t1"])
    assert rules.delete("Person", ["a"]).affected_edges == 1, "a source that goes itself needs no edges"


def test_the_last_of_one_edge_id_counts_once(rules: Graph) -> None:
    rules.load([person("a"), task("t1"), task("t2")])
    rows = [owns("a", "t1", "e"), owns("a", "t2", "e"), owns("a", "t1", "e"), owns("a", "t2", "e")]
    assert rules.load(rows, mode="merge").total_entities == 1
    assert rules.rows("edge:Owns")["dst"].to_pylist() == ["t2"]


def test_endpoints_and_keys_all_at_once(rules: Graph) -> None:
    rules.load([person("a")])
    with pytest.raises(KeyConflict, match="and 3 more") as caught:
        rules.load([person("a"), person("b", email="e"), person("c", email="e"), owns("b", "no"), owns("b", "nono")])
    assert [v.rule for v in caught.value.violations] == ["taken", "unique", "endpoint", "endpoint"]


def test_required_and_defaults(rules: Graph) -> None:
    with pytest.raises(MissingValue, match=r"Person\.name is required"):
        rules.load({"Person": pa.table({"age": [1, 2]})})


# --- requirements -------------------------------------------------------------------------------------------------

REQUIREMENTS: list[Requirement] = [
    Unmoved("node:Person"),
    KeysAbsent("node:Person", ("a",)),
    KeysPresent("node:Person", ("a", "b")),
    NoIncident("edge:Owns", ("src",), ("a",), ("e1",)),
    ValuesAbsent("node:Person", ("first", "last"), (("A", "B"), ("C", "D")), ("a",)),
    CardinalityWithin("edge:Owns", 1, None, (("a", 2), ("b", 0)), ("e1",)),
]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: type(r).__name__)
def test_requirements_survive_their_intent(requirement: Requirement) -> None:
    import json

    assert _requirement_from_json(json.loads(json.dumps(_requirement_to_json(requirement)))) == requirement


def test_a_very_long_requirement_becomes_the_stricter_one() -> None:
    values = tuple((str(i),) for i in range(10_001))
    stricter = _requirement_from_json(_requirement_to_json(ValuesAbsent("node:P", ("x",), values)))
    assert stricter == Unmoved("node:P")


def test_requirements_hold_against_what_came_meanwhile(rules: Graph) -> None:
    """What the validator read is demanded again: a rival's commit turns each into a conflict."""
    rules.load([person("a"), task("t1"), task("t2")])
    txn = WriteTxn(rules.repository, "main", kind="load")
    entity = txn.catalog.node("Person")
    rows = pa.Table.from_pylist([{"id": "n", "name": "n", "email": "e"}], schema=entity.arrow_schema)
    none = entity.arrow_schema.empty_table()
    deltas = {"node:Person": TableDelta(entity=entity, inserted=rows, updated=none, removed=no_ids())}
    verdict = validate(txn, deltas)
    assert verdict.violations == ()
    [demand] = [r for r in verdict.requirements if isinstance(r, ValuesAbsent) and r.columns == ("email",)]
    rules.load([person("rival", email="e")])
    with pytest.raises(ConstraintConflict, match="@unique"):
        check(rules.repository.store, None, demand, rules.snapshot().tables["node:Person"])  # type: ignore[arg-type]
    rules.load([owns("a", "t1", "e1"), owns("a", "t2", "e2")])
    entry = rules.snapshot().tables["edge:Owns"]
    with pytest.raises(ConstraintConflict, match="@card"):
        check(rules.repository.store, None, CardinalityWithin("edge:Owns", 1, 2, (("a", 1),)), entry)  # type: ignore[arg-type]
    check(rules.repository.store, None, CardinalityWithin("edge:Owns", 1, 2, (("a", 1),), ("e1",)), entry)  # type: ignore[arg-type]


def test_removing_a_node_that_an_edge_still_names(rules: Graph) -> None:
    rules.load([person("a"), task("t1"), owns("a", "t1", "e1")])
    with pytest.raises(MissingEndpoint, match="Owns 'e1' still names a removed Task: dst 't1' not found in Task"):
        rules.load({"Task": []}, mode="overwrite")
