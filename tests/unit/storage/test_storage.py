"""The storage layer by itself: control objects on both stores, options, layout, lookups."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.errors import (
    CommitLost,
    CorruptGraph,
    MissingData,
    OmnigraphError,
    StorageError,
    StoreFull,
    StoreUnavailable,
)
from omnigraph.storage.apply_effects import apply_effect, write_rows
from omnigraph.storage.decode import decoding
from omnigraph.storage.durability import Durability
from omnigraph.storage.effects import (
    AppendRows,
    Effect,
    MaskRows,
    OverwriteRows,
    ReplaceRows,
    Reshape,
    WrittenFragment,
    effect_from_json,
    effect_to_json,
)
from omnigraph.storage.faults import translate
from omnigraph.storage.indexes import fold_tail, high_water
from omnigraph.storage.layout import GraphRoot, fnv1a64, manifest_path, tag_name, tag_path
from omnigraph.storage.lookup import locate, missing_ids
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.options import s3_options
from omnigraph.storage.tables import Table, TableStore
from omnigraph.storage.tail import EMPTY_TAIL, Tail, pack_hashes

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int32())])


@pytest.fixture
def objects(root: str) -> ObjectStore:
    location = GraphRoot.parse(root)
    store = ObjectStore(location, {} if location.is_local else s3_options(), Durability(location))
    store.create_root()
    return store


def test_objects_are_written_once(objects: ObjectStore) -> None:
    assert objects.put_new("a/x.json", b"1")
    assert not objects.put_new("a/x.json", b"2")
    assert objects.get("a/x.json") == b"1"
    assert objects.exists("a/x.json")
    assert not objects.exists("a")
    assert objects.get("a/none") is None


def test_objects_list_and_delete(objects: ObjectStore) -> None:
    for name in ("p/b", "p/a", "q/c"):
        objects.put_new_json(name, {"n": name})
    assert [i.path for i in objects.list("p")] == ["p/a", "p/b"]
    assert objects.list("nothing") == []
    objects.delete(["p/a", "p/never"])
    objects.delete([])
    assert [i.path for i in objects.list("p")] == ["p/b"]
    objects.delete_prefix("p")
    objects.delete_prefix("p")
    assert objects.list("p") == []
    assert objects.get_json("q/c") == {"n": "q/c"}


def test_damaged_json_is_loud(objects: ObjectStore) -> None:
    objects.put_new("x.json", b"{")
    with pytest.raises(StorageError):
        objects.get_json("x.json")


def test_put_if_absent_is_probed(objects: ObjectStore) -> None:
    objects.probe_put_if_absent("probe")
    assert not objects.exists("probe")


def test_options_from_the_environment() -> None:
    env = {
        "AWS_REGION": "eu-1", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t",
        "AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b", "AWS_S3_FORCE_PATH_STYLE": "true",
        "AWS_ALLOW_HTTP": "1",
    }  # fmt: skip
    assert s3_options(env) == {
        "aws_region": "eu-1", "aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_session_token": "t",
        "aws_endpoint": "http://b", "aws_virtual_hosted_style_request": "false", "allow_http": "true",
    }  # fmt: skip
    assert s3_options({}) == {"aws_virtual_hosted_style_request": "true"}
    assert s3_options({"AWS_S3_FORCE_PATH_STYLE": "0"})["aws_virtual_hosted_style_request"] == "true"


def test_hash_of_names_is_fnv1a64() -> None:
    assert fnv1a64("") == "cbf29ce484222325"
    assert fnv1a64("a") == "af63dc4c8601ec8c"
    assert fnv1a64("Person") != fnv1a64("person")


@given(st.text(alphabet="abcXYZ019._-/", min_size=1, max_size=40))
def test_branch_names_survive_their_path(name: str) -> None:
    assert tag_name(tag_path(name)) == name
    assert "/" not in tag_path(name).removeprefix("__tags/")
    assert manifest_path(f"{name}.01ABC").startswith("__manifest/tree/")


@given(st.dictionaries(st.integers(0, 9999), st.lists(st.text(), max_size=5), max_size=5))
def test_tails_round_trip(content: dict[int, list[str]]) -> None:
    tail = EMPTY_TAIL
    for fragment, ids in content.items():
        tail = tail.extended(fragment, pack_hashes(ids))
    assert Tail.from_json(json.loads(json.dumps(tail.to_json()))) == tail


def test_effects_round_trip() -> None:
    file = DataFile("f.lance", [0, 1], [0, 1], 2, 2, 300)
    fragment = WrittenFragment(FragmentMetadata(0, [file], 3), "f.lance", 3, None)
    masked = MaskRows(2**63 + 5, (1, 2), (fragment.metadata,), (fragment,))
    replaced = ReplaceRows(("a", "b"), (fragment,))
    for effect in (AppendRows((fragment,)), replaced, masked, OverwriteRows(()), Reshape("fold")):
        assert effect_from_json(json.loads(json.dumps(effect_to_json(effect)))) == effect
    with pytest.raises(CorruptGraph, match="unknown table effect 'magic'"), decoding("an intent"):
        effect_from_json({"kind": "magic"})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError("x"), MissingData),
        (OSError("LanceError(IO): Not found: data/x.lance"), MissingData),
        (PermissionError("x"), StoreUnavailable),
        (OSError("error: Permission denied (os error 13)"), StoreUnavailable),
        (OSError("LanceError(IO): Unable to copy data: No space left on device (os error 28), /a/b.rs:1:2"), StoreFull),
        (ValueError("failed to decode Protobuf"), CorruptGraph),
        (OSError("something else"), StorageError),
    ],
)
def test_substrate_errors_become_ours(error: Exception, expected: type[OmnigraphError]) -> None:
    found = translate(error, "doing it")
    assert type(found) is expected
    assert "doing it" in found.message


def test_a_lost_swap_has_its_own_type() -> None:
    from lance.commit import CommitConflictError

    assert isinstance(translate(CommitConflictError("taken"), "swapping"), CommitLost)


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    location = GraphRoot.parse(tmp_path)
    return TableStore(location, {}, Durability(location, enabled=False))


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "n": pa.array(range(len(ids)), pa.int32())}, schema=SCHEMA)


def appended(store: TableStore, base: Table, *ids: str) -> Table:
    return apply_effect(store, base, AppendRows(write_rows(store, base, rows(*ids))), EMPTY_TAIL).table


def folded(store: TableStore, table: Table, mark: int) -> tuple[Table, int]:
    fold = fold_tail(store, table, ["id"], mark)
    return (table, mark) if fold is None else (fold[0], high_water(fold[0], mark))


def test_lookups_agree_with_a_scan_through_every_kind_of_change(store: TableStore) -> None:
    """Indexed, tail, masked, removed and folded fragments: `locate` finds exactly what a full scan finds."""
    table = store.create("nodes/x", SCHEMA)
    mark = 0
    keys = [f"k{i}" for i in range(60)]
    for step in range(12):
        table = appended(store, table, *keys[step * 5 : step * 5 + 5])
        if step % 3 == 2:
            table, mark = folded(store, table, mark)
        if step % 4 == 3:
            doomed = (keys[step], keys[step * 5])
            table = apply_effect(store, table, ReplaceRows(doomed), EMPTY_TAIL).table
        live = set(table.scan(["id"])["id"].to_pylist())
        for wanted in (keys, keys[:1], keys[7:9], ["nobody"], ["k1", "nobody"]):
            assert set(locate(table, wanted, EMPTY_TAIL).ids) == live & set(wanted), (step, wanted)
            assert missing_ids(table, wanted, EMPTY_TAIL) == [k for k in wanted if k not in live]
        reopened = store.open(table.path, table.version)
        assert reopened.row_count == len(live)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "replace", "delete", "empty", "fold"]), st.integers(0, 30)), max_size=8)
)
def test_what_is_known_of_a_new_version_is_what_storage_tells(steps: list[tuple[str, int]]) -> None:
    """Fragments of a version that was just made are not listed again: their ids, order, files and rows are known."""
    with tempfile.TemporaryDirectory() as folder:
        location = GraphRoot.parse(folder)
        store = TableStore(location, {}, Durability(location, enabled=False))
        table = appended(store, store.create("nodes/x", SCHEMA), *(f"k{i}" for i in range(20)))
        mark = 0
        for number, (kind, at) in enumerate(steps):
            near = (f"k{at}", f"k{at + 1}", f"new{number - 1}")
            fresh = [part for i in range(1 + at % 2) for part in write_rows(store, table, rows(f"new{number}-{i}"))]
            effect: Effect = AppendRows(tuple(fresh))
            if kind == "replace":
                effect = ReplaceRows(near, write_rows(store, table, rows(*near)))
            elif kind == "delete":
                effect = ReplaceRows(near)
            elif kind == "empty":
                effect = OverwriteRows(write_rows(store, table, rows(*(f"k{i}" for i in range(at)))) if at else ())
            if kind == "fold":
                table, mark = folded(store, table, mark)
            else:
                table = apply_effect(store, table, effect, EMPTY_TAIL).table
            told = Table(table.path, store.private_handle(table), store.shared)
            assert list(table.fragments) == list(told.fragments)
            assert table.layout == told.layout


def test_a_tail_keeps_lookups_from_reading_fragments(store: TableStore) -> None:
    base = store.create("nodes/x", SCHEMA)
    first = write_rows(store, base, rows("a"))
    table = apply_effect(store, base, AppendRows(first), EMPTY_TAIL).table
    [fragment] = table.fragments
    tail = EMPTY_TAIL.extended(fragment, first[0].hashes)
    assert locate(table, ["a"], tail).ids == ("a",)
    assert locate(table, ["b"], tail).ids == ()
    lying = EMPTY_TAIL.extended(fragment, pack_hashes(["b"]))
    assert locate(table, ["a"], lying).ids == (), "the tail decides what is read: it must never be wrong"
    assert locate(table, ["b"], lying).ids == (), "a hash that matches is confirmed on the row"


def test_ids_with_quotes_are_data(store: TableStore) -> None:
    odd = ["it's", '"; drop', "a\\b", "%", "ü", ""]
    table = appended(store, store.create("nodes/x", SCHEMA), *odd)
    assert set(locate(table, odd, EMPTY_TAIL).ids) == set(odd)
    assert locate(table, ["' OR '1'='1"], EMPTY_TAIL).ids == ()


def test_a_column_is_added_beside_the_data(store: TableStore) -> None:
    from omnigraph.storage.columns import add_column

    base = appended(store, appended(store, store.create("nodes/x", SCHEMA), "a", "b"), "c")
    base, _ = folded(store, base, 0)
    base = add_column(store, base, pa.field("tags", pa.list_(pa.string())))
    wide = add_column(store, base, pa.field("nick", pa.string()))
    assert wide.scan(["id", "nick"]).to_pylist() == [{"id": i, "nick": None} for i in "abc"]
    scored = add_column(store, wide, pa.field("score", pa.int64()), default=7)
    assert scored.scan(["score"])["score"].to_pylist() == [7, 7, 7]
    assert locate(scored, ["b"], EMPTY_TAIL).ids == ("b",)
    assert base.scan().column_names == ["id", "n", "tags"], "the old version reads as it was"
    more = pa.table(
        {"id": ["d"], "n": pa.array([1], pa.int32()), "tags": [["t"]], "nick": ["x"], "score": pa.array([9])}
    )
    grown = apply_effect(store, scored, AppendRows(write_rows(store, scored, more)), EMPTY_TAIL).table
    assert grown.scan(["id", "tags", "nick", "score"], where="nick = 'x'").to_pylist() == [
        {"id": "d", "tags": ["t"], "nick": "x", "score": 9}
    ]
    assert grown.scan(["n"])["n"].to_pylist() == [0, 1, 0, 1]
    empty = add_column(store, store.create("nodes/y", SCHEMA), pa.field("z", pa.bool_()))
    assert empty.scan().column_names == ["id", "n", "z"]
    assert store.head_version("nodes/x") == 2
