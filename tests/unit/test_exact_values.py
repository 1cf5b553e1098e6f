"""Values come out as they went in: digits of F32, moments, and words of queries that have two meanings."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.cli.main import run
from omnigraph.datatypes import in_own_width, parse_datetime
from omnigraph.errors import InvalidValue, OmnigraphError, ParseError, SchemaError, TypeCheckError

SCHEMA = """
node Item { name: String @key  size: F32?  sizes: [F32]?  place: Vector(2)?  wide: F64?  seen: DateTime? }
node Odd { name: String @key  false: Bool?  null: String?  on: Bool? }
"""
ITEM = {"name": "a", "size": 0.1, "sizes": [0.1, 1e20], "place": [0.1, 3.0], "wide": 0.10000000149011612}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    found = Graph.init(tmp_path_factory.mktemp("exact") / "g", SCHEMA)
    found.load(
        {"Item": [ITEM, {"name": "empty"}], "Odd": [{"name": "x", "false": True}, {"name": "y", "false": False}]}
    )
    return found


def test_f32_has_its_own_digits(graph: Graph, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = io.BytesIO()
    graph.export(out, types=["Item"])
    assert json.loads(out.getvalue().splitlines()[0])["data"] == {"id": "a", "seen": None, **ITEM}
    query = 'query q() { match { $i: Item { name: "a" } } return { $i.size, $i.sizes, $i.wide, $i } }'

    def printed(*words: str) -> str:
        assert run([*words, "--store", graph.uri]) == 0
        return capsys.readouterr().out

    for format in ("table", "kv", "csv", "jsonl", "json"):
        text = printed("query", "-e", query, "--format", format)
        assert "0.1," in text or "0.1 " in text or "0.1\n" in text, format
        assert text.count("0.10000000149011612") == 2, format  # the F64, alone and in the node
    whole = json.loads(printed("query", "-e", query, "--json"))["rows"][0]
    assert (whole["i.size"], whole["i.sizes"], whole["i"]["size"]) == (0.1, [0.1, 1e20], 0.1)
    baseline = tmp_path / "rows.jsonl"
    printed("changes", "baseline", "--out", str(baseline))
    assert '"size": 0.1,' in baseline.read_text()
    first = graph.commits.list()[-1].graph_commit_id
    changes = json.loads(printed("diff", first, "main", "--type", "Item", "--json"))["changes"]
    assert (changes[0]["after"]["size"], changes[0]["after"]["place"]) == (0.1, [0.1, 3.0])
    assert "size: 0.1\n" in printed("diff", first, "main", "--type", "Item")
    [change] = [c for c in graph.diff(first, "main", types=["Item"]) if c.entity_id == "a"]
    assert change.after is not None
    assert change.after["size"] == 0.10000000149011612, "the value itself is that of the store"


def test_nulls_and_nesting_keep_their_shape() -> None:
    kind = pa.struct([("a", pa.list_(pa.float32(), 2)), ("b", pa.list_(pa.float32())), ("c", pa.string())])
    values = [{"a": [0.1, 2.0], "b": [0.1, None], "c": "x"}, None, {"a": None, "b": [], "c": None}]
    assert in_own_width(pa.array(values, kind)).to_pylist() == values
    assert in_own_width(pa.array([None, None], kind)).to_pylist() == [None, None]
    assert in_own_width(pa.chunked_array([[0.1], []], pa.float32())).to_pylist() == [0.1]
    assert in_own_width(pa.array([None], pa.list_(pa.float32(), 2))).to_pylist() == [None]


@pytest.mark.parametrize(
    "seen",
    [
        "2024-01-01T00:00:00.1234Z", "2024-01-01T00:00:00.1230000001+01:00", "2024-01-01T00:00:00,0001",
        dt.datetime(2024, 1, 1, 0, 0, 0, 999), dt.datetime(2024, 1, 1, microsecond=1, tzinfo=dt.UTC),
    ],
)  # fmt: skip
def test_a_moment_between_two_milliseconds_is_refused_everywhere(graph: Graph, seen: Any, tmp_path: Path) -> None:
    head = graph.snapshot().commit_id
    text = seen if isinstance(seen, str) else seen.isoformat()
    (tmp_path / "i.csv").write_text(f'name,seen\nz,"{text}"\n')
    (tmp_path / "i.jsonl").write_text(
        "".join(f'{{"type":"Item","data":{{"name":"z{n}","seen":"{text}"}}}}\n' for n in range(70))
    )
    unit = "us" if not isinstance(seen, str) else "ns"
    number = 1_704_067_200_000_001 * (1 if unit == "us" else 1000)
    column = pa.chunked_array([pa.array([0, None, number], pa.timestamp(unit, "UTC"))])
    writes: list[Any] = [
        {"Item": [{"name": "z", "seen": seen}]}, {"Item": tmp_path / "i.csv"}, tmp_path / "i.jsonl",
        {"Item": pa.table({"name": ["k", "l", "m"], "seen": column})},
    ]  # fmt: skip
    for data in writes:
        with pytest.raises(InvalidValue, match="finer than a millisecond") as caught:
            graph.load(data, mode="merge")
        assert caught.value.violations[0].field == "seen"
    with pytest.raises(OmnigraphError, match="finer than a millisecond"):
        graph.mutate('query q($s: DateTime) { update Item set { seen: $s } where name = "a" }', params={"s": seen})
    with pytest.raises(ParseError, match="finer than a millisecond") as parse:
        graph.query(f'query q() {{ match {{ $i: Item  $i.seen = datetime("{text}") }} return {{ $i.name }} }}')
    assert parse.value.span is not None
    with pytest.raises(SchemaError):
        graph.schema.plan(f'node Item {{ name: String @key  seen: DateTime @default("{text}") }}')
    assert graph.snapshot().commit_id == head


def test_moments_with_zeros_at_the_end_are_fine(graph: Graph) -> None:
    branch = graph.branches.create("fine").name
    seen = [dt.datetime(2024, 1, 1, microsecond=123000), "2024-01-01T00:00:00.123000000Z", 1704067200123]
    graph.load({"Item": [{"name": f"t{n}", "seen": each} for n, each in enumerate(seen)]}, branch=branch)
    column = pa.array([1_704_067_200_123_000, None], pa.timestamp("us", "UTC"))
    graph.load({"Item": pa.table({"name": ["u", "v"], "seen": column})}, branch=branch)
    rows = graph.rows("Item", branch).to_pylist()
    assert {row["seen"] for row in rows if row["seen"]} == {dt.datetime(2024, 1, 1, 0, 0, 0, 123000, dt.UTC)}
    assert parse_datetime("2024-01-01T00:00:00.120") == dt.datetime(2024, 1, 1, 0, 0, 0, 120000)
    graph.branches.delete(branch)


@pytest.mark.parametrize(
    "body",
    [
        "match { $i: Item } return { $i.sizes[0] }", "match { $i: Item } return { $i.name [1], $i.size }",
        "match { $i: Item  $i.sizes[0] = 0.1 } return { $i.name }", "match { $i: Item } return { count($i)[0] }",
        "match { $i: Item } return { $i.name } order { $i.sizes[0] }",
    ],
)  # fmt: skip
def test_nothing_is_taken_out_of_a_list(graph: Graph, body: str) -> None:
    with pytest.raises(ParseError, match="nothing is taken out of a list") as caught:
        graph.query(f"query q() {{ {body} }}")
    assert caught.value.span is not None


def test_lists_stand_where_they_did(graph: Graph) -> None:
    found = graph.query('query q() { match { $i: Item  $i.name in ["a", "b"] } return { $i.name, [1, 2] as few } }')
    assert found.to_pylist() == [{"i.name": "a", "few": [1, 2]}]


@pytest.mark.parametrize(
    "statement",
    [
        "delete Odd where false = false", "delete Odd where null is null",
        "update Odd set { on: true } where false = true",
        "update Odd set { on: false } where name = \"x\"", "delete Odd where name = \"x\" or false",
    ],
)  # fmt: skip
def test_a_word_with_two_meanings_is_refused(graph: Graph, statement: str) -> None:
    with pytest.raises(TypeCheckError, match="is a value and a property of Odd"):
        graph.mutate(f"query q() {{ {statement} }}")
    assert graph.rows("Odd").num_rows == 2


def test_words_with_one_meaning_are_values(graph: Graph) -> None:
    branch = graph.branches.create("words").name
    graph.mutate('query q() { insert Odd { name: "z", on: false, false: true } }', branch=branch)
    graph.mutate("query q() { delete Odd where on = true }", branch=branch)
    assert graph.query(
        "query q() { match { $o: Odd  $o.false = true } return { count($o) as n } }", branch=branch
    ).to_pylist() == [{"n": 2}]
    with pytest.raises(TypeCheckError, match="is a value and a column"):
        graph.query("query q() { match { $o: Odd } return { $o.name as false } order { false } }")
    graph.branches.delete(branch)
