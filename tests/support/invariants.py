"""What must be true of every version of every branch, checked by reading all of them.

Nothing here trusts a cache of the code under test: each check opens the graph anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from omnigraph import Branch, Graph, GraphCommit, Snapshot
from omnigraph.errors import HistoricalVersionReclaimed, NotFound, VersionNotFound
from omnigraph.storage.lookup import locate
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table

TWINS = ("node:Left", "node:Right")


@dataclass
class Checked:
    """How much was looked at."""

    versions: int = 0
    pins: int = 0
    heads: dict[str, int] = field(default_factory=dict)


class _Reader:
    """Scans every pin once, whole; pins are immutable."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scanned: dict[tuple[str, int], pa.Table] = {}

    def rows(self, entry: TableEntry) -> pa.Table:
        key = (entry.location, entry.staged_version)
        if key not in self.scanned:
            rows = open_table(self.graph.repository.store, entry).scan()
            ids = rows["id"].to_pylist()
            assert len(set(ids)) == len(ids), f"{entry.table_key}: an id is stored twice: {_doubles(ids)}"
            self.scanned[key] = rows
        return self.scanned[key]

    def column(self, entry: TableEntry, name: str) -> set[str]:
        return set(self.rows(entry)[name].to_pylist())


def check_every_version(uri: str | os.PathLike[str]) -> Checked:
    """Open and scan every version of every branch, and check each against itself and against the one before it."""
    graph = Graph.open(uri, mode="ro")
    reader = _Reader(graph)
    checked = Checked()
    for branch in graph.branches.list():
        newest = _check_branch(graph, branch, reader, checked)
        checked.heads[branch.name] = newest.version
        _check_lookups(graph, newest, reader)
    checked.pins = len(reader.scanned)
    return checked


def check_acknowledged(uri: str | os.PathLike[str], acks: Iterable[Mapping[str, Any]]) -> int:
    """Every acknowledged commit is in its branch's lineage once, and left the keys it said at its own version."""
    graph = Graph.open(uri, mode="ro")
    lineages = {b.name: [c.graph_commit_id for c in graph.commits.walk(b.name)] for b in graph.branches.list()}
    commits = {c.graph_commit_id: c for name in lineages for c in graph.commits.walk(name)}
    reader = _Reader(graph)
    count = 0
    for ack in acks:
        assert lineages[ack["branch"]].count(ack["commit"]) == 1, f"acknowledged and not there once: {ack}"
        snapshot = graph.snapshot_at_version(commits[ack["commit"]].manifest_version, ack["branch"])
        for key, ids in ack.get("keys", {}).items():
            missing = set(ids) - reader.column(snapshot.tables[key], "id")
            assert not missing, f"acknowledged and not visible: {missing} of {key} in {ack}"
        for key, ids in ack.get("gone", {}).items():
            left = set(ids) & reader.column(snapshot.tables[key], "id")
            assert not left, f"acknowledged as deleted and still visible: {left} of {key} in {ack}"
        count += 1
    return count


def _check_branch(graph: Graph, branch: Branch, reader: _Reader, checked: Checked) -> Snapshot:
    try:
        commits = {c.graph_commit_id: c for c in graph.commits.walk(branch.name)}
        _check_lineage(list(commits.values()))
        is_open = True
    except NotFound:  # closed: readable by version only
        commits, is_open = {}, False
    previous: Snapshot | None = None
    has_gap = False
    version = 1
    while True:
        try:
            snapshot = graph.snapshot_at_version(version, branch.name)
        except HistoricalVersionReclaimed:
            previous, has_gap, version = None, True, version + 1
            continue
        except VersionNotFound:
            break
        assert snapshot.version == version, f"{snapshot} was asked for as version {version}"
        _check_snapshot(graph, snapshot, reader)
        if is_open and not (has_gap and previous is None):
            _check_link(branch, previous, snapshot, commits)
        checked.versions += 1
        previous = snapshot
        version += 1
    assert previous is not None, f"{branch.name} has no version at all"
    if is_open:
        assert graph.snapshot(branch.name).version == previous.version, f"{branch.name}: the head is not the last"
        head = graph.commits.head(branch.name)
        assert head.graph_commit_id == previous.commit_id, f"{branch.name}: {head} is not of the last {previous}"
    return previous


