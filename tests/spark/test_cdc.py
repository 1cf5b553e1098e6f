"""Change data capture: the last event of a row counts, deletes remove, late ones change nothing, all in one commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import DataError, InvalidArgument, JobError, MissingEndpoint, OmnigraphError
from omnigraph.pipeline.job import parse_job
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  version: I64? }
node Place { code: I64 @key  note: String  seen: DateTime? }
edge Knows: Person -> Person
edge Likes: Person -> Person { slot: I32  weight: I32?  version: I64? @key(src, dst, slot) }
"""
COLUMNS = "columns: {name: name, age: age, city: city, version: seq}"
CDC = "cdc: {op: op, delete: [D], sequence: seq}"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def run(spark: Any, graph: Graph, folder: Path, nodes: str, more: str = "", edges: str = "") -> Any:
    text = f"mode: merge\n{more}\n" + (f"nodes: {nodes}\n" if nodes else "") + (f"edges: {edges}\n" if edges else "")
    return pipeline.run(spark, parse_job(text, folder / "job.yaml"), graph)


def events(folder: Path, text: str, name: str = "p.csv") -> None:
    (folder / name).write_text("op,seq,name,age,city\n" + text)


def people(graph: Graph) -> dict[str, tuple[Any, ...]]:
    rows = graph.rows("node:Person").to_pylist()
    return {row["name"]: (row["age"], row["city"], row["version"]) for row in rows}


