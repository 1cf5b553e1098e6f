"""Files with options in a load of one process: the readers are those of Spark's tasks."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import DataError, InvalidArgument, InvalidValue, LimitExceeded
from omnigraph.write.inputs import json_files
from omnigraph.write.inputs.json_files import json_objects
from omnigraph.write.validation import Findings

SCHEMA = "node Person { name: String @key  age: I64?  note: String?  score: F64? }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def names(graph: Graph) -> list[str]:
    return sorted(graph.rows("node:Person")["name"].to_pylist())


def test_a_dialect_of_csv(tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_bytes("'å;ä';NULL\nb;2\n".encode("utf-16"))
    files = pipeline.Files(
        "Person", (str(tmp_path / "*.csv"),), "csv", {"name": "who", "age": "years"}, delimiter=";", quote="'",
        header=False, names=("who", "years"), null_values=("NULL",), encoding="utf-16",
    )  # fmt: skip
    graph.load({"Person": files})
    assert graph.rows("node:Person").select(["name", "age"]).sort_by("name").to_pylist() == [
        {"name": "b", "age": 2}, {"name": "å;ä", "age": None},
    ]  # fmt: skip


def test_torn_rows_are_rejects(tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text('name,age\na,1\nb\n"c\nd",2,3\ne,5\n')
    with pytest.raises(DataError, match=r"p\.csv:3: the row has 1 values, not 2 \(and 1 more\)"):
        graph.load({"Person": str(tmp_path / "p.csv")})
    result = graph.load({"Person": str(tmp_path / "p.csv")}, max_errors=5)
    assert [(each.row, each.value) for each in result.rejected] == [(3, "b"), (4, '"c\nd",2,3')]
    assert names(graph) == ["a", "e"]


def test_rows_keep_their_numbers_between_blocks(tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.write.inputs.csv_files.BLOCK_BYTES", 200)
    lines = [f"p{i},{i}" if i % 7 else f"p{i},{i},torn" for i in range(300)]
    lines[200] = "p200,old"
    (tmp_path / "p.csv").write_text("name,age\n" + "\n".join(lines) + "\n")
    result = graph.load({"Person": str(tmp_path / "p.csv")}, max_errors=500)
    wrong = {each.row: each.value for each in result.rejected}
    assert wrong == {i + 2: lines[i] if i % 7 == 0 else "old" for i in range(300) if i % 7 == 0 or i == 200}
    assert len(names(graph)) == 300 - len(wrong)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_json_in_pieces(monkeypatch: pytest.MonkeyPatch, indent: int | None, chunk: int) -> None:
    monkeypatch.setattr(json_files, "_CHUNK", chunk)
    rows = [{"name": 'é "\\ 😀', "n": [1.5e-7, True, None], "o": {"a": "]"}}, {"name": "", "n": -12}, {}]
    for body in (json.dumps(rows, indent=indent), "\n".join(json.dumps(r, indent=indent) for r in rows), "[]", " "):
        found = list(json_objects(io.BytesIO(body.encode()), "p.json", Findings()))
        assert found == (list(enumerate(rows, 1)) if "name" in body else [])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[{}, {]", "object 2: this is not JSON"),
        ("[{} {}]", "object 1: ',' or the end of the array is missing"),
        ("[{}", "object 1: ',' or the end of the array is missing"),
        ("[{},", "object 2: this is not JSON"),
        ("[{}] {}", "there is more after the end"),
        ('{"a": "x', "object 1: this is not JSON"),
        ("[" + "[" * 100_000, "nested too deeply"),
        ("9" * 5000, "too many digits"),
    ],
)
def test_text_that_is_no_json(body: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        list(json_objects(io.BytesIO(body.encode()), "p.json", Findings()))


def test_bytes_that_are_no_text_and_objects_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="not valid UTF-8"):
        list(json_objects(io.BytesIO(b'{"a": "\xff"}'), "p.json", Findings()))
    monkeypatch.setattr(json_files, "MAX_OBJECT", 1000)
    monkeypatch.setattr(json_files, "_CHUNK", 100)
    with pytest.raises(LimitExceeded, match="object 1 is longer than"):
        list(json_objects(io.BytesIO(b'{"a": "' + b"x" * 5000), "p.json", Findings()))


def test_json_over_lines(tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.json").write_text('[\n {"who": "a",\n "age": 1},\n 7,\n {"who": "b"}\n]')
    files = pipeline.Files("Person", (str(tmp_path / "p.json"),), "json", {"name": "who"})
    result = graph.load({"Person": [files]}, max_errors=1)
    assert [(each.row, each.message) for each in result.rejected] == [(2, "the element holds a number, not an object")]
    assert names(graph) == ["a", "b"]


def test_directories_patterns_and_uris(tmp_path: Path, graph: Graph) -> None:
    for name in ("in/a.csv", "in/deep/b.csv", "in/_SUCCESS"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name\n{path.stem}\n")
    for source, found in (
        (f"{tmp_path}/in", ["a", "b"]), (f"{tmp_path}/in/*.csv", ["a"]),
        (f"file:{tmp_path}/in/{{a,deep/b}}.csv", ["a", "b"]),
    ):  # fmt: skip
        graph.load({"Person": source}, mode="overwrite")
        assert names(graph) == found, source


def test_what_only_spark_can_do_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="`where`, `cast`, `cdc` and `expect` are for Spark"):
        graph.load({"Person": pipeline.Files("Person", ("p.csv",), "csv", where="age > 3")}, engine="arrow")
    with pytest.raises(InvalidArgument, match="format 'xls' is unknown"):
        pipeline.Files("Person", ("p.xls",), "xls")
    with pytest.raises(InvalidArgument, match="these files are those of City"):
        graph.load({"Person": pipeline.Files("City", ("p.csv",), "csv")}, engine="arrow")


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("age", "3.00", 3),
        ("age", "3.50", "expects an integer"),
        ("age", "99999999999999999999.00", "outside the I64 range"),
        ("score", "0.1", 0.1),
        ("score", "-123456789012345.25", -123456789012345.25),
        ("score", "0.1234567890123456789", "has more digits than F64 keeps"),
    ],
)
def test_decimals(graph: Graph, column: str, value: str, expected: object) -> None:
    for kind in (pa.decimal128(38, 19) if column == "score" else pa.decimal128(22, 2), pa.decimal256(50, 20)):
        given = pa.array([Decimal("1"), Decimal(value), None], kind)
        table = pa.table({"name": ["a", "b", "c"], column: given})
        if isinstance(expected, str):
            with pytest.raises(InvalidValue, match=rf"row 2: Person\.{column} .*{expected}"):
                graph.load({"Person": table}, mode="overwrite")
        else:
            graph.load({"Person": table}, mode="overwrite")
            assert graph.entity_at("node:Person", "b")[column] == expected


def test_the_columns_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header is read from the stream, so that no character and no quoted value is cut."""
    monkeypatch.setattr("omnigraph.write.inputs.csv_files.BLOCK_BYTES", 1 << 16)
    body = "name,note\n" + "".join(f'p{i},"é\n""{"x" * 50}"\n' for i in range(5000))
    for encoding in ("utf-8", "utf-16", "utf-8-sig"):
        (tmp_path / "p.csv").write_bytes(body.encode(encoding))
        graph = Graph.init(tmp_path / encoding, SCHEMA)
        files = pipeline.Files("Person", (str(tmp_path / "p.csv"),), "csv", encoding=encoding)
        assert graph.load({"Person": files}).total_entities == 5000
        assert set(graph.rows("node:Person")["note"].to_pylist()) == {'é\n"' + "x" * 50}


@pytest.mark.parametrize("body", [b"", b"\n\n", b"\xef\xbb\xbf", b"name\n", b"\xef\xbb\xbfname\n"])
def test_csv_without_rows(tmp_path: Path, graph: Graph, body: bytes) -> None:
    (tmp_path / "p.csv").write_bytes(body)
    assert graph.load({"Person": str(tmp_path / "p.csv")}).total_entities == 0
