"""Loads whose rules between rows are screened by tasks: the same graph, errors and rejected rows as in one process."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import CardinalityViolation, DataError, DuplicateKey, KeyConflict, MissingEndpoint
from omnigraph.pipeline import load_commit, screening_driver
from omnigraph.pipeline.buckets import BUCKETS, Stream, cut, read_pieces
from omnigraph.pipeline.screening import MAX_SUSPECTS, Screened
from omnigraph.pipeline.staging import compact_places
from omnigraph.storage.hashes import text_hashes
from omnigraph.storage.layout import STAGING
from omnigraph.write.validation import Places

SCHEMA = """
node Person { name: String @key  email: String? @unique  first: String?  last: String?  @unique(first, last) }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
edge Owns: Person -> City { price: I32?  @key(src, dst) }
"""
PEOPLE = pa.table(
    {
        "name": [f"p{i}" for i in range(60)],
        "email": [f"p{i}@x.org" if i % 3 else None for i in range(60)],
        "first": [f"f{i}" for i in range(60)],
        "last": ["l"] * 60,
    }
)
CITIES = pa.table({"name": ["Rome", "Oslo"]})
KNOWS = pa.table({"from": [f"p{i}" for i in range(59)], "to": [f"p{i + 1}" for i in range(59)]})
LIVES = pa.table({"from": ["p1", "p2"], "to": ["Rome", "Oslo"]})
Files = dict[str, str]


@pytest.fixture(autouse=True)
def always_screened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load counts as large, and has many buckets."""
    monkeypatch.setattr(screening_driver, "SCREENED_ROWS", 1)
    monkeypatch.setattr(screening_driver, "_ROWS_PER_TASK", 16)
    monkeypatch.setattr(screening_driver, "CUT_ROWS", 5)  # some tasks cut what they stage, others leave it


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "graph", SCHEMA)


@pytest.fixture
def twin(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "twin", SCHEMA)


def files(directory: Path, rows: int = 7, **tables: pa.Table) -> Files:
    """Each table as a file of small row groups."""
    for name, table in tables.items():
        pq.write_table(table, directory / f"{name}.parquet", row_group_size=rows)
    return {name: str(directory / f"{name}.parquet") for name in tables}


def split(given: Files) -> tuple[Files, Files]:
    nodes = {name: path for name, path in given.items() if name in ("Person", "City")}
    return nodes, {name: path for name, path in given.items() if name not in nodes}


