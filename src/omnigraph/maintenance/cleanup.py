"""The collector: traces what the retained states of a graph need and deletes the rest, beside readers and writers.

Two phases. The condemned are first written down in `__gc/`, then the roots are looked up once more and whatever they
name is taken off the list; only then are objects deleted. Whoever revives old pins makes its root durable first and
looks at the list second, so one of the two sees the other. A run that was killed is simply run again: its list tells
what was on its way out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from omnigraph import logs
from omnigraph.errors import ConflictError, InvalidArgument, OmnigraphError
from omnigraph.maintenance.roots import ManifestHistory, Pin, Retention, Roots, find_roots
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import CHANGES, CONDEMNED, DERIVED, HISTORY, STAGING
from omnigraph.storage.objects import ObjectInfo
from omnigraph.storage.tracing import (
    TableListing,
    half_written,
    is_named,
    list_table,
    readable_files_of,
    table_paths,
)
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import Settings, mint

LIST_AGE = dt.timedelta(hours=1)
"""A collector whose list is older than that is dead."""
MANIFESTS = "__manifest"
CONTROL = "control"


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """How much history to keep: the newest `keep` versions of each branch, and all younger than `older_than`."""

    keep: int | None = None
    older_than: dt.timedelta | None = None
    grace: dt.timedelta | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than is None:
            raise InvalidArgument("cleanup needs a policy", hint="give keep, older_than, or both")
        if self.keep is not None and self.keep < 1:
            raise InvalidArgument(f"keep {self.keep} would remove the newest version", hint="keep at least 1")

    def retention(self, settings: Settings) -> Retention:
        """The policy with its graces filled in."""
        superseded, staging = (
            dt.timedelta(seconds=seconds) if self.grace is None else self.grace
            for seconds in (settings.superseded_grace, settings.staging_grace)
        )
        return Retention(self.keep, self.older_than, superseded, staging)


@dataclass(frozen=True, slots=True)
class TableCleanupStats:
    """What was, or would be, removed for one table. `table_key` is `__manifest` or `control` for the rest."""

    table_key: str
    bytes_removed: int = 0
    old_versions_removed: int = 0
    objects_removed: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The outcome. Not `confirmed`: a preview, nothing was deleted."""

    confirmed: bool
    tables: tuple[TableCleanupStats, ...]
    manifest_versions_removed: int

    @property
    def bytes_removed(self) -> int:
        """Everything together."""
        return sum(table.bytes_removed for table in self.tables)

    @property
    def objects_removed(self) -> int:
        """Everything together."""
        return sum(table.objects_removed for table in self.tables)


@dataclass(frozen=True, slots=True)
class Condemned:
    """Objects of one table (or of the control space) that go, and the versions among them."""

    table_key: str
    objects: tuple[ObjectInfo, ...]
    pins: tuple[Pin, ...] = ()
    versions: int = 0
    error: str | None = None

    def stats(self) -> TableCleanupStats:
        """What a report says of it."""
        size = sum(info.size for info in self.objects)
        return TableCleanupStats(self.table_key, size, self.versions, len(self.objects), self.error)


def cleanup(repository: Repository, policy: CleanupPolicy, *, confirm: bool = False) -> CleanupReport:
    """Say what would go; with `confirm`, let it go."""
    store = repository.store
    if confirm:
        store.require_writable()
        repository.recovery.run()
    _refuse_hurry(repository, policy)
    retention = policy.retention(store.settings)
    collector = _Collector(repository, retention)
    condemned = collector.condemn()
    if not confirm or not any(part.objects for part in condemned):
        _forget_dead_lists(repository, collector.now, confirm=confirm and not any(part.error for part in condemned))
        return _report(condemned, collector.given_up_versions, confirmed=confirm)
    listed = _list_condemned(repository, condemned)
    hit(Point.GC_CONDEMNED)
    try:
        spared = collector.spare(condemned)
    except OmnigraphError:
        store.objects.delete([listed])  # nothing was deleted yet
        raise
    removed = [collector.remove(part) for part in spared]
    is_done = not any(part.error for part in removed)
    if is_done:  # otherwise the list tells the next run what was on its way
        store.objects.delete([listed])
    _forget_dead_lists(repository, collector.now, confirm=is_done)
    report = _report(removed, collector.given_up_versions, confirmed=True)
    logs.event(
        "cleanup", graph=store.root.uri, objects=report.objects_removed, bytes=report.bytes_removed,
        versions=report.manifest_versions_removed,
        errors="; ".join(f"{t.table_key}: {t.error}" for t in report.tables if t.error) or None,
    )  # fmt: skip
    return report


