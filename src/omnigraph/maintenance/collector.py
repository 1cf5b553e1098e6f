"""One run of the collector: the objects that the roots of a graph do not need, and the order of their deletion."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from omnigraph import logs
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.api.reports import TableCleanupStats
from omnigraph.errors import OmnigraphError
from omnigraph.maintenance.roots import ManifestHistory, Pin, Retention, Roots, find_roots
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import (
    CHANGES,
    CLOCKS,
    DERIVED,
    HISTORY,
    LEDGERS,
    LOADS,
    LOCKS,
    MANIFEST,
    REFS,
    STAGING,
    manifest_path,
)
from omnigraph.storage.locks import lock_path
from omnigraph.storage.needed_files import (
    TableListing,
    half_written,
    is_named,
    list_table,
    readable_files_of,
    table_paths,
)
from omnigraph.storage.objects import ObjectInfo
from omnigraph.versioning.repository import Repository

MANIFESTS = "__manifest"
CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Deletions:
    """Objects of one table (or of the control space) to delete, and the versions among them."""

    table_key: str
    objects: tuple[ObjectInfo, ...]
    pins: tuple[Pin, ...] = ()
    versions: int = 0
    error: str | None = None
    unpublished: tuple[ObjectInfo, ...] = ()
    """Objects that no version has ever named: only their age shows that no writer is about to publish them."""

    def stats(self) -> TableCleanupStats:
        """The report of these deletions."""
        size = sum(info.size for info in self.objects)
        return TableCleanupStats(self.table_key, size, self.versions, len(self.objects), self.error)


class _Overtaken(Exception):
    """A collector that began later has deleted what this one kept. The table is left to it."""


class Collector:
    """One run: the roots at its beginning, and the objects that they do not need."""

    def __init__(self, repository: Repository, retention: Retention, patience: dt.timedelta = dt.timedelta(0)) -> None:
        """`patience`: the age up to which a writer may still publish a version that was never published."""
        self._patience = patience
        self._repository = repository
        self._store = repository.store
        self.retention = retention
        self.now = repository.store.store_clock()
        self._roots = find_roots(repository, retention, self.now)
        self._kept_tables = frozenset(path for path, _ in self._roots.pins)
        self._ended_natives = frozenset(branch.native_branch for branch in self._roots.ended)

    @property
    def given_up_versions(self) -> int:
        """How many manifest versions are given up."""
        return sum(len(history.given_up) for history in self._roots.manifests.values())

    def condemn(self, progress: Listener | None = None) -> list[Deletions]:
        """Everything that no root needs and no grace period protects.

        Manifests come first: a state whose manifest version can be read has all its tables.
        """
        paths = list(table_paths(self._store.objects))
        tables: list[Deletions] = []
        with PhaseProgress(progress, "find", len(paths), "tables") as phase:
            for path in paths:
                tables.append(self._isolated(path))
                phase.advance(1)
            return [self._manifests(), *tables, self._control(), self._refs()]

    def _isolated(self, path: str) -> Deletions:
        """Condemn the objects of one table; an error is reported and leaves the other tables alone."""
        try:
            return self._table(path)
        except _Overtaken:
            return Deletions(self._key(path), ())
        except OmnigraphError as error:
            return Deletions(self._key(path), (), error=error.message)

    def _key(self, path: str) -> str:
        return self._roots.table_keys.get(path, path)

    def _table(self, path: str) -> Deletions:
        listing = list_table(self._store.objects, path)
        is_known = path in self._roots.table_keys
        if path not in self._kept_tables and (is_known or all(map(self._is_abandoned, listing.objects))):
            # No kept state names this table: its type was dropped, or was never added.
            never_added = () if is_known else self._not_given_up(listing.objects)
            return Deletions(self._key(path), listing.objects, versions=len(listing.detached), unpublished=never_added)
        kept, gone = self._sorted_versions(listing)
        needed = self._files(path, kept, must_exist=True)
        released = self._files(path, gone & {v for p, v in self._roots.given_up if p == path}, must_exist=False)
        gone -= self._steps(listing, gone, needed | released)
        doomed = [listing.detached[version] for version in sorted(gone)]
        unpublished = [listing.detached[v] for v in sorted(gone) if (path, v) not in self._roots.given_up]
        for info in listing.other:
            if is_named(info.path, needed) or info.path in self._roots.objects:
                continue
            is_log = "/_transactions/" in info.path and self._age(info) >= self.retention.superseded_grace
            if is_log or is_named(info.path, released):
                doomed.append(info)
            elif self._is_abandoned(info):
                doomed.append(info)
                unpublished.extend(self._not_given_up([info]))
        pins = tuple((path, v) for v in sorted(gone))
        return Deletions(self._key(path), tuple(doomed), pins, len(gone), unpublished=tuple(unpublished))

    def _steps(self, listing: TableListing, gone: set[int], named: frozenset[str]) -> set[int]:
        """Young versions that were never published and need only files that published versions name.

        They are intermediate versions, such as a compaction before its indexes were added, or are about to be
        published. Since only age could tell which, they are kept for now: they are one small file each.
        """
        found: set[int] = set()
        for version in gone:
            is_young = self._age(listing.detached[version]) < self._patience
            if is_young and (listing.path, version) not in self._roots.given_up:
                files = readable_files_of(self._store.tables, listing.path, version)
                if files is not None and files <= named:
                    found.add(version)
        return found

    def _not_given_up(self, infos: Iterable[ObjectInfo]) -> tuple[ObjectInfo, ...]:
        """The objects that no earlier collector has condemned either."""
        return tuple(info for info in infos if info.path not in self._roots.given_up_objects)

    def _sorted_versions(self, listing: TableListing) -> tuple[set[int], set[int]]:
        """Detached versions to keep and to delete."""
        kept = {version for path, version in self._roots.pins if path == listing.path}
        gone: set[int] = set()
        for version, info in listing.detached.items():
            pin = (listing.path, version)
            staged = pin not in self._roots.given_up and self._age(info) < self.retention.staging_grace
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
        return find_roots(self._repository, self.retention, self._store.store_clock())

    def _manifests(self) -> Deletions:
        doomed: list[ObjectInfo] = []
        unpublished: list[ObjectInfo] = []
        for location, history in self._roots.manifests.items():
            named, unnamed = self._manifest(location, history)
            doomed += [*named, *unnamed]
            unpublished.extend(self._not_given_up(unnamed))
        versions = self.given_up_versions
        return Deletions(MANIFESTS, tuple(doomed), versions=versions, unpublished=tuple(unpublished))

    def _manifest(self, location: str, history: ManifestHistory) -> tuple[list[ObjectInfo], list[ObjectInfo]]:
        """The objects of one manifest to delete: those of its given-up versions, and those that no version names."""
        if not history.kept:
            # Without a claim, or without any version, it may be a branch that is just being created.
            everything = self._store.objects.list(f"{location}/")
            if history.files and self._roots.natives[location] in self._ended_natives:
                return everything, []
            return [], [info for info in everything if self._is_abandoned(info)]
        named = [history.files[version] for version in sorted(history.given_up)]
        unnamed: list[ObjectInfo] = []
        needed = self._roots.files_of_manifest(location, history.kept)
        released = self._roots.files_of_manifest(location, history.given_up)
        for part in ("data", "_transactions"):
            for info in self._store.objects.list(f"{location}/{part}/"):
                if info.path in needed:
                    continue
                is_log = part == "_transactions" and self._age(info) >= self.retention.superseded_grace
                if is_log or info.path in released:
                    named.append(info)
                elif self._is_abandoned(info):
                    unnamed.append(info)
        return named, unnamed

    def _control(self) -> Deletions:
        objects = self._store.objects
        doomed = [info for info in half_written(objects) if self._is_abandoned(info)]
        for prefix in (HISTORY, CHANGES, LEDGERS, LOADS):
            named = (info for info in objects.list(prefix) if info.path not in self._roots.objects)
            doomed += [info for info in named if self._is_abandoned(info)]
        live = {files.commit_id for files in self._repository.intents.list()}
        scratch = (info for info in objects.list(STAGING) if info.path.split("/")[1] not in live)
        doomed += [info for info in scratch if self._is_abandoned(info)]
        unpublished = self._not_given_up(info for info in doomed if not info.path.startswith(CLOCKS))
        return Deletions(CONTROL, (*doomed, *self._derived(), *self._locks()), unpublished=unpublished)

    def _locks(self) -> Iterator[ObjectInfo]:
        """Lock files of deleted branches. Correctness needs no lock, so deleting one that is in use does no harm."""
        used = {lock_path(location) for location, history in self._roots.manifests.items() if history.kept}
        for info in self._store.objects.list(LOCKS):
            if info.path not in used and self._age(info) >= self.retention.superseded_grace:
                yield info

    def _refs(self) -> Deletions:
        """Claims of deleted branches of which nothing is kept."""
        claims = self._repository.claims
        paths = {path for branch in self._roots.ended for path in claims.objects_of(branch)}
        return Deletions(REFS, tuple(info for info in self._store.objects.list(REFS) if info.path in paths))

    def raise_floors(self) -> None:
        """Record for every manifest below which version it may be incomplete, before anything of it is deleted.

        A writer that swaps into an emptied slot finds that record, whatever its clock or its timeouts.
        """
        for location, history in self._roots.manifests.items():
            native = self._roots.natives[location]
            if history.given_up and history.kept:
                self._repository.claims.raise_floor(native, max(history.given_up) + 1)

    def remove_in_order(self, parts: list[Deletions], phase: PhaseProgress | None = None) -> list[Deletions]:
        """Delete manifests, then tables, then the rest, claims last.

        If manifests cannot be deleted, nothing else is: a version that can be read has all its tables.
        """
        manifests, *others = parts
        removed = [self.remove(manifests, phase)]
        if removed[0].error is not None:
            return [*removed, *(replace(part, objects=(), versions=0) for part in others)]
        removed += [self.remove(part, phase) for part in others if part.table_key != REFS]
        if any(part.error for part in removed):
            return removed
        self._remove_directories(parts)
        return [*removed, *(self._retire(part) for part in others if part.table_key == REFS)]

    def _retire(self, part: Deletions) -> Deletions:
        """Remove claims whose manifests are gone by now."""
        listed = self._store.objects.list
        gone = [b for b in self._roots.ended if not listed(f"{manifest_path(b.native_branch)}/")]
        removed = {path for branch in gone for path in self._repository.claims.objects_of(branch)}
        try:
            self._repository.claims.retire(gone)
        except OmnigraphError as error:
            return replace(part, objects=(), error=error.message)
        for branch in gone:
            logs.event(
                "branch.reclaimed", graph=self._store.root.uri, branch=branch.name, incarnation=branch.native_branch
            )
        return replace(part, objects=tuple(info for info in part.objects if info.path in removed))

    def _remove_directories(self, parts: Iterable[Deletions]) -> None:
        """On a local disk, remove the directories of deleted objects. Their names are never used again."""
        found = (_own_directory(info.path) for part in parts for info in part.objects)
        self._store.objects.remove_empty_directories(sorted({path for path in found if path is not None}))

    def _derived(self) -> Iterator[ObjectInfo]:
        """Derived state of dropped tables, and of reclaimed versions except the newest: the next one builds on it."""
        found = self._store.objects.list(DERIVED)
        newest = {info.path.rpartition("/")[0]: info for info in sorted(found, key=lambda info: info.modified)}
        live = {path.replace("/", "-") for path in self._kept_tables}
        for info in found:
            folder, _, name = info.path.rpartition("/")
            is_live = folder.split("/")[2] in live
            is_used = is_live and (name in self._roots.derived or newest[folder] == info)
            if not is_used and self._age(info) >= self.retention.superseded_grace:
                yield info

    def _is_abandoned(self, info: ObjectInfo) -> bool:
        """Whether an object that no root names was given up, or is too old to be part of an unfinished write."""
        return info.path in self._roots.given_up_objects or self._age(info) >= self.retention.staging_grace

    def _age(self, info: ObjectInfo) -> dt.timedelta:
        return self.now - info.modified

    def spare(self, condemned: list[Deletions]) -> list[Deletions]:
        """The condemned without objects that new branches, tags, commits or intents need since the first look at the
        roots.
        """
        again = find_roots(self._repository, self.retention, self.now)
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

    def remove(self, condemned: Deletions, phase: PhaseProgress | None = None) -> Deletions:
        """Delete one table's objects: versions first, so that no version ever names a file that is gone."""
        order = sorted(condemned.objects, key=lambda info: ("/_versions/" not in info.path, info.path))
        try:
            for at in range(0, len(order), 500):
                batch = [info.path for info in order[at : at + 500]]
                self._store.objects.delete(batch)
                if phase is not None:
                    phase.advance(len(batch))
                hit(Point.GC_SWEPT)
        except OmnigraphError as error:
            return replace(condemned, error=error.message)
        return condemned


def _own_directory(path: str) -> str | None:
    """The outermost directory of an object whose name belongs to one table, index segment, commit or branch."""
    segments = path.split("/")
    if segments[0] == MANIFEST and segments[1] == "tree":
        return "/".join(segments[:3])
    if segments[0] in ("nodes", "edges"):
        return "/".join(segments[:4]) if segments[2] == "_indices" else "/".join(segments[:2])
    return "/".join(segments[:2]) if segments[0] in (CHANGES, LEDGERS, STAGING, DERIVED) else None


def _without(part: Deletions, needed: set[str], versions: set[str]) -> Deletions:
    kept = tuple(i for i in part.objects if i.path not in versions and not is_named(i.path, needed))
    return part if len(kept) == len(part.objects) else replace(part, objects=kept)