def content(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    """Rows by table, without the ids of edges that are minted."""
    found = {}
    for key in graph.snapshot().tables:
        rows = graph.rows(key).to_pylist()
        if key in ("edge:Knows", "edge:LivesIn"):
            rows = [{k: v for k, v in row.items() if k != "id"} for row in rows]
        found[key] = sorted(rows, key=repr)
    return found


def test_a_screened_load_is_the_same_graph(spark: Any, graph: Graph, twin: Graph, tmp_path: Path) -> None:
    given = files(tmp_path, Person=PEOPLE, City=CITIES, Knows=KNOWS, LivesIn=LIVES)
    result = pipeline.load(spark, graph, *split(given))
    twin.load(given)
    assert result.total_entities == 60 + 2 + 59 + 2
    assert content(graph) == content(twin)
    assert graph.repository.store.objects.list(f"{STAGING}/") == []
    more = files(tmp_path, Knows=pa.table({"from": ["p1", "p59"], "to": ["p0", "p0"]}))
    assert pipeline.load(spark, graph, {}, more).edges == {"Knows": 2}


def _wrong(**columns: Any) -> pa.Table:
    return pa.table(columns)


BAD = {
    "duplicate key": ({"Person": _wrong(name=["a", "b", "a"])}, DuplicateKey),
    "duplicate value": ({"Person": _wrong(name=["a", "b"], email=["e", "e"])}, DuplicateKey),
    "duplicate pair": ({"Person": _wrong(name=["a", "b"], first=["x", "x"], last=["y", "y"])}, DuplicateKey),
    "taken key": ({"Person": _wrong(name=["new", "p1"])}, KeyConflict),
    "taken value": ({"Person": _wrong(name=["q"], email=["p1@x.org"])}, DuplicateKey),
    "source": ({"Knows": _wrong(**{"from": ["p1", "nobody"], "to": ["p1", "p2"]})}, MissingEndpoint),
    "target": ({"Knows": _wrong(**{"from": ["p1", "p3"], "to": ["nobody", "p2"]})}, MissingEndpoint),
    "counted source": ({"LivesIn": _wrong(**{"from": ["nobody"], "to": ["Rome"]})}, MissingEndpoint),
    "too many": ({"LivesIn": _wrong(**{"from": ["p5", "p5"], "to": ["Rome", "Oslo"]})}, CardinalityViolation),
    "too many with those there": ({"LivesIn": _wrong(**{"from": ["p1"], "to": ["Rome"]})}, CardinalityViolation),
    "everything": (
        {
            "Person": _wrong(name=["a", "p1", "a"], email=["e", "f", "e"]),
            "LivesIn": _wrong(**{"from": ["p1", "a", "x"], "to": ["Rome", "Rome", "Paris"]}),
        },
        DataError,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_one_process_refuses_a_screened_load_refuses(
    spark: Any, graph: Graph, twin: Graph, tmp_path: Path, name: str
) -> None:
    tables, _ = BAD[name]
    given = files(tmp_path, Person=PEOPLE, City=CITIES, Knows=KNOWS, LivesIn=LIVES)
    for each in (graph, twin):
        each.load(given)
    wrong = files(tmp_path, rows=1, **tables)
    before = content(graph)
    with pytest.raises(Exception) as there:  # noqa: PT011
        twin.load(wrong)
    with pytest.raises(BAD[name][1] if BAD[name][1] is not DataError else type(there.value)) as here:
        pipeline.load(spark, graph, *split(wrong))
    assert str(here.value) == str(there.value)
    found, expected = ([v.text for v in e.value.violations] for e in (here, there))
    assert found == expected
    assert content(graph) == before
    assert graph.recovery.list() == []


def test_rejected_rows_are_the_same(spark: Any, graph: Graph, twin: Graph, tmp_path: Path) -> None:
    people = pa.table({"name": ["a", "b", "a", "c", "d"], "email": ["e", None, "f", "e", None]})
    knows = pa.table({"from": ["a", "c", "b", "d"], "to": ["b", "b", "nobody", "a"]})
    given = files(tmp_path, rows=1, Person=people, Knows=knows)
    here = pipeline.load(spark, graph, *split(given), max_errors=10)
    there = twin.load(given, max_errors=10)
    assert content(graph) == content(twin)
    assert {(v.rule, v.path, v.row) for v in here.rejected} == {(v.rule, v.path, v.row) for v in there.rejected}
    assert len(here.rejected) == 4


def test_upserts_replace_what_is_there(spark: Any, graph: Graph, twin: Graph, tmp_path: Path) -> None:
    """A value that moves from one entity to another in the same load is nobody else's."""
    given = files(tmp_path, Person=PEOPLE, City=CITIES)
    changed = pa.table(
        {
            "name": ["p1", "p2", "new"],
            "email": ["p2@x.org", "p1@x.org", "n@x.org"],
            "first": ["f1", "f2", "fn"],
            "last": ["l"] * 3,
        }
    )
    newer = pa.table({"from": ["p1", "new"], "to": ["Rome", "Oslo"], "price": pa.array([1, 2], pa.int32())})
    for load in (
        lambda rows, mode: pipeline.load(spark, graph, *split(rows), mode=mode),
        lambda rows, mode: twin.load(rows, mode=mode),
    ):
        load(given, "append")
        load(files(tmp_path, rows=1, Person=changed, Owns=newer), "merge")
        load(files(tmp_path, rows=1, Owns=newer.set_column(2, "price", pa.array([3, 4], pa.int32()))), "merge")
        given = files(tmp_path, Person=PEOPLE, City=CITIES)
    assert content(graph) == content(twin)
    assert graph.snapshot().table("node:Person").row_count == 61
    taken = files(tmp_path, rows=1, Person=pa.table({"name": ["p3", "p4"], "email": ["p4@x.org", "p5@x.org"]}))
    errors = []
    for attempt in (lambda: pipeline.load(spark, graph, taken, mode="merge"), lambda: twin.load(taken, mode="merge")):
        with pytest.raises(DuplicateKey) as error:
            attempt()
        errors.append(error.value.message)
    assert errors[0] == errors[1]


def test_replaced_rows_stay_with_the_tasks(
    spark: Any, graph: Graph, twin: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole fragments, parts of them, and fragments that have lost rows before; an optimize comes in between."""
    rival = Graph.open(graph.uri)
    for half in (PEOPLE.slice(0, 20), PEOPLE.slice(20)):
        for each in (graph, twin):
            each.load({"Person": half})
    for each in (graph, twin):
        each.delete("Person", ["p3", "p30", "p31"])
    start = {each.uri: each.commits.head().graph_commit_id for each in (graph, twin)}
    rounds = between_check_and_publish(monkeypatch, lambda: None, lambda: rival.maintenance.optimize())
    for number, wanted in enumerate((range(25), range(10, 60, 3), [3, 59])):
        some = PEOPLE.take(pa.array(list(wanted)))
        some = some.set_column(3, "last", pa.array([f"m{number}"] * len(some)))
        pipeline.load(spark, graph, files(tmp_path, Person=some), mode="merge")
        twin.load(files(tmp_path, Person=some), mode="merge")
        assert content(graph) == content(twin)
        changes = {each.uri: each.snapshot().table("node:Person").changes for each in (graph, twin)}
        assert "deleted_ids" not in changes[graph.uri], "the driver has no list of them"
        assert changes[twin.uri]["deleted_ids"]
    assert len(rounds) == 4, "the second load was judged again after the optimize"
    told = [[c.as_dict() for c in each.diff(start[each.uri], "main")] for each in (graph, twin)]
    assert told[0] == told[1]
    assert len(told[0]) == 38
    graph.load([{"type": "Person", "data": {"name": "p12", "first": "x", "last": "y"}}], mode="merge")
    assert graph.rows("node:Person").num_rows == twin.rows("node:Person").num_rows
    assert graph.maintenance.fsck(deep=True).is_clean


def between_check_and_publish(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], Any]) -> list[int]:
    """Do something after each check of the rules between rows and before the publish; how often they were checked."""
    judged = load_commit.LoadCommit._questions
    rounds: list[int] = []

    def meddle(self: Any, gathered: Any) -> Any:
        found = judged(self, gathered)
        if len(rounds) < len(acts):
            acts[len(rounds)]()
        rounds.append(1)
        return found

    monkeypatch.setattr(load_commit.LoadCommit, "_questions", meddle)
    return rounds


def test_overwriting_needs_all_rows_only_where_nodes_go(spark: Any, graph: Graph, twin: Graph, tmp_path: Path) -> None:
    given = files(tmp_path, Person=PEOPLE, City=CITIES, Knows=KNOWS)
    pipeline.load(spark, graph, *split(given), mode="overwrite")
    twin.load(given, mode="overwrite")
    assert content(graph) == content(twin)
    fewer = files(tmp_path, Person=PEOPLE.slice(0, 30))
    for attempt in (
        lambda: pipeline.load(spark, graph, fewer, mode="overwrite"),
        lambda: twin.load(fewer, mode="overwrite"),
    ):
        with pytest.raises(MissingEndpoint, match="still names a removed Person"):
            attempt()
    knows = files(tmp_path, Knows=KNOWS.slice(0, 5))
    pipeline.load(spark, graph, {}, knows, mode="overwrite")
    assert graph.snapshot().table("edge:Knows").row_count == 5


def test_a_screened_load_is_judged_again_when_the_branch_moved(
    spark: Any, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival takes one of the keys after the screening and before the publish."""
    rival = Graph.open(graph.uri)
    takes = [lambda n=n: rival.load([{"type": "Person", "data": {"name": n}}]) for n in ("rival", "p7")]
    rounds = between_check_and_publish(monkeypatch, *takes)
    with pytest.raises(KeyConflict, match="'p7'"):
        pipeline.load(spark, graph, files(tmp_path, Person=PEOPLE))
    assert len(rounds) == 3
    assert graph.snapshot().table("node:Person").row_count == 2
    assert graph.recovery.list() == []


def test_texts_meet_in_their_bucket_however_they_are_held(graph: Graph) -> None:
    texts = ["", "a", "abcdefgh", "abcdefghi", "x" * 100, "é" * 9, *(f"key-{i}" for i in range(5000))]
    plain = pa.chunked_array([pa.array(texts)])
    parts = pa.chunked_array([pa.array(["?", *texts[:7]]).slice(1), pa.array(texts[7:])])
    large = pa.chunked_array([pa.array(texts, pa.large_string())])
    assert (text_hashes(plain) == text_hashes(parts)).all()
    assert (text_hashes(plain) == text_hashes(large)).all()
    assert len(np.unique(text_hashes(plain))) == len(texts)
    stream, objects = Stream("id", "node:Person"), graph.repository.store.objects
    file = cut("__staging/test", {stream: pa.table({"value": plain})}, objects)
    ends = [BUCKETS * number // 8 for number in range(9)]
    found = [file.piece(stream, begin, end) for begin, end in itertools.pairwise(ends)]
    held = [[piece] if piece else [] for piece in found]
    read = [read_pieces(pieces, pa.schema({"value": pa.string()}), objects)["value"].to_pylist() for pieces in held]
    assert sorted(text for bucket in read for text in bucket) == sorted(texts)
    assert max(map(len, read)) < 2 * len(texts) / 8


@pytest.mark.parametrize("count", [0, 1, 2, 300, 5000])
def test_pieces_of_any_kind_and_size_find_room(graph: Graph, count: int) -> None:
    texts = pa.array([f"v{i}" * (i % 7) for i in range(count)], pa.string())
    some = pa.array([None if i % 3 else "x" * (i % 40) for i in range(count)], pa.string())
    flat = pa.table({"value": texts, "id": some, "count": pa.array(range(count), pa.int32())})
    halves = pa.concat_tables([flat.slice(0, count // 2), flat.slice(count // 2)])
    nested = pa.table({"value": texts, "list": pa.array([[i, i] for i in range(count)], pa.list_(pa.int64()))})
    streams = {Stream(name, "t"): table for name, table in {"a": flat, "b": halves, "c": nested}.items()}
    objects = graph.repository.store.objects
    for number, chosen in enumerate([streams, {s: t for s, t in streams.items() if s.what != "c"}]):
        file = cut(f"__staging/test-{count}-{number}", chosen, objects)
        for stream, table in chosen.items():
            piece = file.piece(stream, 0, BUCKETS)
            found = read_pieces([piece] if piece else [], table.schema, objects)
            assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, table.to_pylist()))


def test_places_take_little_room() -> None:
    """Rows that follow each other are one range, whatever the batches they came in; others keep their own numbers."""
    parts = (("a", range(1, 5)), ("a", [5, 6]), ("a", [9, 12]), ("b", [13]), (None, []), ("b", [14, 15]))
    found = compact_places(Places(parts))
    assert list(found) == list(Places(parts))
    assert [found.at(i) for i in range(12)] == [Places(parts).at(i) for i in range(12)]
    assert [len(numbers) for _, numbers in found.parts] == [6, 2, 3]
    assert pickle.loads(pickle.dumps(found)) == found


def test_too_many_suspects_are_not_listed() -> None:
    found, few = Screened(), Screened()
    found.suspect(Stream("id", "node:Person"), pa.array([f"p{i}" for i in range(MAX_SUSPECTS + 1)]))
    few.suspect(Stream("id", "node:Person"), pa.array(["p"]))
    assert (found.crowded, few.crowded) == (True, False)
    few.add(found)
    assert few.crowded
