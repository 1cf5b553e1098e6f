"""Every kind of schema change: what the plan says, what the apply does, and what old snapshots still show."""

# ruff: noqa: E501  -- schema edits read better on one line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import ConstraintViolated, SchemaChangeRefused, SchemaError, UnknownField

BASE = """
interface Named { label: String? }
node Person implements Named @description("people") {
    name: String @key
    age: I32?
    size: F32
    mood: enum(calm, wild)
    tags: [String]?
    mail: String? @unique
    @range(age, 0..150)
}
node Company { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company @card(0..2)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", BASE)
    people = [{"name": n, "age": a, "size": 1.5, "mood": "calm", "mail": n} for n, a in (("ann", 30), ("bob", None))]
    graph.load({
        "Person": people, "Company": [{"name": "acme"}], "Knows": [{"id": "k", "from": "ann", "to": "bob", "since": 1}],
        "WorksAt": [{"id": "w", "from": "ann", "to": "acme"}],
    })  # fmt: skip
    return graph


def edited(*pairs: tuple[str, str]) -> str:
    text = BASE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def steps(graph: Graph, text: str, **options: Any) -> list[dict[str, Any]]:
    return [step.as_dict() for step in graph.schema.plan(text, **options).steps]


def pins(graph: Graph) -> dict[str, int]:
    return {key: entry.staged_version for key, entry in graph.snapshot().tables.items()}


ADD = edited(("age: I32?", "age: I32?\n    city: String?"))
METADATA_ONLY = {
    "rename a type": (
        edited(("node Company {", 'node Firm @rename_from("Company") {'), ("-> Company", "-> Firm")),
        [{"kind": "rename_type", "type_kind": "node", "from": "Company", "to": "Firm"}],
    ),
    "rename a property": (
        edited(("age: I32?", 'years: I32? @rename_from("age")'), ("@range(age", "@range(years")),
        [{"kind": "rename_property", "type_kind": "node", "type_name": "Person", "from": "age", "to": "years"}],
    ),
    "drop a property softly": (
        edited(("tags: [String]?", "")),
        [{"kind": "drop_property", "type_kind": "node", "type_name": "Person", "property_name": "tags", "mode": "soft"}],
    ),
    "drop an edge type": (
        edited(("edge Knows: Person -> Person { since: I32? }", "")),
        [{"kind": "drop_type", "type_kind": "edge", "name": "Knows", "mode": "soft"}],
    ),
    "widen an enum": (
        edited(("enum(calm, wild)", "enum(wild, odd, calm)")),
        [{"kind": "extend_enum", "type_kind": "node", "type_name": "Person", "property_name": "mood",
          "added_values": ["odd"]}],
    ),
    "add an index": (
        edited(("age: I32?", "age: I32? @index")),
        [{"kind": "add_constraint", "type_kind": "node", "type_name": "Person", "constraint": "@index(age)"}],
    ),
    "drop a unique": (
        edited(("mail: String? @unique", "mail: String?")),
        [{"kind": "drop_constraint", "type_kind": "node", "type_name": "Person", "constraint": "@unique(mail)"}],
    ),
    "change a description": (
        edited(("people", "persons")),
        [{"kind": "update_type_metadata", "type_kind": "node", "name": "Person",
          "annotations": {"description": "persons"}}],
    ),
    "describe a property": (
        edited(("age: I32?", 'age: I32? @description("years")')),
        [{"kind": "update_property_metadata", "type_kind": "node", "type_name": "Person", "property_name": "age",
          "annotations": {"description": "years"}}],
    ),
    "add @range that holds": (
        edited(("@range(age, 0..150)", "@range(age, 0..150)\n    @range(size, 0..10)")),
        [{"kind": "add_constraint", "type_kind": "node", "type_name": "Person", "constraint": "@range(size, 0..10)"}],
    ),
    "add @check that holds": (
        edited(("@range(age, 0..150)", '@range(age, 0..150)\n    @check(name, "^[a-z]+$")')),
        [{"kind": "add_constraint", "type_kind": "node", "type_name": "Person",
          "constraint": '@check(name, "^[a-z]+$")'}],
    ),
    "tighten @card": (
        edited(("@card(0..2)", "@card(0..1)")),
        [{"kind": "drop_constraint", "type_kind": "edge", "type_name": "WorksAt", "constraint": "@card(0..2)"},
         {"kind": "add_constraint", "type_kind": "edge", "type_name": "WorksAt", "constraint": "@card(0..1)"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", METADATA_ONLY)
def test_metadata_changes_touch_no_table(name: str, graph: Graph) -> None:
    text, expected = METADATA_ONLY[name]
    before = pins(graph)
    assert steps(graph, text) == expected
    result = graph.schema.apply(text, allow_drops=True)
    assert (result.applied, result.commit.kind) == (True, "schema_apply")
    left = set(pins(graph).values())
    assert left <= set(before.values())
    assert graph.schema.show() == text
    assert steps(graph, text) == []
    again = graph.schema.apply(text)
    assert (again.applied, again.commit) == (False, None)


NO_CHANGE = {
    "comments": BASE.replace("node Company", "// a comment\nnode Company"),
    "order of an enum": edited(("enum(calm, wild)", "enum(wild, calm)")),
    "body form": edited(("mail: String? @unique", "mail: String?\n    @unique(mail)")),
}


@pytest.mark.parametrize("name", NO_CHANGE)
def test_what_is_no_change(name: str, graph: Graph) -> None:
    version = graph.snapshot().version
    assert steps(graph, NO_CHANGE[name]) == []
    assert not graph.schema.apply(NO_CHANGE[name]).applied
    assert graph.snapshot().version == version


REFUSED = {
    "required property": (edited(("age: I32?", "age: I32?\n    city: String")), "OG-MF-103"),
    "narrower": (edited(("since: I32?", "since: I64?")).replace("since: I64?", "since: String?"), "OG-MF-106"),
    "list": (edited(("since: I32?", "since: [I32]?")), "OG-MF-106"),
    "float to int": (edited(("size: F32", "size: I32")), "OG-MF-106"),
    "nullable to required": (edited(("age: I32?", "age: I32")), "OG-MF-106"),
    "enum to String": (edited(("enum(calm, wild)", "String")), "OG-MF-106"),
    "narrower enum": (edited(("enum(calm, wild)", "enum(calm)")), "OG-MF-106"),
    "renamed enum value": (edited(("enum(calm, wild)", "enum(calm, feral)")), "OG-MF-106"),
    "key": (edited(("mail: String? @unique", "mail: String?"), ("name: String @key\n    age", "name: String\n    age")), None),
    "drop of the key": (edited(("    name: String @key\n    age", "    age"), ("mail: String? @unique", "mail: String @key")), None),
    "edge ends": (edited(("edge WorksAt: Person -> Company", "edge WorksAt: Company -> Person")), None),
    "implements": (edited((" implements Named", "")), None),
    "interface dropped": (edited(("interface Named { label: String? }", ""), (" implements Named", "")), None),
    "foreign annotation": (edited(("age: I32?", "age: I32? @owner(\"me\")")), None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(name: str, graph: Graph) -> None:
    text, code = REFUSED[name]
    version = graph.snapshot().version
    plan = graph.schema.plan(text)
    assert not plan.supported
    refused = [s.as_dict() for s in plan.steps if s.kind == "unsupported_change"]
    assert code is None or code in {s.get("code") for s in refused}
    for _ in range(2):
        with pytest.raises(SchemaChangeRefused) as caught:
            graph.schema.apply(text)
        assert code is None or f"[{code}]" in caught.value.message
    assert graph.snapshot().version == version
    graph.schema.apply(ADD)
    assert graph.snapshot().version == version + 1


WRONG_HINTS = {
    "unknown type": edited(("node Company {", 'node Firm @rename_from("Nobody") {'), ("-> Company", "-> Firm")),
    "another kind": edited(("node Company {", 'node Firm @rename_from("Knows") {'), ("-> Company", "-> Firm")),
    "unknown property": edited(("age: I32?", 'years: I32? @rename_from("old")'), ("@range(age", "@range(years")),
    "used twice": edited(("age: I32?", 'a: I32? @rename_from("tags")\n    b: [String]? @rename_from("tags")'),
                         ("tags: [String]?", ""), ("@range(age, 0..150)", "")),
    "still there": edited(("age: I32?", 'age: I32?\n    years: I32? @rename_from("age")')),
    "new type": BASE + '\nnode Pet { name: String @key @rename_from("name") }',
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_HINTS)
def test_wrong_rename_hints_are_errors(name: str, graph: Graph) -> None:
    with pytest.raises(SchemaError):
        graph.schema.plan(WRONG_HINTS[name])


VIOLATED = {
    "@unique": edited(("size: F32", "size: F32 @unique")),
    "@range": edited(("@range(age, 0..150)", "@range(age, 0..20)")),
    "@check": edited(("@range(age, 0..150)", '@check(name, "^a")')),
    "@card": edited(("edge Knows: Person -> Person {", "edge Knows: Person -> Person @card(2..3) {")),
}


@pytest.mark.parametrize("name", VIOLATED)
def test_a_constraint_that_the_data_violates_is_not_added(name: str, graph: Graph) -> None:
    version = graph.snapshot().version
    with pytest.raises(ConstraintViolated) as caught:
        graph.schema.apply(VIOLATED[name])
    assert name in caught.value.message
    assert graph.snapshot().version == version


def test_added_properties_are_null_or_have_their_default(graph: Graph) -> None:
    old = graph.commits.head().graph_commit_id
    text = edited(
        (
            "age: I32?",
            'age: I32?\n    city: String? @index\n    level: I64 @default(7)\n    since: Date? @default("2020-01-01")',
        )
    )
    graph.schema.apply(text, actor="ada")
    ann = graph.entity_at("node:Person", "ann")
    assert (ann["city"], ann["level"], str(ann["since"]), ann["age"]) == (None, 7, "2020-01-01", 30)
    assert "city" not in graph.entity_at("node:Person", "ann", old)
    graph.load({"Person": [{"name": "cyd", "size": 2.0, "mood": "wild", "city": "Rome"}]})
    assert graph.entity_at("node:Person", "cyd")["level"] == 7
    assert graph.query(
        "query q() { match { $p: Person } return { $p.name, $p.city, $p.level } order { $p.name } }"
    ).to_pylist() == [
        {"p.name": "ann", "p.city": None, "p.level": 7},
        {"p.name": "bob", "p.city": None, "p.level": 7},
        {"p.name": "cyd", "p.city": "Rome", "p.level": 7},
    ]
    with pytest.raises(UnknownField):
        graph.load({"Person": [{"name": "dan", "size": 2.0, "mood": "wild", "town": "Rome"}]})


def test_widenings_keep_values(graph: Graph) -> None:
    old = graph.commits.head().graph_commit_id
    text = edited(("age: I32?", "age: I64?"), ("size: F32", "size: F64?"), ("since: I32?", "since: I64?"))
    assert {s["kind"] for s in steps(graph, text)} == {"widen_property"}
    graph.schema.apply(text)
    graph.load(
        {
            "Person": [{"name": "cyd", "age": 100, "mood": "wild"}],
            "Knows": [{"id": "k2", "from": "cyd", "to": "ann", "since": 2**40}],
        }
    )
    assert graph.entity_at("node:Person", "ann")["age"] == 30
    assert graph.entity_at("node:Person", "cyd")["size"] is None
    assert sorted(graph.rows("edge:Knows")["since"].to_pylist()) == [1, 2**40]
    assert str(graph.rows("node:Person")["age"].type) == "int64"
    assert str(graph.rows("node:Person", old)["age"].type) == "int32"


def test_required_to_nullable_moves_no_data(graph: Graph) -> None:
    files = {p for p in Path(graph.uri).rglob("*.lance") if "data" in p.parts}
    graph.schema.apply(edited(("size: F32", "size: F32?")))
    assert {p for p in Path(graph.uri).rglob("*.lance") if "data" in p.parts and "__manifest" not in p.parts} <= files
    graph.load({"Person": [{"name": "cyd", "mood": "wild"}]})
    assert graph.entity_at("node:Person", "cyd")["size"] is None


def test_soft_drops_hide_and_what_is_asked_for_afresh_begins_anew(graph: Graph) -> None:
    old = graph.commits.head().graph_commit_id
    graph.schema.apply(edited(("size: F32", ""), ("@range(age, 0..150)", "")), drop=["Person.size"])
    assert "size" not in graph.entity_at("node:Person", "ann")
    assert graph.entity_at("node:Person", "ann", old)["size"] == 1.5
    graph.load({"Person": [{"name": "cyd", "mood": "wild"}]})
    graph.schema.apply(edited(("size: F32", "size: F32?")), fresh=["Person.size"])
    assert graph.entity_at("node:Person", "ann")["size"] is None
    assert graph.entity_at("node:Person", "ann", old)["size"] == 1.5
    location = graph.snapshot().tables["edge:Knows"].location
    without = edited(("size: F32", "size: F32?"), ("edge Knows: Person -> Person { since: I32? }", ""))
    graph.schema.apply(without, drop=["Knows"])
    assert "edge:Knows" not in graph.snapshot().tables
    assert graph.rows("edge:Knows", old).num_rows == 1
    graph.schema.apply(edited(("size: F32", "size: F32?")), fresh=["Knows"])
    assert graph.rows("edge:Knows").num_rows == 0
    assert graph.snapshot().tables["edge:Knows"].location != location


def test_hard_drops_leave_nothing_in_the_table(graph: Graph) -> None:
    import lance

    old = graph.commits.head().graph_commit_id
    text = edited(("size: F32", ""))
    assert steps(graph, text, allow_data_loss=True)[0]["mode"] == "hard"
    graph.schema.apply(text, allow_data_loss=True, drop=["Person.size"])
    uri, version = graph.table("node:Person")
    assert "size" not in lance.dataset(uri, version=version).schema.names
    assert graph.entity_at("node:Person", "ann")["age"] == 30
    assert graph.entity_at("node:Person", "ann", old)["size"] == 1.5
    graph.load({"Person": [{"name": "cyd", "mood": "wild"}]})
    assert graph.rows("node:Person").num_rows == 3


def test_a_type_rename_keeps_rows_path_and_version(graph: Graph) -> None:
    text = edited(
        ("node Person ", 'node Human @rename_from("Person") '),
        ("Person -> Person", "Human -> Human"),
        ("Person -> Company", "Human -> Company"),
    )
    before = graph.snapshot().tables["node:Person"]
    graph.schema.apply(text)
    after = graph.snapshot().tables["node:Human"]
    assert (after.location, after.staged_version, after.table_version) == (
        before.location,
        before.staged_version,
        before.table_version,
    )
    assert "node:Person" not in graph.snapshot().tables
    assert graph.rows("node:Human").num_rows == 2
    graph.load({"Knows": [{"id": "k2", "from": "bob", "to": "ann"}]})
    assert graph.delete("Human", ["ann"]).affected_edges == 3


def test_types_and_interfaces_are_added(graph: Graph) -> None:
    text = (
        BASE
        + "\ninterface Aged { years: I32? }\nnode Pet implements Aged { name: String @key weight: F64 }\nedge Owns: Person -> Pet\n"
    )
    kinds = [(s["kind"], s["name"]) for s in steps(graph, text)]
    assert kinds == [("add_type", "Aged"), ("add_type", "Pet"), ("add_type", "Owns")]
    graph.schema.apply(text)
    graph.load({"Pet": [{"name": "rex", "weight": 1.0}], "Owns": [{"from": "ann", "to": "rex"}]})
    assert graph.rows("edge:Owns").num_rows == 1


def test_on_a_branch_and_merged_back(graph: Graph) -> None:
    graph.branches.create("dev")
    graph.schema.apply(ADD, branch="dev")
    graph.load({"Person": [{"name": "cyd", "size": 1.0, "mood": "calm", "city": "Rome"}]}, branch="dev")
    graph.load({"Person": [{"name": "dan", "size": 2.0, "mood": "wild"}]})
    assert "city" not in graph.entity_at("node:Person", "dan")
    assert graph.branches.merge("dev").outcome == "merged"
    assert graph.schema.show() == ADD
    cities = {r["name"]: r["city"] for r in graph.rows("node:Person").to_pylist()}
    assert cities == {"ann": None, "bob": None, "cyd": "Rome", "dan": None}


def test_schema_changes_of_two_branches_are_joined(graph: Graph) -> None:
    graph.branches.create("dev")
    graph.schema.apply(ADD, branch="dev")
    graph.load(
        {"Person": [{"name": "ann", "age": 30, "size": 1.5, "mood": "calm", "mail": "ann", "city": "Rome"}]},
        "merge",
        "dev",
    )
    other = edited(("size: F32", 'width: F64 @rename_from("size")'), ("enum(calm, wild)", "enum(calm, wild, odd)"))
    graph.schema.apply(other)
    graph.load({"Person": [{"name": "cyd", "width": 2.5, "mood": "odd"}]})
    graph.branches.merge("dev")
    rows = {r["name"]: (r["width"], r["mood"], r["city"]) for r in graph.rows("node:Person").to_pylist()}
    assert rows == {"ann": (1.5, "calm", "Rome"), "bob": (1.5, "calm", None), "cyd": (2.5, "odd", None)}
    graph.load({"Person": [{"name": "dan", "width": 1.0, "mood": "odd", "city": "Bonn"}]})
    assert graph.entity_at("node:Person", "dan")["city"] == "Bonn"


CLASHES = {
    "one property name": (ADD, edited(("age: I32?", "age: I32?\n    city: I32?"))),
    "two renames": (
        edited(("age: I32?", 'years: I32? @rename_from("age")'), ("@range(age", "@range(years")),
        edited(("age: I32?", 'old: I32? @rename_from("age")'), ("@range(age", "@range(old")),
    ),
    "one type name": (BASE + "\nnode Pet { name: String @key }", BASE + "\nnode Pet { tag: I32 @key }"),
    "dropped end": (
        edited(("node Company { name: String @key }", ""), ("edge WorksAt: Person -> Company @card(0..2)", "")),
        BASE + "\nedge Likes: Person -> Company",
    ),
    "dropped and changed": (edited(("tags: [String]?", "")), edited(("tags: [String]?", 'labels: [String]? @rename_from("tags")'))),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASHES)
def test_schemas_that_exclude_each_other_are_a_conflict(name: str, graph: Graph) -> None:
    theirs, ours = CLASHES[name]
    graph.branches.create("dev")
    graph.schema.apply(theirs, branch="dev", allow_drops=True)
    graph.schema.apply(ours, allow_drops=True)
    preview = graph.branches.merge("dev", dry_run=True)
    assert {str(c.kind) for c in preview.open_conflicts} == {"SchemaConflict"}


def test_a_dropped_type_whose_rows_changed_is_a_conflict(graph: Graph) -> None:
    graph.branches.create("dev")
    graph.schema.apply(edited(("edge Knows: Person -> Person { since: I32? }", "")), branch="dev", drop=["Knows"])
    graph.load({"Knows": [{"id": "k2", "from": "bob", "to": "ann"}]})
    [conflict] = graph.branches.merge("dev", dry_run=True).conflicts
    assert str(conflict.kind) == "SchemaConflict"


def test_a_picture(graph: Graph) -> None:
    picture = graph.schema.mermaid()
    assert picture.startswith("classDiagram\n")
    assert '    Person --> "0..2" Company : WorksAt' in picture
    assert "        +name String" in picture


def test_tables_that_are_numbered_alike_are_told_apart(tmp_path: Path) -> None:
    """All tables are born alike: an untouched one must not be taken for the one that replaces it."""
    graph = Graph.init(tmp_path / "e", "node A { k: String @key  x: I32 }")
    first = graph.snapshot().tables["node:A"].location
    renamed = 'node B @rename_from("A") { k: String @key  x: I32 }'
    graph.schema.apply(renamed)
    graph.schema.apply(f"{renamed}\nnode A {{ tag: I64 @key }}")
    for opened in (graph, Graph.open(graph.uri)):
        tables = opened.snapshot().tables
        assert tables["node:B"].location == first
        assert tables["node:A"].location != first
    graph.load({"A": [{"tag": 1}], "B": [{"k": "b", "x": 1}]})
    graph.schema.apply("node B { k: String @key }\nnode A { tag: I64 @key }", allow_data_loss=True, drop=["B.x"])
    graph.load({"B": [{"k": "c"}]})
    assert sorted(graph.rows("node:B")["k"].to_pylist()) == ["b", "c"]
    empty = Graph.init(tmp_path / "f", "node A { k: String @key  x: I32 }")
    empty.schema.apply("node A { k: String @key }", allow_data_loss=True, drop=["A.x"])
    empty.load({"A": [{"k": "c"}]})
    assert empty.rows("node:A").num_rows == 1


CONSTRAINED = {
    "@range": (edited(("@range(age, 0..150)", "@range(age, 0..40)")), {"age": 50}, "ValueConstraintViolation"),
    "@check": (
        edited(("@range(age, 0..150)", '@range(age, 0..150)\n    @check(name, "^[a-z]+$")')),
        {"name": "X9"},
        "ValueConstraintViolation",
    ),
    "@unique": (edited(("age: I32?", "age: I32? @unique")), {"age": 30}, "UniqueViolation"),
}


@pytest.mark.parametrize("name", CONSTRAINED)
@pytest.mark.parametrize("declared_by", ["main", "dev"])
def test_a_constraint_of_one_branch_and_rows_of_the_other(name: str, declared_by: str, graph: Graph) -> None:
    text, values, kind = CONSTRAINED[name]
    graph.branches.create("dev")
    written_by = "dev" if declared_by == "main" else "main"
    graph.schema.apply(text, branch=declared_by)
    graph.load({"Person": [{"name": "cyd", "size": 1.0, "mood": "calm", **values}]}, branch=written_by)
    found = graph.branches.merge("dev", dry_run=True).open_conflicts
    assert {str(c.kind) for c in found} == {kind}
    graph.load({"Person": [{"name": "cyd", "size": 1.0, "mood": "calm", "age": 7}]}, "merge", written_by)
    if name != "@check":
        assert graph.branches.merge("dev").outcome == "merged"
