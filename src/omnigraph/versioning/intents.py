"""Publish intents: write-once objects by which any process can finish, or withdraw, what a writer began.

`{ulid}.json` intent (A), `{ulid}.staged` the complete plan (B), `{ulid}.lease-N` renewals and take-overs,
`{ulid}.aborted` withdrawal. The ulid is the commit id. An intent never blocks a writer, and a live one is never
touched: its lease has to expire by the store's own clock first. Then the process that puts the next lease owns it. So
there is one owner at a time, and an owner that was slow finds, before it publishes or reports a failure, that another
has taken over. Intents are not flushed: one that is lost in a power failure belongs to a write that had no effect.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import PlanExpired, StorageError
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import COMMIT_ID, QUARANTINE, RECOVERY
from omnigraph.storage.objects import ObjectInfo
from omnigraph.versioning.plan import PLAN_FORMAT, PublishPlan, plan_to_json
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import GraphStore, mint, ticks

_PART = re.compile(r"json|staged|aborted|lease-[0-9]{1,9}")


def _path(commit_id: str, part: str) -> str:
    return f"{RECOVERY}/{commit_id}.{part}"


@dataclass(frozen=True, slots=True)
class IntentFiles:
    """The objects of one intent, as listed."""

    commit_id: str
    parts: frozenset[str]
    renewed: dt.datetime

    @property
    def lease(self) -> int:
        """The number of the newest lease; 0 is the one that comes with the intent."""
        numbers = [int(p.removeprefix("lease-")) for p in self.parts if p.startswith("lease-")]
        return max(numbers, default=0)

    @property
    def is_aborted(self) -> bool:
        """Withdrawn: no process may publish it any more."""
        return "aborted" in self.parts


@dataclass(frozen=True, slots=True)
class _Lease:
    number: int
    begun: float


class Intents:
    """Writes, renews, withdraws and lists intents."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._held: dict[str, _Lease] = {}
        self._renewing = threading.Lock()

    def begin(
        self, *, commit_id: str, kind: str, actor: str | None, branch: str, native_branch: str | None,
        base_version: int, entries: Iterable[TableEntry],
    ) -> None:  # fmt: skip
        """Phase A. A failure here aborts the write before it has any effect."""
        header = {
            "format": PLAN_FORMAT,
            "operation_id": commit_id,
            "state": "staging",
            "writer_kind": kind,
            "actor": actor,
            "branch": branch,
            "native_branch": native_branch,
            "base_version": base_version,
            "tables": [
                {"table_key": e.table_key, "table_path": e.location, "expected_version": e.table_version}
                for e in entries
            ],
        }
        hit(Point.INTENT_BEFORE_BEGIN)
        self._store.objects.put_new_json(_path(commit_id, "json"), header, flush=False)
        self._held[commit_id] = _Lease(0, ticks())
        hit(Point.INTENT_BEGUN)

    def complete(self, plan: PublishPlan) -> None:
        """Phase B: everything is staged and flushed; any process may publish it once the lease has expired."""
        hit(Point.INTENT_BEFORE_COMPLETE)
        self._store.objects.put_new_json(_path(plan.commit_id, "staged"), plan_to_json(plan), flush=False)
        hit(Point.INTENT_COMPLETED)

    def hold(self, commit_id: str) -> None:
        """Ensure that this process owns the intent for a while yet: before each swap, and before reporting a failure.

        Within half a lease no other process can have taken it over. After that this puts the next lease, which also
        renews it for long jobs. Raises `PlanExpired` when another process owns the intent.
        """
        # A long job renews its lease from a thread of its own: two renewals at once would look like two owners.
        with self._renewing:
            lease = self._held.get(commit_id)
            if lease is None:
                raise PlanExpired(f"the intent of commit {commit_id} is not this process's", hint="repeat the write")
            if ticks() - lease.begun < self._store.settings.lease / 2:
                return
            if not self._take(commit_id, lease.number + 1) or not self._is_pending(commit_id):
                raise PlanExpired(
                    f"commit {commit_id} took so long that recovery took it over",
                    hint="ask for the commit before you repeat the write",
                )

    def _is_pending(self, commit_id: str) -> bool:
        """Whether the intent is neither resolved, which removes it, nor withdrawn."""
        objects = self._store.objects
        return objects.exists(_path(commit_id, "json")) and not objects.exists(_path(commit_id, "aborted"))

    def take_over(self, files: IntentFiles) -> bool:
        """Become the owner of an expired intent; False when another process has just taken it over."""
        return self._take(files.commit_id, files.lease + 1)

    def _take(self, commit_id: str, number: int) -> bool:
        asked = ticks()
        token = mint().encode()  # two takers must put different bodies, also when an answer of the store is lost
        if not self._store.objects.put_new(_path(commit_id, f"lease-{number}"), token, flush=False):
            return False
        self._held[commit_id] = _Lease(number, asked)
        return True

    def finish(self, commit_id: str) -> None:
        """Phase D. A failure is only a warning: the next sweep finds the commit published and removes the intent."""
        try:
            self._remove(commit_id, self._own_parts(commit_id))
        except StorageError as error:
            warnings.warn(
                f"the intent of published commit {commit_id} stays for the next sweep: {error}",
                RuntimeWarning,
                stacklevel=2,
            )

    def withdraw(self, commit_id: str) -> bool:
        """Ensure that no process publishes this later. False when that cannot be ensured."""
        try:
            self.hold(commit_id)
            self.mark_aborted(commit_id)
            if not all(self._store.objects.exists(_path(commit_id, part)) for part in ("json", "aborted")):
                return False  # the store is at another place, and the intent is there without its withdrawal
            self._remove(commit_id, self._own_parts(commit_id))
        except (StorageError, PlanExpired):
            return False
        return True

    def _own_parts(self, commit_id: str) -> list[str]:
        lease = self._held.get(commit_id)
        return ["staged", "json", *(f"lease-{n}" for n in range(1, lease.number + 1 if lease else 1))]

    def mark_aborted(self, commit_id: str) -> None:
        """Put the withdrawal; it outlives the other objects until a sweep finds it old."""
        self._store.objects.put_new(_path(commit_id, "aborted"), b"")
        hit(Point.INTENT_ABORTED)

    def remove_all(self, files: IntentFiles) -> None:
        """Remove every object of a resolved intent except its withdrawal."""
        parts = files.parts.union(self._own_parts(files.commit_id))
        self._remove(files.commit_id, sorted(parts - {"aborted"}, reverse=True))

    def quarantine(self, files: IntentFiles) -> None:
        """Keep the bytes of an intent that cannot be read, where no sweep looks for them."""
        for part in sorted(files.parts - {"aborted"}):
            path = _path(files.commit_id, part)
            self._store.objects.move(path, f"{QUARANTINE}/{path.replace('/', '-')}")

    def remove_withdrawal(self, commit_id: str) -> None:
        """Remove an old withdrawal."""
        self._remove(commit_id, ("aborted",))

    def list(self) -> list[IntentFiles]:
        """All intents, oldest first. Raises when they cannot be listed."""
        hit(Point.INTENT_BEFORE_LIST)
        return group_listing(self._store.objects.list(RECOVERY))

    def read(self, commit_id: str, part: str) -> Any | None:
        """The value of one object; None when it was removed meanwhile."""
        return self._store.objects.get_json(_path(commit_id, part))

    def _remove(self, commit_id: str, parts: Iterable[str]) -> None:
        hit(Point.INTENT_BEFORE_REMOVE)
        self._store.objects.delete([_path(commit_id, part) for part in parts])
        self._held.pop(commit_id, None)
        hit(Point.INTENT_REMOVED)


def group_listing(listed: list[ObjectInfo]) -> list[IntentFiles]:
    """Objects by commit id; anything that is not an intent's is ignored."""
    groups: dict[str, list[ObjectInfo]] = {}
    for info in listed:
        commit_id, _, part = info.path.rsplit("/", 1)[-1].partition(".")
        if _PART.fullmatch(part) and COMMIT_ID.fullmatch(commit_id):
            groups.setdefault(commit_id, []).append(info)
    return [
        IntentFiles(
            commit_id,
            frozenset(i.path.rsplit("/", 1)[-1].partition(".")[2] for i in infos),
            max(i.modified for i in infos),
        )
        for commit_id, infos in sorted(groups.items())
    ]
