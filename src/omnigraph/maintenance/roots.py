"""The roots that a collector must keep: states that the policy retains, tags, merge bases, live intents.

A state is a manifest version of a branch. Every pin it names is a root; so is every object it names (archived history,
change lists). States that the policy gives up are read as well: objects that only they name were published once and
need no staging grace.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from omnigraph.api.commits import Branch, GraphCommit
from omnigraph.errors import CorruptGraph, MissingData, VersionNotFound
from omnigraph.execution.arrow.text_indexes import text_name
from omnigraph.execution.arrow.topologies import EdgePins
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.digests import Digests
from omnigraph.storage.layout import CONDEMNED, MANIFEST, manifest_path, unquote_path
from omnigraph.storage.objects import ObjectInfo
from omnigraph.versioning.ancestry import merge_bases
from omnigraph.versioning.claims import MAIN
from omnigraph.versioning.deletion_lists import read_deletion_lists
from omnigraph.versioning.history import walk
from omnigraph.versioning.load_lists import has_load_list, load_list_path
from omnigraph.versioning.manifest import ManifestState, read_state
from omnigraph.versioning.repository import Repository

_VERSION = re.compile(r"/_versions/(\d{20})\.manifest$")
Pin = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history to keep: versions beyond `keep` and older than `older_than`, where given, are given up.

    `superseded_grace`: published objects are kept at least that long after something newer replaced them.
    `staging_grace`: objects that were never published, or that nothing names, are kept at least that long after they
    were written.
    """

    keep: int | None
    older_than: dt.timedelta | None
    superseded_grace: dt.timedelta
    staging_grace: dt.timedelta


@dataclass
class Roots:
    """Pins and objects to keep, and pins that were published and are given up."""

    pins: set[Pin] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    given_up: set[Pin] = field(default_factory=set)
    given_up_objects: set[str] = field(default_factory=set)
    table_keys: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, ManifestHistory] = field(default_factory=dict)
    manifest_files: dict[str, dict[int, frozenset[str]]] = field(default_factory=dict)
    derived: set[str] = field(default_factory=set)
    natives: dict[str, str | None] = field(default_factory=dict)
    ended: list[Branch] = field(default_factory=list)
    """Deleted branches of which nothing is kept."""

    def keep_state(self, state: ManifestState, catalog: Catalog) -> None:
        """Keep everything that one state names."""
        self.pins.update(self._pins(state))
        self.objects.update(_named_objects(state))
        self.derived.update(_derived_names(state, catalog))

    def give_up_state(self, state: ManifestState) -> None:
        """Give up one state: its pins and objects go unless another root keeps them."""
        self.given_up.update(self._pins(state))
        self.given_up_objects.update(_named_objects(state))

    def files_of_manifest(self, location: str, versions: Iterable[int]) -> frozenset[str]:
        """The data files of some versions of a manifest."""
        known = self.manifest_files.get(location, {})
        return frozenset(file for version in versions for file in known.get(version, ()))

    def _pins(self, state: ManifestState) -> Iterator[Pin]:
        for entry in state.tables.values():
            self.table_keys.setdefault(entry.location, entry.table_key)
            yield entry.location, entry.staged_version


@dataclass(frozen=True, slots=True)
class ManifestHistory:
    """The versions of one manifest: those to keep and those to give up."""

    kept: frozenset[int]
    given_up: frozenset[int]
    files: dict[int, ObjectInfo]


def find_roots(repository: Repository, retention: Retention, now: dt.datetime) -> Roots:
    """All roots at this moment."""
    roots = Roots()
    bases = merge_bases(repository)
    pinned = _pinned_versions(repository, bases)
    open_branches = {branch.native_branch for branch in repository.refs.list()}
    for branch, is_claimed in _incarnations(repository):
        location = manifest_path(branch.native_branch)
        held = pinned.get(branch.native_branch, frozenset())
        history = _history(repository, location, retention, now, held)
        if branch.native_branch not in open_branches:
            history = _ended(history, retention, is_claimed, now, held)
            if is_claimed and not history.kept:
                roots.ended.append(branch)
        roots.manifests[location] = history
        roots.natives[location] = branch.native_branch
        _read_states(repository, branch, history, roots, is_claimed=is_claimed)
    _keep_intents(repository, roots)
    _take_over_lists(repository, roots)
    return roots


