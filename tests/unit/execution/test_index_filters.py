"""Filters and indexes: for every indexable type and operator the same answer as without, and no more reading than that.

Columns hold nulls, the ends of their domains, both zeros and neighbours of literals that their type cannot hold. Bytes
are those that Lance counts at the table.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import Settings

SIZES = (100_000, 400_000)
WORDS = ", ".join(f"also{n}" for n in range(60))
SCHEMA = f"""
node T {{
    key: String @key
    text: String? @index
    word: enum(common, {WORDS}, rare)? @index
    flag: Bool? @index
    i32: I32? @index
    i64: I64? @index
    u32: U32? @index
    u64: U64? @index
    f32: F32? @index
    f64: F64? @index
    day: Date? @index
    at: DateTime? @index
}}
"""


def rows(count: int) -> pa.Table:
    """Numbers 0 .. count in no order, every property derived from its row's number; the first few are special."""
    numbers = np.random.default_rng(7).permutation(count)
    step = {
        "key": [f"k{n:08d}" for n in numbers],
        "text": [f"t{n:08d}" for n in numbers],
        "word": ["rare" if n in (7, 70_007) else f"also{n % 60}" for n in numbers],
        "flag": numbers == 7,
        "i32": pa.array(numbers - 1000, pa.int32()),
        "i64": pa.array(numbers - 1000, pa.int64()),
        "u32": pa.array(numbers, pa.uint32()),
        "u64": pa.array(numbers.astype(np.uint64) + np.uint64(2**63)),
        "f32": pa.array((numbers - 1000) / 4, pa.float32()),
        "f64": pa.array((numbers - 1000) / 4, pa.float64()),
        "day": pa.array(numbers % 40_000, pa.int32()).cast(pa.date32()),
        "at": pa.array(numbers * 1000, pa.int64()).cast(pa.timestamp("ms", "UTC")),
    }
    return pa.table(step)


def edges_of_domains() -> list[dict[str, Any]]:
    """Rows with the least and greatest values, zeros, and nulls."""
    lows = {
        "text": "", "word": "rare", "flag": True, "i32": -(2**31), "i64": -(2**63), "u32": 0, "u64": 0,
        "f32": -3.4028234663852886e38, "f64": -1.7976931348623157e308, "day": "0001-01-01",
        "at": "0001-01-01T00:00:00Z",
    }  # fmt: skip
    highs = {
        "text": "\U0010ffff%_'", "word": "common", "flag": False, "i32": 2**31 - 1, "i64": 2**63 - 1,
        "u32": 2**32 - 1, "u64": 2**64 - 1, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308,
        "day": "9999-12-31", "at": "9999-12-31T23:59:59.999Z",
    }  # fmt: skip
    zeros = {"f32": -0.0, "f64": -0.0, "text": "t\U0010ffff"}
    tiny = {"f32": 1.401298464324817e-45, "f64": 5e-324}
    parts = [("low", lows), ("high", highs), ("none", {}), ("zero", zeros), ("tiny", tiny)]
    return [{"type": "T", "data": {"key": name, **values}} for name, values in parts]


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    found = {}
    for size in SIZES:
        graph = Graph.init(tmp_path_factory.mktemp("filters") / str(size), SCHEMA)
        graph.load({"T": rows(size)})
        graph.load(edges_of_domains())
        graph.maintenance.optimize()
        assert all(s.covered_rows == s.rows for s in graph.maintenance.index_status() if s.kind == "btree")
        found[size] = graph.uri
    return found


@cache
def without_indexes(uri: str) -> Graph:
    return Graph.open(uri, settings=Settings(query_expansion="csr"))


def ask(graph: Graph, condition: str, branch: str = "main") -> list[str]:
    text = f"query q() {{ match {{ $t: T  {condition} }} return {{ $t.key }} }}"
    return sorted(row["t.key"] for row in graph.query(text, branch=branch).to_pylist())


def bytes_read(uri: str, condition: str) -> tuple[int, list[str]]:
    graph = Graph.open(uri)
    table = open_table(graph.repository.store, graph.snapshot().table("node:T"))
    table.dataset.io_stats_incremental()
    found = ask(graph, condition)
    return int(table.dataset.io_stats_incremental().read_bytes), found


