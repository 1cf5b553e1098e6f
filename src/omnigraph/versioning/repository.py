"""One open graph below the facade: the store and everything that reads or moves its branches.

`resolve` turns the target of a read (a branch, a commit id, a tag, a manifest version) into a state.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.api.commits import Branch, GraphCommit, Tag
from omnigraph.api.target import FORMS, Back, Place, Target, commit_prefix, parse_target
from omnigraph.errors import (
    CommitNotFound,
    CorruptGraph,
    HistoricalVersionReclaimed,
    MissingData,
    NotFound,
    VersionNotFound,
)
from omnigraph.storage.layout import CONDEMNED, manifest_path, version_file
from omnigraph.versioning import history
from omnigraph.versioning.branch_heads import BranchHeads
from omnigraph.versioning.claims import Claims
from omnigraph.versioning.deletion_lists import read_deletion_lists
from omnigraph.versioning.intents import Intents
from omnigraph.versioning.manifest import ManifestState, read_state
from omnigraph.versioning.publish import Publisher
from omnigraph.versioning.recovery import Recovery
from omnigraph.versioning.refs import MAIN, Refs
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import GraphStore
from omnigraph.versioning.tags import Tags

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
T = TypeVar("T")
_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Which commits a listing shows."""

    actor: str | None = None
    limit: int | None = None