def _take_over_lists(repository: Repository, roots: Roots) -> None:
    """Count everything that a killed collector had condemned as given up: no grace period applies to it again."""
    for info in repository.store.objects.list(CONDEMNED):
        listed = read_deletion_lists(repository.store.objects, info.path)
        for pin in listed.pins:
            path, _, version = pin.rpartition("@")
            roots.given_up.add((path, int(version)))
        roots.given_up_objects.update(listed.objects)


def _pinned_versions(repository: Repository, bases: Iterable[GraphCommit]) -> dict[str | None, frozenset[int]]:
    """Manifest versions that tags and merge bases hold, by incarnation."""
    found: dict[str | None, set[int]] = {}
    for tag in repository.tags.list():
        found.setdefault(tag.native_branch, set()).add(tag.manifest_version)
    for commit in bases:
        found.setdefault(commit.native_branch, set()).add(commit.manifest_version)
    return {native: frozenset(versions) for native, versions in found.items()}


def _incarnations(repository: Repository) -> Iterator[tuple[Branch, bool]]:
    """Main and every incarnation that has a manifest or a claim, deleted ones included, and whether it has a claim."""
    yield Branch(MAIN), True
    listed = repository.store.objects.list(f"{MANIFEST}/tree/")
    claimed = {manifest_path(b.native_branch): b for b in repository.refs.every_incarnation()}
    for location in sorted({"/".join(info.path.split("/")[:3]) for info in listed} | claimed.keys()):
        branch = claimed.get(location)
        native = unquote_path(location.split("/")[2])
        yield (branch, True) if branch is not None else (Branch(native.rpartition(".")[0], native), False)


def _history(
    repository: Repository, location: str, retention: Retention, now: dt.datetime, pinned: frozenset[int]
) -> ManifestHistory:
    files = {
        2**64 - 1 - int(match[1]): info
        for info in repository.store.objects.list(f"{location}/_versions/")
        if (match := _VERSION.search(info.path))
    }
    versions = sorted(files, reverse=True)
    kept: set[int] = set()
    newer: ObjectInfo | None = None
    for place, version in enumerate(versions):
        superseded = None if newer is None else now - newer.modified
        if _stays(place, files[version], superseded, retention, now) or version in pinned:
            kept.add(version)
        newer = files[version]
    return ManifestHistory(frozenset(kept), frozenset(files.keys() - kept), files)


def _stays(
    place: int, info: ObjectInfo, superseded: dt.timedelta | None, retention: Retention, now: dt.datetime
) -> bool:
    if superseded is None or superseded < retention.superseded_grace:
        return True
    if retention.keep is not None and place < retention.keep:
        return True
    return retention.older_than is not None and now - info.modified < retention.older_than


def _ended(
    history: ManifestHistory, retention: Retention, is_claimed: bool, now: dt.datetime, pinned: frozenset[int]
) -> ManifestHistory:
    """The history of a deleted branch: it keeps no version for its own sake once it was deleted long enough ago.

    Where a tag or merge base holds one of its versions, its newest is kept as well: that is the one that says that the
    branch is closed. A manifest without a claim may be a branch that is just being created; one with several versions
    had a claim that was lost, and all of it is kept until the claim is restored.
    """
    newest = max(history.files, default=None)
    grace = retention.superseded_grace if is_claimed else retention.staging_grace
    lost_claim = not is_claimed and len(history.files) > 1
    if newest is None or lost_claim or now - history.files[newest].modified < grace:
        return ManifestHistory(frozenset(history.files), frozenset(), history.files)
    kept = history.kept & pinned
    if kept:
        kept |= {newest}
    return ManifestHistory(kept, frozenset(history.files.keys() - kept), history.files)


