"""Recovery: the same plan applied again by the same publisher.

A pending intent blocks no other write. Once its lease has expired, any process may resolve it: the commit is found
published, or the plan is published now, or the intent is withdrawn. The commit id makes this idempotent: there is one
commit or none. Recovery deletes no data file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from omnigraph import logs
from omnigraph.api.commits import GraphCommit
from omnigraph.api.reports import PendingIntent, RecoveryRecord
from omnigraph.errors import (
    BranchGone,
    ConflictError,
    CorruptGraph,
    FormatUnsupported,
    MissingData,
    NotFound,
    OmnigraphError,
    PlanExpired,
)
from omnigraph.storage.decode import (
    Malformed,
    as_commit_id,
    as_integer,
    as_list,
    as_name,
    as_native_branch,
    as_object,
    as_optional_commit_id,
    as_optional_text,
    as_table_key,
    as_text,
    decoding,
)
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import AUDIT
from omnigraph.versioning import history
from omnigraph.versioning.branch_heads import BranchHeads, require_open
from omnigraph.versioning.commits import RECOVERY_ACTOR
from omnigraph.versioning.intents import IntentFiles, Intents
from omnigraph.versioning.maintenance_plan import maintenance_plan
from omnigraph.versioning.plan import PLAN_FORMAT, PublishPlan, plan_from_json
from omnigraph.versioning.publish import Publisher
from omnigraph.versioning.store import GraphStore, now_us, ticks

ROLLED_FORWARD = "RolledForward"
ROLLED_BACK = "RolledBack"
_KEEP_WITHDRAWAL = dt.timedelta(minutes=10)


def parse_record(value: Any, path: str) -> RecoveryRecord:
    """The row whose object is at `path`, each value checked."""
    with decoding(path):
        given = as_object(value, "a record of recovery")
        return RecoveryRecord(
            operation_id=as_commit_id(given["operation_id"]),
            recovery_kind=as_text(given["recovery_kind"], "an outcome"),
            recovery_for_actor=as_optional_text(given["recovery_for_actor"], "an actor"),
            writer_kind=as_text(given["writer_kind"], "a kind of commit"),
            branch=None if given["branch"] is None else as_name(given["branch"]),
            graph_commit_id=as_optional_commit_id(given["graph_commit_id"]),
            reason=as_text(given["reason"], "a reason"),
            created_at=as_integer(given["created_at"], "a time"),
            tables=tuple(as_object(t, "a table") for t in as_list(given["tables"], "a list of tables")),
        )


class Recovery:
    """Lists, resolves and records intents."""

    def __init__(self, store: GraphStore, tips: BranchHeads, intents: Intents, publisher: Publisher) -> None:
        self._store = store
        self._tips = tips
        self._intents = intents
        self._publisher = publisher
        self._swept_at: float | None = None
        self._sweeping = threading.Lock()

    def run(self) -> list[RecoveryRecord]:
        """Resolve every intent whose lease has expired. A second run does nothing."""
        self._store.require_writable()
        self._swept_at = ticks()
        files = self._intents.list()
        if not files:
            return []
        now = self._store.store_clock()
        records = [self._resolve(f) for f in files if f.parts != {"aborted"} and self._is_expired(f, now)]
        for old in files:
            if old.parts == {"aborted"} and now - old.renewed > _KEEP_WITHDRAWAL:
                self._intents.remove_withdrawal(old.commit_id)
        return [record for record in records if record is not None]

    def sweep_after_reads(self) -> None:
        """Let a thread sweep when the last sweep of this handle is a while ago. Readers neither wait nor fail."""
        is_due = self._swept_at is not None and ticks() - self._swept_at > self._store.settings.sweep_interval
        if is_due and not self._store.read_only:
            self._store.later("recovery", self._sweep_quietly)

    def _sweep_quietly(self) -> None:
        with contextlib.suppress(OmnigraphError):  # the next writer sweeps too, and raises it
            self.sweep_if_due()

    def sweep_if_due(self) -> None:
        """Sweep before a write: one listing, and only when the last one is a while ago."""
        due = self._swept_at is None or ticks() - self._swept_at > self._store.settings.sweep_interval
        if due and self._sweeping.acquire(blocking=False):
            try:
                self.run()
            finally:
                self._sweeping.release()

    def audit(self) -> list[RecoveryRecord]:
        """The audit of all recoveries so far, oldest first."""
        self._store.require_present()
        found = ((self._store.objects.get_json(i.path), i.path) for i in self._store.objects.list(AUDIT))
        rows = [parse_record(value, path) for value, path in found if value is not None]
        return sorted(rows, key=lambda row: (row.created_at, row.operation_id))

    def audit_table(self) -> pa.Table:
        """The audit as Arrow rows."""
        rows = [{**asdict(r), "tables": json.dumps(r.tables)} for r in self.audit()]
        names = [name for name in RecoveryRecord.__slots__ if name != "created_at"]
        schema = pa.schema([*(pa.field(n, pa.string()) for n in names), pa.field("created_at", pa.int64())])
        return pa.Table.from_pylist(rows, schema=schema)

    def pending_plans(self) -> Iterator[PublishPlan]:
        """The plans of unresolved intents that have reached phase B."""
        for files in self._intents.list():
            try:
                plan = self._plan(files)
            except (CorruptGraph, FormatUnsupported) as error:
                raise CorruptGraph(
                    f"intent {files.commit_id} cannot be read, and nobody knows what it needs: nothing was removed "
                    f"({error.message})",
                    hint=f"look at it with `omnigraph recovery list`; `omnigraph recovery discard {files.commit_id}` "
                    "gives it up",
                ) from error
            if plan is not None:
                yield plan

    def has_live_owners(self) -> bool:
        """Whether some writer is between its intent and its commit right now."""
        now = self._store.store_clock()
        return any(not f.is_aborted and not self._is_expired(f, now) for f in self._intents.list())

    def _is_expired(self, files: IntentFiles, now: dt.datetime) -> bool:
        settings = self._store.settings
        return (now - files.renewed).total_seconds() >= settings.lease + settings.lease_margin

    def _describe(self, files: IntentFiles, expired: bool) -> PendingIntent:
        try:
            header = self._header(files)
            self._plan(files)
        except (CorruptGraph, FormatUnsupported) as error:
            return PendingIntent(
                operation_id=files.commit_id, state="invalid", lease_expired=expired, problem=error.message
            )
        state = "publishable" if "staged" in files.parts else "staging"
        if header is not None and self._published(header) is not None:
            state = "published"
        return PendingIntent(
            operation_id=files.commit_id,
            state="aborted" if files.is_aborted else state,
            writer_kind=header["writer_kind"] if header else None,
            actor=header["actor"] if header else None,
            branch=header["branch"] if header else None,
            tables=tuple(t["table_key"] for t in header["tables"]) if header else (),
            lease_expired=expired,
        )

    def _resolve(self, files: IntentFiles) -> RecoveryRecord | None:
        try:
            if self._header(files) is None:  # its owner, or another recovery, was faster
                return None
            self._plan(files)
        except (CorruptGraph, FormatUnsupported) as error:
            warnings.warn(f"an intent cannot be read and is kept: {error.message}", RuntimeWarning, stacklevel=3)
            return None
        if not self._intents.take_over(files):
            return None
        hit(Point.RECOVERY_TAKEN)
        header, plan = self._header(files), self._plan(files)
        if header is None:
            self._intents.remove_all(files)
            return None
        return self._decide(files, header, plan)

    def _decide(self, files: IntentFiles, header: dict[str, Any], plan: PublishPlan | None) -> RecoveryRecord | None:
        commit = self._published(header)
        if commit is not None:
            return self._close(files, header, ROLLED_FORWARD, commit, "it had been published")
        if plan is None or files.is_aborted:
            reason = "it was withdrawn" if files.is_aborted else "it was never completely staged"
            return self._roll_back(files, header, reason)
        recovered = replace(plan, actor=RECOVERY_ACTOR, recovery_for_actor=plan.actor)
        try:
            commit = self._publisher.publish(recovered, keep_intent=True)
        except PlanExpired:  # it took so long that another recovery owns the intent now
            return None
        except (ConflictError, NotFound, MissingData, CorruptGraph) as error:
            return self._roll_back(files, header, error.message)
        hit(Point.RECOVERY_PUBLISHED)
        return self._close(files, header, ROLLED_FORWARD, commit, "its requirements still held")

    def _roll_back(self, files: IntentFiles, header: dict[str, Any], reason: str) -> RecoveryRecord:
        # The owner may be alive after all: it checks for this before every swap.
        self._intents.mark_aborted(files.commit_id)
        commit = self._published(header)
        if commit is not None:
            return self._close(files, header, ROLLED_FORWARD, commit, "it had been published")
        return self._close(files, header, ROLLED_BACK, self._record_rollback(header, reason), reason)

    def _record_rollback(self, header: dict[str, Any], reason: str) -> GraphCommit | None:
        """Publish a commit that changes nothing, so that history shows the rollback; None without a branch.

        Its idempotency key lets two recoveries publish only one.
        """
        tip = self._tips.of(header["branch"], header["native_branch"])
        try:
            plan = maintenance_plan(
                require_open(tip.state()), (), kind="recovery", actor=RECOVERY_ACTOR,
                message=f"rolled back {header['writer_kind']} {header['operation_id']}: {reason}",
            )  # fmt: skip
            key = f"rollback:{header['operation_id']}"
            return self._publisher.publish(
                replace(plan, recovery_for_actor=header["actor"], idempotency_key=key), keep_intent=True
            )
        except (BranchGone, NotFound, MissingData, CorruptGraph):
            return None

    def discard(self, operation_id: str, *, reason: str, force: bool = False) -> RecoveryRecord:
        """Give up an intent that cannot be read: move its objects to quarantine and record that in the audit.

        Its staged files are no longer protected and are collected like any other garbage. An intent that can be read is
        resolved by `run`, and one whose lease is held may have a live owner: both are refused without `force`.
        """
        self._store.require_writable()
        pending = (f for f in self._intents.list() if f.parts != {"aborted"})
        files = next((f for f in pending if f.commit_id == operation_id), None)
        if files is None:
            raise NotFound(f"there is no intent {operation_id!r}", hint="`omnigraph recovery list` shows them")
        found = self._describe(files, self._is_expired(files, self._store.store_clock()))
        if not force and (found.state != "invalid" or not found.lease_expired):
            what = "can be read" if found.state != "invalid" else "is held: its owner may be alive"
            raise ConflictError(
                f"intent {operation_id} {what}", hint="`omnigraph recovery run` resolves it; --force discards it anyway"
            )
        self._intents.mark_aborted(operation_id)
        self._intents.quarantine(files)
        header = {
            "actor": found.actor, "writer_kind": found.writer_kind or "unknown",
            "branch": found.branch, "tables": (),
        }  # fmt: skip
        return self._close(files, header, ROLLED_BACK, None, f"discarded: {reason}")

    def _close(
        self, files: IntentFiles, header: dict[str, Any], kind: str, commit: GraphCommit | None, reason: str
    ) -> RecoveryRecord:
        record = RecoveryRecord(
            operation_id=files.commit_id,
            recovery_kind=kind,
            recovery_for_actor=header["actor"],
            writer_kind=header["writer_kind"],
            branch=header["branch"],
            graph_commit_id=commit.graph_commit_id if commit else None,
            reason=reason,
            created_at=now_us(),
            tables=tuple(
                {"table_key": t["table_key"], "expected_version": t["expected_version"], "outcome": kind}
                for t in header["tables"]
            ),
        )
        # Put-if-absent by operation: two recoveries write one row. The intent goes last, so a failure here is retried.
        hit(Point.RECOVERY_BEFORE_AUDIT)
        self._store.objects.put_new_json(f"{AUDIT}/{files.commit_id}.json", asdict(record))
        hit(Point.RECOVERY_AUDITED)
        self._intents.remove_all(files)
        logs.event(
            "recovery", logging.WARNING, graph=self._store.root.uri, branch=record.branch, operation=files.commit_id,
            outcome=kind, writer=record.writer_kind, reason=reason,
        )  # fmt: skip
        return record

    def _published(self, header: dict[str, Any]) -> GraphCommit | None:
        tip = self._tips.of(header["branch"], header["native_branch"])
        try:
            state, _ = tip.reload()
        except (MissingData, CorruptGraph):  # the branch and its files are gone
            return None
        return history.find(self._store.objects, state, header["operation_id"])

    def _header(self, files: IntentFiles) -> dict[str, Any] | None:
        value: dict[str, Any] | None = self._intents.read(files.commit_id, "json")
        if value is None:
            value = self._intents.read(files.commit_id, "staged")
        if value is None:
            return None
        with decoding(f"intent {files.commit_id}"):
            value = as_object(value, "an intent")
            if as_integer(value["format"], "a format") > PLAN_FORMAT:
                raise FormatUnsupported(
                    f"intent {files.commit_id} was written by a newer omnigraph", hint="upgrade omnigraph"
                )
            _require_header(value, files.commit_id)
        return value

    def _plan(self, files: IntentFiles) -> PublishPlan | None:
        value = self._intents.read(files.commit_id, "staged")
        if value is None:
            return None
        with decoding(f"intent {files.commit_id}"):
            plan = plan_from_json(value, f"intent {files.commit_id}")
            if plan.commit_id != files.commit_id:
                raise Malformed(f"its plan is of commit {plan.commit_id}")
        return plan

    def list(self) -> list[PendingIntent]:
        """Intents that are not resolved yet. Changes nothing."""
        self._store.require_present()
        files = [f for f in self._intents.list() if f.parts != {"aborted"}]
        if not files:
            return []
        now = self._store.store_clock()
        return [self._describe(f, self._is_expired(f, now)) for f in files]


def _require_header(value: dict[str, Any], commit_id: str) -> None:
    """Check the fields of an intent that recovery uses before there is a plan."""
    if as_commit_id(value["operation_id"]) != commit_id:
        raise Malformed(f"it is of commit {value['operation_id']}")
    as_text(value["writer_kind"], "a kind of commit")
    as_optional_text(value["actor"], "an actor")
    as_name(value["branch"])
    as_native_branch(value["native_branch"])
    for each in as_list(value["tables"], "a list of tables"):
        table = as_object(each, "a table")
        as_table_key(table["table_key"])
        as_integer(table["expected_version"], "a table version")
