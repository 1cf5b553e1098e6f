"""No call in the source tree moves a HEAD of Lance, and the guard that says so finds every such call when planted."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pytest
from lance.dataset import Branches, DatasetOptimizer, LanceDataset, Tags

import omnigraph
from tests.architecture.heads import ALLOWED, LANCE_ONLY, OF_CONTAINERS, OURS, breaches

SRC = Path(omnigraph.__file__).parent
HOSTS = {
    "errors": "errors/base.py", "schema": "schema/parser.py", "query": "query/parser.py",
    "storage": "storage/lookup.py",
    "versioning": "versioning/publish.py", "execution": "execution/arrow/engine.py", "write": "write/merge.py",
    "validation": "write/validation/keys.py", "maintenance": "maintenance/collector.py",
    "handles": "handles/branches.py",
    "graph": "graph.py", "pipeline": "pipeline/load_commit.py", "cli": "cli/main.py",
    "births": "storage/tables.py", "staging": "storage/apply_effects.py", "swap": "storage/manifest_table.py",
}  # fmt: skip
"""A module of every package, and those where some commits are allowed."""

PLANTS = """
dataset.delete("true")
table.dataset.delete("true")
self._home.delete("true")
dataset.update({"a": "1"})
table.dataset.update({"a": "1"})
handle.append(rows)
dataset.insert(rows, mode="append")
dataset.merge(rows, "id")
dataset.merge_insert("id").when_not_matched_insert_all().execute(rows)
table.dataset.merge_insert("id").execute_uncommitted(rows)
lance.dataset(uri).add_columns({"a": "1"})
dataset.alter_columns({"path": "a", "nullable": True})
dataset.drop_columns(["a"])
dataset.restore()
dataset.cleanup_old_versions(retain_versions=1)
dataset.optimize.compact_files()
dataset.optimize.optimize_indices()
handle.optimize
dataset.create_index("v", "IVF_PQ")
dataset.create_scalar_index("a", "BTREE")
dataset.commit_existing_index_segments(rows)
dataset.drop_index("a")
dataset.truncate_table()
dataset.update_config({"a": "1"})
dataset.delete_config_keys(["a"])
dataset.replace_schema_metadata({})
dataset.migrate_manifest_paths_v2()
dataset.add_bases([])
dataset.shallow_clone(uri, 1)
dataset.create_branch("b")
dataset.branches.delete("b")
dataset.tags.create("t", 1)
dataset.tags.update("t", 1)
tags = handle.tags
lance.write_dataset(rows, uri, mode="append")
write_dataset(rows, uri, mode="overwrite")
from lance import write_dataset as write
from lance.dataset import LanceDataset as Other
import lance.dataset
LanceDataset.commit(uri, operation, read_version=2)
LanceDataset.commit(uri, operation, read_version=2, detached=False)
LanceDataset.commit(uri, operation, read_version=2, detached=is_detached)
commit = LanceDataset.commit
dataset.commit(uri, operation, read_version=2)
type(dataset).commit(uri, operation)
LanceDataset.commit_batch(uri, [])
dataset._ds.delete("true")
dataset._commit(uri, operation)
Compaction.execute(dataset)
Compaction.commit(dataset, rows)
getattr(dataset, "delete")("true")
getattr(dataset, "restore")()
MergeInsertBuilder(dataset, "id")
remove = dataset.delete
""".strip().splitlines()


def test_no_call_moves_a_head() -> None:
    """Direct mutators work on a table's HEAD and ignore or destroy detached versions."""
    assert breaches(SRC) == []


def test_what_is_allowed_is_there() -> None:
    """An entry of the list that stands for nothing would allow something new unseen."""
    for where, _, call in ALLOWED:
        assert call.split(".", 1)[1] in (SRC / where).read_text(), f"{where} does not call {call}"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], dict[str, int]]:
    """The findings in a copy of the tree with every plant in every host, and the line above the plants of each."""
    root = tmp_path_factory.mktemp("planted") / "omnigraph"
    shutil.copytree(SRC, root, ignore=shutil.ignore_patterns("__pycache__"))
    above = {}
    for where in HOSTS.values():
        text = (root / where).read_text()
        above[where] = len(text.splitlines()) + 3
        body = "".join(f"    {line}\n" for line in PLANTS)
        (root / where).write_text(f"{text}\n\ndef planted(self, dataset, table, handle, rows, uri, operation):\n{body}")
    return {found.split(" ")[0] for found in breaches(root)}, above


@pytest.mark.parametrize("package", HOSTS)
def test_every_planted_call_is_found(package: str, planted: tuple[set[str], dict[str, int]]) -> None:
    found, above = planted
    where = HOSTS[package]
    unseen = [line for n, line in enumerate(PLANTS, start=above[where] + 1) if f"{where}:{n}" not in found]
    assert unseen == []


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("storage/apply_effects.py", "detached=True", "detached=False"),
        ("storage/tables.py", "_write_guard_tag(Path", "dataset.tags.delete('x'); _write_guard_tag(Path"),
        ("storage/manifest_table.py", "hit(Point.SWAPPED)", "LanceDataset.commit(base.dataset, [], read_version=1)"),
        ("storage/maintenance_tasks.py", "handle.create_index_uncommitted(", "handle.create_scalar_index("),
        ("storage/columns.py", "fragments.append(merged)", "fragments = base.dataset; fragments.append(merged)"),
    ],
)  # fmt: skip
def test_a_change_beside_an_allowed_call_is_found(where: str, old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / where).parent.mkdir()
    text = (SRC / where).read_text()
    assert text.count(old) == 1
    (tmp_path / where).write_text(text.replace(old, new))
    assert any(found.startswith(where) for found in breaches(tmp_path))


READS = frozenset(
    """
    all_files base_paths centroids checkout_latest checkout_version config count_rows data_storage_version delta
    describe_indices drop explain_cleanup_old_versions filter
    fragment_ids from_pydantic_model get_fragment get_fragments
    get_ivf_model get_transactions get_version has_index has_stable_row_ids head index_statistics
    initial_storage_options io_stats_incremental io_stats_snapshot join join_asof lance_schema latest_storage_options
    latest_version list list_indices list_ordered max_field_id mem_wal_index_details metadata new_file_session
    partition_expression prewarm_index read_blob_ranges read_blobs read_transaction remap_row_addrs sample scanner
    schema
    schema_metadata session slice sort_by sql stats storage_options_accessor take take_blobs to_batches to_pandas
    to_table tracked_files uri validate version version_refs versions
""".split()  # noqa: SIM905
)
CREATES_TAGS = {"create"}  # reached through `tags` only, which is guarded


def test_every_method_of_lance_is_known() -> None:
    """A Lance with a new method fails here until somebody says whether the method moves a HEAD."""
    assert lance.LanceDataset is LanceDataset
    methods = {n for c in (LanceDataset, Tags, Branches, DatasetOptimizer) for n in dir(c) if not n.startswith("_")}
    assert methods - READS - CREATES_TAGS - LANCE_ONLY - OF_CONTAINERS - set(OURS) == set()
