"""A store that somebody else has written: whatever its objects say, nothing outside the graph is read or written, and
each wrong shape is a typed error that names the object."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import CorruptGraph, OmnigraphError
from omnigraph.schema.codec import sha256
from omnigraph.storage.layout import table_path
from omnigraph.versioning.manifest import MANIFEST_SCHEMA
from omnigraph.versioning.store import mint
from tests.attacks.test_attacks import plan_of
from tests.conftest import SCHEMA
from tests.support.graphs import EXPIRED, expire_intents
from tests.support.rows import knows, person

WRONG: list[Any] = [
    None,
    -1,
    10**30,
    True,
    1.5,
    "",
    "../../x",
    "/etc/passwd",
    "a\0b",
    "\ud800",
    [],
    ["x"],
    {},
    {"x": 1},
]
Row = dict[str, Any]
Change = Callable[[list[Row]], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    graph = Graph.init(tmp_path / "shared/graph", SCHEMA)
    graph.load([person("a"), person("b"), knows("a", "b")])
    graph.branches.create("feature")
    graph.tags.create("v1")
    return tmp_path / "shared/graph"


def read_all(root: Path) -> None:
    """Every read that follows names in the store."""
    graph = Graph.open(root, mode="ro")
    for key in graph.snapshot().tables:
        graph.rows(key)
    graph.branches.list()
    graph.tags.list()
    graph.commits.list()
    graph.recovery.list()
    graph.recovery.audit()
    graph.maintenance.cleanup(keep=10)


def variants(value: Any) -> Iterator[Any]:
    """The JSON value with each part of it, in turn, missing or replaced by something wrong."""
    yield from (wrong for wrong in WRONG if type(wrong) is not type(value) or wrong != value)
    if isinstance(value, dict):
        for name, item in value.items():
            yield {key: each for key, each in value.items() if key != name}
            yield from ({**value, name: each} for each in variants(item))
    elif isinstance(value, list):
        for at, item in enumerate(value[:1]):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in variants(item))


def require_typed(action: Callable[[], object]) -> bool:
    """Run something that may fail, but only with a typed error; whether it did."""
    try:
        action()
    except OmnigraphError:
        return True
    return False


def rewrite_manifest(root: Path, change: Change) -> None:
    """Write the newest state of main again with other rows."""
    uri = root / "__manifest"
    rows = lance.dataset(str(uri)).to_table().to_pylist()
    change(rows)
    for folder in ("_versions", "data", "_transactions"):
        shutil.rmtree(uri / folder)
    shutil.rmtree(root / "__locks", ignore_errors=True)
    lance.write_dataset(pa.Table.from_pylist(rows, MANIFEST_SCHEMA), str(uri), enable_stable_row_ids=True)


def rows_of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["object_type"] == kind]


def set_column(kind: str, column: str, value: Any) -> Change:
    def change(rows: list[Row]) -> None:
        rows_of(rows, kind)[0][column] = value

    return change


def set_metadata(kind: str, name: str, value: Any) -> Change:
    def change(rows: list[Row]) -> None:
        row = rows_of(rows, kind)[0]
        row["metadata"] = json.dumps({**json.loads(row["metadata"]), name: value})

    return change


def add_extent(location: str, metadata: str) -> Change:
    def change(rows: list[Row]) -> None:
        empty = dict.fromkeys(MANIFEST_SCHEMA.names)
        row = {"object_id": f"history:{location}", "object_type": "history_extent", "location": location}
        rows.append({**empty, **row, "metadata": metadata})

    return change


EXTENT = {"level": 0, "count": 1, "first": "0", "last": "Z"}
HISTORY = "__history/0-" + "0" * 32 + ".json.z"
MANIFEST_CHANGES: dict[str, Change] = {
    "location outside": set_column("table", "location", "../secret/nodes/0000000000000000-" + "0" * 26),
    "location absolute": set_column("table", "location", "/tmp/x"),
    "location of control": set_column("table", "location", "__manifest"),
    "location missing": set_column("table", "location", None),
    "location of the other kind": set_column("table", "location", "nodes/0000000000000000-" + "0" * 26),
    "table key is a path": set_column("table", "table_key", "edge:../../x"),
    "table key missing": set_column("table_version", "table_key", None),
    "table key unknown": set_column("table_version", "table_key", "node:Nobody"),
    "metadata is no JSON": set_column("table_version", "metadata", "{"),
    "metadata is a list": set_column("table_version", "metadata", "[]"),
    "metadata missing": set_column("table_version", "metadata", None),
    "metadata is deep": set_column("table_version", "metadata", "[" * 100_000),
    "number of 5000 digits": set_column("table_version", "metadata", "1" * 5000),
    "version missing": set_column("table_version", "table_version", None),
    "staged version is text": set_metadata("table_version", "staged_version", "x"),
    "staged version is a list": set_metadata("table_version", "staged_version", [1]),
    "tail is a list": set_metadata("table_version", "tail", []),
    "tail of no fragment": set_metadata("table_version", "tail", {"x": "AAAAAAAAAAA="}),
    "tail is cut": set_metadata("table_version", "tail", {"0": "AAAAAAAA"}),
    "change list outside": set_metadata("table_version", "changes", {"file": "../../secret.json"}),
    "changes are text": set_metadata("table_version", "changes", "x"),
    "commit without an id": set_metadata("graph_commit", "graph_commit_id", None),
    "commit of another id": set_metadata("graph_commit", "graph_commit_id", "0" * 26),
    "commit of a strange branch": set_metadata("graph_commit", "native_branch", ".."),
    "commit time is text": set_metadata("graph_commit", "created_at", "now"),
    "commit of an unknown class": set_metadata("graph_commit", "op_class", ["x"]),
    "head is a path": set_column("graph_head", "location", "../x"),
    "schema hash is a path": set_column("schema_contract", "location", "../../secret"),
    "unknown object type": set_column("graph_head", "object_type", "spell"),
    "history outside": add_extent("../secret/__history/0-x.json.z", json.dumps(EXTENT)),
    "history without fields": add_extent(HISTORY, "{}"),
    "history with other fields": add_extent(HISTORY, '{"level": [], "count": "x", "first": 1, "last": 2}'),
}


@pytest.mark.parametrize("change", MANIFEST_CHANGES.values(), ids=MANIFEST_CHANGES)
def test_rows_of_a_manifest(root: Path, change: Change) -> None:
    rewrite_manifest(root, change)
    with pytest.raises(CorruptGraph) as caught:
        read_all(root)
    assert "manifest" in caught.value.message
    assert caught.value.hint


def test_a_pin_cannot_lead_into_another_graph(root: Path, tmp_path: Path) -> None:
    secret = Graph.init(tmp_path / "secret", SCHEMA)
    secret.load([person("classified")])
    entry = secret.snapshot().tables["node:Person"]

    def steal(rows: list[Row]) -> None:
        for row in rows:
            if row["table_key"] == "node:Person":
                row["location"] = f"../../secret/{entry.location}" if row["object_type"] == "table" else None
                row["metadata"] = entry.metadata_text() if row["object_type"] == "table_version" else None

    rewrite_manifest(root, steal)
    with pytest.raises(CorruptGraph, match="is not the location of a table"):
        Graph.open(root).rows("node:Person")


def test_a_table_that_the_manifest_lacks(root: Path) -> None:
    def drop(rows: list[Row]) -> None:
        rows[:] = [row for row in rows if row["table_key"] != "node:Company"]

    rewrite_manifest(root, drop)
    graph = Graph.open(root)
    assert graph.rows("node:Person").num_rows == 2
    with pytest.raises(OmnigraphError, match="node:Company"):
        graph.load([{"type": "Company", "data": {"name": "x"}}])
    with pytest.raises(CorruptGraph, match="node:Company"):
        list(graph.diff("main", "feature"))


def put_json(path: Path, value: Any) -> None:
    """An object with the checksum that its content really has: what is wrong with it is its content."""
    body = json.dumps(value).encode()
    path.write_bytes(b'{"sha256":"%s","value":%s}' % (hashlib.sha256(body).hexdigest().encode(), body))


def get_json(path: Path) -> Any:
    return json.loads(path.read_bytes())["value"]


def craft_contract(root: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Put another schema contract, under the hash that it really has, and make main name it."""
    [path] = (root / "__schema").iterdir()
    contract = get_json(path)
    change(contract["catalog"])
    name = sha256(contract)
    put_json(root / f"__schema/{name}.json", contract)
    rewrite_manifest(root, set_column("schema_contract", "location", name))
    return name


