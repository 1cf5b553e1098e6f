"""Damaged stores, wrong formats, bad locations: each a typed error that names the thing and the remedy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    CorruptGraph,
    FormatUnsupported,
    GraphNotFound,
    InvalidArgument,
    MissingData,
    NameTaken,
    OmnigraphError,
    ParseError,
    ReadOnlyGraph,
    SchemaError,
    StoreUnavailable,
)
from omnigraph.versioning.format_version import STAMP
from tests.conftest import SCHEMA
from tests.support.rows import person
from tests.support.s3 import S3Server


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and "__locks" not in p.parts
    }


@pytest.fixture
def loaded(local_graph: Graph) -> Path:
    local_graph.load([person("a"), person("b")])
    return Path(local_graph.uri)


def restamp(root: Path, stamp: str | None) -> None:
    """Write the manifest again under another stamp, as an older or newer omnigraph would have."""
    uri = str(root / "__manifest")
    table = lance.dataset(uri).to_table()
    metadata = {} if stamp is None else {STAMP: stamp}
    shutil.rmtree(uri)
    lance.write_dataset(table.replace_schema_metadata(metadata), uri, enable_stable_row_ids=True)


@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize(
    ("stamp", "remedy"),
    [
        ("0", "an older one of this omnigraph"),
        ("1", "an older one of this omnigraph"),
        ("2", "a layout of another omnigraph"),
        ("6", "a layout of another omnigraph"),
        ("99", "a layout of another omnigraph"),
        ("101", "upgrade omnigraph"),
        (None, "no readable stamp"),
        ("x", "no readable stamp"),
    ],
)
def test_another_format_is_refused_before_anything_else_is_read(
    loaded: Path, mode: str, stamp: str | None, remedy: str
) -> None:
    restamp(loaded, stamp)
    before = tree(loaded)
    with pytest.raises(FormatUnsupported) as caught:
        Graph.open(loaded, mode)
    assert remedy in str(caught.value)
    rebuilds = all(step in caught.value.hint for step in ("export URI", "omnigraph init NEW", "omnigraph load NEW"))
    assert rebuilds == (stamp != "101")
    assert tree(loaded) == before


@pytest.mark.parametrize("name", ["_schema.pg", "__schema_state.json", "_graph_commits.lance/_versions/1.manifest"])
@pytest.mark.parametrize("manifest", [None, b"not a manifest"])
def test_the_layout_of_another_omnigraph_is_refused(tmp_path: Path, name: str, manifest: bytes | None) -> None:
    root = tmp_path / "theirs"
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("node Person { name: String @key }")
    (root / "nodes/1b2c").mkdir(parents=True)
    if manifest is not None:
        (root / "__manifest/_versions").mkdir(parents=True)
        (root / "__manifest/_versions/1.manifest").write_bytes(manifest)
    before = tree(root)
    for mode in ("rw", "ro"):
        with pytest.raises(FormatUnsupported, match="layout of another omnigraph") as caught:
            Graph.open(root, mode)
        assert "omnigraph init NEW" in caught.value.hint
    assert tree(root) == before


def test_a_branch_inherits_the_stamp(local_graph: Graph) -> None:
    local_graph.branches.create("feature")
    tip = local_graph.repository.refs.tip("feature")
    stamped = lance.dataset(f"{local_graph.uri}/{tip.location}").schema.metadata
    main = lance.dataset(f"{local_graph.uri}/__manifest").schema.metadata
    assert stamped[STAMP.encode()] == main[STAMP.encode()] == b"100"


def test_no_graph(tmp_path: Path) -> None:
    with pytest.raises(GraphNotFound, match="there is no graph"):
        Graph.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists(), "asking leaves no trace"
    (tmp_path / "empty").mkdir()
    with pytest.raises(GraphNotFound):
        Graph.open(tmp_path / "empty")


def test_missing_manifest(loaded: Path) -> None:
    shutil.rmtree(loaded / "__manifest")
    before = tree(loaded)
    with pytest.raises(CorruptGraph, match="__manifest is gone"):
        Graph.open(loaded)
    assert tree(loaded) == before


def test_truncated_first_manifest(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    [version] = (tmp_path / "g/__manifest/_versions").iterdir()
    version.write_bytes(version.read_bytes()[:30])
    with pytest.raises(OmnigraphError, match="__manifest"):
        Graph.open(graph.uri)


def test_a_deleted_data_file_is_named_and_the_rest_still_works(loaded: Path) -> None:
    graph = Graph.open(loaded)
    entry = graph.snapshot().tables["node:Person"]
    [data] = (loaded / entry.location / "data").iterdir()
    data.unlink()
    fresh = Graph.open(loaded)
    with pytest.raises(MissingData) as caught:
        fresh.rows("node:Person")
    assert data.name in str(caught.value)
    assert fresh.rows("node:Company").num_rows == 0
    assert len(fresh.commits.list()) == 2


def test_a_deleted_table_version_is_named(loaded: Path) -> None:
    entry = Graph.open(loaded).snapshot().tables["node:Person"]
    (loaded / entry.location / f"_versions/d{entry.staged_version}.manifest").unlink()
    with pytest.raises(MissingData, match=str(entry.staged_version)):
        Graph.open(loaded).rows("node:Person")


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "the catalog": lambda body: body.replace(b'"name":"Person"', b'"name":"Persom"', 1),
    "the text": lambda body: body.replace(b"node Person", b"node Persom", 1),
    "one bit": lambda body: body[:40] + bytes([body[40] ^ 1]) + body[41:],
    "cut short": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "no JSON": lambda body: b"schema",
    "no UTF-8": lambda body: b'{"source": "\xff"}',
    "a surrogate": lambda body: b'{"source": "\\ud800", "catalog": {}}',
    "not a number": lambda body: b'{"source": NaN}',
    "deep": lambda body: b"[" * 200_000,
    "a list": lambda body: b"[]",
    "null": lambda body: b"null",
    "a part": lambda body: b'{"source": "node Person { name: String @key }"}',
    "wrong types": lambda body: b'{"source": 1, "catalog": [2]}',
    "missing": lambda body: None,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_or_missing_schema_contract(loaded: Path, name: str) -> None:
    [contract] = (loaded / "__schema").iterdir()
    body = contract.read_bytes()
    damaged = DAMAGES[name](body)
    assert damaged != body
    contract.unlink()
    if damaged is not None:
        contract.write_bytes(damaged)
    graph = Graph.open(loaded)
    wider = SCHEMA + "\nnode Fresh { name: String @key }"
    for use in (graph.catalog, graph.schema.show, graph.schema.mermaid, lambda: graph.schema.apply(wider)):
        with pytest.raises(CorruptGraph, match=f"__schema/{contract.name}") as caught:
            use()
        assert f"restore __schema/{contract.name}" in caught.value.hint
    contract.write_bytes(body)
    assert "Person" in Graph.open(loaded).catalog().nodes
    assert graph.schema.show() == SCHEMA


def test_a_read_only_graph_refuses_every_write_and_changes_nothing(loaded: Path) -> None:
    before = tree(loaded)
    graph = Graph.open(loaded, "ro")
    assert graph.rows("node:Person").num_rows == 2
    for write in (
        lambda: graph.load([person("c")]),
        lambda: graph.delete("Person", ["a"]),
        lambda: graph.branches.create("x"),
        lambda: graph.branches.delete("x"),
        lambda: graph.tags.create("t"),
        lambda: graph.recovery.run(),
    ):
        with pytest.raises(ReadOnlyGraph, match="read-only"):
            write()
    assert tree(loaded) == before


def test_an_unknown_branch_names_the_known_ones(loaded: Path) -> None:
    graph = Graph.open(loaded)
    graph.branches.create("feature")
    with pytest.raises(BranchNotFound) as caught:
        graph.load([person("c")], branch="featur")
    assert caught.value.hint == "branches: main, feature"


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("", "empty"), ("   ", "empty"), ("http://host/graph", "http"), ("https://host/graph", "server"),
        ("s3://", "bucket"), ("s3://bucket", "path"), ("gs://b/p", "gs://"), ("file://host/x", "host"),
    ],
)  # fmt: skip
def test_bad_locations(location: str, text: str) -> None:
    for action in (lambda: Graph.open(location), lambda: Graph.init(location, SCHEMA)):
        with pytest.raises(InvalidArgument) as caught:
            action()
        assert text in str(caught.value)


def test_a_location_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        Graph.init("/proc/nowhere/graph", SCHEMA)
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        Graph.init(tmp_path / "file/graph", SCHEMA)
    with pytest.raises(InvalidArgument, match="is a file"):
        Graph.init(tmp_path / "file", SCHEMA)
    assert (tmp_path / "file").read_text() == "x"


def test_init_never_touches_an_existing_graph(loaded: Path) -> None:
    before = tree(loaded)
    with pytest.raises(NameTaken, match="already"):
        Graph.init(loaded, SCHEMA)
    assert tree(loaded) == before


def test_a_bad_schema_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as parse:
        Graph.init(tmp_path / "g", "node Person { name String }")
    assert parse.value.span is not None
    with pytest.raises(SchemaError):
        Graph.init(tmp_path / "g", "edge Knows: Person -> Person")
    with pytest.raises(InvalidArgument, match="no schema file"):
        Graph.init(tmp_path / "g", "missing.pg")
    assert not (tmp_path / "g").exists()


def test_relative_paths_and_file_uris_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Graph.init("here", SCHEMA).load([person("a")])
    monkeypatch.chdir("/")
    assert Graph.open(tmp_path / "here").rows("node:Person").num_rows == 1
    assert Graph.open(f"file://{tmp_path}/here").uri == str(tmp_path / "here")


@pytest.mark.s3
def test_s3_without_credentials() -> None:
    """In a process without any AWS variable the error says which to set."""
    script = "from omnigraph import Graph; Graph.open('s3://bucket/graph')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={"PATH": "/usr/bin"}, timeout=120
    )
    assert done.returncode != 0
    assert "StoreUnavailable" in done.stderr
    assert "AWS_" in done.stderr


@pytest.mark.s3
def test_s3_endpoint_that_does_not_answer(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable):
        Graph.open("s3://graphs/unreachable")


@pytest.mark.s3
def test_s3_bucket_that_does_not_exist(s3: S3Server) -> None:
    for use in (lambda: Graph.init("s3://no-such-bucket/graph", SCHEMA), lambda: Graph.open("s3://no-such-bucket/g")):
        with pytest.raises(StoreUnavailable, match="there is no bucket 'no-such-bucket'") as caught:
            use()
        assert caught.value.hint == "create the bucket, or correct its name"


def test_manifest_columns_are_the_contract() -> None:
    from omnigraph.versioning.manifest import MANIFEST_SCHEMA

    assert MANIFEST_SCHEMA.names == [
        "object_id", "object_type", "location", "metadata", "base_objects", "table_key", "table_version",
        "table_branch", "row_count",
    ]  # fmt: skip
    key = MANIFEST_SCHEMA.field("object_id")
    assert key.metadata[b"lance-schema:unenforced-primary-key"] == b"true"
    assert not key.nullable
    assert MANIFEST_SCHEMA.field("table_version").type == pa.uint64()


def test_system_paths_of_other_designs_never_appear(loaded: Path) -> None:
    names = {p.name for p in loaded.iterdir()}
    assert not names & {
        "_graph_commits.lance",
        "_graph_commit_actors.lance",
        "_graph_runs.lance",
        "_graph_run_actors.lance",
    }
    assert "_graph_commit_recoveries.lance" not in names, "the audit appears with the first recovery"
    assert list((loaded / "__recovery").iterdir()) == []


def test_parameters_in_the_place_of_a_name(loaded: Path) -> None:
    graph = Graph.open(loaded)
    read = "query q($n: String) { match { $p: Person  $p.name = $n } return { $p.name } }"
    write = "query q($n: String) { insert Person { name: $n } }"
    for call in (lambda: graph.query(read, {"n": "a"}), lambda: graph.mutate(write, {"n": "z"})):
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert "params={" in str(caught.value.hint)
