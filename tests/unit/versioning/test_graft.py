"""What a merge takes over: versions of tables never go back, and a commit has one place in a history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.api.commits import GraphCommit
from omnigraph.versioning.adopted_state import Graft
from omnigraph.versioning.snapshot import TableEntry

ENTRY = TableEntry(
    table_key="node:P", type_id="01", location="nodes/p", table_version=3, staged_version=10, content_version="01C",
    row_count=1,
)  # fmt: skip


@pytest.mark.parametrize(("mine", "theirs", "then"), [(7, 3, 8), (3, 7, 8), (5, 5, 6)])
def test_a_table_that_is_replaced_has_a_version_above_both(mine: int, theirs: int, then: int) -> None:
    before = replace(ENTRY, table_version=mine)
    adopted = replace(ENTRY, table_version=theirs, staged_version=11, content_version="01D")
    after = Graft(adopted=(adopted,)).applied({"node:P": before}, "01E")["node:P"]
    assert (after.table_version, after.staged_version, after.commit_id) == (then, 11, "01E")


def test_a_table_that_is_new_keeps_its_version() -> None:
    assert Graft(adopted=(ENTRY,)).applied({}, "01E")["node:P"].table_version == ENTRY.table_version


def commit(commit_id: str, parent: str | None, at: int) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=commit_id, manifest_branch="main", manifest_version=1, parent_commit_id=parent, created_at=at
    )


def test_a_copied_commit_that_the_branch_has_keeps_its_place() -> None:
    """A merge before this one has brought it; its clock was behind that of the commit in front of it."""
    one, two, three = commit("01A", None, 100), commit("01B", "01X", 50), commit("01C", "01B", 200)
    inline = {c.graph_commit_id: c for c in (one, two)}
    assert list(Graft(commits=(two, three)).history(inline)) == ["01A", "01B", "01C"]


def test_copied_commits_stand_behind_their_parents_whatever_their_clocks_say() -> None:
    own = commit("01A", None, 100)
    copied = commit("01B", "01A", 50)
    assert list(Graft(commits=(copied,)).history({"01A": own})) == ["01A", "01B"]
