"""`Publisher` is the only code that moves a branch, and `_swap` the only caller of the compare-and-swap.

Everything that a write read is in its plan's requirements and is checked again against the very state that the swap
replaces. After a lost swap the state is read again. Failure is reported only when it is certain: the plan's intent is
withdrawn first, and when the store leaves even that open the caller gets `OutcomeUnknown` with the commit id to look
up.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from omnigraph import logs
from omnigraph.api.commits import MAINTENANCE, GraphCommit
from omnigraph.errors import (
    BranchGone,
    CommitLost,
    ConflictError,
    CorruptGraph,
    OmnigraphError,
    OutcomeUnknown,
    PlanExpired,
    PreconditionFailed,
    PublishContention,
    StagedDataGone,
    StorageError,
    StoreReplaced,
    StoreUnavailable,
)
from omnigraph.storage.calls import calls_of_write
from omnigraph.storage.layout import pin_file
from omnigraph.storage.manifest_table import ManifestVersion
from omnigraph.storage.requests import since_write_began
from omnigraph.versioning import history
from omnigraph.versioning.adopted_state import Graft
from omnigraph.versioning.branch_heads import BranchHead, BranchHeads, require_open
from omnigraph.versioning.claims import Claims, ClaimStatus
from omnigraph.versioning.contracts import contract_path
from omnigraph.versioning.group_commit import Member, compose_plans, is_groupable
from omnigraph.versioning.intents import Intents
from omnigraph.versioning.manifest import ManifestState, Tombstone
from omnigraph.versioning.plan import PublishPlan, TableChange
from omnigraph.versioning.requirements import rebase, require_holds
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import GraphStore, now_us, ticks

PUBLISHER_RETRY_BUDGET = 5
_BACKOFF_FIRST = 0.002
_BACKOFF_CAP = 0.25
_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Attempted:
    """A plan that was handed to the publisher: an interrupted caller looks up its outcome with it."""

    branch: str
    commit_id: str
    op_class: str


class Publisher:
    """Publishes plans and closes branches."""

    def __init__(self, store: GraphStore, tips: BranchHeads, intents: Intents, claims: Claims) -> None:
        self._store = store
        self._tips = tips
        self._intents = intents
        self._claims = claims
        self.attempted: deque[Attempted] = deque(maxlen=_REMEMBERED)

    def publish(self, plan: PublishPlan, *, keep_intent: bool = False) -> GraphCommit:
        """Make a plan visible as one commit, or raise and leave the branch as it was.

        `keep_intent` is for recovery, which records the outcome before it removes the intent.
        """
        self._store.require_writable()
        self.attempted.append(Attempted(plan.branch, plan.commit_id, plan.op_class))
        tip = self._tips.of(plan.branch, plan.native_branch)
        if is_groupable(plan):
            return self._publish_among_others(tip, plan)
        with tip.turn(partial(self._flush, plan)):
            return self.publish_in_turn(tip, plan, keep_intent=keep_intent)

    def publish_in_turn(self, tip: BranchHead, plan: PublishPlan, *, keep_intent: bool = False) -> GraphCommit:
        """`publish` for a caller that holds the branch's turn."""
        attempt = _Attempt(self._store, plan)
        try:
            commit = self._until_published(tip, attempt)
        except OmnigraphError as error:
            self._tell_failure(attempt, error)
            self._report_failure(plan, attempt, error, keep_intent)
            raise
        except KeyboardInterrupt:
            if plan.has_intent and not keep_intent:  # recovery must not finish a write that its user interrupted
                self._intents.withdraw(plan.commit_id)
            raise
        if plan.has_intent and not keep_intent:
            self._intents.finish(plan.commit_id)
        return commit

    def _publish_among_others(self, tip: BranchHead, plan: PublishPlan) -> GraphCommit:
        """Publish the plan with all waiting ones that can share its commit, unless an earlier group included it."""
        member = tip.commit_queue.enqueue(plan)
        try:
            with tip.turn_here():
                if not member.is_done:
                    tip.commit_queue.wait_for_members(member)
                    with tip.turn_among_processes(partial(self._flush, plan)):
                        self._publish_together(tip, tip.commit_queue.take_group(member))
        finally:
            tip.commit_queue.dequeue(member)
        return member.result()

    def _flush(self, plan: PublishPlan) -> None:
        """Flush this plan's data files while it waits for the branch lock, so that the commit only writes the manifest.

        An error is ignored: the swap flushes again and raises it.
        """
        if not plan.has_intent:  # its files were flushed before the intent allowed others to publish it
            with contextlib.suppress(StorageError):
                self._store.durability.sync_ahead([name for change in plan.changes for name in change.files])

    def _publish_together(self, tip: BranchHead, members: Sequence[Member]) -> None:
        if len(members) > 1:
            self._share_a_commit(tip, members)
        for member in members:  # a group of one, or members of a group that could not be published together
            member.publish_alone(lambda plan: self.publish_in_turn(tip, plan))

    def _share_a_commit(self, tip: BranchHead, members: Sequence[Member]) -> None:
        """Publish all plans as one commit. Members that are not done afterwards were certainly not published."""
        plans = [member.plan for member in members]
        state, _ = tip.swap_base()
        attempt: _Attempt | None = None
        try:
            for plan in plans:
                require_holds(self._store, plan, state)
            attempt = _Attempt(self._store, compose_plans(self._store, plans, state))
            commit = self._until_published(tip, attempt)
        except OmnigraphError as error:
            if attempt is not None and attempt.unknown_slot is not None:
                _leave_unknown(members, attempt.plan.commit_id, error)
            return
        except KeyboardInterrupt as interrupt:
            if attempt is not None:
                _leave_unknown(members, attempt.plan.commit_id, interrupt)
            raise
        for member in members:
            member.succeed(commit)

    def close_branch(self, tip: BranchHead) -> None:
        """Publish the version by which readers see that a branch was deleted. Its claim is closed already."""
        self._store.require_writable()
        with tip.turn():
            self._close_in_turn(tip)

    def _close_in_turn(self, tip: BranchHead) -> None:
        deadline = ticks() + self._store.settings.publish_deadline
        while True:
            state, opened = tip.swap_base()
            if state.closed:
                return
            if ticks() > deadline:
                raise PublishContention(f"branch {tip.branch!r} is too busy to be closed; try again")
            if self._swap(tip, opened, replace(state, closed=True, version=state.version + 1)):
                return

    def _until_published(self, tip: BranchHead, attempt: _Attempt) -> GraphCommit:
        while True:
            state, opened = tip.swap_base()
            done = self._find_published(attempt.plan, state)
            if done is not None:
                self.confirm(tip)  # the claim was not checked since the state with the commit was read
                return done
            require_open(state)
            _require_intact(opened)
            attempt.resolve_unknown(state)
            attempt.fit(state)
            if attempt.plan.has_intent:
                self._intents.hold(attempt.plan.commit_id)
            target, commit = next_state(state, attempt.plan)
            try:
                target = history.archive_commits(self._store.objects, target)
                won = self._swap(tip, opened, target, attempt.unflushed(), _named_files(attempt.plan, state, target))
            except (StoreReplaced, StagedDataGone):
                raise
            except BranchGone:
                # The version that was swapped in does not count, and readers of the manifest alone must not see it.
                with contextlib.suppress(StorageError, PublishContention):
                    self._close_in_turn(tip)
                raise
            except OutcomeUnknown:  # applied, and then the store was gone: no later probe may count as an answer
                attempt.unknown_slot = target.version
                raise
            except StorageError as error:
                attempt.unknown_slot = target.version
                self._require_hope(tip, attempt, error)
                attempt.pause_or_give_up()
                tip.reload()
                continue
            attempt.flushed()
            if won:
                self._log_commit(attempt, commit)
                return commit
            attempt.pause_or_give_up()

    def _find_published(self, plan: PublishPlan, state: ManifestState) -> GraphCommit | None:
        """The plan's own commit, or that of the same request, which another handle or process may have published."""
        done = history.find(self._store.objects, state, plan.commit_id)
        if done is None and plan.idempotency_key is not None:
            done = history.find_request(self._store.objects, state, plan.idempotency_key)
        return done

    def _log_commit(self, attempt: _Attempt, commit: GraphCommit) -> None:
        calls = calls_of_write()
        logs.event(
            "commit.published", graph=self._store.root.uri, branch=attempt.plan.branch, commit=commit.graph_commit_id,
            kind=commit.kind, version=commit.manifest_version, actor=commit.actor_id,
            tables=",".join(change.table_key for change in attempt.plan.changes), ms=attempt.milliseconds,
            requests=None if self._store.root.is_local else since_write_began(),
            storage_calls=sum(calls.values()),
            calls=",".join(f"{kind.replace(' ', '_')}:{count}" for kind, count in sorted(calls.items())) or None,
        )  # fmt: skip

    def _tell_failure(self, attempt: _Attempt, error: OmnigraphError) -> None:
        plan = attempt.plan
        name = "commit.conflict" if isinstance(error, ConflictError) else "commit.failed"
        # Maintenance that loses a race is tried again.
        level = logging.DEBUG if plan.op_class == MAINTENANCE else logging.WARNING
        logs.event(
            name, level, graph=self._store.root.uri, branch=plan.branch, commit=plan.commit_id, kind=plan.kind,
            code=error.code, message=error.message, ms=attempt.milliseconds,
        )  # fmt: skip

    def _require_hope(self, tip: BranchHead, attempt: _Attempt, error: StorageError) -> None:
        """Raise when a retry cannot succeed: a disk that is full or not writable. There a probe gives the outcome."""
        if not (isinstance(error, StoreUnavailable) and self._store.root.is_local):
            return
        state, _ = tip.reload()
        if history.find(self._store.objects, state, attempt.plan.commit_id) is None:
            attempt.unknown_slot = None
            raise error

    def _swap(
        self,
        tip: BranchHead,
        opened: ManifestVersion,
        target: ManifestState,
        unflushed: Sequence[str] = (),
        needed: Sequence[str] = (),
    ) -> bool:
        """Swap strictly; False when the slot was taken, or was free only because a collector had emptied it.

        A free slot alone proves nothing: a collector may have emptied it, the branch may be deleted, the store may be
        another one. So after the swap the objects of the claim are listed, whatever any clock says. Where the store
        turns out to be another one, it is unknown which of the two the swap was applied to.
        """
        rows = tip.rows.rows(target)
        try:
            swapped = self._store.manifests.compare_and_swap(opened, rows, unflushed, needed)
        except CommitLost:
            tip.reload()
            return False
        try:
            status = self._claims.status(tip.native_branch) if target.closed else self._require_standing(tip)
            if target.version >= status.floor:
                tip.require_same_store(opened, status.floor)
        except StoreReplaced as error:
            raise OutcomeUnknown(target.head) from error
        if target.version < status.floor:
            tip.reload()
            return False
        tip.advance(target, swapped, ticks(), rows)
        return True

    def confirm(self, tip: BranchHead) -> None:
        """Before an earlier commit is returned, require that its branch and the state with it are in the store."""
        self._require_standing(tip)
        tip.state()

    def _require_standing(self, tip: BranchHead) -> ClaimStatus:
        """The status of a branch's claim; raises unless the branch exists.

        A claim that is gone was collected, or the whole store is at another place: main's claim decides which.
        """
        status = self._claims.status(tip.native_branch)
        if status.is_open:
            return status
        is_there = status.is_closed or self._claims.status(None).is_open
        if is_there and not status.is_closed:  # the store may have been away at the first probe
            status = self._claims.status(tip.native_branch)
            if status.is_open:
                return status
        if not is_there:
            raise StoreReplaced(
                f"{self._store.root.uri} does not hold the graph that this handle has opened: it was moved or replaced",
                hint="check the location, then open the graph again; this write did not happen",
            )
        raise BranchGone(
            f"branch {tip.branch!r} was deleted while this write was being published",
            hint="open the branch again; if it was recreated, repeat the write on the new one",
        )

    def _report_failure(self, plan: PublishPlan, attempt: _Attempt, error: OmnigraphError, keep_intent: bool) -> None:
        withdrawn = self._intents.withdraw(plan.commit_id) if plan.has_intent and not keep_intent else True
        if attempt.unknown_slot is not None or not withdrawn:
            raise OutcomeUnknown(plan.commit_id) from error