def test_the_highest_sequence_of_a_key_counts_and_all_is_one_commit(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": n, "age": 0} for n in ("gone", "kept", "changed")]})
    graph.load(
        {"Knows": [{"from": "gone", "to": "kept"}, {"from": "kept", "to": "gone"}, {"from": "kept", "to": "kept"}]}
    )
    before = len(graph.commits.list())
    events(
        tmp_path,
        "U,10,changed,2,Oslo\nU,9,changed,1,Rome\nI,3,new,5,\nD,7,gone,,\nU,6,gone,8,Bonn\nI,1,brief,1,\nD,2,brief,,\n"
        "D,4,never,,\nD,11,back,,\nI,12,back,3,Bern\n",
    )
    result = run(spark, graph, tmp_path, f"{{Person: {{path: p.csv, {COLUMNS}, {CDC}}}}}")
    assert people(graph) == {
        "kept": (0, None, None), "changed": (2, "Oslo", 10), "new": (5, None, 3), "back": (3, "Bern", 12)
    }  # fmt: skip
    assert len(graph.commits.list()) == before + 1
    assert (result.nodes, result.deleted, result.late) == ({"Person": 3}, {"Person": 1, "Knows": 2}, {})
    assert [(e["src"], e["dst"]) for e in graph.rows("edge:Knows").to_pylist()] == [("kept", "kept")]
    assert graph.maintenance.fsck().problems == ()


def test_a_late_event_changes_nothing_where_the_sequence_is_kept(spark: Any, tmp_path: Path, graph: Graph) -> None:
    source = f"{{Person: {{path: p.csv, {COLUMNS}, {CDC}}}}}"
    events(tmp_path, "I,5,a,5,\nI,5,b,5,\nI,5,c,5,\n")
    run(spark, graph, tmp_path, source)
    events(tmp_path, "U,4,a,4,\nD,4,b,,\nU,5,c,6,\nU,4,c,4,\n")
    result = run(spark, graph, tmp_path, source)
    assert people(graph) == {"a": (5, None, 5), "b": (5, None, 5), "c": (6, None, 5)}
    assert (result.late, result.deleted, result.nodes) == ({"Person": 2}, {}, {"Person": 1})


def test_without_a_property_for_it_the_sequence_orders_one_load_only(spark: Any, tmp_path: Path, graph: Graph) -> None:
    source = f"{{Person: {{path: p.csv, columns: {{name: name, age: age}}, {CDC}}}}}"
    events(tmp_path, "I,5,a,5,\n")
    run(spark, graph, tmp_path, source)
    events(tmp_path, "U,4,a,4,\nU,3,a,3,\n")
    run(spark, graph, tmp_path, source)
    assert people(graph) == {"a": (4, None, None)}


def test_equal_sequences_are_taken_in_the_order_of_the_input(spark: Any, tmp_path: Path, graph: Graph) -> None:
    events(tmp_path, "I,1,a,1,\nU,1,a,2,\nU,1,b,2,\n", "p1.csv")
    events(tmp_path, "U,1,a,3,\nD,1,b,,\n", "p2.csv")
    run(spark, graph, tmp_path, f"{{Person: {{path: [p1.csv, p2.csv], {COLUMNS}, {CDC}}}}}")
    assert people(graph) == {"a": (3, None, 1)}


def test_a_partial_update_keeps_columns_that_the_source_lacks(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": n, "age": 1, "city": "Oslo", "version": 5} for n in ("a", "b", "c", "d")]})
    (tmp_path / "p.csv").write_text("op,seq,name,age\nU,6,a,7\nD,6,b,\nI,7,b,8\nD,4,c,\nU,6,c,9\nU,6,new,1\nU,8,d,\n")
    whole = "columns: {name: name, age: age, version: seq}"
    cdc = "cdc: {op: op, delete: [D], sequence: seq, partial: true}"
    run(spark, graph, tmp_path, f"{{Person: {{path: p.csv, {whole}, {cdc}}}}}")
    assert people(graph) == {
        "a": (7, "Oslo", 6), "b": (8, None, 7), "c": (9, "Oslo", 6), "d": (None, "Oslo", 8), "new": (1, None, 6)
    }  # fmt: skip


def test_a_partial_update_need_not_give_what_is_required(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Place": [{"code": 1, "note": "here"}]})
    (tmp_path / "p.csv").write_text("op,code,seen\nU,01,2024-01-02T00:00:00Z\n")
    source = (
        "{{Place: {{path: p.csv, columns: {{code: code, seen: seen}}, cdc: {{op: op, sequence: seen, partial: {}}}}}}}"
    )
    with pytest.raises(DataError, match="note is required"):
        run(spark, graph, tmp_path, source.format("false"))
    run(spark, graph, tmp_path, source.format("true"))
    [row] = graph.rows("node:Place").to_pylist()
    assert (row["code"], row["note"], row["seen"].isoformat()) == (1, "here", "2024-01-02T00:00:00+00:00")
    (tmp_path / "p.csv").write_text("op,code,seen\nU,2,2024-01-02T00:00:00Z\n")
    with pytest.raises(DataError, match="note is required"):
        run(spark, graph, tmp_path, source.format("true"))


def test_keys_that_are_written_differently_are_one_row(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("op,seq,code,note\nU,1,7,one\nU,3,007,three\nU,2,07,two\n")
    run(spark, graph, tmp_path, "{Place: {path: p.csv, columns: {code: code, note: note}, " + CDC + "}}")
    assert [(r["code"], r["note"]) for r in graph.rows("node:Place").to_pylist()] == [(7, "three")]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_envelope_of_debezium(spark: Any, tmp_path: Path, graph: Graph, kind: str) -> None:
    graph.load({"Person": [{"name": "old", "age": 1}, {"name": "gone", "age": 1}]})
    rows = [
        {"before": None, "after": {"name": "new", "age": 1}, "source": {"lsn": 1, "db": "x"}, "op": "c", "ts_ms": 9},
        {"before": {"name": "new", "age": 1}, "after": {"name": "new", "age": 2}, "source": {"lsn": 3, "db": "x"},
         "op": "u", "ts_ms": 9},
        {"before": None, "after": {"name": "old", "age": 5}, "source": {"lsn": 2, "db": "x"}, "op": "r", "ts_ms": 9},
        {"before": {"name": "gone", "age": 1}, "after": None, "source": {"lsn": 4, "db": "x"}, "op": "d", "ts_ms": 9},
    ]  # fmt: skip
    tombstone = dict.fromkeys(("before", "after", "source", "op", "ts_ms"))
    if kind == "jsonl":
        (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, tombstone]))
    else:
        pq.write_table(pa.Table.from_pylist([*rows, tombstone]), tmp_path / "p.parquet")
    run(spark, graph, tmp_path, f"{{Person: {{path: p.{kind}, cdc: {{preset: debezium, sequence: source.lsn}}}}}}")
    assert people(graph) == {"new": (2, None, None), "old": (5, None, None)}


def test_flattened_events_of_debezium(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": "gone"}]})
    (tmp_path / "p.csv").write_text("__op,__ts_ms,__deleted,name,age\nc,1,false,a,1\nu,2,false,a,2\nd,3,true,gone,\n")
    run(spark, graph, tmp_path, "{Person: {path: p.csv, cdc: debezium}}")
    assert people(graph) == {"a": (2, None, None)}


def test_a_change_feed_of_delta_as_a_dataframe(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": "gone"}, {"name": "a", "age": 1}]})
    rows = [
        ("a", 1, "update_preimage", 2),
        ("a", 2, "update_postimage", 2),
        ("b", 1, "insert", 2),
        ("gone", 0, "delete", 3),
    ]
    frame = spark.createDataFrame(rows, "name string, age int, _change_type string, _commit_version long")
    feed = pipeline.Changes(frame, pipeline.Cdc(preset="delta"))
    result = pipeline.load(spark, graph, {"Person": feed}, mode="merge")
    assert people(graph) == {"a": (2, None, None), "b": (1, None, None)}
    assert result.deleted == {"Person": 1}


def test_events_of_edges(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": n} for n in ("a", "b")], "Likes": [
        {"from": "a", "to": "b", "slot": n, "weight": n} for n in (1, 2)]})  # fmt: skip
    (tmp_path / "e.csv").write_text("op,seq,from,to,slot,weight\nD,1,a,b,1,\nU,2,a,b,2,9\nI,3,b,a,1,4\n")
    result = run(spark, graph, tmp_path, "", edges="{Likes: {path: e.csv, " + CDC + "}}")
    found = {(e["src"], e["dst"], e["slot"], e["weight"]) for e in graph.rows("edge:Likes").to_pylist()}
    assert found == {("a", "b", 2, 9), ("b", "a", 1, 4)}
    assert (result.edges, result.deleted) == ({"Likes": 2}, {"Likes": 1})


def test_an_edge_of_the_load_at_a_node_that_it_deletes_is_refused(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": "a"}, {"name": "b"}]})
    events(tmp_path, "D,1,b,,\n")
    (tmp_path / "e.csv").write_text("from,to\na,b\n")
    with pytest.raises(MissingEndpoint):
        run(spark, graph, tmp_path, f"{{Person: {{path: p.csv, {COLUMNS}, {CDC}}}}}", edges="{Knows: e.csv}")
    assert sorted(people(graph)) == ["a", "b"]


def test_events_that_say_too_little_are_reported_with_their_rows(spark: Any, tmp_path: Path, graph: Graph) -> None:
    events(tmp_path, "I,1,a,1,\nX,1,b,1,\n,1,c,1,\nI,soon,d,1,\nI,,e,1,\nD,1,,,\nI,1,,1,\nI,1,f,old,\n")
    cdc = "cdc: {op: op, delete: [D], upsert: [I, U], sequence: seq}"
    source = f"{{Person: {{path: p.csv, {COLUMNS}, {cdc}}}}}"
    with pytest.raises(DataError, match=r"p\.csv:3: the operation of an event of Person is unknown: 'X'"):
        run(spark, graph, tmp_path, source)
    result = run(spark, graph, tmp_path, source, "on_error: reject")
    assert sorted(each.row for each in result.rejected) == [3, 4, 5, 6, 7, 8, 9]
    assert people(graph) == {"a": (1, None, 1)}


def test_a_condition_sees_the_columns_of_the_event(spark: Any, tmp_path: Path, graph: Graph) -> None:
    events(tmp_path, "I,1,a,1,\nI,2,b,2,\nU,3,a,3,\n")
    run(spark, graph, tmp_path, f"{{Person: {{path: p.csv, {COLUMNS}, {CDC}, where: 'seq < 3', cast: {{age: int}}}}}}")
    assert people(graph) == {"a": (1, None, 1), "b": (2, None, 2)}


def test_events_meet_the_rows_that_came_while_they_were_loaded(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """Another writer publishes a later state of one row when everything is staged; a refused row is refused once."""
    graph.load({"Person": [{"name": n, "age": 1, "version": 1} for n in ("a", "b")]})
    other = Graph.open(tmp_path / "g")

    def write_meanwhile() -> None:
        failpoints.arm(None)
        other.load({"Person": [{"name": "a", "age": 9, "version": 9}]}, mode="merge")

    events(tmp_path, "U,5,a,5,\nD,5,b,,\nI,5,c,5,\n")
    (tmp_path / "e.csv").write_text("from,to\na,c\na,nobody\n")
    failpoints.arm({Point.INTENT_COMPLETED: write_meanwhile})
    try:
        source = f"{{Person: {{path: p.csv, {COLUMNS}, {CDC}}}}}"
        result = run(spark, graph, tmp_path, source, "on_error: reject", edges="{Knows: e.csv}")
    finally:
        failpoints.arm(None)
    assert people(graph) == {"a": (9, None, 9), "c": (5, None, 5)}
    assert (result.late, result.deleted, result.nodes) == ({"Person": 1}, {"Person": 1}, {"Person": 1})
    assert [each.row for each in result.rejected] == [3]


def test_a_dry_run_counts_and_writes_nothing(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": "a"}]})
    events(tmp_path, "D,1,a,,\n")
    table = pa.table({"op": ["D"], "seq": [1], "name": ["a"]})
    feed = pipeline.Changes(table, pipeline.Cdc("op", "seq"))
    result = pipeline.load(spark, graph, {"Person": feed}, mode="merge", dry_run=True)
    assert (result.deleted, result.commit, sorted(people(graph))) == ({"Person": 1}, None, ["a"])


MISTAKES = {
    "no preset": ("cdc: kafka", 3, "cdc 'kafka' is unknown"),
    "unknown key": ("cdc: {op: a, sequence: b, deletes: [D]}", 3, "'deletes' is unknown in cdc"),
    "no sequence": ("cdc: {op: a}", 3, "cdc needs `op` and `sequence`"),
    "two meanings": ("cdc: {op: a, sequence: b, delete: [D], ignore: [D]}", 3, "'D' has two meanings"),
    "known already": ("cdc: {preset: delta, delete: [D]}", 3, "delete is known to the preset delta"),
    "no switch": ("cdc: {op: a, sequence: b, partial: maybe}", 3, "true or false is expected"),
    "a list": ("cdc: [a]", 3, "cdc must be a mapping"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    text, line, words = MISTAKES[name]
    with pytest.raises(JobError, match=words.replace("[", r"\[")) as refused:
        parse_job(f"mode: merge\nnodes:\n  P: {{path: a.csv, {text}}}\n", Path("job.yaml"))
    assert refused.value.span is not None
    assert refused.value.span.line == line
    assert refused.value.span.column > 18


def test_what_cannot_be_is_refused_before_tasks_start(spark: Any, tmp_path: Path, graph: Graph) -> None:
    with pytest.raises(JobError, match="the mode is append"):
        parse_job("mode: append\nnodes: {P: {path: a.csv, cdc: delta}}", Path("job.yaml"))
    table = pa.table({"op": ["D"], "seq": ["1"], "name": ["a"], "from": ["a"], "to": ["a"], "city": ["x"]})
    cdc = pipeline.Cdc("op", "seq")
    cases: list[tuple[type[OmnigraphError], str, dict, dict, str]] = [
        (InvalidArgument, "mode 'merge'", {"Person": pipeline.Changes(table, cdc)}, {}, "append"),
        (InvalidArgument, "only source", {"Person": [pipeline.Changes(table, cdc)] * 2}, {}, "merge"),
        (JobError, "has no key", {}, {"Knows": pipeline.Changes(table, cdc)}, "merge"),
        (JobError, "no column 'when'", {"Person": pipeline.Changes(table, pipeline.Cdc("op", "when"))}, {}, "merge"),
        (JobError, "keeps the sequence and is String",
         {"Person": pipeline.Changes(table, cdc, {"name": "name", "city": "seq"})}, {}, "merge"),
        (JobError, "no column gives 'name'", {"Person": pipeline.Changes(table, cdc, {"age": "seq"})}, {}, "merge"),
    ]  # fmt: skip
    for error, words, nodes, edges, mode in cases:
        with pytest.raises(error, match=words):
            pipeline.load(spark, graph, nodes, edges, mode)
    with pytest.raises(InvalidArgument, match="for Spark"):
        graph.load({"Person": pipeline.Files("Person", ("a.csv",), "csv", cdc=cdc)})