def _read_states(
    repository: Repository, branch: Branch, history: ManifestHistory, roots: Roots, *, is_claimed: bool
) -> None:
    location = manifest_path(branch.native_branch)
    files = roots.manifest_files.setdefault(location, {})
    lineage: frozenset[str] | None = None
    for version in sorted(history.files, reverse=True):
        found = _state(repository, branch, version)
        if found is None:
            # An unclaimed branch of one unreadable version belongs to no creator: a creation ends with reading that
            # version. A store that was away and came back may hold half of one.
            if is_claimed or len(history.files) > 1:
                _require_dispensable(repository, branch, version, history)
            continue
        state, files[version] = found
        if lineage is None:
            commits = list(walk(repository.store.objects, state))
            lineage = frozenset(c.graph_commit_id for c in commits)
            if history.kept:
                roots.objects.update(_load_lists(commits))
        if version in history.kept:
            roots.keep_state(state, repository.store.catalog(state.schema_hash))
        elif state.head in lineage:
            # A swap into a slot that a collector had emptied was never published: its pins may still be published.
            roots.give_up_state(state)


def _load_lists(commits: Iterable[GraphCommit]) -> Iterator[str]:
    """The lists of loaded files of the whole history, which the next load of a job needs."""
    return (load_list_path(c.graph_commit_id) for c in commits if has_load_list(c.idempotency_key))


def _state(repository: Repository, branch: Branch, version: int) -> tuple[ManifestState, frozenset[str]] | None:
    """A version of a branch and its data files; None when it cannot be read."""
    try:
        opened = repository.store.manifests.at(manifest_path(branch.native_branch), version)
        return read_state(opened, branch.name, branch.native_branch), opened.data_files()
    except (VersionNotFound, MissingData, CorruptGraph):
        return None


def _require_dispensable(repository: Repository, branch: Branch, version: int, history: ManifestHistory) -> None:
    """Raise `CorruptGraph` if an unreadable version is to be kept: its needs are unknown, so nothing can be deleted."""
    path = history.files[version].path
    if version not in history.kept or not repository.store.objects.exists(path):
        return  # another collector, by a later clock, has just deleted it: version files go first
    damaged = repository.store.manifests.damaged_newest(manifest_path(branch.native_branch))
    if damaged != path:  # a newest version that was cut short was never acknowledged
        raise CorruptGraph(
            f"version {version} of {branch.name!r} is to be kept and cannot be read: nothing was removed",
            hint="`omnigraph fsck` shows what is missing",
        )


def _named_objects(state: ManifestState) -> Iterator[str]:
    yield from (extent.location for extent in state.extents)
    for entry in state.tables.values():
        if "file" in entry.changes:
            yield str(entry.changes["file"])
    yield from _ledgers(entry.digests for entry in state.tables.values())


def _derived_names(state: ManifestState, catalog: Catalog) -> Iterator[str]:
    """The names of a state's derived objects."""
    yield from (text_name(entry) for entry in state.tables.values())
    for edge in catalog.edges.values():
        ends = (state.tables.get(f"node:{name}") for name in (edge.source, edge.target))
        entries = [entry for entry in (state.tables.get(edge.table_key), *ends) if entry is not None]
        if len(entries) == 3:
            yield EdgePins(*entries).name


def _keep_intents(repository: Repository, roots: Roots) -> None:
    """Keep what unfinished writes have staged, and what they adopted from elsewhere."""
    for plan in repository.recovery.pending_plans():
        if has_load_list(plan.idempotency_key):
            roots.objects.add(load_list_path(plan.commit_id))
        for change in plan.changes:
            roots.pins.add((change.location, change.staged_version))
            roots.pins.add((change.location, change.base_version))
            roots.objects.update(change.files)
            roots.objects.update(_ledgers((change.digests,)))
        entries = (*plan.graft.adopted, *plan.graft.reshaped)
        roots.pins.update((e.location, e.staged_version) for e in entries)
        roots.objects.update(_ledgers(e.digests for e in entries))


def _ledgers(found: Iterable[Digests]) -> Iterator[str]:
    return (digests.ledger for digests in found if digests.ledger is not None)