def _leave_unknown(members: Sequence[Member], commit_id: str, cause: BaseException) -> None:
    """Mark the outcome as unknown: what may be visible already must not be published again."""
    unknown = OutcomeUnknown(commit_id)
    unknown.__cause__ = cause
    for member in members:
        member.fail(unknown)


class _Attempt:
    """The changing part of one publish: the plan as last fitted, its budget and its deadline."""

    def __init__(self, store: GraphStore, plan: PublishPlan) -> None:
        self.plan = plan
        self.unknown_slot: int | None = None
        self._store = store
        self._begun = ticks()
        self._deadline = self._begun + store.settings.publish_deadline
        self._moved = 0
        self._pause = _BACKOFF_FIRST
        # A plan with an intent was flushed before the intent allowed others to publish it.
        self._flushed = {name for change in plan.changes for name in change.files} if plan.has_intent else set[str]()

    @property
    def milliseconds(self) -> float:
        """Since the publish began."""
        return round((ticks() - self._begun) * 1000, 1)

    def resolve_unknown(self, state: ManifestState) -> None:
        """Settle a swap of unknown outcome: it failed if its slot is taken and the commit is not in the lineage."""
        if self.unknown_slot is not None and state.version >= self.unknown_slot:
            self.unknown_slot = None

    def fit(self, state: ManifestState) -> None:
        """Check the plan against the state it is about to replace, and restage the changes whose pins moved."""
        plan = self.plan
        if plan.expect_head is not None and plan.expect_head not in heads_of(state):
            raise PreconditionFailed(expected=plan.expect_head, actual=state.head)
        if plan.staged_at and not plan.has_intent and ticks() - plan.staged_at > self._store.settings.staging_grace / 2:
            raise PlanExpired("this write was staged too long ago to be published safely", hint="repeat the write")
        fitted = rebase(self._store, plan, state)
        if fitted is not plan:
            self._moved += 1
            if self._moved > PUBLISHER_RETRY_BUDGET:
                raise PublishContention(
                    f"tables of this write moved {self._moved} times while it was being published", hint="try again"
                )
        self.plan = fitted

    def unflushed(self) -> list[str]:
        """Files of the fitted plan that have to be flushed with the next swap."""
        return [name for change in self.plan.changes for name in change.files if name not in self._flushed]

    def flushed(self) -> None:
        """Record that the last swap flushed everything."""
        self._flushed.update(self.unflushed())

    def pause_or_give_up(self) -> None:
        """Wait with capped exponential back-off and full jitter; raises at the deadline."""
        if ticks() > self._deadline:
            raise PublishContention("the branch is too busy: the publish deadline passed", hint="try again")
        time.sleep(random.random() * self._pause)
        self._pause = min(self._pause * 2, _BACKOFF_CAP)


