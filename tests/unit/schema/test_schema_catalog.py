"""The catalog: ids, columns, lookups, hashes, defaults, edge keys and the JSON round trip."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.errors import SchemaError, TypeNotFound, UnknownField
from omnigraph.schema import Catalog, compile_schema
from omnigraph.schema.catalog import Index, later_column

Compiled = Callable[[str], Catalog]

SCHEMA = """
interface Named { name: String @key @description("how people call it") }
node Person @description("people") @instruction("ask kindly") @tier(gold) implements Named {
    age: I32? @default(-1)
    mood: enum(happy, sad) @default(sad)
    born: Date? @default("1970-01-02")
    seen: DateTime? @default("2024-01-31T12:00:00.123+02:00")
    score: F64 @default(1)
    about: Vector(3) @index(metric="dot") @embed(name, model="m")
    photo: Blob?
    @range(age, ..130) @check(name, "^.") @unique(mood, age) @index(born, age)
}
edge Knows: Person -> Person @card(1..4) {
    since: Date
    at: String
    @key(@src, @dst, since, at)
}
"""


def test_ids_sort_like_names_and_columns_are_names(compiled: Compiled) -> None:
    catalog = compiled(SCHEMA)
    for entity in catalog.entity_types:
        names = [each.name for each in sorted(entity.properties, key=lambda each: each.property_id)]
        assert names == sorted(names)
        assert all(each.column == each.name for each in entity.properties)
    ids = [entity.type_id for entity in catalog.entity_types]
    assert ids == sorted(set(ids))


def test_ids_sort_like_names_even_if_the_mint_runs_backwards() -> None:
    ids = iter(range(1000, 0, -1))
    catalog = compile_schema("node A { b: I32 a: I32 @key(b, a) }", lambda: f"{next(ids):026}")
    a, b = catalog.node("A").property("a"), catalog.node("A").property("b")
    assert a.property_id < b.property_id


def test_json_round_trip_is_exact(compiled: Compiled) -> None:
    catalog = compiled(SCHEMA)
    read = Catalog.from_json(json.loads(json.dumps(catalog.to_json())))
    assert read == catalog
    assert read.contract_hash == catalog.contract_hash
    assert pickle.loads(pickle.dumps(catalog)) == catalog


def test_hashes(compiled: Compiled) -> None:
    catalog = compiled(SCHEMA)
    ids = iter(range(500, 1000))
    other = compile_schema(SCHEMA, lambda: f"{next(ids):026}")
    assert catalog.shape_hash == other.shape_hash
    assert catalog.contract_hash != other.contract_hash
    assert len(catalog.shape_hash) == 64


def test_a_renamed_property_keeps_its_column_and_the_shape_of_its_new_text(compiled: Compiled) -> None:
    born = compiled("node A { a: I32 b: I32 @key(a, b) }").node("A")
    a, b = born.properties
    renamed = replace(born, properties=(replace(a, name="z"), b), key=("z", "b"), indexes=(Index(("z", "b")),))
    catalog = Catalog({"A": renamed}, {}, {})
    assert renamed.arrow_schema.names == ["id", "a", "b"]
    fresh = compiled("node A { z: I32 b: I32 @key(z, b) }")
    assert fresh.node("A").key == ("b", "z")
    assert catalog.shape_hash == fresh.shape_hash


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("age", -1),
        ("mood", "sad"),
        ("born", dt.date(1970, 1, 2)),
        ("seen", dt.datetime(2024, 1, 31, 10, 0, 0, 123000, dt.UTC)),
        ("score", 1.0),
        ("about", None),
    ],
)
def test_defaults_are_typed(compiled: Compiled, name: str, value: Any) -> None:
    found = compiled(SCHEMA).node("Person").property(name).default
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("type_", "literal", "value"),
    [
        ("String", '"a b"', "a b"),
        ("Bool", "false", False),
        ("U64", "18446744073709551615", 2**64 - 1),
        ("I64", "-9223372036854775808", -(2**63)),
        ("F32", "-2.5e-3", -0.0025),
        ("enum(1, 2)", "2", "2"),
        ("enum(in-progress, done)", '"in-progress"', "in-progress"),
        ("DateTime", '"2024-01-31"', dt.datetime(2024, 1, 31, tzinfo=dt.UTC)),
    ],
)
def test_default_literals(compiled: Compiled, type_: str, literal: str, value: Any) -> None:
    assert compiled(f"node A {{ x: {type_} @default({literal}) }}").node("A").property("x").default == value


@pytest.mark.parametrize(
    ("type_", "literal"),
    [("Bool", "1"), ("I32", "true"), ("F64", "true"), ("String", "3"), ("I32", "2147483648"), ("Vector(2)", "1"),
     ("Blob", '"x"'), ("Date", "3"), ("DateTime", '"0001-01-01T00:00:00+05:00"'), ("String", '"a", "b"')],
)  # fmt: skip
def test_default_rejections(compiled: Compiled, type_: str, literal: str) -> None:
    with pytest.raises(SchemaError, match="default"):
        compiled(f"node A {{ x: {type_} @default({literal}) }}")


@pytest.mark.parametrize("key", ["@key(src, dst)", "@key(@src, @dst)", "@key(dst, src)", "@key(src, @dst)"])
def test_edge_key_spellings(compiled: Compiled, key: str) -> None:
    catalog = compiled(f"node A {{ x: I32 }} edge Rel: A -> A {{ {key} }}")
    assert catalog.edge("Rel").key == ("src", "dst")


def test_edge_key_puts_endpoints_first_then_properties_by_id(compiled: Compiled) -> None:
    assert compiled(SCHEMA).edge("Knows").key == ("src", "dst", "at", "since")


def test_metric_of_a_vector_index(compiled: Compiled) -> None:
    person = compiled(SCHEMA).node("Person")
    assert Index(("about",), "dot") in person.indexes
    assert Index(("born", "age")) in person.indexes


def test_rename_hints_are_carried_but_not_compared(compiled: Compiled) -> None:
    hinted = compiled('node B @rename_from(A) { y: I32 @rename_from("x") }')
    plain = compiled("node B { y: I32 }")
    assert hinted == plain
    assert hinted.contract_hash == plain.contract_hash
    assert (hinted.node("B").rename_from, hinted.node("B").property("y").rename_from) == ("A", "x")


def test_lookups_suggest_the_nearest_name(compiled: Compiled) -> None:
    catalog = compiled(SCHEMA)
    with pytest.raises(TypeNotFound, match="no node type `Persn`") as node:
        catalog.node("Persn")
    assert node.value.hint == "did you mean `Person`?"
    with pytest.raises(TypeNotFound) as edge:
        catalog.edge("Person")
    assert edge.value.hint == "`Person` is a node type"
    with pytest.raises(TypeNotFound):
        catalog.type_of("node:Knows")
    with pytest.raises(TypeNotFound):
        catalog.interface("Person")
    with pytest.raises(UnknownField) as field:
        catalog.node("Person").property("agee")
    assert (field.value.hint, field.value.type_key, field.value.field) == ("did you mean `age`?", "node:Person", "agee")


def test_type_of_and_interface(compiled: Compiled) -> None:
    catalog = compiled(SCHEMA)
    assert catalog.type_of("node:Person") is catalog.node("Person")
    assert catalog.type_of("edge:Knows") is catalog.edge("Knows")
    assert catalog.interface("Named").property("name").description == "how people call it"


def test_later_column_cannot_clash() -> None:
    assert later_column("age", "01J0ABC") == "age__01j0abc"


def test_interfaces_may_share_an_equal_property(compiled: Compiled) -> None:
    text = "interface A { x: I32 @index } interface B { x: I32 @index } node N implements A, B { y: I32 }"
    assert [each.name for each in compiled(text).node("N").properties] == ["y", "x"]
    with pytest.raises(SchemaError, match="disagree"):
        compiled(text.replace("B { x: I32 @index }", "B { x: I32 }"))


def test_interfaces_agree_whatever_their_rename_hints_and_note_order(compiled: Compiled) -> None:
    notes = '@a(x=1) @a(x="1") @index'
    text = f"""
    interface A {{ x: I32 {notes} @rename_from(w) }}
    interface B {{ x: I32 @index @a(x="1") @a(x=1) }}
    node N implements A, B {{ y: I32 }}
    """
    assert compiled(text).node("N").property("x").rename_from == "w"


def test_a_key_beside_an_injected_key_is_a_second_key(compiled: Compiled) -> None:
    with pytest.raises(SchemaError, match="`N` has a second `@key`; the first is on line 2"):
        compiled("interface A { x: I32 @key }\nnode N implements A { y: I32 @key }")


def test_enum_order_means_nothing(compiled: Compiled) -> None:
    assert compiled("node A { s: enum(a, b) }") == compiled("node A { s: enum(b, a) }")