# One question for each operator, with an answer of at most a dozen rows, by property.
FEW: dict[str, dict[str, str]] = {
    "key": {
        "in": '$t.key in ["k00000003", "k00000004"]', "=": '$t.key = "k00000003"',
        "two-sided": '$t.key >= "k00000003" and $t.key < "k00000009"', "one-sided": '$t.key < "k00000004"',
        "starts_with": '$t.key starts_with "k0000001"',
    },
    "text": {
        "=": '$t.text = "t00000003"', "two-sided": '$t.text > "t00000003" and $t.text < "t00000009"',
        "one-sided": '$t.text < "t00000004"', "in": '$t.text in ["t00000003", "t00000009"]',
        "starts_with": '$t.text starts_with "t0000001"', "is null": "$t.text is null",
    },
    "word": {"=": '$t.word = "rare"', "in": '$t.word in ["rare"]', "one-sided": '$t.word > "common"',
             "starts_with": '$t.word starts_with "ra"', "is null": "$t.word is null"},
    "i32": {"=": "$t.i32 = 5", "two-sided": "$t.i32 >= 5 and $t.i32 < 9", "one-sided": "$t.i32 < -997",
            "in": "$t.i32 in [5, 6]", "is null": "$t.i32 is null"},
    "i64": {"=": "$t.i64 = 5", "two-sided": "5 <= $t.i64 and $t.i64 < 9", "one-sided": "$t.i64 <= -997",
            "in": "$t.i64 in [5, 6]", "is null": "$t.i64 is null"},
    "u32": {"=": "$t.u32 = 5", "two-sided": "$t.u32 > 5 and $t.u32 < 9", "one-sided": "$t.u32 < 5",
            "in": "$t.u32 in [5, 6]", "is null": "$t.u32 is null"},
    "u64": {"=": "$t.u64 = 9223372036854775813", "one-sided": "$t.u64 < 9223372036854775812",
            "two-sided": "$t.u64 > 9223372036854775812 and $t.u64 <= 9223372036854775815",
            "in": "$t.u64 in [9223372036854775813, 9223372036854775815]", "is null": "$t.u64 is null"},
    "f32": {"=": "$t.f32 = 0.25", "two-sided": "$t.f32 > 0.1 and $t.f32 < 1.1", "one-sided": "$t.f32 < -249.1",
            "in": "$t.f32 in [0.25, 0.5]", "is null": "$t.f32 is null"},
    "f64": {"=": "$t.f64 = 0.25", "two-sided": "$t.f64 > 0.1 and $t.f64 <= 1", "one-sided": "$t.f64 < -249.1",
            "in": "$t.f64 in [0.25, 0.5]", "is null": "$t.f64 is null"},
    "day": {"=": '$t.day = date("1970-01-09")', "one-sided": '$t.day < date("1970-01-02")',
            "two-sided": '$t.day >= date("1970-01-09") and $t.day < date("1970-01-10")',
            "in": '$t.day in [date("1970-01-09")]', "is null": "$t.day is null"},
    "at": {"=": '$t.at = datetime("1970-01-01T00:00:05Z")', "one-sided": '$t.at < datetime("1970-01-01T00:00:05Z")',
           "two-sided": '$t.at > datetime("1970-01-01T00:00:05Z") and $t.at < datetime("1970-01-01T00:00:09Z")',
           "in": '$t.at in [datetime("1970-01-01T00:00:05Z")]', "is null": "$t.at is null"},
}  # fmt: skip
CASES = [(name, operator, condition) for name, asked in FEW.items() for operator, condition in asked.items()]


@pytest.mark.parametrize(("name", "operator", "condition"), CASES, ids=[f"{n}-{o}" for n, o, _ in CASES])
def test_a_filter_reads_in_proportion_to_its_answer(
    uris: dict[int, str], name: str, operator: str, condition: str
) -> None:
    small, large = (bytes_read(uris[size], condition) for size in SIZES)
    expected = ask(without_indexes(uris[SIZES[1]]), condition)
    assert large[1] == expected
    assert 0 < len(expected) <= 24
    growth = len(expected) / max(1, len(small[1]))
    # Four times the rows, the same answer, the same bytes: pages differ a little in size, and fetching has its own.
    assert large[0] <= 1.5 * growth * small[0] + 30_000, (small[0], large[0])
    graph = without_indexes(uris[SIZES[1]])
    dataset = open_table(graph.repository.store, graph.snapshot().table("node:T")).dataset
    dataset.io_stats_incremental()
    dataset.scanner(columns=[name]).to_table()
    assert large[0] < dataset.io_stats_incremental().read_bytes / 2


