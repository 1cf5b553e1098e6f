"""Ids that are not looked up because it is known where they are, or where they are not: never a wrong answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.storage.apply_effects import apply_effect, write_rows
from omnigraph.storage.durability import Durability
from omnigraph.storage.effects import AppendRows, ReplaceRows
from omnigraph.storage.indexes import fold_tail
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.lookup import KEY_SETS, existing_ids
from omnigraph.storage.tables import Table, TableStore
from omnigraph.storage.tail import EMPTY_TAIL

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])
MANY = tuple(f"m{i}" for i in range(5_000))
"""More rows than a process remembers the ids of, or keeps of an index."""


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    location = GraphRoot.parse(tmp_path)
    return TableStore(location, {}, Durability(location, enabled=False))


def appended(store: TableStore, base: Table, *ids: str) -> Table:
    written = write_rows(store, base, pa.table({"id": list(ids)}, schema=SCHEMA))
    return apply_effect(store, base, AppendRows(written), EMPTY_TAIL).table


def without(store: TableStore, base: Table, *ids: str) -> Table:
    return apply_effect(store, base, ReplaceRows(ids), EMPTY_TAIL).table


def folded(store: TableStore, base: Table) -> Table:
    fold = fold_tail(store, base, ["id"], 0)
    assert fold is not None
    return fold[0]


def found(table: Table, *ids: str, absent_in: Table | None = None) -> set[str]:
    return set(existing_ids(table, ids, EMPTY_TAIL, absent_in=absent_in))


@pytest.mark.parametrize("ids", [("a", "b"), ("a", "b", *MANY)], ids=["few", "many"])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_file_with_other_deletions_is_looked_at(store: TableStore, ids: tuple[str, ...], indexed: bool) -> None:
    """An id may be absent in one version only because its row was deleted there: another one still holds it."""
    table = appended(store, store.create("nodes/x", SCHEMA), *ids)
    table = folded(store, table) if indexed else table
    masked = without(store, table, "a")
    assert found(masked, "a", "new") == set()
    assert found(table, "a", "new", absent_in=masked) == {"a"}
    other = without(store, table, "b")
    assert found(other, "a", absent_in=masked) == {"a"}
    assert found(masked, "b", absent_in=other) == {"b"}


@pytest.mark.parametrize("indexed", [True, False])
def test_what_was_added_since_is_looked_at_and_what_is_common_is_not(store: TableStore, indexed: bool) -> None:
    before = appended(store, store.create("nodes/x", SCHEMA), "a", *MANY)
    before = folded(store, before) if indexed else before
    after = appended(store, appended(store, before, "b"), "c", *(f"n{i}" for i in range(5_000)))
    assert found(after, "b", "c", "new", absent_in=before) == {"b", "c"}
    assert found(after, "a", "b", absent_in=before) == {"b"}, "the caller's word counts: `a` is not searched for"
    assert found(after, "a", "b", "c") == {"a", "b", "c"}


def test_a_file_that_replaced_another_is_looked_at(store: TableStore) -> None:
    """Two versions that came from one base may use one fragment id for different files."""
    base = folded(store, appended(store, store.create("nodes/x", SCHEMA), "a"))
    mine, theirs = appended(store, base, "b", *MANY), appended(store, base, "c", *MANY)
    assert set(mine.fragments) == set(theirs.fragments)
    assert found(theirs, "c", absent_in=mine) == {"c"}


def test_the_ids_of_a_small_index_are_kept_and_never_go_stale(store: TableStore) -> None:
    table = folded(store, appended(store, store.create("nodes/x", SCHEMA), "a", "b"))
    assert found(table, "new") == set()
    assert found(table, "new", "b") == {"b"}, "one id that is there is enough to ask the index"
    later = without(store, appended(store, table, "c"), "a")
    assert later.index_home is table.index_home
    assert found(later, "a", "b", "c", "new") == {"b", "c"}
    assert found(later, "c") == {"c"}, "rows that no index covers are looked at all the same"
    again = folded(store, later)
    assert found(again, "a", "b", "c", "new") == {"b", "c"}
    assert found(table, "a", "b", "c", "new") == {"a", "b"}, "the older version is as it was"


def test_the_ids_of_a_large_index_never_go_stale(store: TableStore) -> None:
    table = folded(store, appended(store, store.create("nodes/x", SCHEMA), *MANY))
    masked = without(store, table, "m7")
    for _ in range(40):  # often enough that its ids are read into memory
        assert found(masked, "new") == set()
    KEY_SETS.wait()
    assert found(masked, "m7", "new") == set()
    assert found(table, "m7", "new") == {"m7"}, "the version that has not deleted it"
    assert found(appended(store, masked, "m7"), "m7", "m8", "new") == {"m7", "m8"}


def test_an_index_that_covers_a_part_answers_for_that_part(store: TableStore) -> None:
    table = folded(store, appended(store, store.create("nodes/x", SCHEMA), "a"))
    table = appended(store, table, "tail", *MANY)
    assert found(table, "a", "tail", "new") == {"a", "tail"}
    assert found(table, "tail", "new") == {"tail"}
