"""How input files may be written: dialects of CSV, JSON over several lines, decimals, patterns and URIs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import DataError, InvalidArgument, InvalidValue, JobError, Unsupported
from omnigraph.pipeline.job import parse_job

SCHEMA = "node Person { name: String @key  age: I64?  note: String?  score: F64?  part: F32? }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def run(spark: Any, graph: Graph, folder: Path, text: str) -> Any:
    return pipeline.run(spark, parse_job(text, folder / "job.yaml"), graph)


def people(graph: Graph) -> list[dict]:
    rows = graph.rows("node:Person").drop(["id"]).to_pylist()
    return [{k: v for k, v in row.items() if v is not None} for row in sorted(rows, key=lambda row: row["name"])]


DIALECTS = {
    "null values": (b"name,age,note\na,NULL,\\N\nb,1,\"NULL\"\nc,,\n", "null_values: [NULL, \\N]",
                    [{"name": "a"}, {"name": "b", "age": 1, "note": "NULL"}, {"name": "c"}]),
    "latin-1": ("name,note\na,é\n".encode("latin-1"), "encoding: latin-1", [{"name": "a", "note": "é"}]),
    "utf-16": ("name,note\na,é\n".encode("utf-16"), "encoding: utf-16", [{"name": "a", "note": "é"}]),
    "a byte order mark": ("\ufeffname,note\na,é\n".encode(), "", [{"name": "a", "note": "é"}]),
    "no header": (b"a,1\nb,2\n", "header: false, columns: {name: _c0, age: _c1}",
                  [{"name": "a", "age": 1}, {"name": "b", "age": 2}]),
    "names": (b"a,1\nb,2\n", "header: false, names: [name, age]",
              [{"name": "a", "age": 1}, {"name": "b", "age": 2}]),
    "quote and escape": (b"name;note\n'a;b';'it\\'s'\n'c''d';\"\n", "delimiter: ';', quote: \"'\", escape: '\\'",
                         [{"name": "a;b", "note": "it's"}, {"name": "c'd", "note": '"'}]),
    "no quote": (b"name|note\na|\"x\n", "delimiter: '|', quote: ''", [{"name": "a", "note": '"x'}]),
}  # fmt: skip


@pytest.mark.parametrize("where", ["", ", where: 'true'"])
@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_of_csv(spark: Any, tmp_path: Path, graph: Graph, name: str, where: str) -> None:
    body, options, expected = DIALECTS[name]
    (tmp_path / "p.csv").write_bytes(body)
    run(spark, graph, tmp_path, f"nodes: {{Person: {{path: p.csv, {options}{where}}}}}".replace(", ,", ","))
    assert people(graph) == expected


def test_torn_rows_are_rejects_with_their_text(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text('name,age\na,1\n"x\ny",2,3\nb\nc,4\n\nd,5,"q,r"\ne,old\n')
    with pytest.raises(DataError, match=r"p\.csv:3: the row has 3 values, not 2 \(and 3 more\)"):
        run(spark, graph, tmp_path, "nodes: {Person: p.csv}")
    job = "on_error: reject\nrejects: left/out.jsonl\nnodes: {Person: p.csv}"
    (tmp_path / "left").mkdir()
    result = run(spark, graph, tmp_path, job)
    assert [row["name"] for row in people(graph)] == ["a", "c"]
    assert [(r.row, r.rule, r.value) for r in result.rejected] == [
        (3, "syntax", '"x\ny",2,3'), (5, "syntax", "b"), (8, "syntax", 'd,5,"q,r"'), (9, "type", "old"),
    ]  # fmt: skip
    written = [json.loads(line) for line in (tmp_path / "left/out.jsonl").read_text().splitlines()]
    assert [each["value"] for each in written] == ['"x\ny",2,3', "b", 'd,5,"q,r"', "old"]


def test_a_long_torn_row_is_told_whole(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,age\na,1\n" + "x" * 5000 + "\n")
    run(spark, graph, tmp_path, "on_error: reject\nrejects: out.jsonl\nnodes: {Person: p.csv}")
    assert json.loads((tmp_path / "out.jsonl").read_text())["value"] == "x" * 5000


@pytest.mark.parametrize("where", ["", ", where: 'age > 0'"])
@pytest.mark.parametrize("layout", ["array", "indented", "objects"])
def test_json_over_several_lines(spark: Any, tmp_path: Path, graph: Graph, layout: str, where: str) -> None:
    rows = [{"name": "a", "age": 1, "note": "x\n"}, {"name": "b", "age": 2}]
    body = {
        "array": json.dumps(rows), "indented": json.dumps(rows, indent=2),
        "objects": "\n".join(json.dumps(row, indent=2) for row in rows),
    }[layout]  # fmt: skip
    (tmp_path / "p.json").write_text(body)
    run(spark, graph, tmp_path, f"nodes: {{Person: {{path: p.json, format: json{where}}}}}")
    assert people(graph) == rows


def test_envelopes_over_several_lines(spark: Any, tmp_path: Path, graph: Graph) -> None:
    folder = tmp_path / "day=1"  # no column: envelopes name their own
    folder.mkdir()
    rows = [{"type": "Person", "data": {"name": "a"}}, {"type": "Nobody"}, {"type": "Person", "data": {"name": "b"}}]
    (folder / "all.json").write_text(json.dumps(rows, indent=1))
    files = pipeline.Files(None, (str(folder / "*.json"),), "json")
    result = pipeline.load(spark, graph, data=files, max_errors=1)
    assert [(each.row, each.rule) for each in result.rejected] == [(2, "type_name")]
    assert [row["name"] for row in people(graph)] == ["a", "b"]


def test_what_is_wrong_with_json_is_told_by_object(spark: Any, tmp_path: Path, graph: Graph) -> None:
    job = "on_error: reject\nnodes: {Person: {path: p.json, format: json}}"
    (tmp_path / "p.json").write_text('[{"name": "a"}, 7, {"name": "b", "age": "x"}, {"name": "c", "name": "d"}]')
    assert [(each.row, each.rule) for each in run(spark, graph, tmp_path, job).rejected] == [
        (2, "syntax"), (3, "type"), (4, "syntax"),
    ]  # fmt: skip
    (tmp_path / "p.json").write_text('[{"name": "e"}, {"name": }]')
    with pytest.raises(DataError, match=r"p\.json: object 2: this is not JSON"):
        run(spark, graph, tmp_path, job)


def test_decimals(spark: Any, tmp_path: Path, graph: Graph) -> None:
    table = pa.table(
        {
            "name": ["a", "b", "c"],
            "age": pa.array([Decimal("3.00"), None, Decimal("-7.00")], pa.decimal128(12, 2)),
            "score": pa.array([Decimal("0.1"), Decimal("12.5"), None], pa.decimal128(38, 18)),
            "part": pa.array([Decimal("0.1"), None, None], pa.decimal128(38, 18)),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    expected = [{"name": "a", "age": 3, "score": 0.1, "part": pytest.approx(0.1)}, {"name": "b", "score": 12.5},
                {"name": "c", "age": -7}]  # fmt: skip
    pipeline.load(spark, graph, {"Person": str(tmp_path / "p.parquet")})
    assert people(graph) == expected
    pipeline.load(spark, graph, {"Person": spark.read.parquet(str(tmp_path / "p.parquet"))}, mode="overwrite")
    assert people(graph) == expected
    bad = pa.table(
        {
            "name": ["a", "b", "c"],
            "age": pa.array([Decimal("3.00"), Decimal("3.50"), None], pa.decimal128(12, 2)),
            "score": pa.array([None, None, Decimal("0.12345678901234567")], pa.decimal128(38, 18)),
        }
    )
    pq.write_table(bad, tmp_path / "p.parquet")
    with pytest.raises(InvalidValue, match=r"p\.parquet:2: Person\.age expects an integer .*3\.50.* \(and 1 more\)"):
        pipeline.load(spark, graph, {"Person": str(tmp_path / "p.parquet")}, mode="merge")
    frame = spark.read.parquet(str(tmp_path / "p.parquet"))
    with pytest.raises(InvalidValue, match=r":2: Person\.age expects an integer"):
        pipeline.load(spark, graph, {"Person": frame}, mode="merge")


def test_patterns_and_uris(spark: Any, tmp_path: Path, graph: Graph) -> None:
    for name in ("a", "b", "c", "deep/er/d", "_SUCCESS", ".hidden", "_temporary/x"):
        path = tmp_path / f"in/{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name\n{Path(name).name}\n")
    for source, names in (
        (f"{tmp_path}/in/{{a,b}}.csv", "ab"),
        (f"file:{tmp_path}/in/a.csv", "a"),
        (f"file://{tmp_path}/in/[ab].csv", "ab"),
        (f"{tmp_path}/in/*.csv", "abc"),
        (f"{tmp_path}/in/**/*.csv", "abcd"),
        (f"{tmp_path}/in", "abcd"),
    ):
        pipeline.load(spark, graph, {"Person": source}, mode="overwrite")
        assert "".join(row["name"] for row in people(graph)) == names, source


def test_a_filesystem_that_is_not_here(spark: Any, graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="there is no filesystem for 'http'"):
        pipeline.load(spark, graph, {"Person": "http://host/p.csv"})
    with pytest.raises(Unsupported, match="hdfs needs libhdfs"):
        pipeline.load(spark, graph, {"Person": "hdfs://host:9000/p.csv"})


MISTAKES = {
    "a switch": ("header: maybe", 2, 38, "true or false is expected here"),
    "long quote": ("quote: '\"\"'", 2, 37, "a quote is one character"),
    "long escape": ("escape: ab", 2, 38, "an escape is one character"),
    "unknown encoding": ("encoding: utf-99", 2, 40, "encoding 'utf-99' is unknown"),
    "bytes are no encoding": ("encoding: base64", 2, 40, "encoding 'base64' is unknown"),
    "names with a header": ("names: [a]", 2, 37, "`names` are for files without a header"),
    "a name twice": ("header: false, names: [a, a]", 2, 52, "a name twice"),
    "of another format": ("format: jsonl, quote: x", 2, 52, "quote is for CSV, the format is jsonl"),
    "one sign for two": ("delimiter: ';', quote: ';'", 2, 41, "are different characters"),
    "partitions": ("partitions: some", 2, 42, "true or false is expected here"),
    "a mapping for nulls": ("null_values: {a: b}", 2, 43, "a text is expected here"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_an_option_is_named_with_its_place(name: str) -> None:
    options, line, column, words = MISTAKES[name]
    with pytest.raises(JobError, match=words) as refused:
        parse_job(f"nodes:\n  Person: {{path: people.csv, {options}}}", Path("job.yaml"))
    assert refused.value.span is not None
    assert (refused.value.span.line, refused.value.span.column) == (line, column)


def test_the_example_of_the_page_runs(spark: Any, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/user/pipeline.md").read_text().split("### Options of a source")[1]
    example = text.split("```yaml\n")[1].split("```")[0]
    Graph.init(tmp_path / "shop.omni", "node Customer { name: String @key  age: I32?  land: String? }")
    for land, body in (("NO", "'a;b';30\nå;n/a\nold;x\ntorn\n"), ("SE", "s;1\n")):
        folder = tmp_path / f"customers/country={land}"
        folder.mkdir(parents=True)
        (folder / "p.csv").write_text(body, encoding="latin-1")
    (tmp_path / "more.json").write_text('[\n  {"name": "m"}\n]')
    (tmp_path / "job.yaml").write_text(example)
    job = pipeline.read_job(tmp_path / "job.yaml")
    graph = Graph.open(tmp_path / "shop.omni")
    assert pipeline.validate(job, graph) == []
    pipeline.run(spark, job)
    rows = graph.rows("node:Customer").drop(["id"]).to_pylist()
    assert sorted(rows, key=lambda row: row["name"]) == [
        {"name": "a;b", "age": 30, "land": "NO"}, {"name": "m", "age": None, "land": None},
        {"name": "å", "age": None, "land": "NO"},
    ]  # fmt: skip
    left = [json.loads(line) for line in (tmp_path / "left-out.jsonl").read_text().splitlines()]
    assert sorted((each["row"], each["value"]) for each in left) == [(3, "x"), (4, "torn")]


def test_the_page_has_every_key_of_a_job() -> None:
    from omnigraph.pipeline.job import ROOT
    from omnigraph.pipeline.job_sections import NAMED, SOURCE, STEP

    folder = Path(__file__).parents[2] / "docs/user"
    page = "".join((folder / name).read_text() for name in ("pipeline.md", "steps.md", "pipeline-runs.md"))
    assert all(f"\n{key}:" in page for key in ROOT)
    assert all(f"`{key}`" in page for key in (*SOURCE, *NAMED, *STEP))
    for block in page.split("```yaml\n")[1:]:
        parse_job(block.split("```")[0], Path("job.yaml"))
