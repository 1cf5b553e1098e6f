"""Generated schemas: formatting and parsing give the catalog back; order, comments and rename hints mean nothing."""

from __future__ import annotations

import dataclasses
import json
import random
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import LanguageError, Span
from omnigraph.schema import Catalog, compile_schema, format_schema, lint_schema, parse_schema
from omnigraph.schema.format import format_catalog

FAST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BROKEN = settings(max_examples=150, deadline=None)

SCALARS = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"]
NAMES = ["alpha", "beta", "gamma", "node", "enum", "true", "implements", "x_1", "camelCase", "src_", "_hidden"]
TYPES = ["Alpha", "Beta", "Gamma", "Person", "Node_1", "X"]
DEFAULTS = {
    "String": st.text(max_size=5).map(lambda text: json_text(text)),
    "Bool": st.sampled_from(["true", "false"]),
    "I32": st.integers(-(2**31), 2**31 - 1).map(str),
    "U64": st.integers(0, 2**64 - 1).map(str),
    "F64": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "Date": st.dates().map(lambda day: f'"{day.isoformat()}"'),
    "DateTime": st.datetimes().map(lambda time: f'"{time.isoformat(timespec="milliseconds")}"'),
}


def json_text(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


def compiled(text: str) -> Catalog:
    ids = count(1)
    return compile_schema(text, lambda: f"{next(ids):026}")


@st.composite
def properties(draw: st.DrawFn, name: str, can_be_unique: bool = True) -> str:
    kind = draw(st.sampled_from(["scalar", "scalar", "scalar", "enum", "list", "vector", "blob"]))
    nullable = draw(st.sampled_from(["", "?"]))
    notes: list[str] = []
    if kind == "scalar":
        type_ = draw(st.sampled_from(SCALARS))
        if type_ in DEFAULTS and draw(st.booleans()):
            notes.append(f"@default({draw(DEFAULTS[type_])})")
    elif kind == "enum":
        values = draw(st.lists(st.sampled_from(["a", "b", "3d", "in-progress"]), min_size=1, unique=True))
        type_ = f"enum({', '.join(values)})"
        if draw(st.booleans()):
            notes.append(f'@default("{values[0]}")')
    elif kind == "list":
        type_ = f"[{draw(st.sampled_from(SCALARS))}]"
    elif kind == "vector":
        type_ = f"Vector({draw(st.integers(1, 9))})"
        notes.append(draw(st.sampled_from(["", "@index", '@index(metric="cosine")'])))
    else:
        type_ = "Blob"
    if kind in ("scalar", "enum") and can_be_unique:
        notes.extend(draw(st.lists(st.sampled_from(["@unique", "@index"]), unique=True)))
    notes.extend(
        draw(st.lists(st.sampled_from(["@pii", "@owner(team, since=2)", '@description("d\\n")']), unique=True))
    )
    return f"{name}: {type_}{nullable} {' '.join(notes)}"


@st.composite
def nodes(draw: st.DrawFn, name: str) -> list[str]:
    """The members of one node; the first line is its header."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    members = [draw(properties(each)) for each in names]
    members += ["key_b: String", "key_a: I64", "label: String?"]
    rules = ["@key(key_b, key_a)", "@unique(label, key_a)", "@index(key_b, label)", "@range(key_a, -5..7)",
             "@range(key_a, ..1.5e3)", '@check(label, "^[a-z]\\\\d$")']  # fmt: skip
    members += draw(st.lists(st.sampled_from(rules), unique=True))
    implements = draw(st.sampled_from(["", " implements Shared"]))
    notes = draw(st.sampled_from(["", ' @description("what")', ' @instruction("how") @tier("gold")']))
    return [f"node {name}{notes}{implements}", *members]


@st.composite
def declarations(draw: st.DrawFn) -> list[list[str]]:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4, unique=True))
    found = [["interface Shared", "shared: String @index", "shared_count: I32? @default(-3)"]]
    found += [draw(nodes(name)) for name in types]
    for name in draw(st.lists(st.sampled_from(["Knows", "Likes", "Has_Part"]), max_size=3, unique=True)):
        source, target = draw(st.sampled_from(types)), draw(st.sampled_from(types))
        card = draw(st.sampled_from(["", " @card(0..1)", " @card(2..)"]))
        members = ["weight: F64", *draw(st.lists(st.sampled_from(["@key(@src, @dst)", "@unique(src)"]), unique=True))]
        found.append([f"edge {name}: {source} -> {target}{card}", *members])
    return found


def written(found: list[list[str]], between: str = "\n") -> str:
    return between.join(f"{header} {{{between}{between.join(members)}{between}}}" for header, *members in found)


def without_spans(node: object) -> object:
    """The ast as plain values, without places and without the `@` that an endpoint may be written with."""
    if isinstance(node, Span):
        return None
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = (f.name for f in dataclasses.fields(node) if f.name not in ("source", "path", "at"))
        return (type(node).__name__, *(without_spans(getattr(node, name)) for name in fields))
    return [without_spans(each) for each in node] if isinstance(node, tuple) else node


@FAST
@given(declarations())
def test_formatting_keeps_the_meaning(found: list[list[str]]) -> None:
    text = written(found)
    formatted = format_schema(parse_schema(text))
    assert compiled(formatted) == compiled(text)
    assert format_schema(parse_schema(formatted)) == formatted


@FAST
@given(declarations())
def test_formatting_keeps_every_word(found: list[list[str]]) -> None:
    schema = parse_schema(written(found))
    assert without_spans(parse_schema(format_schema(schema))) == without_spans(schema)


@FAST
@given(declarations())
def test_a_catalog_can_be_written_as_a_schema(found: list[list[str]]) -> None:
    catalog = compiled(written(found))
    again = compiled(format_catalog(catalog))
    assert again == catalog
    assert again.shape_hash == catalog.shape_hash
    assert Catalog.from_json(json.loads(json.dumps(catalog.to_json()))) == catalog


@FAST
@given(declarations(), st.integers(0, 2**32))
def test_order_comments_and_rename_hints_keep_the_shape(found: list[list[str]], seed: int) -> None:
    shuffle = random.Random(seed).shuffle
    hinted = []
    for header, *members in found:
        shuffle(members)
        hinted.append([header, *members])
    shuffle(hinted)
    for each in hinted:
        if each[0].startswith("node"):
            each[0] = each[0].replace(" implements", ' @rename_from("Old") implements')
        each[1:] = [
            f'{member} @rename_from("old")' if ":" in member and not member.startswith("@") else member
            for member in each[1:]
        ]
    text = written(hinted, between=" // a comment\n /* another */ ")
    assert compiled(text).shape_hash == compiled(written(found)).shape_hash


@BROKEN
@given(declarations(), st.data())
def test_a_damaged_schema_is_refused_in_words_or_compiles(found: list[list[str]], data: st.DataObject) -> None:
    text = written(found)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 12)))
    patch = data.draw(st.text(alphabet="{}()[]@:,.->\"?#'/*= \nabAB01", max_size=4))
    damaged = text[:start] + patch + text[stop:]
    report = lint_schema(damaged)
    if report.status == "ok":
        assert compiled(format_schema(parse_schema(damaged))) == compiled(damaged)
        return
    with pytest.raises(LanguageError) as caught:
        compiled(damaged)
    assert caught.value.span is not None
    assert str(caught.value) == str(report.errors[0])