def heads_of(state: ManifestState) -> Iterator[str]:
    """The head, and the commits before it as long as only maintenance follows them: they hold the same rows."""
    commit = state.commits.get(state.head)
    yield state.head
    while commit is not None and commit.op_class == MAINTENANCE and commit.parent_commit_id is not None:
        yield commit.parent_commit_id
        commit = state.commits.get(commit.parent_commit_id)


def _require_intact(opened: ManifestVersion) -> None:
    """Raise if a newer version was cut short: it holds the slot of the next swap until it is removed."""
    if opened.damaged is not None:
        raise CorruptGraph(
            f"{opened.damaged} is cut short, so nothing can be published",
            hint="`omnigraph repair --confirm` moves it away",
        )


def _named_files(plan: PublishPlan, before: ManifestState, target: ManifestState) -> list[str]:
    """The files that a state names and its predecessor does not."""
    known = {extent.location for extent in before.extents}
    found = [extent.location for extent in target.extents if extent.location not in known]
    for change in plan.changes:
        found += change.files
        if "file" in change.changes:
            found.append(str(change.changes["file"]))
        if change.digests.ledger is not None:
            found.append(change.digests.ledger)
    if plan.graft.schema_hash is not None:
        found.append(contract_path(plan.graft.schema_hash))
    for entry in (*plan.graft.adopted, *plan.graft.reshaped):
        found.append(f"{entry.location}/{pin_file(entry.staged_version)}")
    return found


