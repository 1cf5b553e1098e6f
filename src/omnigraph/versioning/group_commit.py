"""Group commit: small writes of one branch that wait at the same time are published together.

Plans may share a commit when the outcome is the same in any order. Each plan has a write set of what it writes and what
it relies on: an id, a unique value, the edges of one source, a whole table. Plans whose write sets do not meet are
composed: their effects are applied to each table at once, their requirements are checked together, and all get the same
commit. A plan with an intent, a precondition or an idempotency key is published alone: it has to be found under its own
id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa

from omnigraph.api.commits import LOGICAL, GraphCommit
from omnigraph.errors import OmnigraphError
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import AppendRows, Effect, ReplaceRows, UnwrittenRows
from omnigraph.storage.tables import Table
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import (
    CardinalityWithin,
    KeysAbsent,
    KeysPresent,
    NoIncident,
    Pin,
    PublishPlan,
    Requirement,
    Unmoved,
    ValuesAbsent,
)
from omnigraph.versioning.staging import open_table, stage_change
from omnigraph.versioning.store import GraphStore, ticks

MAX_MEMBERS = 64
MAX_WRITE_SET = 1_000
Authorship = tuple[str | None, str, str | None, str]
"""Actor, kind, message and schema. One commit has one of each."""


class Member:
    """One waiting plan and, in the end, its outcome."""

    def __init__(self, plan: PublishPlan) -> None:
        self.plan = plan
        self.write_set = write_set_of(plan)
        self.authorship: Authorship = (plan.actor, plan.kind, plan.message, plan.schema_hash)
        self._commit: GraphCommit | None = None
        self._error: OmnigraphError | None = None

    @property
    def is_done(self) -> bool:
        """Whether the plan was published or refused."""
        return self._commit is not None or self._error is not None

    def publish_alone(self, publish: Callable[[PublishPlan], GraphCommit]) -> None:
        """Publish the plan and keep the outcome, unless it has one already."""
        if self.is_done:
            return
        try:
            self._commit = publish(self.plan)
        except OmnigraphError as error:  # it is raised in the caller that waits for this member
            self._error = error

    def succeed(self, commit: GraphCommit) -> None:
        """Record the commit that published the plan, perhaps with others."""
        self._commit = commit

    def fail(self, error: OmnigraphError) -> None:
        """Record that the plan was refused, or that its outcome is unknown."""
        self._error = error

    def result(self) -> GraphCommit:
        """The commit, or raise the error of this plan."""
        if self._error is not None:
            raise self._error
        assert self._commit is not None, f"nobody has published or refused {self.plan.commit_id}"
        return self._commit


class CommitQueue:
    """Plans that wait for their turn at one branch, and small writes of this process that will soon be among them."""

    def __init__(self, wait: float, near: float) -> None:
        """`wait`: seconds that a publisher waits for others at most. `near`: seconds for which an announced write
        counts.
        """
        self._wait, self._near = wait, near
        self._waiting: list[Member] = []
        self._announced: dict[int, tuple[Authorship, float]] = {}
        self._lock = threading.Lock()
        self._none_left = threading.Condition(self._lock)

    @contextmanager
    def announce_write(self, authorship: Authorship) -> Iterator[None]:
        """Announce a small write: a publisher waits a moment for it, until it is enqueued, withdrawn or has failed."""
        with self._lock:
            self._announced[threading.get_ident()] = (authorship, time.monotonic())
        try:
            yield
        finally:
            self.withdraw_announcement()

    def withdraw_announcement(self) -> None:
        """Withdraw this thread's announcement: its write will not join the group."""
        with self._lock:
            self._forget_announcement()

    def enqueue(self, plan: PublishPlan) -> Member:
        """Add a plan to the waiting ones."""
        member = Member(plan)
        with self._lock:
            self._waiting.append(member)
            self._forget_announcement()
        return member

    def _forget_announcement(self) -> None:
        came = self._announced.pop(threading.get_ident(), None)
        if came is not None and all(authorship != came[0] for authorship, _ in self._announced.values()):
            self._none_left.notify_all()

    def wait_for_members(self, member: Member) -> None:
        """Wait, for a bounded time, for announced writes that could share the member's commit."""
        with self._lock:
            self._none_left.wait_for(lambda: not self._is_member_near(member.authorship), self._wait)

    def _is_member_near(self, wanted: Authorship) -> bool:
        """Whether an announced write may arrive soon. One announced long ago waits for something slow: an embedding."""
        now = time.monotonic()
        return any(mine == wanted and now - begun < self._near for mine, begun in self._announced.values())

    def take_group(self, first: Member) -> list[Member]:
        """Take a member and the waiting ones that can share its commit out of the queue."""
        with self._lock:
            chosen, write_set = [first], first.write_set
            for other in self._waiting:
                if other is not first and len(chosen) < MAX_MEMBERS and other.authorship == first.authorship:
                    if write_set.conflicts_with(other.write_set):
                        continue
                    chosen.append(other)
                    write_set = write_set | other.write_set
            self._waiting = [each for each in self._waiting if each not in chosen]
        return chosen

    def dequeue(self, member: Member) -> None:
        """Remove a member from the queue, for whatever reason."""
        with self._lock:
            if member in self._waiting:
                self._waiting.remove(member)