def _list_condemned(repository: Repository, condemned: Iterable[Condemned]) -> str:
    """Write down what goes, for whoever would revive it and for whoever finishes the work of a killed collector."""
    path = f"{CONDEMNED}/{mint()}.json"
    pins = [f"{location}@{version}" for part in condemned for location, version in part.pins]
    objects = [info.path for part in condemned for info in part.objects]
    repository.store.objects.put_new_json(path, {"pins": pins, "objects": objects})
    return path


def _refuse_hurry(repository: Repository, policy: CleanupPolicy) -> None:
    hurried = policy.grace is not None and policy.grace < dt.timedelta(minutes=1)
    if hurried and not policy.force and repository.recovery.has_live_owners():
        raise ConflictError(
            "a writer is at work, and without a grace its unpublished files would be deleted",
            hint="wait for it, use a longer grace, or force=True when you know that it is dead",
        )


def _report(condemned: Iterable[Condemned], versions: int, *, confirmed: bool) -> CleanupReport:
    stats = (part.stats() for part in condemned)
    shown = sorted((s for s in stats if s.objects_removed or s.error), key=lambda s: s.table_key)
    return CleanupReport(confirmed, tuple(shown), versions)


def _forget_dead_lists(repository: Repository, now: dt.datetime, *, confirm: bool) -> None:
    """Lists of collectors that were killed, once a later run has done their work."""
    if confirm:
        old = [i.path for i in repository.store.objects.list(CONDEMNED) if now - i.modified > LIST_AGE]
        repository.store.objects.delete(old)


class _Overtaken(Exception):
    """Another collector, which began later, has let go what this one kept. The table is left to it."""