def test_a_bool_column_is_read_while_it_is_smaller_than_a_few_requests(uris: dict[int, str]) -> None:
    size = SIZES[1]
    read, found = bytes_read(uris[size], "$t.flag = true")
    assert found == ["k00000007", "low"]
    assert read <= size // 8 + 50_000


BOUNDARIES = [
    "$t.f32 = 0.0", "$t.f32 = -0.0", "$t.f64 = 0.0", "$t.f64 < 0.0 and $t.f64 > -1.0", "$t.f64 >= 0.0 and $t.f64 < 0.5",
    "$t.f64 > 0.0 and $t.f64 < 0.5", "$t.f64 <= -0.0 and $t.f64 > -0.5", "$t.f32 in [0.0]", "$t.f64 in [-0.0, 0.25]",
    "$t.f32 = 0.1", "$t.f32 > 1e39", "$t.f32 < 1e39 and $t.f32 < -1e38", "$t.f32 >= 3.4028234663852886e38",
    "$t.f32 > -1e300 and $t.f32 < -1e38", "$t.f32 < 1e-46 and $t.f32 > -0.1", "$t.f32 != 0.1 and $t.f32 < -249",
    "$t.f64 >= 1.7976931348623157e308", "$t.f64 <= -1e308", "$t.f64 > 0 and $t.f64 < 1e-300",
    "$t.i32 = 5.0", "$t.i32 = 5.5", "$t.i32 > 5.5 and $t.i32 < 7.5", "$t.i32 < 3000000000 and $t.i32 < -1000",
    "$t.i32 > 1e30", "$t.i32 < 1e30 and $t.i32 < -998.5", "$t.i32 >= 2147483647", "$t.i32 > 2147483646.5",
    "$t.i32 <= -2147483648", "$t.i64 < -9223372036854775806", "$t.i64 >= 9223372036854775807", "$t.i64 > 1e30",
    "$t.i64 < -1e30", "$t.u32 < 0", "$t.u32 <= 0", "$t.u32 > 4294967294", "$t.u32 > -1 and $t.u32 < 2",
    "$t.u64 >= 18446744073709551615", "$t.u64 < 1", "$t.u64 > 1e30",
    "$t.u64 in [18446744073709551614, 18446744073709551615]",
    '$t.day <= date("0001-01-01")', '$t.day >= date("9999-12-31")', '$t.day < date("1969-12-31")',
    '$t.at <= datetime("0001-01-01T00:00:00Z")', '$t.at >= datetime("9999-12-31T23:59:59.999Z")',
    '$t.at > datetime("9999-12-31T23:59:59.998Z")', '$t.at < datetime("1969-12-31T23:59:59.999Z")',
    '$t.text = ""', '$t.text starts_with "" and $t.text < "t00000002"', '$t.text >= "u"',
    '$t.text starts_with "t\U0010ffff"',
    '$t.text starts_with "\U0010ffff%"', '$t.text starts_with "%"', '$t.text = "\U0010ffff%_\'"', "$t.flag = true",
    "$t.flag > false", '$t.flag = true and $t.word = "rare"', "$t.flag is null", '$t.i32 = 5 or $t.text = "t00000003"',
    "$t.i32 > -1000 and $t.f64 < -248.5 and $t.u32 < 4", "$t.i32 in []", '$t.key > "k00399998"',
    '$t.key starts_with "z"',
    "not ($t.i32 > -999)", "$t.i32 in [5, 3000000000]", "$t.f32 in [0.25, 1e300]",
]  # fmt: skip


@pytest.mark.parametrize("condition", BOUNDARIES)
def test_answers_do_not_depend_on_indexes(uris: dict[int, str], condition: str) -> None:
    uri = uris[SIZES[1]]
    assert ask(Graph.open(uri), condition) == ask(without_indexes(uri), condition)