@dataclass(frozen=True, slots=True)
class WriteSet:
    """The ids, values and tables that a plan writes, and those that it needs unchanged."""

    own: frozenset[Hashable]
    kept: frozenset[Hashable]

    def conflicts_with(self, other: WriteSet) -> bool:
        """Whether the order of two plans could change their outcome."""
        return not (
            self.own.isdisjoint(other.own) and self.own.isdisjoint(other.kept) and self.kept.isdisjoint(other.own)
        )

    def __or__(self, other: WriteSet) -> WriteSet:
        return WriteSet(self.own | other.own, self.kept | other.kept)


def is_groupable(plan: PublishPlan) -> bool:
    """Whether a plan is small, changes a single table and need not be found under its own commit id."""
    if plan.has_intent or plan.expect_head is not None or plan.idempotency_key is not None:
        return False
    if plan.op_class != LOGICAL or len(plan.changes) != 1 or plan.recovery_for_actor is not None:
        return False
    effect = plan.changes[0].effect
    if not isinstance(effect, (AppendRows, ReplaceRows, UnwrittenRows)):
        return False
    replaced = () if isinstance(effect, AppendRows) else effect.ids
    if replaced and not plan.rebase_updates:
        return False
    sizes = (len(value) for r in plan.requirements for value in (getattr(r, n, ()) for n in ("ids", "values", "added")))
    return sum(sizes) + len(replaced) <= MAX_WRITE_SET


def write_set_of(plan: PublishPlan) -> WriteSet:
    """The write set of a plan's effects and requirements."""
    own: set[Hashable] = set()
    kept: set[Hashable] = set()
    for change in plan.changes:
        kept.add(("table", change.table_key))
        if isinstance(change.effect, (ReplaceRows, UnwrittenRows)):
            own.update(("id", change.table_key, i) for i in change.effect.ids)
    for requirement in plan.requirements:
        mine, shared = _claimed(requirement)
        own.update(mine)
        kept.update(shared)
    return WriteSet(frozenset(own), frozenset(kept))


def _claimed(requirement: Requirement) -> tuple[Iterable[Hashable], Iterable[Hashable]]:
    key = requirement.table_key
    match requirement:
        case KeysAbsent(_, ids):
            return (("id", key, i) for i in ids), ()
        case KeysPresent(_, ids):
            return (), (("id", key, i) for i in ids)
        case NoIncident(_, columns, ids):
            return (("end", key, c, i) for c in columns for i in ids), ()
        case ValuesAbsent(_, columns, values):
            return (("value", key, columns, v) for v in values), ()
        case CardinalityWithin(_, _, _, added):
            return (("card", key, source) for source, _ in added), ()
        case Unmoved():
            return (("table", key),), ()
        case _:
            assert_never(requirement)


def compose_plans(store: GraphStore, plans: Sequence[PublishPlan], state: ManifestState) -> PublishPlan:
    """One plan that does what all of them do, staged on `state`, with the requirements of all."""
    effects: dict[str, list[Effect]] = {}
    for plan in plans:
        for change in plan.changes:
            effects.setdefault(change.table_key, []).append(change.effect)
    first = plans[0]
    changes = []
    for key, many in effects.items():
        entry = state.tables[key]
        changes.append(stage_change(store, entry, _together(store, open_table(store, entry), many), first.commit_id))
    return replace(
        first,
        base_version=state.version,
        base_head=state.head,
        changes=tuple(changes),
        pins={key: Pin.of(state.tables[key]) for plan in plans for key in plan.pins},
        requirements=tuple(r for plan in plans for r in plan.requirements),
        rebase_updates=True,
        staged_at=ticks(),
    )


def _together(store: GraphStore, base: Table, effects: Sequence[Effect]) -> Effect:
    """One effect for many; rows that are in no file yet are written to one file."""
    ids = tuple(i for e in effects if isinstance(e, (ReplaceRows, UnwrittenRows)) for i in e.ids)
    fragments = tuple(f for e in effects if isinstance(e, (AppendRows, ReplaceRows)) for f in e.fragments)
    rows = [e.rows for e in effects if isinstance(e, UnwrittenRows) and e.rows.num_rows]
    if rows:
        fragments += write_rows(store.tables, base, pa.concat_tables(rows))
    return ReplaceRows(ids, fragments) if ids else AppendRows(fragments)
