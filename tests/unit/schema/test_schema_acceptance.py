"""The acceptance list of the schema language, one test (or one parametrised family) for each of its lines."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import ParseError, SchemaError
from omnigraph.schema import Catalog, parse_schema
from omnigraph.schema.catalog import Annotation, Cardinality, Check, EmbedSpec, Index, Range

Compiled = Callable[[str], Catalog]

PEOPLE = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


def node(members: str, header: str = "") -> str:
    return f"node Doc {header} {{ {members} }}"


def edge(members: str) -> str:
    return f"node A {{ x: I32 }} edge Rel: A -> A {{ {members} }}"


def refused(compiled: Compiled, text: str, *words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compiled(text)
    for word in words:
        assert word in caught.value.message


def test_01_declarations_types_and_nullability() -> None:
    schema = parse_schema(PEOPLE)
    assert [each.name.text for each in schema.declarations] == ["Person", "Company", "Knows", "WorksAt"]
    name, age = schema.nodes[0].properties
    assert name.type == PropertyType(Scalar.STRING)
    assert age.type == PropertyType(Scalar.I32, nullable=True)
    assert schema.edges[0].properties[0].type == PropertyType(Scalar.DATE, nullable=True)


def test_02_edge_without_body_has_open_cardinality(compiled: Compiled) -> None:
    assert compiled(PEOPLE).edge("WorksAt").cardinality == Cardinality(0, None)


@pytest.mark.parametrize(
    ("card", "expected"), [("0..1", (0, 1)), ("1..", (1, None)), ("2..5", (2, 5)), ("0..4294967295", (0, 2**32 - 1))]
)
def test_03_cardinality(compiled: Compiled, card: str, expected: tuple[int, int | None]) -> None:
    catalog = compiled(f"node A {{ x: I32 }} edge Rel: A -> A @card({card})")
    assert catalog.edge("Rel").cardinality == Cardinality(*expected)


def test_04_unknown_interface(compiled: Compiled) -> None:
    refused(compiled, "node A implements Named { x: I32 }", "unknown interface `Named`")


def test_05_interface_types_must_match(compiled: Compiled) -> None:
    text = "interface Named { name: String } node A implements Named { name: I32 }"
    refused(compiled, text, "`I32` here but `String` in interface `Named`")


def test_05_missing_interface_property_is_injected_with_its_key(compiled: Compiled) -> None:
    catalog = compiled("interface Named { name: String @key } node A implements Named { x: I32 }")
    assert [each.name for each in catalog.node("A").properties] == ["x", "name"]
    assert catalog.node("A").key == ("name",)
    assert catalog.implementers("Named") == (catalog.node("A"),)


@pytest.mark.parametrize("kind", ["key", "unique", "index"])
def test_06_property_form_means_the_body_form(compiled: Compiled, kind: str) -> None:
    on_property = compiled(node(f"a: String @{kind}"))
    in_body = compiled(node(f"a: String @{kind}(a)"))
    assert on_property == in_body


def test_07_composite_groups(compiled: Compiled) -> None:
    doc = compiled(node("a: String b: I32 @unique(b, a) @index(b, a)")).node("Doc")
    assert doc.uniques == (("a", "b"),)
    assert doc.indexes == (Index(("b", "a")),)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [("0..10", 0, 10), ("-1.5..-0.5", -1.5, -0.5), ("-3..", -3, None), ("..-2", None, -2), ("0.0 .. 1.0", 0.0, 1.0)],
)
def test_08_range_bounds_keep_sign_and_side(
    compiled: Compiled, bounds: str, low: float | None, high: float | None
) -> None:
    assert compiled(node(f"x: F64 @range(x, {bounds})")).node("Doc").ranges == (Range("x", low, high),)


def test_09_range_needs_numbers_and_check_needs_strings(compiled: Compiled) -> None:
    refused(compiled, node("s: String @range(s, 0..1)"), "`@range` needs a number")
    refused(compiled, node('n: I32 @check(n, "a")'), "`@check` needs a String")
    assert compiled(node('s: enum(a, b) @check(s, "^a")')).node("Doc").checks == (Check("s", "^a"),)


def test_10_edges_take_unique_and_index(compiled: Compiled) -> None:
    rel = compiled(edge("w: I32 @unique n: String @index @unique(src, dst) @index(dst)")).edge("Rel")
    assert rel.uniques == (("src", "dst"), ("w",))
    assert rel.indexes == (Index(("dst",)), Index(("n",)))


@pytest.mark.parametrize("source", ["title", '"title"'])
def test_11_embed(compiled: Compiled, source: str) -> None:
    text = node(f'title: String v: Vector(3) @embed({source}, model="m") w: Vector(2) @embed({source})')
    doc = compiled(text).node("Doc")
    assert doc.property("v").embed == EmbedSpec("title", "m")
    assert doc.property("w").embed == EmbedSpec("title", None)


def test_11_embed_knows_no_other_option(compiled: Compiled) -> None:
    refused(compiled, node('t: String v: Vector(3) @embed("t", provider="x")'), "`@embed` does not know `provider`")


@pytest.mark.parametrize(
    "text",
    [
        node("t: String v: Vector(3) @embed"),
        node('t: String v: Vector(3) @embed("")'),
        node('t: String v: String @embed("t")'),
        node('t: String v: [F32] @embed("t")'),
        node('t: String v: Vector(3) @embed("u")'),
        node('t: I32 v: Vector(3) @embed("t")'),
        node('t: [String] v: Vector(3) @embed("t")'),
        edge('t: String v: Vector(3) @embed("t")'),
    ],
)
def test_12_embed_rejections(compiled: Compiled, text: str) -> None:
    refused(compiled, text)


@pytest.mark.parametrize(
    "members",
    [
        "a: String @key b: String @key",
        "a: String @key @key",
        "a: String @key b: I32 @key(b)",
        "a: String @key(a) @key(a)",
        'a: String @unique("a")',
        'a: String @index("a")',
        "a: String @key(3)",
    ],
)
def test_13_one_key_and_no_values(compiled: Compiled, members: str) -> None:
    refused(compiled, node(members))


@pytest.mark.parametrize("name", ["key", "unique", "index", 'embed("a")', 'default("a")', "range(a, 0..1)"])
def test_14_property_annotations_do_not_belong_on_headers(compiled: Compiled, name: str) -> None:
    refused(compiled, node("a: String", f"@{name}"), "does not belong on a type's header")
    refused(compiled, f"node A {{ x: I32 }} edge Rel: A -> A @{name}", "does not belong on a type's header")


def test_15_enums_and_lists(compiled: Compiled) -> None:
    doc = compiled(node("s: enum(live, draft, in-progress, 3d)? tags: [String]")).node("Doc")
    assert doc.property("s").type.values == ("3d", "draft", "in-progress", "live")
    assert doc.property("s").type.nullable
    assert doc.property("tags").type == PropertyType(Scalar.STRING, is_list=True)
    refused(compiled, node("s: enum(a, b, a)"), "the enum value `a` is given twice")


def test_16_descriptions(compiled: Compiled) -> None:
    doc = compiled(node('a: String @description("c")', '@description("d") @instruction("i")')).node("Doc")
    assert (doc.description, doc.instruction, doc.property("a").description) == ("d", "i", "c")
    refused(compiled, node("a: String", '@description("a") @description("b")'), "given twice")
    refused(compiled, node('a: String @instruction("x")'), "`@instruction` is for types")


def test_17_escapes(compiled: Compiled) -> None:
    doc = compiled(node("a: String", r'@description("q\" b\\ n\n r\r t\t é")')).node("Doc")
    assert doc.description == 'q" b\\ n\n r\r t\t é'
    with pytest.raises(ParseError, match="unsupported escape sequence"):
        compiled(node("a: String", r'@description("\q")'))


def test_18_key_types_and_vector_dimensions(compiled: Compiled) -> None:
    refused(compiled, node("a: [String] @key"), "`@key` does not fit")
    refused(compiled, node("v: Vector(0)"), "dimensions")
    refused(compiled, node("v: Vector(2147483648)"), "dimensions")
    assert compiled(node("v: Vector(2147483647)")).node("Doc").property("v").type.dimension == 2**31 - 1


@pytest.mark.parametrize("name", ["@key", "@index", "@unique", '@embed("t")', "@key(b)", "@index(b)", "@unique(b)"])
def test_19_blobs_are_neither_keys_nor_indexed(compiled: Compiled, name: str) -> None:
    refused(compiled, node(f"t: String b: Blob {name}"))


def test_19_a_stored_contract_with_unique_blob_can_still_be_read(compiled: Compiled) -> None:
    body = compiled(node("b: Blob")).to_json()
    body["nodes"][0]["uniques"] = [["b"]]
    assert Catalog.from_json(body).node("Doc").uniques == (("b",),)


@pytest.mark.parametrize(
    "hint", ["", '("")', '("  ")', '("a", "b")', '("a", hard=true)', '(hard="x")', "(3)", '("a") @rename_from("b")']
)
def test_20_malformed_rename_hints(compiled: Compiled, hint: str) -> None:
    refused(compiled, node("a: String", f"@rename_from{hint}"), "@rename_from")
    refused(compiled, node(f"a: String @rename_from{hint}"), "@rename_from")


@pytest.mark.parametrize(
    "name", ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "id"]
)
def test_21_reserved_names(compiled: Compiled, name: str) -> None:
    refused(compiled, node(f"{name}: I64"), "reserved")
    refused(compiled, edge(f"{name}: I64"), "reserved")
    refused(compiled, f"interface I {{ {name}: I64 }}", "reserved")


@pytest.mark.parametrize("name", ["src", "dst", "from", "to"])
def test_21_endpoint_words_are_reserved_on_edges_only(compiled: Compiled, name: str) -> None:
    refused(compiled, edge(f"{name}: I64"), "reserved on edges")
    assert compiled(node(f"{name}: I64")).node("Doc").property(name).column == name


def test_22_syntax_errors_have_a_span() -> None:
    with pytest.raises(ParseError) as caught:
        parse_schema("node A {\n  x I32\n}", "a.pg")
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column, caught.value.span.width) == (2, 5, 3)
    assert str(caught.value).startswith("a.pg:2:5: ")


def test_23_duplicates_unknown_endpoints_and_case_folding(compiled: Compiled) -> None:
    refused(compiled, "node A { x: I32 } node A { y: I32 }", "declared twice", "line 1")
    refused(compiled, "node A { x: I32 } edge Rel: A -> B", "unknown node type `B`")
    refused(compiled, "node A { x: I32 } edge Knows: A -> A edge KNOWS: A -> A", "case folding")


def test_23_a_node_and_an_edge_may_share_a_name(compiled: Compiled) -> None:
    catalog = compiled("node Link { x: I32 } edge Link: Link -> Link")
    assert [each.table_key for each in catalog.entity_types] == ["node:Link", "edge:Link"]


def test_24_lookup_and_fields(compiled: Compiled) -> None:
    catalog = compiled(PEOPLE)
    assert catalog.edge("knows") is catalog.edge("KNOWS") is catalog.edge("Knows")
    expected = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("name", pa.string(), nullable=False),
            ("age", pa.int32()),
        ]
    )
    assert catalog.node("Person").arrow_schema.equals(expected)
    assert catalog.edge("Knows").arrow_schema.names == ["id", "src", "dst", "since"]


def test_25_order_comments_and_hints_keep_the_hash(compiled: Compiled) -> None:
    shuffled = """
    edge WorksAt: Person -> Company @rename_from("Employs") // where
    edge Knows: Person -> Person { since: Date? }
    node Company { name: String @rename_from("title") @key(name) } /* firms */
    node Person { age: I32? name: String @key }
    """
    assert compiled(PEOPLE).shape_hash == compiled(shuffled).shape_hash
    assert compiled(PEOPLE).shape_hash != compiled(PEOPLE.replace("I32?", "I32")).shape_hash


def test_25_a_key_implies_an_index(compiled: Compiled) -> None:
    assert compiled(PEOPLE).node("Person").indexes == (Index(("name",)),)


def test_unknown_annotations_are_kept(compiled: Compiled) -> None:
    doc = compiled(node("a: String @pii @owner(team, since=2024, strict=true)", '@tier("gold")')).node("Doc")
    assert doc.annotations == (Annotation("tier", "gold"),)
    pii, owner = doc.property("a").annotations
    assert pii == Annotation("pii")
    assert owner == Annotation("owner", "team", (("since", 2024), ("strict", True)))


def test_a_byte_order_mark_and_windows_lines_are_blanks(compiled: Compiled) -> None:
    assert compiled("\ufeff" + PEOPLE.replace("\n", "\r\n")) == compiled(PEOPLE)


def test_an_empty_file_is_a_schema(compiled: Compiled) -> None:
    assert list(compiled(" // nothing\n").entity_types) == []


def test_keywords_are_also_names(compiled: Compiled) -> None:
    text = "node A { node: I32 @index edge: I32 interface: I32 @x implements: I32 enum: I32 true: Bool }"
    assert [each.name for each in compiled(text).node("A").properties] == [
        "node", "edge", "interface", "implements", "enum", "true",
    ]  # fmt: skip
    assert compiled("nodeA { x: I32 } edgeRel:A->A @y node B { x: I32 }").edge("rel").source == "A"
