"""Loading rows: modes, ids, keys, endpoints. Every refusal leaves the graph as it was and the next load works."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import (
    DataError,
    DuplicateKey,
    InvalidArgument,
    InvalidValue,
    KeyConflict,
    MissingEndpoint,
    MissingValue,
    PreconditionFailed,
    TypeNotFound,
    UnknownField,
)
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.support.rows import company, knows, person, works_at

ALL_TYPES = """
node Thing {
  key: String @key
  s: String?  b: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  d: Date?  t: DateTime?  v: Vector(3)?  blob: Blob?  e: enum(red, green)?
  ls: [String]?  li: [I64]?  ld: [Date]?  n: I32 @default(7)
}
node Slot { tenant: String  slot: I32  @key(tenant, slot) }
node Free { note: String? }
edge Link: Thing -> Thing { weight: F64?  @key(src, dst) }
edge Ref: Free -> Thing
"""


@pytest.fixture
def things(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "things", ALL_TYPES)


def thing(**data: Any) -> dict[str, Any]:
    return {"type": "Thing", "data": data}


def test_append_merge_overwrite(graph: Graph) -> None:
    graph.load([person("a", 1), person("b", 2)])
    graph.load([person("b", 3), person("c", 4)], mode="merge")
    rows = {r["name"]: r["age"] for r in graph.rows("node:Person").to_pylist()}
    assert rows == {"a": 1, "b": 3, "c": 4}
    graph.load([person("b")], mode="merge")
    assert graph.entity_at("node:Person", "b") == {"id": "b", "name": "b", "age": None}, "the whole row is replaced"
    graph.load([person("z", 9)], mode="overwrite")
    assert graph.rows("node:Person").to_pylist() == [{"id": "z", "name": "z", "age": 9}]


def test_overwrite_touches_only_the_types_given(graph: Graph) -> None:
    graph.load([person("a"), company("c")])
    graph.load([company("d")], mode="overwrite")
    assert graph.rows("node:Person").num_rows == 1
    assert graph.rows("node:Company")["name"].to_pylist() == ["d"]


def test_overwriting_with_nothing_empties_the_type(graph: Graph) -> None:
    graph.load([company("c")])
    graph.load({"Company": []}, mode="overwrite")
    assert graph.snapshot().tables["node:Company"].row_count == 0
    graph.load([company("again")])
    assert graph.rows("node:Company")["name"].to_pylist() == ["again"]


def test_an_existing_id_is_a_key_conflict(graph: Graph) -> None:
    graph.load([person("a", 1)])
    with pytest.raises(KeyConflict) as caught:
        graph.load([person("new"), person("a", 2)])
    assert (caught.value.type_key, caught.value.entity_id) == ("node:Person", "a")
    assert graph.rows("node:Person").to_pylist() == [{"id": "a", "name": "a", "age": 1}]
    assert graph.load([person("b")]).commit is not None


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_one_key_twice_in_one_load_is_refused(graph: Graph, mode: str) -> None:
    with pytest.raises(DuplicateKey, match=r"row 2: @unique violation on Person.name: 'a' is also in row 1"):
        graph.load([person("a", 1), person("a", 2)], mode=mode)
    assert graph.snapshot().version == 1


def test_endpoints_come_from_the_load_or_the_graph(graph: Graph) -> None:
    graph.load([knows("a", "b"), person("a"), person("b")])
    graph.load([knows("b", "c"), person("c")])
    assert sorted(zip(*(graph.rows("edge:Knows")[c].to_pylist() for c in ("src", "dst")), strict=True)) == [
        ("a", "b"),
        ("b", "c"),
    ]


@pytest.mark.parametrize(
    ("edge", "text"),
    [(knows("a", "x"), "dst 'x' not found in Person"), (knows("x", "a"), "src 'x' not found in Person")],
)
def test_a_missing_endpoint_is_refused_with_its_row(graph: Graph, edge: dict[str, Any], text: str) -> None:
    graph.load([person("a")])
    with pytest.raises(MissingEndpoint, match=text) as caught:
        graph.load([person("clean sibling"), edge])
    assert caught.value.row == 2
    assert graph.rows("node:Person").num_rows == 1


def test_edges_to_a_node_that_an_overwrite_removes(graph: Graph) -> None:
    graph.load([person("a"), person("b"), knows("a", "b")])
    with pytest.raises(MissingEndpoint, match="still names a removed Person"):
        graph.load([person("a")], mode="overwrite")
    assert graph.rows("node:Person").num_rows == 2
    graph.load({"Person": [{"name": "a"}], "Knows": [{"from": "a", "to": "a"}]}, mode="overwrite")
    assert graph.rows("edge:Knows")["dst"].to_pylist() == ["a"]


def test_overwritten_nodes_are_the_only_ones_an_edge_may_name(graph: Graph) -> None:
    graph.load([person("old"), company("c")])
    with pytest.raises(MissingEndpoint, match="'old' not found"):
        graph.load([person("new"), works_at("old", "c"), company("c")], mode="overwrite")


def test_deleting_a_node_takes_its_edges_along(graph: Graph) -> None:
    graph.load([person("a"), person("b"), company("c"), knows("a", "b"), knows("b", "a"), works_at("b", "c")])
    result = graph.delete("Person", ["a", "nobody"])
    assert (result.affected_nodes, result.affected_edges) == (1, 2)
    assert graph.rows("edge:Knows").num_rows == 0
    assert graph.rows("edge:WorksAt").num_rows == 1
    before = graph.snapshot().version
    assert graph.delete("Person", ["nobody"]).commit is None
    assert graph.snapshot().version == before
    assert graph.load([person("a")]).commit is not None, "a freed key may be used again"


def test_every_type_round_trips(things: Graph) -> None:
    full = {
        "key": "k'1", "s": "text \u2028 ü", "b": True, "i32": -(2**31), "i64": 2**63 - 1, "u32": 2**32 - 1,
        "u64": 2**64 - 1, "f32": 0.5, "f64": -1.5e300, "d": "2024-02-29", "t": "2024-02-29T12:34:56.789Z",
        "v": [1, 2.5, -3],
        "blob": "base64:AAEC", "e": "green", "ls": ["a", ""], "li": [], "ld": ["2020-01-01"], "n": 1,
    }  # fmt: skip
    things.load([thing(**full), thing(key="empty")])
    rows = {r["id"]: r for r in things.rows("node:Thing").to_pylist()}
    stored = rows["k'1"]
    assert stored["t"] == dt.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=dt.UTC)
    assert (stored["d"], stored["ld"], stored["blob"]) == (dt.date(2024, 2, 29), [dt.date(2020, 1, 1)], b"\x00\x01\x02")
    for name in ("s", "b", "i32", "i64", "u32", "u64", "f32", "f64", "e", "ls", "li", "n", "v"):
        assert stored[name] == full[name], name
    assert rows["empty"]["n"] == 7
    assert {v for k, v in rows["empty"].items() if k not in ("id", "key", "n")} == {None}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"i32": 2**31}, "outside the I32 range"),
        ({"u32": -1}, "outside the U32 range"),
        ({"i64": 1.0}, "expects an integer"),
        ({"i32": True}, "expects an integer"),
        ({"f32": 1e39}, "outside the F32 range"),
        ({"f64": float("nan")}, "finite"),
        ({"b": 1}, "expects a Bool"),
        ({"s": 5}, "expects a String"),
        ({"d": "2024-02-30"}, "not an ISO date"),
        ({"d": 10**9}, "outside the Date range"),
        ({"t": "yesterday"}, "not an ISO date and time"),
        ({"v": [1, 2]}, "expects 3 dimensions, got 2"),
        ({"v": [1, 2, "x"]}, "elements must be numeric"),
        ({"v": [1, 2, float("inf")]}, "elements must be numeric"),
        ({"blob": "http://x"}, "base64"),
        ({"blob": "base64:???"}, "not valid base64"),
        ({"e": "blue"}, "invalid enum value 'blue'"),
        ({"ls": "a"}, "expects a list"),
        ({"ls": ["a", None]}, "cannot be null"),
        ({"li": ["a"]}, "expects an integer"),
        ({"s": "\ud800"}, "valid Unicode"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(things: Graph, data: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidValue, match=text) as caught:
        things.load([thing(key="ok"), thing(key="bad", **data)])
    assert caught.value.row == 2
    assert caught.value.field == next(iter(data))
    assert things.snapshot().version == 1
    assert things.load([thing(key="ok")]).commit is not None


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        ({"type": "Thing", "data": {}}, MissingValue, "Thing.key is required"),
        ({"type": "Thing", "data": {"key": None}}, MissingValue, "Thing.key is required"),
        ({"type": "Thing", "data": {"key": "a", "kee": 1}}, UnknownField, "kee"),
        ({"type": "Nope", "data": {}}, TypeNotFound, "Nope"),
        ({"type": "Thing", "edge": "Link"}, DataError, "exactly one"),
        ({"data": {}}, DataError, "exactly one"),
        ({"type": "Thing", "data": {"key": "a"}, "extra": 1}, UnknownField, "extra"),
        ({"type": "Thing", "data": []}, InvalidValue, "'data' must be an object"),
        ({"type": 5, "data": {}}, InvalidValue, "must be text"),
        ({"type": "Thing", "data": {"key": "a", "id": "b"}}, InvalidValue, "does not match @key"),
        ({"edge": "Link", "to": "a"}, MissingValue, "Link.from is required"),
        ({"edge": "Link", "from": 5, "to": "a"}, InvalidValue, "must be text"),
        ({"edge": "Link", "from": "a", "to": "a", "data": {"src": "a"}}, UnknownField, "outside 'data'"),
        (5, DataError, "not an object"),
    ],
)  # fmt: skip
def test_a_row_that_is_not_one_is_refused(things: Graph, row: Any, error: type[DataError], text: str) -> None:
    with pytest.raises(error, match=text):
        things.load([row])
    assert things.snapshot().version == 1


def test_ids(things: Graph) -> None:
    things.load(
        [
            {"type": "Slot", "data": {"tenant": "acme", "slot": 7}},
            {"type": "Free", "data": {"id": "mine", "note": "x"}},
            {"type": "Free", "data": {}},
            thing(key="a", id="a"),
            {"edge": "Link", "from": "a", "to": "a", "data": {"weight": 2}},
            {"edge": "Ref", "from": "mine", "to": "a", "data": {"id": "r1"}},
        ]
    )
    assert things.rows("node:Slot")["id"].to_pylist() == ['["7","acme"]']
    free = things.rows("node:Free")["id"].to_pylist()
    assert free[0] == "mine"
    assert len(free[1]) == 26
    assert things.rows("edge:Link")["id"].to_pylist() == ['["a","a"]']
    assert things.rows("edge:Ref")["id"].to_pylist() == ["r1"]


def test_a_keyed_edge_is_an_entity(things: Graph) -> None:
    link = {"edge": "Link", "from": "a", "to": "a", "data": {"weight": 1}}
    things.load([thing(key="a"), link])
    with pytest.raises(KeyConflict):
        things.load([link])
    things.load([{**link, "data": {"weight": 5}}], mode="merge")
    assert things.rows("edge:Link")["weight"].to_pylist() == [5.0]


def test_explicit_ids_of_unkeyed_types(things: Graph) -> None:
    free = {"type": "Free", "data": {"id": "x"}}
    with pytest.raises(KeyConflict):
        things.load([free, free])
    things.load([free])
    with pytest.raises(KeyConflict):
        things.load([free])
    ref = {"edge": "Ref", "from": "x", "to": "a", "data": {"id": "r"}}
    things.load([thing(key="a"), thing(key="b"), ref, {**ref, "to": "b"}], mode="merge")
    assert things.rows("edge:Ref")["dst"].to_pylist() == ["b"], "merging edges: the last row of an id wins"


def test_arrow_tables_and_lists_of_dicts(graph: Graph) -> None:
    graph.load(
        {
            "Person": pa.table({"name": ["a", "b"], "age": pa.array([1, None], pa.int64())}),
            "Knows": pa.table({"from": ["a"], "to": ["b"], "since": pa.array([dt.date(2020, 1, 1)])}),
            "Company": [{"name": "c"}],
        }
    )
    assert graph.rows("node:Person").to_pylist() == [
        {"id": "a", "name": "a", "age": 1},
        {"id": "b", "name": "b", "age": None},
    ]
    assert graph.rows("edge:Knows")["since"].to_pylist() == [dt.date(2020, 1, 1)]


@pytest.mark.parametrize(
    ("frame", "error", "text"),
    [
        (pa.table({"name": ["a"], "age": [1.5]}), InvalidValue, "expects I32"),
        (pa.table({"name": ["a"], "age": [2**40]}), InvalidValue, "row 1: Person.age .* outside the I32 range"),
        (pa.table({"name": pa.array([None], pa.string())}), MissingValue, "row 1: Person.name is required"),
        (pa.table({"age": [1]}), MissingValue, "Person.name is required"),
        (pa.table({"name": [1]}), InvalidValue, "expects String"),
        (pa.table({"name": ["a"], "nam": ["a"]}), UnknownField, "nam"),
        ("people.csv", InvalidArgument, "people.csv cannot be read"),
    ],
)  # fmt: skip
def test_bad_frames(graph: Graph, frame: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        graph.load({"Person": frame})
    assert graph.snapshot().version == 1


def test_bad_calls(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="mode 'upsert' is unknown"):
        graph.load([], mode="upsert")
    with pytest.raises(InvalidArgument, match="cannot load int"):
        graph.load(5)
    assert graph.load([]).commit is None
    assert graph.load({"Person": []}).commit is None
    assert graph.snapshot().version == 1


def test_expect_head(graph: Graph) -> None:
    head = graph.commits.head().graph_commit_id
    graph.load([person("a")], expect_head=head)
    with pytest.raises(PreconditionFailed) as caught:
        graph.load([person("b")], expect_head=head)
    assert caught.value.expected == head
    assert caught.value.actual == graph.commits.head().graph_commit_id
    assert graph.rows("node:Person").num_rows == 1


def test_an_expected_head_that_moves_while_rows_are_staged_is_lost(graph: Graph) -> None:
    head = graph.commits.head().graph_commit_id

    def load_beside() -> None:
        failpoints.arm(None)
        graph.load([company("beside")])

    failpoints.arm({Point.TABLE_STAGED: load_beside})
    with pytest.raises(PreconditionFailed) as caught:
        graph.load([person("late")], expect_head=head)
    assert (caught.value.expected, caught.value.actual) == (head, graph.commits.head().graph_commit_id)
    assert graph.rows("node:Person").num_rows == 0


def test_an_iterator_is_loaded_once(graph: Graph) -> None:
    assert graph.load(person(f"p{i}") for i in range(3)).total_entities == 3


def test_many_one_row_writes_stay_findable(local_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the folding threshold keys are still unique, rows complete, and few fragments are uncovered."""
    total = 150
    for i in range(total):
        local_graph.load([person(f"p{i}", i), knows(f"p{i}", "p0")])
    local_graph.repository.store.wait_for_background_work()
    for i in (0, 63, 64, 65, 66, 100, total - 1):
        with pytest.raises(KeyConflict):
            local_graph.load([person(f"p{i}")])
    assert sorted(local_graph.rows("node:Person")["age"].to_pylist()) == list(range(total))
    entry = local_graph.snapshot().tables["node:Person"]
    table = local_graph.repository.store.tables.open(entry.location, entry.staged_version)
    assert len(table.uncovered_fragments) <= 64
    kinds = [c.kind for c in local_graph.commits.list()]
    assert kinds.count("optimize") >= 2
    assert local_graph.delete("Person", ["p5"]).affected_edges == 1
    assert local_graph.load([person("p5")]).commit is not None


