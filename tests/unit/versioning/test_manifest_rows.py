"""Writing and reading a state is made cheap by what is remembered; what is remembered never shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.api.commits import GraphCommit
from omnigraph.storage.layout import MANIFEST
from omnigraph.versioning.manifest import ManifestState, RowWriter, read_state
from omnigraph.versioning.snapshot import TableEntry

SCHEMA = "node A { name: String @key }\nnode B { name: String @key }"


def commit(number: int, version: int) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=f"c{number}",
        manifest_branch="main",
        manifest_version=version,
        parent_commit_id=f"c{number - 1}",
    )


LOCATION = f"nodes/{1:016x}-{1:026}"


def pin(version: int) -> TableEntry:
    return TableEntry(
        table_key="node:A", type_id="t", location=LOCATION, table_version=version, staged_version=version + 10,
        content_version=f"c{version}", row_count=version,
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["publish", "lose", "retry", "settle", "others", "close"]), st.integers(1, 4)))
)
def test_rows_are_those_of_a_writer_without_memory(steps: list[tuple[str, int]]) -> None:
    writer = RowWriter()
    state = ManifestState("main", None, 1, "c0", "h", {"node:A": pin(1)}, {"c0": commit(0, 1)})
    number = 0
    for kind, count in steps:
        for _ in range(count if kind == "others" else 1):
            number += 1
            news = commit(number, state.version + 1)
            target = replace(
                state, version=state.version + 1, head=news.graph_commit_id, tables={"node:A": pin(number)},
                commits={**state.commits, news.graph_commit_id: news}, closed=kind == "close",
            )  # fmt: skip
            if kind == "settle":
                kept = list(target.commits.values())[-2:]
                target = replace(target, commits={c.graph_commit_id: c for c in kept})
            if kind != "others":  # those of others are never seen by this writer until it reads them
                assert writer.rows(target).equals(RowWriter().rows(target))
            if kind == "retry":  # nobody knows what became of it, and it is tried again in the same slot
                news = replace(news, created_at=count)
                target = replace(target, commits={**state.commits, news.graph_commit_id: news})
                assert writer.rows(target).equals(RowWriter().rows(target))
            if kind == "lose":  # the slot was taken: the same commit is written again, one version later
                again = replace(news, manifest_version=news.manifest_version + 1)
                other = commit(-number, state.version + 1)
                state = replace(
                    state, version=state.version + 1, commits={**state.commits, other.graph_commit_id: other}
                )
                target = replace(
                    target, version=state.version + 1, commits={**state.commits, again.graph_commit_id: again}
                )
                assert writer.rows(target).equals(RowWriter().rows(target))
            state = replace(target, closed=False)


def test_a_state_read_beside_an_earlier_one_is_the_state(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    writer = Graph.open(tmp_path / "g")
    manifests = graph.repository.store.manifests
    earlier = None
    for number in range(30):
        writer.load([{"type": "AB"[number % 2], "data": {"name": f"n{number}"}}])
        opened = manifests.latest(MANIFEST)
        found = read_state(opened, "main", None, earlier)
        assert found == read_state(opened, "main", None)
        assert list(found.commits) == list(read_state(opened, "main", None).commits)
        if number % 3 == 0:
            earlier = found


def test_an_entry_is_written_as_it_was_read_until_it_changes() -> None:
    text = pin(1).metadata_text().replace(":", ": ", 1)  # as another writer might have put it
    read = TableEntry.parse("node:A", LOCATION, 1, 1, text)
    assert read == pin(1)
    assert read.metadata_text() == text
    moved = replace(read, staged_version=99)
    assert moved.metadata_text() == replace(pin(1), staged_version=99).metadata_text()
