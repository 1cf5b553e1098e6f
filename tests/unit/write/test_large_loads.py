"""The fast and the frugal ways of a load give what the plain way gives: spilled rows, lines read by column, frames."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import DataError, DuplicateKey, MissingEndpoint
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.store import Settings
from omnigraph.write.ids import fresh_ids
from omnigraph.write.jsonl_columns import batches_by_column
from tests.support.graphs import while_armed

SCHEMA = """
node P { name: String @key  age: I32?  born: Date?  seen: DateTime?  v: Vector(2)?  tags: [String]?  f: F32?  b: Blob?
  n: I32 @default(7)  email: String? @unique }
node Free { note: String? }
edge E: P -> P { w: F64? }
edge K: P -> P { w: F64?  @key(src, dst) }
"""


def rows(count: int = 300) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i in range(count):
        data = {
            "name": f"p{i}", "age": i, "born": "2020-02-29" if i % 3 else None, "seen": "2020-01-01T00:00:00.123Z",
            "v": [i, 0.5], "tags": ["a", "ü"] if i % 2 else [], "f": 0.5, "email": f"e{i}" if i % 5 else None,
        }  # fmt: skip
        found.append({"type": "P", "data": data})
        found.append({"edge": "E", "from": f"p{i}", "to": f"p{(i + 1) % count}", "data": {"id": f"e{i}", "w": i / 7}})
        found.append({"edge": "K", "from": f"p{i}", "to": f"p{(i + 2) % count}"})
        found.append({"type": "Free", "data": {"id": f"f{i}", "note": None if i % 2 else f"n\n{i}"}})
    return found


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def exported(graph: Graph) -> bytes:
    stream = io.BytesIO()
    graph.export(stream)
    return stream.getvalue()


@pytest.fixture
def expected(tmp_path: Path) -> bytes:
    plain = Graph.init(tmp_path / "plain", SCHEMA)
    plain.load(rows())
    return exported(plain)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows()))
    return file


def is_read_by_column(graph: Graph, file: Path) -> bool:
    return batches_by_column(file.read_bytes(), 1, file.name, graph.catalog()) is not None


def test_lines_are_read_by_column(graph: Graph, lines: Path, expected: bytes) -> None:
    assert is_read_by_column(graph, lines), "nothing in the file is odd"
    graph.load(lines)
    assert exported(graph) == expected


def test_lines_are_read_one_by_one(graph: Graph, lines: Path, expected: bytes) -> None:
    """One line does not begin with its type."""
    first, rest = lines.read_text().split("\n", 1)
    lines.write_text(json.dumps(dict(reversed(json.loads(first).items()))) + "\n" + rest)
    assert not is_read_by_column(graph, lines)
    graph.load(lines)
    assert exported(graph) == expected


FRUGAL = Settings(load_block_bytes=4_000, load_spill_bytes=1_000)


def test_small_blocks_and_spilled_rows(graph: Graph, lines: Path, expected: bytes) -> None:
    graph = Graph.open(graph.uri, settings=FRUGAL)
    graph.load(lines)
    assert exported(graph) == expected
    graph.load(lines, mode="merge")
    assert exported(graph) == expected
    graph.load(lines, mode="overwrite")
    assert exported(graph) == expected
    assert len(graph.commits.list()) == 4


def test_spilled_rows_are_checked_like_others(graph: Graph, lines: Path) -> None:
    graph = Graph.open(graph.uri, settings=FRUGAL)
    text = lines.read_text()
    lines.write_text(text + '{"type":"P","data":{"name":"p0"}}\n')
    with pytest.raises(DuplicateKey, match=rf"{lines}:1201: @unique violation on P\.name: 'p0' is also in line 1\n"):
        graph.load(lines)
    lines.write_text(text + '{"edge":"E","from":"p0","to":"gone"}\n')
    with pytest.raises(MissingEndpoint, match=rf"{lines}:1201: E dst 'gone'"):
        graph.load(lines)
    assert graph.snapshot().version == 1
    result = graph.load(lines, max_errors=1)
    assert [v.row for v in result.rejected] == [1201]
    assert result.total_entities == 1200


def test_the_last_edge_of_an_id_wins_also_when_spilled(graph: Graph) -> None:
    graph = Graph.open(graph.uri, settings=Settings(load_spill_bytes=1))
    graph.load([{"type": "P", "data": {"name": n}} for n in "ab"])
    edges = [{"id": "x", "from": "a", "to": "b", "w": float(i)} for i in range(5)]
    graph.load({"E": [edges[0]]}, mode="merge")
    graph.load({"E": edges}, mode="merge")
    assert graph.rows("edge:E")["w"].to_pylist() == [4.0]


def test_frames_and_files_of_every_kind(tmp_path: Path) -> None:
    table = pa.table({"name": ["a", "b"], "age": pa.array([1, None], pa.int64())})
    edges = pa.table({"from": ["a"], "to": ["b"], "w": [0.5]})
    pq.write_table(table, tmp_path / "p.parquet")
    (tmp_path / "p.csv").write_text("name,age\na,1\nb,\n")
    (tmp_path / "p.jsonl").write_text('{"name": "a", "age": 1}\n\n{"name": "b"}\n')
    with pa.OSFile(str(tmp_path / "p.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(tmp_path / "p.arrows"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.output_stream(tmp_path / "p.csv.gz", compression="gzip") as out:
        out.write((tmp_path / "p.csv").read_bytes())
    sources: list[Any] = [
        table, table.to_batches()[0], table.to_pandas(), polars.from_arrow(table), table.to_reader(),
        pandas.DataFrame({"name": ["a", "b"], "age": pandas.array([1, None], dtype="Int64")}),
        [{"name": "a", "age": 1}, {"name": "b"}],
        *(tmp_path / f"p.{kind}" for kind in ("parquet", "csv", "csv.gz", "jsonl", "arrow", "arrows")),
    ]  # fmt: skip
    for number, source in enumerate(sources):
        graph = Graph.init(tmp_path / f"g{number}", SCHEMA)
        graph.load({"node:P": source, "E": edges})
        assert [(r["name"], r["age"], r["n"]) for r in graph.rows("node:P").to_pylist()] == [
            ("a", 1, 7),
            ("b", None, 7),
        ]
        assert graph.rows("edge:E")["w"].to_pylist() == [0.5]


def test_streams_of_bytes_and_of_text(graph: Graph) -> None:
    for stream in (
        io.BytesIO('{"type":"P","data":{"name":"ä"}}'.encode()),
        io.StringIO('{"type":"P","data":{"name":"ö"}}'),
    ):
        assert graph.load(stream).total_entities == 1
    with pytest.raises(DataError, match="<stdin>:1"):
        graph.load(io.StringIO('{"type":"P","data":{"name":"\udc80"}}'))
    assert graph.rows("node:P")["name"].to_pylist() == ["ä", "ö"]


@pytest.mark.parametrize("many", [3, 400], ids=["few edges per node", "many edges per node"])
def test_ends_are_among_the_nodes_of_the_write_or_in_the_graph(graph: Graph, many: int) -> None:
    graph.load({"P": [{"name": "stored"}]})
    edges = [{"from": "stored" if i % 2 else "fresh", "to": "fresh"} for i in range(many)]
    with pytest.raises(MissingEndpoint, match="E dst 'gone'"):
        graph.load({"P": [{"name": "fresh"}], "E": [*edges, {"from": "fresh", "to": "gone"}]})
    assert graph.load({"P": [{"name": "fresh"}], "E": edges}).total_entities == many + 1
    with pytest.raises(MissingEndpoint, match="E src 'stored'"):
        graph.load({"P": [{"name": "fresh"}], "E": edges}, "overwrite")


def test_fresh_ids() -> None:
    ids = fresh_ids(10_000).to_pylist()
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    assert all(len(each) == 26 for each in ids[:10])
    assert fresh_ids(0).to_pylist() == []


ODD_LINES = [
    '{"edge":"E","from":"p0","to":"p1"}',
    '{"edge":"E","from":"p0","to":"p1","data":{}}',
    '{"edge":"E","from":"p0","to":"p1","data":{"w":0.5}}',
    '{"edge":"E","from":"p0","to":"p1","data":{"w":null}}',
    '{"edge":"E","from":"p0","to":"p1","data":{"id":"given"}}',
    '{"edge":"E","from":"p0","to":"p1","data":{"id":null}}',
    '{"edge":"E","from":"p0","to":"p1","data":null}',
    '{"edge":"E","from":"p0","to":"p1","id":"outside"}',
    '{"edge":"E","from":"p0","to":"p1","data":{"w":1,"w":2}}',
    '{"edge":"E","from":"p0","to":"p1","data":{"unknown":1}}',
    '{"edge":"E","from":"p0","to":null}',
]


@pytest.mark.parametrize("odd", ODD_LINES)
@pytest.mark.parametrize("usual", ODD_LINES[:5])
def test_one_line_among_others_that_are_written_in_another_way(tmp_path: Path, usual: str, odd: str) -> None:
    """By column or line by line, whatever the first line has or lacks: the same rows, or the same refusal."""
    lines = [usual.replace("given", f"given {i}") + "\n" for i in range(80)]
    lines.insert(70, odd.replace("given", "another") + "\n")
    file = tmp_path / "edges.jsonl"
    outcomes: list[Any] = []
    for last in ("", '{"data":{"name":"p2"},"type":"P"}\n'):  # which does not begin with its type
        graph = Graph.init(tmp_path / f"g{len(outcomes)}", SCHEMA)
        graph.load({"P": [{"name": "p0"}, {"name": "p1"}]})
        file.write_text("".join(lines) + last)
        assert not last or not is_read_by_column(graph, file)
        try:
            graph.load(file)
            found = graph.rows("edge:E")
            ids = [i if "given" in i or i == "another" else "minted" for i in found["id"].to_pylist()]
            outcomes.append((ids, found["w"].to_pylist()))
        except DataError as error:
            outcomes.append(error.message)
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) != 2 or len(outcomes[0][0]) == 81


@pytest.mark.parametrize("limit", [1, 2])
def test_data_files_are_written_by_so_many_threads_as_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The limit is on writing only: the commit is one, and it is made by the caller."""
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", str(limit))
    graph = Graph.init(tmp_path / "g", "\n".join(f"node T{i} {{ name: String @key }}" for i in range(6)))
    writers: set[str] = set()
    committers: set[str] = set()
    actions = {
        Point.ROWS_WRITTEN: lambda: writers.add(threading.current_thread().name),
        Point.BEFORE_SWAP: lambda: committers.add(threading.current_thread().name),
    }
    with while_armed(actions):
        graph.load({f"T{i}": [{"name": f"n{j}"} for j in range(300)] for i in range(6)})
    assert 1 <= len(writers) <= limit
    assert all(name.startswith("omnigraph-load") for name in writers)
    assert committers == {threading.current_thread().name}
    assert len(graph.commits.list()) == 2