PARAMETERS: list[tuple[str, str, Any]] = [
    ("F64", "$t.f32 > $v and $t.f32 < 0.5", 0.1), ("F64", "$t.f32 = $v", 0.1), ("F64", "$t.f32 <= $v", -1e300),
    ("I64", "$t.i32 = $v", 2**40), ("U64", "$t.i64 >= $v", 2**63), ("F64", "$t.u32 < $v", 2.5),
    ("F64", "$t.i64 <= $v", -float(2**63)), ("I64", "$t.f64 = $v", 2**53 + 1), ("I32", "$t.f32 <= $v", -249),
    ("DateTime", "$t.at < $v", "1970-01-01T00:00:02+00:00"), ("Date", "$t.day = $v", "1970-01-09"),
    ("[F64]", "$t.f32 in $v", [0.25, 0.1, math.pi]), ("[I64]", "$t.u64 in $v", [0, -1]),
    ("String", "$t.text > $v", "t\U0010ffff"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "condition", "value"), PARAMETERS)
def test_parameters_of_other_types_fold_to_the_column(
    uris: dict[int, str], kind: str, condition: str, value: Any
) -> None:
    uri = uris[SIZES[1]]
    text = f"query q($v: {kind}) {{ match {{ $t: T  {condition} }} return {{ $t.key }} order {{ $t.key }} }}"
    found = Graph.open(uri).query(text, params={"v": value}).to_pylist()
    assert found == without_indexes(uri).query(text, params={"v": value}).to_pylist()


def noted(graph: Graph, condition: str) -> tuple[str, ...]:
    text = f"query q() {{ match {{ $t: T  {condition} }} return {{ $t.key }} }}"
    return graph.explain(text, analyze=True).operators[0].notes


def test_a_range_that_takes_most_of_the_index_reads_the_column(uris: dict[int, str]) -> None:
    uri = uris[SIZES[1]]
    assert not any("by index" in note for note in noted(Graph.open(uri), "$t.i64 > 0"))
    assert not any("by index" in note for note in noted(Graph.open(uri), '$t.word > "also1"'))
    assert noted(Graph.open(uri), "$t.i64 < -997")[0].endswith("by index")


def test_the_narrowest_of_several_conditions_is_decided_by_index(uris: dict[int, str]) -> None:
    (note,) = noted(Graph.open(uris[SIZES[1]]), "$t.i64 > 0  $t.f64 < 1.0  $t.f64 > 0.5")
    assert note == "storage filter (`f64` < 1.0 AND `f64` > 0.5) by index"


def test_a_filter_asked_again_and_again_is_decided_in_memory(uris: dict[int, str]) -> None:
    graph = Graph.open(uris[SIZES[0]])
    seen = [noted(graph, f"$t.i64 = {n}") for n in range(12)]
    assert seen[0][0].endswith("by index")
    assert seen[-1] == ()


def test_rows_outside_the_index_are_found(uris: dict[int, str]) -> None:
    graph = Graph.open(uris[SIZES[0]])
    graph.branches.create("more")
    graph.load([{"type": "T", "data": {"key": "new", "i64": 5, "at": "1970-01-01T00:00:05Z"}}], branch="more")
    graph.mutate('query m() { delete T where key = "k00001006" }', branch="more")
    fresh = Graph.open(graph.uri)
    assert ask(fresh, "$t.i64 >= 5 and $t.i64 < 7", "more") == ["k00001005", "new"]
    assert ask(fresh, '$t.at = datetime("1970-01-01T00:00:05Z")', "more") == ["k00000005", "new"]


@pytest.mark.parametrize(
    ("statement", "affected"),
    [
        ("update T set { u32: 1 } where i64 = 5", 1),
        ('update T set { u32: 1 } where at < datetime("1970-01-01T00:00:05Z") and flag = false', 5),
        ('delete T where key >= "k00000010" and key < "k00000020"', 10),
        ("delete T where f32 > 0.1 and f32 < 0.6", 2),
        ("delete T where i32 > 1e30", 0),
        ("delete T where f64 = 0.0", 2),
    ],
)
def test_conditions_of_mutations_use_indexes_too(uris: dict[int, str], statement: str, affected: int) -> None:
    graph = Graph.open(uris[SIZES[1]])
    branch = f"m{abs(hash(statement))}"
    graph.branches.create(branch)
    table = open_table(graph.repository.store, graph.snapshot(branch).table("node:T"))
    table.dataset.io_stats_incremental()
    table.dataset.scanner(columns=["id"]).to_table()
    ids = table.dataset.io_stats_incremental().read_bytes
    assert graph.mutate(f"query m() {{ {statement} }}", branch=branch).affected_nodes == affected
    assert table.dataset.io_stats_incremental().read_bytes < ids / 4
