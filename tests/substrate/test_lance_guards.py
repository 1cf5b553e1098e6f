"""What we rely on in Lance. Run first whenever pylance is bumped: each test states one behaviour and why it matters."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction

from omnigraph.storage.tables import data_file

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int32())])


def rows(*ids: str, age: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "age": pa.array([age] * len(ids), pa.int32())}, schema=SCHEMA)


def detached(base: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    return LanceDataset.commit(base, operation, read_version=base.version, detached=True)


def append(base: LanceDataset, table: pa.Table) -> LanceDataset:
    return detached(base, LanceOperation.Append(write_fragments(table, base)))


def with_key_index(base: LanceDataset) -> LanceDataset:
    ids = [f.fragment_id for f in base.get_fragments()]
    segment = base.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=ids)
    return detached(base, LanceOperation.CreateIndex([segment], []))


def found(dataset: LanceDataset, *ids: str) -> list[str]:
    listed = ",".join(f"'{i}'" for i in ids)
    return sorted(dataset.to_table(filter=f"id IN ({listed})")["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return lance.write_dataset(SCHEMA.empty_table(), tmp_path / "t", mode="create", enable_stable_row_ids=True)


def overwrite(base: LanceDataset, *ids: str) -> LanceDataset:
    fragments = write_fragments(rows(*ids), base, mode="overwrite")
    return LanceDataset.commit(
        base, LanceOperation.Overwrite(SCHEMA, fragments), read_version=base.version, max_retries=0
    )


def test_overwrite_without_retries_is_a_strict_swap(table: LanceDataset) -> None:
    stale = lance.dataset(table.uri)
    assert overwrite(table, "a").version == 2
    with pytest.raises(CommitConflictError):
        overwrite(stale, "b")
    assert found(lance.dataset(table.uri), "a", "b") == ["a"]


def test_a_swap_into_a_cleaned_slot_succeeds_in_the_past(table: LanceDataset) -> None:
    """Why a state is a swap base for ten seconds only, and superseded versions stay for an hour."""
    stale = lance.dataset(table.uri)
    newest = table
    for i in range(5):
        newest = overwrite(newest, f"v{i}")
    newest.cleanup_old_versions(retain_versions=1, older_than=timedelta(0))
    assert overwrite(stale, "lost").version == 2
    assert lance.dataset(table.uri).version == 6


def test_detached_commits_are_invisible_and_readable_by_number(table: LanceDataset) -> None:
    staged = append(table, rows("a"))
    assert staged.version >= 2**63
    assert lance.dataset(table.uri).count_rows() == 0
    assert lance.dataset(table.uri, version=staged.version).count_rows() == 1


def test_forks_of_one_base_are_isolated(table: LanceDataset) -> None:
    base = append(table, rows("a"))
    left, right = append(base, rows("l")), append(base, rows("r"))
    assert (found(left, "a", "l", "r"), found(right, "a", "l", "r")) == (["a", "l"], ["a", "r"])


def test_written_fragments_may_be_committed_on_another_pin(table: LanceDataset) -> None:
    base = append(table, rows("a"))
    fragments = write_fragments(rows("mine"), base)
    first = detached(base, LanceOperation.Append(fragments))
    moved = append(base, rows("rival"))
    second = detached(moved, LanceOperation.Append(fragments))
    assert found(first, "a", "mine", "rival") == ["a", "mine"]
    assert found(second, "a", "mine", "rival") == ["a", "mine", "rival"]
    row_ids = second.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) == 3


def test_fragment_metadata_round_trips_through_json(table: LanceDataset) -> None:
    [written] = write_fragments(rows("a", "b"), table)
    assert FragmentMetadata.from_json(json.dumps(written.to_json())) == written


def test_the_name_of_a_data_file_is_kept_where_we_read_it(table: LanceDataset) -> None:
    """`path` makes a class at each access; a small write asks for it many times."""
    for fragment in table.get_fragments():
        file = fragment.metadata.files[0]
        assert data_file(fragment.metadata) == file.path


def test_a_committed_fragment_reused_on_another_pin_corrupts(table: LanceDataset) -> None:
    """Why plans keep fragments exactly as written: metadata of a committed version carries row ids."""
    base = append(table, rows("a"))
    committed = dataclasses.replace(append(base, rows("mine")).get_fragments()[-1].metadata, id=0)
    moved = append(base, rows("rival"))
    result = detached(moved, LanceOperation.Append([committed]))
    row_ids = result.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) < len(row_ids)


def test_hand_made_update_masks_by_position_and_keeps_indexes_right(table: LanceDataset) -> None:
    base = with_key_index(append(table, rows("a", "b", "c")))
    fragment = base.get_fragments()[0].delete_rows([1])
    new = write_fragments(rows("b", age=9), base)
    result = detached(base, LanceOperation.Update(updated_fragments=[fragment], new_fragments=new))
    assert found(result, "a", "b", "c") == ["a", "b", "c"]
    assert result.to_table(filter="id = 'b'")["age"].to_pylist() == [9]
    assert "ScalarIndexQuery" in result.scanner(filter="id = 'a'").explain_plan()


def test_update_may_remove_every_fragment(table: LanceDataset) -> None:
    base = append(append(table, rows("a")), rows("b"))
    ids = [f.fragment_id for f in base.get_fragments()]
    result = detached(base, LanceOperation.Update(removed_fragment_ids=ids, new_fragments=[]))
    assert result.count_rows() == 0
    assert append(result, rows("c")).count_rows() == 1


def test_a_stale_update_resurrects_rows(table: LanceDataset) -> None:
    """Why an update is restaged on a moved pin and never committed again."""
    base = append(table, rows("a", "b", "c"))
    masked_b = base.get_fragments()[0].delete_rows([1])
    masked_a = base.get_fragments()[0].delete_rows([0])
    without_b = detached(base, LanceOperation.Update(updated_fragments=[masked_b], new_fragments=[]))
    result = detached(without_b, LanceOperation.Update(updated_fragments=[masked_a], new_fragments=[]))
    assert found(result, "a", "b", "c") == ["b", "c"]


def test_deleted_rows_stay_in_their_places_and_have_no_id(table: LanceDataset) -> None:
    """Why ids that are kept in memory by place hold for every version of a file, and how deletions are read."""
    base = append(table, rows(*"abcdefgh"))
    for gone in ([1], [4, 6]):
        masked = base.get_fragments()[0].delete_rows(gone)
        base = detached(base, LanceOperation.Update(updated_fragments=[masked], new_fragments=[]))
    [fragment] = base.get_fragments()
    everything = base.scanner(columns=["id"], with_row_id=True, include_deleted_rows=True, fragments=[fragment])
    assert everything.to_table()["id"].to_pylist() == list("abcdefgh")
    ids_only = base.scanner(columns=[], with_row_id=True, include_deleted_rows=True, fragments=[fragment]).to_table()
    assert [i for i, row_id in enumerate(ids_only["_rowid"].to_pylist()) if row_id is None] == [1, 4, 6]
    addresses = base.scanner(columns=["id"], with_row_address=True).to_table()
    assert (addresses["_rowaddr"].to_numpy() & 0xFFFFFFFF).tolist() == [0, 2, 3, 5, 7]
    assert fragment.take([0, 1, 4], columns=["id"])["id"].to_pylist() == ["a", "c", "h"], "deleted rows are not counted"


def test_fast_search_sees_only_what_the_index_covers(table: LanceDataset) -> None:
    """Why the tail is probed by name."""
    base = append(with_key_index(append(table, rows("a"))), rows("tail"))
    quick = base.scanner(filter="id IN ('a', 'tail')", columns=["id"], fast_search=True).to_table()
    assert quick["id"].to_pylist() == ["a"]
    assert found(base, "a", "tail") == ["a", "tail"]


def compact(base: LanceDataset, first_id: int) -> LanceDataset:
    groups = []
    for task in Compaction.plan(base, {"target_rows_per_fragment": 1_000_000}).tasks:
        fresh = [dataclasses.replace(f, id=first_id + i) for i, f in enumerate(task.execute(base).new_fragments)]
        groups.append(LanceOperation.RewriteGroup(task.fragments, fresh))
    return detached(base, LanceOperation.Rewrite(groups, []))


def claimed_then_emptied(table: LanceDataset) -> tuple[LanceDataset, int]:
    """A table whose index still claims a fragment that no longer lives, and the id of that fragment."""
    base = append(append(table, rows("a", "b")), rows("x", "y"))
    base = with_key_index(base)
    gone = base.get_fragments()[1].fragment_id
    base = detached(base, LanceOperation.Update(removed_fragment_ids=[gone], new_fragments=[]))
    return append(append(base, rows("c")), rows("d")), gone


def test_a_fresh_fragment_id_keeps_lookups_right(table: LanceDataset) -> None:
    base, _ = claimed_then_emptied(table)
    live = [f.fragment_id for f in base.get_fragments()]
    claimed = [i for index in base.describe_indices() for s in index.segments for i in s.fragment_ids]
    result = compact(base, max(live + claimed) + 1)
    assert found(result, "a", "b", "c", "d", "x") == ["a", "b", "c", "d"]


def test_a_reused_fragment_id_loses_lookups(table: LanceDataset) -> None:
    """Why pins carry a high-water mark: an index answers, wrongly, for a fragment whose id it claims."""
    base, gone = claimed_then_emptied(table)
    result = compact(base, gone)
    assert result.count_rows() == 4
    assert found(result, "c", "d") != ["c", "d"]


def test_staged_upserts_of_one_new_key_both_succeed(table: LanceDataset) -> None:
    """Why key uniqueness is ours to check."""
    base = append(table, rows("a"))
    merge = base.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    twice, _ = merge.execute_uncommitted(rows("new", "new"))
    assert LanceDataset.commit(base, twice, detached=True).count_rows() == 3


def test_the_guard_tag_stops_a_foreign_cleanup(tmp_path: Path) -> None:
    from omnigraph.storage.durability import Durability
    from omnigraph.storage.layout import GraphRoot
    from omnigraph.storage.tables import TableStore

    root = GraphRoot.parse(tmp_path)
    created = TableStore(root, {}, Durability(root)).create("nodes/x", SCHEMA)
    assert created.version == 2
    assert created.dataset.has_stable_row_ids
    with pytest.raises(OSError, match="tag"):
        lance.dataset(root.join("nodes/x")).cleanup_old_versions(older_than=timedelta(0))


def test_stable_row_ids_survive_effects(table: LanceDataset) -> None:
    base = append(table, rows("a", "b"))
    ids = [f.fragment_id for f in base.get_fragments()]
    replaced = detached(
        base, LanceOperation.Update(removed_fragment_ids=ids, new_fragments=write_fragments(rows("c"), base))
    )
    assert replaced.has_stable_row_ids
    assert lance.dataset(table.uri, version=replaced.version).has_stable_row_ids


def test_version_files_are_named_newest_first(table: LanceDataset) -> None:
    from omnigraph.storage.layout import detached_file, version_file

    staged = append(table, rows("a"))
    assert (Path(table.uri) / version_file(1)).exists()
    assert (Path(table.uri) / detached_file(staged.version)).exists()
    overwrite(table, "b")
    assert version_file(2) < version_file(1)
    assert (Path(table.uri) / version_file(2)).exists()


def test_literals_outside_the_domain_raise(table: LanceDataset) -> None:
    """Why predicates are folded before they reach Lance."""
    base = append(table, rows("a"))
    with pytest.raises(ValueError, match=r"\w"):
        base.to_table(filter="age = 3000000000")


def test_a_scan_keeps_the_order_of_writing(table: LanceDataset) -> None:
    ids = [f"{i:05d}" for i in np.random.default_rng(7).permutation(20_000)]
    assert append(table, rows(*ids)).scanner(scan_in_order=True).to_table()["id"].to_pylist() == ids