def test_rejected_rows_of_one_table_leave_the_others_whole(graph: Graph) -> None:
    """Rows of tables in memory have no file: their numbers are told apart by their types."""
    people = pa.table({"name": ["a", "b", "c"]})
    edges = pa.table({"from": ["nobody", "a", "a"], "to": ["a", "b", "nobody"]})
    result = graph.load({"Person": people, "Company": people, "Knows": edges}, max_errors=5)
    assert (dict(result.nodes), dict(result.edges)) == ({"Company": 3, "Person": 3}, {"Knows": 1})
    assert sorted(each.row or 0 for each in result.rejected) == [1, 3]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_some_files_bring_ids_and_some_do_not(graph: Graph, tmp_path: Path, mode: str) -> None:
    graph.load([person("a"), person("b")])
    (tmp_path / "with.csv").write_text("id,from,to\ne1,a,b\n")
    (tmp_path / "without.csv").write_text("from,to\nb,a\na,a\n")
    graph.load({"Knows": [str(tmp_path / "with.csv"), str(tmp_path / "without.csv")]}, mode=mode)
    rows = graph.rows("edge:Knows").to_pylist()
    assert sorted((row["src"], row["dst"]) for row in rows) == [("a", "a"), ("a", "b"), ("b", "a")]
    assert "e1" in {row["id"] for row in rows}


@pytest.mark.parametrize("name", ["Person.jsonl", "Person.csv"])
def test_an_overwrite_with_an_empty_file_empties_its_type(graph: Graph, tmp_path: Path, name: str) -> None:
    graph.load([person("a")])
    (tmp_path / name).write_text("")
    result = graph.load({"Person": str(tmp_path / name)}, mode="overwrite")
    assert dict(result.nodes) == {"Person": 0}
    assert graph.snapshot().table("node:Person").row_count == 0


def test_the_first_complaint_is_about_the_first_row(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"type": "Person", "data": {"name": null}}\n{"type": "Nobody", "data": {}}\n')
    with pytest.raises(MissingValue, match=r"rows\.jsonl:1: Person\.name is required \(and 1 more\)"):
        graph.load(str(path))