@pytest.mark.parametrize("name", ["../../../outside", "/tmp/outside", "A/../../B", "A\0", ".", "CON:x", ""])
def test_a_type_name_that_is_a_path_exports_nothing(root: Path, tmp_path: Path, name: str) -> None:
    def rename(catalog: dict[str, Any]) -> None:
        catalog["nodes"][0]["name"] = name

    craft_contract(root, rename)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CorruptGraph, match=r"__schema/.*is not the name of a type"):
        Graph.open(root, mode="ro").export(tmp_path / "out", format="parquet")
    assert sorted(tmp_path.rglob("*")) == before


def test_every_part_of_a_contract(root: Path) -> None:
    [path] = (root / "__schema").iterdir()
    store = Graph.open(root).repository.store
    contract = get_json(path)
    for catalog in variants(contract["catalog"]):
        try:
            name = sha256({**contract, "catalog": catalog})
        except (UnicodeEncodeError, ValueError):
            name = "0" * 64
        file = root / f"__schema/{name}.json"
        put_json(file, {**contract, "catalog": catalog})
        require_typed(lambda name=name: store.catalog(name))  # type: ignore[misc]
        file.unlink()
    for whole in ([], "x", {}, {"catalog": contract["catalog"], "source": 5}):
        put_json(path, whole)
        assert require_typed(lambda: Graph.open(root).schema.show())