class _Collector:
    """One run: the roots at its beginning, and what they do not need."""

    def __init__(self, repository: Repository, retention: Retention) -> None:
        self._repository = repository
        self._store = repository.store
        self._retention = retention
        self.now = repository.store.store_clock()
        self._roots = find_roots(repository, retention, self.now)
        self._kept_tables = frozenset(path for path, _ in self._roots.pins)

    @property
    def given_up_versions(self) -> int:
        """Manifest versions that go."""
        return sum(len(history.given_up) for history in self._roots.manifests.values())

    def condemn(self) -> list[Condemned]:
        """Everything that no root needs and no grace protects.

        Manifests come first: a state whose manifest version can be read has all its tables.
        """
        tables = [self._isolated(path) for path in table_paths(self._store.objects)]
        return [self._manifests(), *tables, self._control()]

    def _isolated(self, path: str) -> Condemned:
        """One table; trouble with it is reported and leaves the others alone."""
        try:
            return self._table(path)
        except _Overtaken:
            return Condemned(self._key(path), ())
        except OmnigraphError as error:
            return Condemned(self._key(path), (), error=error.message)

    def _key(self, path: str) -> str:
        return self._roots.table_keys.get(path, path)

    def _table(self, path: str) -> Condemned:
        listing = list_table(self._store.objects, path)
        is_known = path in self._roots.table_keys
        if path not in self._kept_tables and (is_known or all(map(self._is_abandoned, listing.objects))):
            # No kept state names this table: its type was dropped, or was never added.
            return Condemned(self._key(path), listing.objects, versions=len(listing.detached))
        kept, gone = self._sorted_versions(listing)
        needed = self._files(path, kept, must_exist=True)
        released = self._files(path, gone & {v for p, v in self._roots.given_up if p == path}, must_exist=False)
        doomed = [listing.detached[version] for version in sorted(gone)]
        for info in listing.other:
            if is_named(info.path, needed) or info.path in self._roots.objects:
                continue
            is_log = "/_transactions/" in info.path and self._age(info) >= self._retention.superseded_grace
            if is_log or is_named(info.path, released) or self._is_abandoned(info):
                doomed.append(info)
        return Condemned(self._key(path), tuple(doomed), tuple((path, v) for v in sorted(gone)), len(gone))

    def _sorted_versions(self, listing: TableListing) -> tuple[set[int], set[int]]:
        """Detached versions that stay and that go."""
        kept = {version for path, version in self._roots.pins if path == listing.path}
        gone: set[int] = set()
        for version, info in listing.detached.items():
            pin = (listing.path, version)
            staged = pin not in self._roots.given_up and self._age(info) < self._retention.staging_grace
            (kept if pin in self._roots.pins or staged else gone).add(version)
        return kept, gone

    def _files(self, path: str, versions: Iterable[int], *, must_exist: bool) -> frozenset[str]:
        """Files of some versions. One that must be kept and cannot be read stops work on its table."""
        found: set[str] = set()
        for version in versions:
            files = readable_files_of(self._store.tables, path, version)
            if files is not None:
                found |= files
            elif must_exist:
                if (path, version) not in self._roots_by_now().pins:
                    raise _Overtaken
                raise OmnigraphError(f"version {version} of {self._key(path)} cannot be read: nothing of it is removed")
        return frozenset(found)

    def _roots_by_now(self) -> Roots:
        return find_roots(self._repository, self._retention, self._store.store_clock())

    def _manifests(self) -> Condemned:
        doomed: list[ObjectInfo] = []
        for location, history in self._roots.manifests.items():
            doomed += self._manifest(location, history)
        return Condemned(MANIFESTS, tuple(doomed), versions=self.given_up_versions)

    def _manifest(self, location: str, history: ManifestHistory) -> Iterator[ObjectInfo]:
        if not history.kept:
            # Without any version it may be a branch that is just being created.
            everything = self._store.objects.list(f"{location}/")
            yield from (info for info in everything if history.files or self._is_abandoned(info))
            return
        yield from (history.files[version] for version in sorted(history.given_up))
        needed = self._roots.files_of_manifest(location, history.kept)
        released = self._roots.files_of_manifest(location, history.given_up)
        for part in ("data", "_transactions"):
            for info in self._store.objects.list(f"{location}/{part}/"):
                is_log = part == "_transactions" and self._age(info) >= self._retention.superseded_grace
                if info.path not in needed and (is_log or info.path in released or self._is_abandoned(info)):
                    yield info

    def _control(self) -> Condemned:
        objects = self._store.objects
        doomed = [info for info in half_written(objects) if self._is_abandoned(info)]
        for prefix in (HISTORY, CHANGES):
            named = (info for info in objects.list(prefix) if info.path not in self._roots.objects)
            doomed += [info for info in named if self._is_abandoned(info)]
        live = {files.commit_id for files in self._repository.intents.list()}
        scratch = (info for info in objects.list(STAGING) if info.path.split("/")[1] not in live)
        doomed += [info for info in scratch if self._is_abandoned(info)]
        return Condemned(CONTROL, (*doomed, *self._derived()))

    def _derived(self) -> Iterator[ObjectInfo]:
        """Derived state of dropped tables, and of reclaimed versions except the newest: the next one builds on it."""
        found = self._store.objects.list(DERIVED)
        newest = {info.path.rpartition("/")[0]: info for info in sorted(found, key=lambda info: info.modified)}
        live = {path.replace("/", "-") for path in self._kept_tables}
        for info in found:
            folder, _, name = info.path.rpartition("/")
            is_live = folder.split("/")[2] in live
            is_used = is_live and (name in self._roots.derived or newest[folder] == info)
            if not is_used and self._age(info) >= self._retention.superseded_grace:
                yield info

    def _is_abandoned(self, info: ObjectInfo) -> bool:
        """Whether an object that no root names was given up, or is too old to be on its way into a version."""
        return info.path in self._roots.given_up_objects or self._age(info) >= self._retention.staging_grace

    def _age(self, info: ObjectInfo) -> dt.timedelta:
        return self.now - info.modified

    def spare(self, condemned: list[Condemned]) -> list[Condemned]:
        """The condemned without what has become needed since the first look: new branches, tags, commits, intents."""
        again = find_roots(self._repository, self._retention, self.now)
        fresh = again.pins - self._roots.pins
        needed: set[str] = set(again.objects)
        versions: set[str] = set()
        for path, version in fresh:
            files = readable_files_of(self._store.tables, path, version)
            needed |= files or frozenset()
            versions.add(f"{path}/_versions/d{version}.manifest")
        for location, history in again.manifests.items():
            versions.update(history.files[version].path for version in history.kept)
            needed |= again.files_of_manifest(location, history.kept)
        return [_without(part, needed, versions) for part in condemned]

    def remove(self, condemned: Condemned) -> Condemned:
        """Delete one table's share: versions first, so that nothing ever names a file that is gone."""
        order = sorted(condemned.objects, key=lambda info: ("/_versions/" not in info.path, info.path))
        try:
            for at in range(0, len(order), 500):
                self._store.objects.delete([info.path for info in order[at : at + 500]])
                hit(Point.GC_SWEPT)
        except OmnigraphError as error:
            return replace(condemned, error=error.message)
        return condemned


def _without(part: Condemned, needed: set[str], versions: set[str]) -> Condemned:
    kept = tuple(i for i in part.objects if i.path not in versions and not is_named(i.path, needed))
    return part if len(kept) == len(part.objects) else replace(part, objects=kept)