class Repository:
    """Branches, tags, commits and recovery of one graph."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.tips = BranchHeads(store)
        self.intents = Intents(store)
        self.claims = Claims(store.objects)
        self.publisher = Publisher(store, self.tips, self.intents, self.claims)
        self.tags = Tags(store, self.claims)
        self.refs = Refs(store, self.tips, self.publisher, self.claims, self.tags)
        self.recovery = Recovery(store, self.tips, self.intents, self.publisher)

    def head(self, branch: str = MAIN) -> ManifestState:
        """The newest state of a branch."""
        self.recovery.sweep_after_reads()
        return self.refs.head(branch)

    def recent_head(self, branch: str = MAIN) -> ManifestState:
        """A state of a branch that may be some seconds old; sends no request where requests have a price."""
        try:
            state = self.refs.tip(branch).recent()
        except MissingData:
            return self.head(branch)
        return self.head(branch) if state.closed else state

    def find_commit(self, branch: str, commit_id: str) -> GraphCommit | None:
        """A commit of a branch by its id, as of the newest state; None if the commit or the branch does not exist."""
        try:
            state = self.head(branch)
        except NotFound:
            return None
        return history.find(self.store.objects, state, commit_id)

    def at_version(self, version: int, branch: str = MAIN) -> ManifestState:
        """A branch as it was at one of its manifest versions."""
        claim = self.refs.get(branch)
        state = self.state_at(claim.name, claim.native_branch, version)
        self._require_counted(state)
        return state

    def at_commit(self, commit_id: str) -> ManifestState:
        """The graph as one commit left it."""
        return self.at(self.commit(commit_id))

    def at(self, commit: GraphCommit) -> ManifestState:
        """The graph as a known commit left it, also when the branch it was made on has been deleted since."""
        return self.state_at(
            commit.manifest_branch, commit.native_branch, commit.manifest_version, commit.graph_commit_id
        )

    def at_time(self, moment: dt.datetime, branch: str = MAIN) -> ManifestState:
        """A branch as its last commit up to a moment left it. A time without a zone is in UTC."""
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        limit = (zoned - _EPOCH) // dt.timedelta(microseconds=1)
        for commit in history.walk(self.store.objects, self.head(branch)):
            if commit.created_at <= limit:
                return self.at(commit)
        raise NotFound(
            f"{branch!r} did not exist at {zoned.isoformat()}", hint="`omnigraph log` shows when its commits were made"
        )

    def resolve(self, target: Target) -> ManifestState:
        """The state that a target names; None is main's head, a number a version of main. `targets` has the texts."""
        if target is None:
            return self.head(MAIN)
        if isinstance(target, dt.datetime):
            return self.at_time(target)
        if isinstance(target, int):
            return self.at_version(target)
        if isinstance(target, Place):
            return self._at_place(target)
        return (self._named(target) if target else None) or self._spelled(target)

    def _named(self, name: str) -> ManifestState | None:
        if self.refs.resolve(name) is not None:
            return self.head(name)
        tag = self.tags.find(name)
        if tag is None:
            return None
        return self.state_at(tag.branch, tag.native_branch, tag.manifest_version, tag.graph_commit_id)

    def _spelled(self, text: str) -> ManifestState:
        place = parse_target(text)
        if isinstance(place, Back):
            return self._before(self.resolve(place.target), place.steps, text)
        if place is not None:
            return self._at_place(place)
        try:
            return self.at_commit(text)
        except CommitNotFound:
            found = self._commit_beginning_with(text)
            if found is not None:
                return self.at(found)
            hint = f"{self.refs.not_found(text).hint}; a target is {FORMS}"
            raise NotFound(f"{text!r} is no branch, tag or commit", hint=hint) from None

    def _at_place(self, place: Place) -> ManifestState:
        branch = place.branch or MAIN
        if isinstance(place.at, int):
            return self.at_version(place.at, branch)
        return self.at_time(place.at, branch)

    def _before(self, state: ManifestState, steps: int, text: str) -> ManifestState:
        commit = history.find(self.store.objects, state, state.head)
        for done in range(steps):
            parent = commit.parent_commit_id if commit is not None else None
            if parent is None:
                raise NotFound(
                    f"{text!r} is before the first commit: there are {done} commits before {state.head}",
                    hint="`omnigraph log` shows them",
                )
            commit = history.find(self.store.objects, state, parent)
        if commit is None:
            raise CommitNotFound(f"a commit before {state.head} is in no history", hint="`omnigraph fsck` says more")
        return self.at(commit) if steps else state

    def _commit_beginning_with(self, text: str) -> GraphCommit | None:
        prefix = commit_prefix(text)
        if prefix is None:
            return None
        found: dict[str, GraphCommit] = {}
        for branch in self._branches_main_first():
            state = self.tips.of(branch.name, branch.native_branch).state()
            for commit in history.walk(self.store.objects, state):
                if commit.graph_commit_id.startswith(prefix):
                    found[commit.graph_commit_id] = commit
        if len(found) > 1:
            shown = ", ".join(sorted(found)[:_MAX_SHOWN])
            raise NotFound(f"{len(found)} commit ids begin with {text!r}", hint=f"write more of it: {shown}")
        return next(iter(found.values()), None)

    def commits(self, branch: str = MAIN, wanted: CommitFilter | None = None) -> Iterator[GraphCommit]:
        """Commits of a branch, newest first."""
        wanted = wanted or CommitFilter()
        shown = 0
        for commit in history.walk(self.store.objects, self.head(branch)):
            if wanted.limit is not None and shown >= wanted.limit:
                return
            if wanted.actor is None or commit.actor_id == wanted.actor:
                shown += 1
                yield commit

    def commit(self, commit_id: str) -> GraphCommit:
        """A commit by id, on any branch. A branch that cannot be read hides only its own commits."""
        unreadable: list[str] = []
        for branch in self._branches_main_first():
            try:
                state = self.tips.of(branch.name, branch.native_branch).state()
                found = history.find(self.store.objects, state, commit_id)
            except (MissingData, CorruptGraph):
                if branch.name == MAIN:
                    raise
                unreadable.append(branch.name)
                continue
            if found is not None:
                return found
        hint = "`omnigraph commit list` shows commit ids"
        if unreadable:
            hint = f"these branches cannot be read and may know it: {', '.join(unreadable)}; see `omnigraph fsck`"
        raise CommitNotFound(f"no branch knows commit {commit_id!r}", hint=hint)

    def create_branch(self, name: str, source: Target = MAIN) -> Branch:
        """Create a branch from a branch, a tag, a commit id or a manifest version."""
        self.store.require_writable()
        self.recovery.sweep_if_due()
        state = self.resolve(source)
        branch = self.refs.create(name, state)
        if state is not self.tips.of(state.branch, state.native_branch).known:
            try:
                self.require_revivable(state)
            except HistoricalVersionReclaimed:
                self.refs.delete(branch.name)
                raise
        return branch

    def create_tag(self, name: str, source: Target = MAIN) -> Tag:
        """Name a state by a tag; its pins are kept from then on."""
        state = self.resolve(source)
        tag = self.tags.create(name, state)
        if state is not self.tips.of(state.branch, state.native_branch).known:
            try:
                self.require_revivable(state)
            except HistoricalVersionReclaimed:
                self.tags.delete(name)
                raise
        return tag

    def _branches_main_first(self) -> Iterator[Branch]:
        yield Branch(MAIN)
        for branch in self.refs.list():
            if branch.name != MAIN:
                yield branch

    def state_at(self, branch: str, native_branch: str | None, version: int, head: str | None = None) -> ManifestState:
        """One version of one incarnation of a branch, live or closed. With `head`, the one that this commit made."""
        state = self._version(branch, native_branch, version)
        if head is not None and state.head != head:
            raise self._reclaimed(state)
        return state

    def _version(self, branch: str, native_branch: str | None, version: int) -> ManifestState:
        tip = self.tips.of(branch, native_branch)
        seen = tip.remembered(version)
        if seen is not None and self.store.manifests.has_version(tip.location, version):
            return seen
        try:
            opened = self.store.manifests.at(tip.location, version)
        except VersionNotFound:
            raise self._missing_version(branch, native_branch, version) from None
        return read_state(opened, branch, native_branch, tip.known)

    def _require_counted(self, state: ManifestState) -> None:
        """Refuse a version in a slot that a collector had emptied: its writer found the floor and published elsewhere.

        A version that counts is in the history of its branch under its own number.
        """
        if state.version == 1 or state.closed:  # not made by a swap, or by a swap without a commit
            return
        tip = self.tips.of(state.branch, state.native_branch)
        commit = tip.known.commits.get(state.head) if tip.known is not None else None
        if commit is None:
            if state.version >= self.claims.status(state.native_branch).floor:
                return
            commit = history.find(self.store.objects, tip.state(), state.head)
        if commit is None or (commit.native_branch, commit.manifest_version) != (state.native_branch, state.version):
            raise self._reclaimed(state)

    def _missing_version(self, branch: str, native_branch: str | None, version: int) -> NotFound:
        reclaimed = HistoricalVersionReclaimed(
            f"version {version} of {branch!r} has been reclaimed by cleanup", hint="tag the snapshots you want to keep"
        )
        try:
            head = self.tips.of(branch, native_branch).state().version
        except MissingData:
            status = self.claims.status(native_branch)
            if native_branch is not None and not status.is_open:
                return reclaimed
            raise
        if 1 <= version <= head:
            return reclaimed
        return VersionNotFound(f"{branch!r} has no version {version}; its newest is {head}")

    def require_kept(self, entries: Iterable[TableEntry], objects: Iterable[str] = ()) -> None:
        """Refuse pins that a collector has condemned. A caller that revives pins makes its root durable first."""
        wanted = {*(f"{e.location}@{e.staged_version}" for e in entries), *objects}
        for info in self.store.objects.list(CONDEMNED):
            condemned = read_deletion_lists(self.store.objects, info.path)
            if wanted.intersection(condemned.pins) or wanted.intersection(condemned.objects):
                raise HistoricalVersionReclaimed(
                    "a version that this needs is being reclaimed by cleanup", hint="begin with a newer commit"
                )

    def require_revivable(self, state: ManifestState) -> None:
        """Refuse a state that is being reclaimed, or was since it was read. Its new root is durable already.

        A collector that looked for roots before that either still has its list, or has finished: then the manifest
        version, which it deletes first, is gone.
        """
        location = self.tips.of(state.branch, state.native_branch).location
        version = f"{location}/{version_file(state.version)}"
        self.require_kept(state.tables.values(), (version, *(extent.location for extent in state.extents)))
        if not self.store.objects.exists(version):
            raise self._reclaimed(state)

    @contextmanager
    def reading(self, *states: ManifestState) -> Iterator[None]:
        """Read tables of some states; raises the error for reclaimed states if cleanup has removed files meanwhile."""
        try:
            yield
        except MissingData as error:
            for state in states:
                if not self.store.manifests.has_version(manifest_path(state.native_branch), state.version):
                    raise self._reclaimed(state) from error
            raise

    def read_through(self, items: Iterable[T], *states: ManifestState) -> Iterator[T]:
        """Items that are read lazily from the tables of some states, under `reading`."""
        with self.reading(*states):
            yield from items

    def _reclaimed(self, state: ManifestState) -> HistoricalVersionReclaimed:
        return HistoricalVersionReclaimed(
            f"version {state.version} of {state.branch!r} has been reclaimed by cleanup",
            hint="tag the snapshots you want to keep",
        )