def every_variant(path: Path, action: Callable[[], object]) -> int:
    """Damage one JSON object in every way; how many of them were noticed."""
    original = path.read_bytes()
    noticed = 0
    for value in variants(get_json(path)):
        put_json(path, value)
        noticed += require_typed(action)
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b"NaN", original[:-1]):
        path.write_bytes(body)
        assert require_typed(action), body[:10]
    path.write_bytes(original)
    action()
    return noticed


def test_every_part_of_a_claim(root: Path) -> None:
    [claim] = (root / "__refs/feature").iterdir()

    def read() -> None:
        graph = Graph.open(root)
        graph.branches.list()
        graph.rows("node:Person", "feature")

    assert every_variant(claim, read) > 50


def test_every_part_of_a_tag(root: Path) -> None:
    (root / "__refs/~tags/v1.json").unlink()  # the second record would answer for a damaged first one
    graph = Graph.open(root)

    def read() -> None:
        graph.tags.list()
        graph.rows("node:Person", "v1")

    assert every_variant(root / "__tags/v1.json", read) > 50


def test_every_part_of_a_condemned_list(root: Path) -> None:
    graph = Graph.open(root)
    entry = graph.snapshot().tables["node:Person"]
    path = root / f"__gc/{mint()}.json"
    path.parent.mkdir()
    listed = {"pins": [f"{entry.location}@1"], "objects": ["__changes/x.json"]}
    put_json(path, listed)
    assert every_variant(path, lambda: graph.maintenance.cleanup(keep=10)) > 10
    assert every_variant(path, lambda: graph.repository.require_kept([entry])) > 10


def test_a_change_list_is_read_from_its_place_only(root: Path) -> None:
    outside = "../../x.json"
    rewrite_manifest(root, set_metadata("table_version", "changes", {"base": "1", "file": outside}))
    with pytest.raises(CorruptGraph, match="is not a change list"):
        Graph.open(root)


@pytest.mark.parametrize(
    "body",
    [b"", b"x", zlib.compress(b"{}"), zlib.compress(b"[5]"), zlib.compress(b"[]"), zlib.compress(b"[{}]")[:-3]],
)
def test_history_files(root: Path, body: bytes) -> None:
    rewrite_manifest(root, add_extent(HISTORY, json.dumps(EXTENT)))
    (root / "__history").mkdir()
    (root / HISTORY).write_bytes(body)
    with pytest.raises(CorruptGraph, match="__history/0-"):
        Graph.open(root).commits.list()


