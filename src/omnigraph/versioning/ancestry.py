"""How two branches are related: the commits that only one of them has, and their merge base.

Every state can list the whole ancestry of its head, because a merge copies the commits that only its source had. So an
ancestor question is a membership question, and a walk from a head ends where the other branch's history begins: the
cost depends on the commits since the merge base, not on the length of the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from omnigraph.api.commits import GraphCommit
from omnigraph.errors import CorruptGraph
from omnigraph.storage.objects import ObjectStore
from omnigraph.versioning.history import read_extent
from omnigraph.versioning.manifest import HistoryExtent, ManifestState
from omnigraph.versioning.repository import Repository


class Lineage:
    """The ancestry of one head. Archived history files are read only when an id may lie in them, and once."""

    def __init__(self, objects: ObjectStore, state: ManifestState, read: dict[str, dict[str, GraphCommit]]) -> None:
        self._objects = objects
        self._state = state
        self._read = read

    def find(self, commit_id: str) -> GraphCommit | None:
        """A commit of this ancestry, or None."""
        inline = self._state.commits.get(commit_id)
        if inline is not None:
            return inline
        for extent in reversed(self._state.extents):
            if extent.first <= commit_id <= extent.last:
                found = self._commits(extent).get(commit_id)
                if found is not None:
                    return found
        return None

    def __contains__(self, commit_id: str) -> bool:
        return self.find(commit_id) is not None

    def _commits(self, extent: HistoryExtent) -> dict[str, GraphCommit]:
        found = self._read.get(extent.location)
        if found is None:
            found = {c.graph_commit_id: c for c in read_extent(self._objects, extent)}
            self._read[extent.location] = found
        return found


@dataclass(frozen=True, slots=True)
class Relation:
    """Two heads: the commits that only each of them has (parents before children), and their merge base."""

    ours_only: tuple[GraphCommit, ...]
    theirs_only: tuple[GraphCommit, ...]
    base: GraphCommit


def relate(objects: ObjectStore, ours: ManifestState, theirs: ManifestState) -> Relation:
    """The relation of two heads: the commits of each that the other lacks, and their merge base."""
    read: dict[str, dict[str, GraphCommit]] = {}
    mine, other = Lineage(objects, ours, read), Lineage(objects, theirs, read)
    ours_only, our_border = _beyond(mine, ours.head, other)
    theirs_only, their_border = _beyond(other, theirs.head, mine)
    candidates = {c: commit for c in our_border & their_border if (commit := mine.find(c)) is not None}
    if not candidates:
        raise CorruptGraph(f"branches {ours.branch!r} and {theirs.branch!r} have no commit in common")
    lowest = _lowest(mine, candidates)
    base = max(lowest, key=lambda c: (c.manifest_version, c.created_at, c.graph_commit_id))
    return Relation(ours_only, theirs_only, base)


def merge_bases(repository: Repository) -> tuple[GraphCommit, ...]:
    """Every commit that two live branches would merge from: a collector keeps their manifests and pins.

    A base may lie on a branch that was merged and deleted since. Merge bases of later commits are among these, or
    younger.
    """
    states = [repository.tips.of(b.name, b.native_branch).state() for b in repository.refs.list()]
    bases = {}
    for ours, theirs in combinations(states, 2):
        base = relate(repository.store.objects, ours, theirs).base
        bases[base.graph_commit_id] = base
    return tuple(bases[commit_id] for commit_id in sorted(bases))


def _beyond(lineage: Lineage, head: str, other: Lineage) -> tuple[tuple[GraphCommit, ...], set[str]]:
    """The commits that `other` lacks, parents first, and the first ones on every path that it has.

    A lowest common ancestor is reached from both heads through commits that the other side lacks, so it lies on the
    border of both.
    """
    lacking: dict[str, GraphCommit] = {}
    border: set[str] = set()
    waiting = [head]
    while waiting:
        commit_id = waiting.pop()
        if commit_id in lacking or commit_id in border:
            continue
        if commit_id in other:
            border.add(commit_id)
            continue
        commit = _require(lineage, commit_id)
        lacking[commit_id] = commit
        waiting.extend(parents(commit))
    return tuple(_parents_first(lacking)), border


def parents(commit: GraphCommit) -> tuple[str, ...]:
    """The commits that a commit was made from: one, two for a merge, none for the first."""
    return tuple(p for p in (commit.parent_commit_id, commit.merged_parent_commit_id) if p is not None)


def _require(lineage: Lineage, commit_id: str) -> GraphCommit:
    commit = lineage.find(commit_id)
    if commit is None:
        raise CorruptGraph(f"commit {commit_id} is named as a parent and is in no history")
    return commit


def _parents_first(commits: dict[str, GraphCommit]) -> Iterable[GraphCommit]:
    done: set[str] = set()
    for start in sorted(commits):
        stack = [start]
        while stack:
            commit_id = stack[-1]
            pending = [p for p in parents(commits[commit_id]) if p in commits and p not in done]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            if commit_id not in done:
                done.add(commit_id)
                yield commits[commit_id]


def _lowest(lineage: Lineage, candidates: dict[str, GraphCommit]) -> list[GraphCommit]:
    """The candidates that are not ancestors of another candidate. Several remain only in a criss-cross history."""
    if len(candidates) == 1:
        return list(candidates.values())
    above: set[str] = set()
    for commit in candidates.values():
        seen: set[str] = set()
        waiting = list(parents(commit))
        while waiting:
            commit_id = waiting.pop()
            if commit_id not in seen:
                seen.add(commit_id)
                waiting.extend(parents(_require(lineage, commit_id)))
        above |= seen & candidates.keys()
    return [commit for commit_id, commit in candidates.items() if commit_id not in above]