def next_state(state: ManifestState, plan: PublishPlan) -> tuple[ManifestState, GraphCommit]:
    """The state after a plan, and its commit. Pure."""
    commit = GraphCommit(
        graph_commit_id=plan.commit_id,
        manifest_branch=state.branch,
        manifest_version=state.version + 1,
        parent_commit_id=state.head,
        merged_parent_commit_id=plan.graft.merged_parent,
        actor_id=plan.actor,
        created_at=now_us(),
        kind=plan.kind,
        op_class=plan.op_class,
        message=plan.message,
        native_branch=state.native_branch,
        recovery_for_actor=plan.recovery_for_actor,
        idempotency_key=plan.idempotency_key,
    )
    tables = plan.graft.applied(state.tables, plan.commit_id)
    for change in plan.changes:
        tables[change.table_key] = _advanced(tables[change.table_key], change, plan)
    target = replace(
        state,
        version=state.version + 1,
        head=plan.commit_id,
        tables=tables,
        schema_hash=plan.graft.schema_hash or state.schema_hash,
        commits={**plan.graft.history(state.commits), plan.commit_id: commit},
        tombstones=_tombstones(state, plan.graft, tables),
    )
    return target, commit


def _tombstones(state: ManifestState, graft: Graft, tables: Mapping[str, TableEntry]) -> Mapping[str, Tombstone]:
    """The tombstones of the branch, with those of tables that are dropped now and without those of restored tables."""
    if not graft.keys and not graft.adopted:
        return state.tombstones
    ended = {key: Tombstone(state.tables[key], state.schema_hash) for key in graft.removed if key in state.tables}
    live = {entry.location for entry in tables.values()}
    found = {**state.tombstones, **ended}
    return {k: each for k, each in found.items() if each.entry.location not in live and k not in graft.erased}


def _advanced(entry: TableEntry, change: TableChange, plan: PublishPlan) -> TableEntry:
    if change.base_version != entry.staged_version:
        raise OmnigraphError(f"{entry.table_key} was staged on a version that is not the branch's")
    return replace(
        entry,
        table_version=entry.table_version + 1,
        staged_version=change.staged_version,
        content_version=entry.content_version if plan.op_class == MAINTENANCE else plan.commit_id,
        row_count=change.row_count,
        high_water=change.high_water,
        commit_id=plan.commit_id,
        changes=change.changes,
        tail=change.tail,
        digests=change.digests,
    )