def _check_lineage(newest_first: list[GraphCommit]) -> None:
    """One chain of first parents from the head to the first commit; a merge's other parents come before it."""
    place = {c.graph_commit_id: at for at, c in enumerate(newest_first)}
    assert len(place) == len(newest_first), "a commit is listed twice"
    for at, commit in enumerate(newest_first):
        for parent in filter(None, (commit.parent_commit_id, commit.merged_parent_commit_id)):
            assert place[parent] > at, f"{commit} stands before its parent"
    merged = [c for c in newest_first if c.merged_parent_commit_id]
    if not merged:
        for child, parent in pairwise(newest_first):
            assert child.parent_commit_id == parent.graph_commit_id, f"{child} does not follow {parent}"
    oldest = newest_first[-1]
    assert (oldest.parent_commit_id, oldest.kind) == (None, "init"), f"{oldest} is no beginning"


def _check_link(
    branch: Branch, previous: Snapshot | None, snapshot: Snapshot, commits: Mapping[str, GraphCommit]
) -> None:
    commit = commits[snapshot.commit_id]
    if previous is None:
        begun = branch.base_commit or commit.graph_commit_id
        assert snapshot.commit_id == begun, f"{branch.name} begins with {snapshot.commit_id}, not with {begun}"
        return
    assert commit.parent_commit_id == previous.commit_id, f"version {snapshot.version} skips its parent"
    assert commit.manifest_version == snapshot.version, f"version {snapshot.version} is of {commit}"
    place = (commit.manifest_branch, commit.native_branch)
    assert place == (branch.name, branch.native_branch), f"version {snapshot.version} of {branch} is of {commit}"
    if snapshot.schema_hash != previous.schema_hash:  # tables come, go and change their names
        return
    touched = {k for k, e in snapshot.tables.items() if e.staged_version != previous.tables[k].staged_version}
    for key in touched:
        entry = snapshot.tables[key]
        assert entry.commit_id == commit.graph_commit_id, f"{entry} has moved in {commit}"
        step = entry.table_version - previous.tables[key].table_version
        is_merge = commit.merged_parent_commit_id is not None
        assert step == 1 or (step > 1 and is_merge), f"{key} goes {step} versions on in {commit}"


def _check_snapshot(graph: Graph, snapshot: Snapshot, reader: _Reader) -> None:
    where = f"{snapshot.branch} version {snapshot.version}"
    for key, entry in snapshot.tables.items():
        rows = reader.rows(entry).num_rows
        assert rows == entry.row_count, f"{where}: {key} says {entry.row_count} rows and holds {rows}"
    for edge in graph.repository.store.catalog(snapshot.schema_hash).edges.values():
        for column, node in (("src", edge.source), ("dst", edge.target)):
            ends = reader.column(snapshot.tables[edge.table_key], column)
            dangling = ends - reader.column(snapshot.tables[f"node:{node}"], "id")
            assert not dangling, f"{where}: {edge.name}.{column} names {dangling}, which {node} does not hold"
    if snapshot.tables.keys() >= set(TWINS):
        left, right = (reader.column(snapshot.tables[key], "id") for key in TWINS)
        assert left == right, f"{where}: half a transaction is visible: {left ^ right}"


def _check_lookups(graph: Graph, snapshot: Snapshot, reader: _Reader) -> None:
    """The key lookup of each table, indexes included, finds exactly what a scan finds."""
    for key, entry in snapshot.tables.items():
        ids = sorted(reader.column(entry, "id"))
        found = locate(open_table(graph.repository.store, entry), [*ids[:2000], "no-such-id"], entry.tail).ids
        assert sorted(found) == ids[:2000], f"{snapshot.branch}: lookups of {key} and its rows disagree"


def _doubles(ids: list[str]) -> list[str]:
    return sorted({i for i in ids if ids.count(i) > 1})[:5]
