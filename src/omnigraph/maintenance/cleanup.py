"""The collector: deletes all objects that the retained states of a graph do not need, beside readers and writers.

Two phases. The condemned objects are first listed in `__gc/`, then the roots are read once more and everything they
name is spared; only then are objects deleted. A process that revives old pins makes its root durable first and reads
the list second, so at least one of the two sees the other. After a killed run, cleanup is run again: the list of the
killed run names the objects it was deleting.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph import logs
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.api.reports import CleanupReport
from omnigraph.errors import ConflictError, InvalidArgument, MissingData, OmnigraphError
from omnigraph.maintenance.collector import Collector, Deletions
from omnigraph.maintenance.roots import Retention
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import CONDEMNED
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import Settings, mint

LIST_AGE = dt.timedelta(hours=1)
"""A list older than that belongs to a collector that was killed."""


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
        for name, duration in (("grace", self.grace), ("older_than", self.older_than)):
            if duration is not None and duration < dt.timedelta(0):
                raise InvalidArgument(f"{name} is negative", hint="give a duration of zero or more")
        if self.keep is not None and self.keep < 1:
            raise InvalidArgument(f"keep {self.keep} would remove the newest version", hint="keep at least 1")

    def retention(self, settings: Settings) -> Retention:
        """The retention of this policy, with default grace periods filled in."""
        superseded, staging = (
            dt.timedelta(seconds=seconds) if self.grace is None else self.grace
            for seconds in (settings.superseded_grace, settings.staging_grace)
        )
        return Retention(self.keep, self.older_than, superseded, staging)


def cleanup(
    repository: Repository, policy: CleanupPolicy, *, confirm: bool = False, progress: Listener | None = None
) -> CleanupReport:
    """Report what a cleanup would delete; with `confirm`, delete it."""
    store = repository.store
    if confirm:
        store.require_writable()
        repository.recovery.run()
        _close_deleted_branches(repository)
    retention = policy.retention(store.settings)
    # A plan may be published for half the staging grace: an unpublished file that is younger may have a live writer.
    patience = dt.timedelta(0 if policy.force else store.settings.staging_grace / 2 / 86_400)
    collector = Collector(repository, retention, patience)
    condemned = collector.condemn(progress)
    if confirm and retention.staging_grace < patience:
        _require_no_writers(repository, condemned, collector.now - patience)
    if not confirm or not any(part.objects for part in condemned):
        _forget_dead_lists(repository, collector.now, confirm=confirm and not any(part.error for part in condemned))
        return _report(condemned, collector.given_up_versions, confirmed=confirm)
    listed = _list_condemned(repository, condemned)
    hit(Point.GC_CONDEMNED)
    try:
        with PhaseProgress(progress, "check", 1, "steps"):
            spared = collector.spare(condemned)
    except OmnigraphError:
        store.objects.delete([listed])  # nothing was deleted yet
        raise
    collector.raise_floors()
    with PhaseProgress(progress, "remove", sum(len(part.objects) for part in spared), "objects") as phase:
        removed = collector.remove_in_order(spared, phase)
    is_done = not any(part.error for part in removed)
    if is_done:  # otherwise the list shows the next run what was being deleted
        store.objects.delete([listed])
    _forget_dead_lists(repository, collector.now, confirm=is_done)
    report = _report(removed, collector.given_up_versions, confirmed=True)
    logs.event(
        "cleanup", graph=store.root.uri, objects=report.objects_removed, bytes=report.bytes_removed,
        versions=report.manifest_versions_removed,
        errors="; ".join(f"{t.table_key}: {t.error}" for t in report.tables if t.error) or None,
    )  # fmt: skip
    return report


def _close_deleted_branches(repository: Repository) -> None:
    """Close the manifests of branches whose deleter was killed before it could, so that open readers see their end."""
    for branch in repository.refs.every_incarnation():
        if not repository.claims.status(branch.native_branch).is_open:
            with contextlib.suppress(MissingData):  # collected
                repository.publisher.close_branch(repository.tips.of(branch.name, branch.native_branch))
            repository.tips.forget(branch.native_branch)


def _list_condemned(repository: Repository, condemned: Iterable[Deletions]) -> str:
    """List the objects to delete, for processes that revive pins and for the run after a killed collector."""
    path = f"{CONDEMNED}/{mint()}.json"
    pins = [f"{location}@{version}" for part in condemned for location, version in part.pins]
    objects = [info.path for part in condemned for info in part.objects]
    repository.store.objects.put_new_json(path, {"pins": pins, "objects": objects})
    return path


def _require_no_writers(repository: Repository, condemned: Iterable[Deletions], since: dt.datetime) -> None:
    """Raise `ConflictError` if a live writer may still need condemned files that no version has named so far."""
    young = [info.path for part in condemned for info in part.unpublished if info.modified > since]
    if not young and not repository.recovery.has_live_owners():
        return
    what = f"{len(young)} unpublished files, such as {young[0]}" if young else "an unfinished write"
    raise ConflictError(
        f"a writer may be at work: with this grace {what} would be deleted, and a write that needs them could still be "
        "acknowledged",
        hint="leave the grace at its default, or use force (--force) when no other process writes to this graph",
    )


def _report(condemned: Iterable[Deletions], versions: int, *, confirmed: bool) -> CleanupReport:
    stats = (part.stats() for part in condemned)
    shown = sorted((s for s in stats if s.objects_removed or s.error), key=lambda s: s.table_key)
    return CleanupReport(confirmed, tuple(shown), versions)


def _forget_dead_lists(repository: Repository, now: dt.datetime, *, confirm: bool) -> None:
    """Delete the lists of killed collectors, once a later run has done their work."""
    if confirm:
        old = [i.path for i in repository.store.objects.list(CONDEMNED) if now - i.modified > LIST_AGE]
        repository.store.objects.delete(old)
