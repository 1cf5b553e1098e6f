"""`where` and `cast` of a job: one reader for a format with and without them, and rows told by their file."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import DataError, InvalidValue, JobError, UnknownField
from omnigraph.pipeline.job import parse_job

SCHEMA = """
node Person {
  name: String @key  age: I32?  note: String?  born: Date?  seen: DateTime?  big: U64?  rank: F64?  tags: [String]?
  place: Vector(2)?
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


@pytest.fixture(params=["true", pytest.param("false", marks=pytest.mark.slow)])
def ansi(request: Any, spark: Any) -> Any:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    spark.conf.set("spark.sql.ansi.enabled", before)


def run(spark: Any, graph: Graph, folder: Path, source: str, more: str = "") -> Any:
    job = parse_job(f"{more}\nnodes:\n  Person: {source}\n", folder / "job.yaml")
    return pipeline.run(spark, job, graph)


def people(graph: Graph) -> list[dict]:
    rows = graph.rows("node:Person").drop(["id"]).to_pylist()
    return [{k: v for k, v in row.items() if v is not None} for row in sorted(rows, key=lambda row: row["name"])]


def test_a_condition_does_not_change_how_csv_is_read(spark: Any, tmp_path: Path) -> None:
    """Quoted line ends, doubled quotes, empty text and null, lists and dates."""
    (tmp_path / "p.csv").write_text(
        'name,age,note,born,tags\n"a\nb",1,"he said ""hi""",2020-02-29,"[""x"", ""y,z""]"\nc,,"",1999-12-31,\nd,3,,,\n'
    )
    found = []
    for number, source in enumerate(("p.csv", "{path: p.csv, where: 'true'}", "{path: p.csv, cast: {age: int}}")):
        graph = Graph.init(tmp_path / f"g{number}", SCHEMA)
        run(spark, graph, tmp_path, source)
        found.append(people(graph))
    assert found[0] == found[1] == found[2]
    assert found[0] == [
        {"name": "a\nb", "age": 1, "note": 'he said "hi"', "born": dt.date(2020, 2, 29), "tags": ["x", "y,z"]},
        {"name": "c", "note": "", "born": dt.date(1999, 12, 31)},
        {"name": "d", "age": 3},
    ]


def test_a_condition_does_not_change_how_json_lines_are_read(spark: Any, tmp_path: Path) -> None:
    rows = [
        {"name": "a", "age": 1, "born": "2020-02-29", "seen": 1_600_000_000_123, "rank": 1, "big": 2**64 - 1},
        {"name": "b", "age": 2, "born": 7, "seen": "2021-01-01T00:00:00.5Z", "rank": 0.1, "tags": ["x"],
         "place": [1, 2.5]},
    ]  # fmt: skip
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for number, source in enumerate(("p.jsonl", "{path: p.jsonl, where: 'age > 0'}")):
        graph = Graph.init(tmp_path / f"g{number}", SCHEMA)
        run(spark, graph, tmp_path, source)
        found.append(people(graph))
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_a_condition_does_not_change_how_parquet_is_read(spark: Any, tmp_path: Path) -> None:
    table = pa.table(
        {
            "name": pa.array(["a", "b"]).dictionary_encode(),
            "big": pa.array([2**64 - 1, None], pa.uint64()),
            "seen": pa.array([1, 2], pa.timestamp("ms")),
            "place": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
            "note": pa.nulls(2),
            "clock": pa.array([1, 2], pa.time64("us")),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    columns = "columns: {name: name, big: big, seen: seen, place: place, note: note}"
    found = []
    for number, more in enumerate(("", ", where: 'length(name) = 1'")):
        graph = Graph.init(tmp_path / f"g{number}", SCHEMA)
        run(spark, graph, tmp_path, f"{{path: p.parquet, {columns}{more}}}")
        found.append(people(graph))
    assert found[0] == found[1]
    assert found[0][0]["big"] == 2**64 - 1


def test_a_failed_cast_names_file_and_row(spark: Any, tmp_path: Path, graph: Graph, ansi: Any) -> None:
    (tmp_path / "p.csv").write_text('name,age\n"a\nb",1\nc,old\nd,\ne,5000000000\nf,6\n')
    with pytest.raises(InvalidValue, match=r"p\.csv:4: Person\.age 'old' cannot be cast to int \(and 1 more\)"):
        run(spark, graph, tmp_path, "{path: p.csv, cast: {age: int}}")
    with pytest.raises(InvalidValue, match=r"p\.csv:4: "):
        run(spark, graph, tmp_path, "{path: p.csv, cast: {age: int}, where: \"name <> 'f'\"}")
    assert len(graph.commits.list()) == 1
    result = run(spark, graph, tmp_path, "{path: p.csv, cast: {age: int}}", "on_error: reject")
    assert [(each.row, each.field, each.value) for each in result.rejected] == [
        (4, "age", "old"), (6, "age", "5000000000"),
    ]  # fmt: skip
    assert people(graph) == [{"name": "a\nb", "age": 1}, {"name": "d"}, {"name": "f", "age": 6}]


def test_a_cast_inside_a_condition_that_fails_refuses(spark: Any, tmp_path: Path, graph: Graph, ansi: Any) -> None:
    """The row is found by halving, in the first of the files that has one."""
    (tmp_path / "p1.csv").write_text("name,age\na,1\ntorn\n")
    (tmp_path / "p2.csv").write_text('name,age\n"a\nb",1\nb,2\nc,old\nd,4\ne,older\n')
    (tmp_path / "p3.csv").write_text("name,age\nz,oldest\n")
    with pytest.raises(DataError, match=r"p2\.csv:5 cannot be computed: \[CAST_INVALID_INPUT\].*'old"):
        run(spark, graph, tmp_path, "{path: p*.csv, where: 'CAST(age AS int) > 0'}", "on_error: reject")
    assert len(graph.commits.list()) == 1


def test_rows_refused_by_other_rules_are_told_by_file_and_row(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,age,kind\na,1,x\nb,2,y\nb,3,x\n,4,x\na,5,x\nq,r,x\n")
    source = "{path: p.csv, where: \"kind = 'x'\", columns: {name: name, age: age}}"
    result = run(spark, graph, tmp_path, source, "on_error: reject")
    assert sorted((Path(each.path).name, each.row, each.rule) for each in result.rejected) == [
        ("p.csv", 5, "required"), ("p.csv", 6, "key"), ("p.csv", 7, "type"),
    ]  # fmt: skip
    assert people(graph) == [{"name": "a", "age": 1}, {"name": "b", "age": 3}]


def test_rows_that_cannot_be_read_are_rejects_with_a_condition_too(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,age\na,1\ntorn\nb,2\n")
    (tmp_path / "p.jsonl").write_text('{"name": "c", "age": 3}\n{oops\n{"name": "d", "age": 4}\n')
    for file in ("p.csv", "p.jsonl"):
        result = run(spark, graph, tmp_path, f"{{path: {file}, where: 'age > 0'}}", "on_error: reject")
        assert [(Path(r.path).name, r.row, r.rule) for r in result.rejected] == [
            (file, 3 if file == "p.csv" else 2, "syntax")
        ]
    assert [row["name"] for row in people(graph)] == ["a", "b", "c", "d"]


def test_casts_of_json_and_columns_of_several_kinds(spark: Any, tmp_path: Path, graph: Graph) -> None:
    rows = [{"name": "a", "n": "7", "v": 1}, {"name": "b", "n": "8", "v": "x"}, {"name": "c", "n": "no", "v": {"w": 1}}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(
        spark, graph, tmp_path, "{path: p.jsonl, where: \"v <> 'x'\", columns: {name: name, age: n}, cast: {age: int}}",
        "on_error: reject",
    )  # fmt: skip
    assert people(graph) == [{"name": "a", "age": 7}]
    assert [(each.row, each.field) for each in result.rejected] == [(3, "age")]


def test_members_that_no_row_has(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.jsonl").write_text('{"name": "a"}\n{"name": "b", "years": 3}\n')
    (tmp_path / "empty.jsonl").write_text("")
    for more in ("", ", where: 'true'"):
        with pytest.raises((DataError, JobError), match=r"p\.jsonl.*: column 'yeers' is missing"):
            run(spark, graph, tmp_path, f"{{path: p.jsonl, columns: {{name: name, age: yeers}}{more}}}")
    run(spark, graph, tmp_path, "{path: empty.jsonl, columns: {name: name, age: yeers}, where: 'yeers > 1'}")
    run(spark, graph, tmp_path, "{path: p.jsonl, columns: {name: name, age: years}}")
    assert people(graph) == [{"name": "a"}, {"name": "b", "age": 3}]


def test_a_member_that_only_late_rows_have_is_found(spark: Any, tmp_path: Path, graph: Graph, monkeypatch: Any) -> None:
    monkeypatch.setattr("omnigraph.pipeline.sources._SPLIT_BYTES", 2_000)
    lines = [json.dumps({"name": f"p{i}"}) for i in range(1000)] + ['{"name": "z", "years": 3}']
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    run(spark, graph, tmp_path, "{path: p.jsonl, columns: {name: name, age: years}, where: 'years > 2'}")
    assert people(graph) == [{"name": "z", "age": 3}]


def test_files_of_one_source_with_different_columns(spark: Any, tmp_path: Path, graph: Graph) -> None:
    pq.write_table(pa.table({"name": ["a"], "age": pa.array([1], pa.int32())}), tmp_path / "p1.parquet")
    pq.write_table(pa.table({"age": pa.array([2], pa.int64()), "name": ["b"]}), tmp_path / "p2.parquet")
    pq.write_table(pa.table({"name": ["c"]}), tmp_path / "p3.parquet")
    run(spark, graph, tmp_path, "{path: p*.parquet, where: 'true'}")
    assert people(graph) == [{"name": "a", "age": 1}, {"name": "b", "age": 2}, {"name": "c"}]
    with pytest.raises(DataError, match=r"p3\.parquet: column 'age' is missing"):
        run(spark, graph, tmp_path, "{path: p*.parquet, where: 'true', columns: {name: name, age: age}}")


def test_an_unknown_column_is_refused_with_a_condition_as_without(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,height\na,3\n")
    for source in ("p.csv", "{path: p.csv, where: 'height > 4'}"):
        with pytest.raises(UnknownField, match="height"):
            run(spark, graph, tmp_path, source)


def test_upserts_and_overwrites_of_selected_rows(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,age\na,1\nb,2\nc,3\n")
    run(spark, graph, tmp_path, "p.csv")
    (tmp_path / "q.csv").write_text("name,age\na,10\nb,20\nz,30\n")
    run(spark, graph, tmp_path, "{path: q.csv, where: 'age >= 20'}", "mode: merge")
    assert [(r["name"], r["age"]) for r in people(graph)] == [("a", 1), ("b", 20), ("c", 3), ("z", 30)]
    run(spark, graph, tmp_path, "{path: q.csv, where: 'age < 0'}", "mode: overwrite")
    assert people(graph) == []


def test_no_row_that_cannot_be_read_is_lost(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,age\n" + "torn\n" * 12_000 + "a,1\n")
    (tmp_path / "p.jsonl").write_text("{\n" * 12_000 + '{"name": "b", "age": 2}\n')
    for file in ("p.csv", "p.jsonl"):
        result = run(spark, graph, tmp_path, f"{{path: {file}, where: 'age > 0'}}", "on_error: reject")
        assert len(result.rejected) == 12_000
    assert [row["name"] for row in people(graph)] == ["a", "b"]