def test_every_part_of_an_intent(root: Path) -> None:
    graph = Graph.open(root, settings=EXPIRED)
    plan = plan_of(graph, "new", has_intent=True)
    expire_intents(root)
    staged = root / f"__recovery/{plan.commit_id}.staged"
    header = root / f"__recovery/{plan.commit_id}.json"
    assert _each_intent(staged, graph) > 300
    assert _each_intent(header, graph) > 50


def _each_intent(path: Path, graph: Graph) -> int:
    """Damage an intent in every way. Listing it never fails: the damage is what the list shows."""
    original = path.read_bytes()
    shown = 0
    for value in variants(get_json(path)):
        put_json(path, value)
        [pending] = graph.recovery.list()
        shown += pending.state == "invalid"
    path.write_bytes(original)
    return shown


@pytest.mark.parametrize(
    "file", ["../../secret", "/etc/passwd", "nodes/x/../../../y", "__manifest/_versions/1.manifest"]
)
def test_files_of_an_intent_lie_inside_its_tables(root: Path, file: str) -> None:
    graph = Graph.open(root, settings=EXPIRED)
    plan = plan_of(graph, "new", has_intent=True)
    expire_intents(root)
    staged = root / f"__recovery/{plan.commit_id}.staged"
    body = get_json(staged)
    body["tables"][0]["files"] = [file]
    put_json(staged, body)
    with pytest.warns(RuntimeWarning, match="cannot be read and is kept"):
        assert graph.recovery.run() == []
    assert staged.exists()


def test_pins_of_a_graft_lie_inside_the_graph(root: Path) -> None:
    graph = Graph.open(root, settings=EXPIRED)
    plan = plan_of(graph, "new", has_intent=True)
    staged = root / f"__recovery/{plan.commit_id}.staged"
    body = get_json(staged)
    entry = graph.snapshot().tables["node:Person"]
    for location in ("../secret/nodes/x", table_path("edge:Knows", mint())):
        body["graft"]["adopted"] = [["node:Person", location, 1, 0, entry.metadata_text()]]
        put_json(staged, body)
        [pending] = graph.recovery.list()
        assert pending.state == "invalid"
        assert "location" in str(pending.problem)


def test_audit_rows(root: Path) -> None:
    graph = Graph.open(root, settings=EXPIRED)
    plan_of(graph, "new", has_intent=True)
    expire_intents(root)
    [record] = graph.recovery.run()
    path = root / f"_graph_commit_recoveries.lance/{record.operation_id}.json"
    assert every_variant(path, graph.recovery.audit) > 50


def test_strange_objects_beside_ours_are_passed_over(root: Path) -> None:
    for name in ("__recovery/x.lease-y", "__recovery/..json", "__recovery/a b.json", "__refs/feature/x.json.bak"):
        (root / name).write_bytes(b"?")
    read_all(root)


def test_headers_of_derived_state(root: Path) -> None:
    """A cache: what cannot be read is as good as missing."""
    store = Graph.open(root).repository.store
    assert store.derived.write("x", {"a": 1}, {"numbers": np.arange(4)})
    path = root / "__derived/x"
    original = path.read_bytes()
    size = struct.unpack("<Q", original[8:16])[0]
    header = json.loads(original[24 : 24 + size])
    bodies = [b"", original[:8], original[:-1], original[:8] + b"\xff" * 8 + original[16:]]
    for value in variants(header):
        text = json.dumps(value).encode()
        head = text + b" " * (-(len(text) + 24) % 64)
        bodies.append(original[:8] + struct.pack("<QQ", len(head), zlib.crc32(head)) + head + original[24 + size :])
    for body in bodies:
        path.unlink()  # others may have the file mapped
        path.write_bytes(body)
        found = store.derived.read("x")
        assert found is None or isinstance(found.facts, dict)
