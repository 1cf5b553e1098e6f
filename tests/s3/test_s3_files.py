"""What users name by a path may lie on S3: inputs of every format, exports, baselines, rejects, jobs, queries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.fs as pafs
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.cli.main import run
from omnigraph.errors import InvalidArgument, UnknownField
from omnigraph.pipeline.job import read_job
from omnigraph.write.inputs.locations import locate
from omnigraph.write.rejects import write_rejects
from omnigraph.write.user_files import exists, read_text, write_file
from tests.conftest import SCHEMA
from tests.support.s3 import S3Server

pytestmark = pytest.mark.s3
QUERY = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"


def put(uri: str, body: bytes) -> str:
    place = locate(uri)
    with place.filesystem.open_output_stream(place.path, compression=None) as out:
        out.write(body)
    return uri


def get(uri: str) -> bytes:
    place = locate(uri)
    with place.filesystem.open_input_stream(place.path, compression=None) as stream:
        return bytes(stream.read())


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(graph.rows("node:Person", branch)["name"].to_pylist())


@pytest.fixture
def prefix(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return f"s3://graphs/{tmp_path.name}"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def test_inputs_of_every_format(prefix: str, graph: Graph) -> None:
    place = locate(prefix)
    table = pa.table({"name": ["x"]})

    def written(name: str, write: Any) -> str:
        with place.filesystem.open_output_stream(f"{place.path}/{name}", compression=None) as out:
            write(table, out)
        return f"{prefix}/{name}"

    csv_gz = put(f"{prefix}/land=NO/Person.csv.gz", gzip.compress(b"name,age\nzipped,7\n"))
    line = '{"type": "Person", "data": {"name": "%s"}}\n'
    sources: list[tuple[Any, str]] = [
        (put(f"{prefix}/Person.csv", b"name\ncsv\n"), "csv"),
        ({"Person": put(f"{prefix}/p.csv", b"name\ntyped csv\n")}, "typed csv"),
        (put(f"{prefix}/a.jsonl", (line % "lines").encode()), "lines"),
        (put(f"{prefix}/a.jsonl.gz", gzip.compress((line % "zipped lines").encode())), "zipped lines"),
        ({"Person": put(f"{prefix}/p.jsonl", b'{"name": "typed lines"}\n')}, "typed lines"),
        (put(f"{prefix}/nodes/Person.csv", b"name\nby folder\n"), "by folder"),
        (put(f"{prefix}/x/one.jsonl", (line % "one").encode()).replace("one", "*"), "one"),
        (f"{prefix}/{{x,y}}/o?e.jsonl", "one"),
        (f"{prefix}/x", "one"),
        ({"Person": written("p.parquet", pq.write_table)}, "x"),
        (written("Person.orc", lambda t, out: orc.write_table(t, out)), "x"),
        (written("Person.feather", lambda t, out: feather.write_feather(t, out, compression="uncompressed")), "x"),
        (written("sub/Person.parquet", pq.write_table), "x"),
        (written("sub2/Person.csv", pacsv.write_csv), "x"),
    ]  # fmt: skip
    for number, (source, name) in enumerate(sources):
        graph.branches.create(f"b{number}")
        graph.load(source, branch=f"b{number}")
        assert names(graph, f"b{number}") == [name], source
    with pytest.raises(UnknownField, match="no property `land`"):
        graph.load({"Person": csv_gz})
    for missing in (f"{prefix}/none.csv", f"{prefix}/none*.jsonl", f"{prefix}/none/"):
        with pytest.raises(InvalidArgument, match="there is no such file"):
            graph.load(missing)


def test_what_is_written_arrives_there_and_nowhere_else(prefix: str, graph: Graph, tmp_path: Path) -> None:
    graph.load({"Person": [{"name": "a"}, {"name": "b"}], "Knows": [{"from": "a", "to": "b"}]}, mode="append")
    exported = graph.export(f"{prefix}/out/all.jsonl.gz")
    assert exported.files == (f"{prefix}/out/all.jsonl.gz",)
    assert gzip.decompress(get(exported.files[0])).count(b"\n") == 3
    for format in ("parquet", "csv"):
        found = graph.export(f"{prefix}/out/{format}", format)  # type: ignore[arg-type]
        assert f"{prefix}/out/{format}/nodes/Person.{format}" in found.files
        again = Graph.init(tmp_path / format, SCHEMA)
        again.load(f"{prefix}/out/{format}")
        assert again.rows("Knows").num_rows == 1
    assert graph.commits.export(f"{prefix}/out/history.jsonl").commits == 2
    assert get(f"{prefix}/out/history.jsonl").count(b"\n") == 2
    write_rejects(f"{prefix}/out/rejects.jsonl", [])
    assert get(f"{prefix}/out/rejects.jsonl") == b""
    write_file(f"{prefix}/out/blob", b"\0")
    assert exists(f"{prefix}/out/blob")
    assert not exists(f"{prefix}/out/blobb")
    with pytest.raises(InvalidArgument, match=r"s3://no-such-bucket/x\.jsonl cannot be written: there is no bucket"):
        graph.export("s3://no-such-bucket/x.jsonl")
    with pytest.raises(InvalidArgument, match="s3://graphs names no file"):
        graph.export("s3://graphs")
    assert list(Path.cwd().iterdir()) == []


def test_texts_and_the_command_line(prefix: str, graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", graph.uri]
    put(f"{prefix}/q.gq", QUERY.encode())
    put(f"{prefix}/s.pg", SCHEMA.encode())
    put(f"{prefix}/params.json", b"{}")
    put(f"{prefix}/job.yaml", f"graph: {graph.uri}\nnodes: {{Person: [{{path: in/p*.csv}}]}}\n".encode())
    put(f"{prefix}/in/p1.csv", b"name\nfrom job\n")
    put(f"{prefix}/rows.jsonl", b'{"type": "Person", "data": {"name": "a"}}\n{"type": "Person", "data": {}}\n')
    assert read_text(f"{prefix}/q.gq") == QUERY
    assert read_job(f"{prefix}/job.yaml").located("in/p1.csv") == f"{prefix}/in/p1.csv"

    def command(*words: str, code: int = 0) -> str:
        assert run([*words]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    rejects = ["--rejects", f"{prefix}/bad.jsonl", "--quiet"]
    command("load", *store, "--data", f"{prefix}/rows.jsonl", "--mode", "append", *rejects)
    assert json.loads(get(f"{prefix}/bad.jsonl"))["rule"] == "required"
    command("load", *store, "--node", f"Person={prefix}/in/p1.csv", "--mode", "append", "--quiet")
    found = command("query", *store, "--query", f"{prefix}/q.gq", "--format", "csv")
    assert found == "p.name\na\nfrom job\n"
    command("query", *store, "--query", f"{prefix}/q.gq", "--params-file", f"{prefix}/params.json")
    assert "0 errors" in command("lint", "--query", f"{prefix}/q.gq", "--schema", f"{prefix}/s.pg")
    assert "0 problems" in command("pipeline", "validate", f"{prefix}/job.yaml")
    command("export", *store, "--out", f"{prefix}/cli.jsonl", "--history", f"{prefix}/cli-history.jsonl")
    command("changes", "baseline", *store, "--out", f"{prefix}/baseline.jsonl")
    assert get(f"{prefix}/cli.jsonl").count(b"\n") == get(f"{prefix}/baseline.jsonl").count(b"\n") == 2
    assert get(f"{prefix}/cli-history.jsonl").count(b"\n") == 3
    command("pipeline", "init", f"{prefix}/new.yaml", *store)
    assert get(f"{prefix}/new.yaml").startswith(b"graph: ")
    command("schema", "plan", *store, "--schema", f"{prefix}/s.pg")
    command("init", f"{prefix}/fresh", "--schema", f"{prefix}/s.pg", "--quiet")
    assert list(Path.cwd().iterdir()) == []


def test_a_directory_of_stored_queries_is_local(prefix: str, graph: Graph) -> None:
    put(f"{prefix}/queries/q.gq", QUERY.encode())
    assert graph.query(f"{prefix}/queries/q.gq").row_count == 0
    with pytest.raises(InvalidArgument, match="there is no query file"):
        graph.query(f"{prefix}/queries")
    assert isinstance(locate(prefix).filesystem, pafs.S3FileSystem)
