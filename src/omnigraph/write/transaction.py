"""From effects to a commit: the base is captured once, tables are staged, the plan is published.

A write of several tables puts an intent before it stages, so that any process can finish it after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa

from omnigraph.api.commits import LOGICAL, GraphCommit
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.errors import OmnigraphError, OutcomeUnknown, PreconditionFailed
from omnigraph.schema.catalog import Catalog
from omnigraph.storage import calls, requests
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import AppendRows, Effect, ReplaceRows, UnwrittenRows
from omnigraph.storage.layout import pin_file
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, TaskPool
from omnigraph.storage.tables import Table
from omnigraph.versioning.adopted_state import NO_GRAFT, Graft
from omnigraph.versioning.branch_heads import BranchHead
from omnigraph.versioning.history import find_request
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import Pin, PublishPlan, Requirement, TableChange
from omnigraph.versioning.publish import heads_of
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table, stage_change, unstaged_change
from omnigraph.versioning.store import mint, ticks
from omnigraph.write.dropped_rows import require_there
from omnigraph.write.index_fold import fold_if_needed

__all__ = ["WriteTxn", "write_rows"]
_FEW_ROWS = 64


class WriteTxn:
    """One write on one branch. Everything it reads comes from the state captured at its beginning."""

    def __init__(
        self, repository: Repository, branch: str, *, kind: str, actor: str | None = None, message: str | None = None,
        expect_head: str | None = None, idempotency_key: str | None = None, fresh: bool = True,
        progress: Listener | None = None,
    ) -> None:  # fmt: skip
        """Begin a write. `progress` gets the events of the phases that are worth reporting."""
        repository.store.require_writable()
        calls.begin_write()
        requests.begin_write()
        repository.recovery.sweep_if_due()
        self.repository = repository
        self.store = repository.store
        self.base: ManifestState = repository.head(branch) if fresh else repository.recent_head(branch)
        self.commit_id = mint()
        self.progress = progress
        self._kind = kind
        self._actor = actor
        self._message = message
        self._expect_head = expect_head
        self._idempotency_key = idempotency_key
        self._announced = False
        self.is_published = False
        self._completing = False
        self._graft = NO_GRAFT
        self._graft_files: tuple[str, ...] = ()

    def earlier_commit(self) -> GraphCommit | None:
        """The commit of an earlier request with the same idempotency key, if there is one."""
        if self._idempotency_key is None:
            return None
        done = find_request(self.store.objects, self.base, self._idempotency_key)
        if done is not None:
            self.repository.publisher.confirm(self._tip)
        return done

    def require_expected_head(self) -> None:
        """Refuse at once what the publish would refuse: a branch whose head is not the expected one."""
        if self._expect_head is not None and self._expect_head not in heads_of(self.base):
            raise PreconditionFailed(expected=self._expect_head, actual=self.base.head)

    @property
    def catalog(self) -> Catalog:
        """The schema under which this write is validated."""
        return self.store.catalog(self.base.schema_hash)

    def entry(self, table_key: str) -> TableEntry:
        """The pin of a table in the captured state."""
        return self.base.snapshot.table(table_key)

    def table(self, table_key: str) -> Table:
        """The table at its pin."""
        return open_table(self.store, self.entry(table_key))

    def announce_write(self, is_small: bool) -> AbstractContextManager[None]:
        """Announce a small write for its whole duration, so that a publisher can wait for it and share its commit."""
        if not is_small or not self._may_share:
            return nullcontext()
        return self._tip.commit_queue.announce_write((self._actor, self._kind, self._message, self.base.schema_hash))

    @property
    def _tip(self) -> BranchHead:
        return self.repository.tips.of(self.base.branch, self.base.native_branch)

    def announce(self, table_keys: Iterable[str]) -> None:
        """Put the intent before anything is staged: a long job holds it by renewing its lease."""
        self.repository.intents.begin(
            commit_id=self.commit_id,
            kind=self._kind,
            actor=self._actor,
            branch=self.base.branch,
            native_branch=self.base.native_branch,
            base_version=self.base.version,
            entries=[self.entry(key) for key in sorted(table_keys)],
        )
        self._announced = True

    def renew(self) -> None:
        """Hold the intent for a while yet; raises when another process has taken it over."""
        self.repository.intents.hold(self.commit_id)

    def withdraw(self) -> None:
        """Withdraw the intent of an announced write."""
        if self._announced:
            self.repository.intents.withdraw(self.commit_id)

    def effect(self, table_key: str, rows: pa.Table, replaced: Sequence[str] = ()) -> Effect:
        """The effect that removes the rows with some ids and adds rows. A few rows are written at staging."""
        ids = tuple(replaced)
        if rows.num_rows <= _FEW_ROWS:
            return UnwrittenRows(ids, rows)
        fragments = write_rows(self.store.tables, self.table(table_key), rows) if rows.num_rows else ()
        return ReplaceRows(ids, fragments) if ids else AppendRows(fragments)

    @property
    def _may_share(self) -> bool:
        return self._expect_head is None and self._idempotency_key is None and not self._announced

    def commit(
        self, effects: Mapping[str, Effect], requirements: Iterable[Requirement], *, rebase_updates: bool = False,
        graft: Graft = NO_GRAFT, files: Iterable[str] = (), revived: Iterable[TableEntry] = (),
        restored: Sequence[TableEntry] = (), pool: TaskPool = LOCAL_POOL,
    ) -> GraphCommit:  # fmt: skip
        """Stage the effects and publish them as one commit.

        `files` are those that a graft needs on disk, `revived` the entries of other branches that it is based on,
        `restored` those of tables that were dropped. `pool` builds the indexes of the written rows, when there are
        many.
        """
        # A graft revives pins or adds tables: its intent records that before anything is visible.
        has_intent = self._announced or len(effects) > 1 or graft is not NO_GRAFT
        self._graft, self._graft_files = graft, tuple(files)
        if has_intent:
            self._tip.commit_queue.withdraw_announcement()
        try:
            with PhaseProgress(self.progress, "publish", len(effects) + 1, "steps") as phase:
                plan = self._publishable(
                    effects, tuple(requirements), rebase_updates, has_intent, revived, restored, phase
                )
                commit = self.repository.publisher.publish(plan)
                self.is_published = True
        except KeyboardInterrupt:
            if has_intent and not self.is_published:  # wherever it stopped, no process may publish it later
                self.repository.intents.withdraw(self.commit_id)
            raise
        fold_if_needed(self.repository, self.base.branch, self.base.native_branch, plan.writes, pool)
        return commit

    def _publishable(
        self, effects: Mapping[str, Effect], requirements: tuple[Requirement, ...], rebase_updates: bool,
        has_intent: bool, revived: Iterable[TableEntry], restored: Sequence[TableEntry], phase: PhaseProgress,
    ) -> PublishPlan:  # fmt: skip
        """The plan with everything staged. If this raises, the intent is withdrawn: nothing is left to publish."""
        graft = self._graft
        try:
            plan = self._prepared(effects, requirements, rebase_updates, has_intent, phase)
            if graft.merged_parent is not None or graft.adopted:
                self.repository.require_kept((*graft.adopted, *revived))
            if restored:
                # The intent roots them from here on. A collector that looked before that has its list, or is done.
                names = [f"{entry.location}/{pin_file(entry.staged_version)}" for entry in restored]
                self.repository.require_kept(restored, names)
                for entry in restored:
                    require_there(self.store, entry)
        except (OmnigraphError, KeyboardInterrupt) as error:
            if has_intent:
                self._withdraw(error)
            raise
        return plan

    def _prepared(
        self,
        effects: Mapping[str, Effect],
        requirements: tuple[Requirement, ...],
        rebase_updates: bool,
        has_intent: bool,
        phase: PhaseProgress,
    ) -> PublishPlan:
        if has_intent and not self._announced:
            self.announce({*effects, *self._grafted})
        plan = self._plan(self._stage(effects, phase), requirements, rebase_updates, has_intent)
        if has_intent:
            # Other processes may publish the plan from here on, so its files have to be on disk before it is put.
            written = [name for change in plan.changes for name in change.files]
            self.store.durability.sync_files([*written, *self._graft_files])
            self._completing = True
            self.repository.intents.complete(plan)
        return plan

    @property
    def _grafted(self) -> frozenset[str]:
        return self._graft.keys & self.base.tables.keys()

    def _withdraw(self, error: BaseException) -> None:
        """Withdraw the intent of a write that stopped; raises `OutcomeUnknown` if that is uncertain."""
        if not self.repository.intents.withdraw(self.commit_id) and self._completing:
            raise OutcomeUnknown(self.commit_id) from error

    def _stage(self, effects: Mapping[str, Effect], phase: PhaseProgress) -> tuple[TableChange, ...]:
        changes: list[TableChange] = []
        for change in self._staged(effects):
            changes.append(change)
            phase.advance(1)
        return tuple(changes)

    def _staged(self, effects: Mapping[str, Effect]) -> Iterable[TableChange]:
        if len(effects) > 1:
            # These run on the workers, which must not wait for other workers.
            return self.store.workers.map(
                lambda key: stage_change(self.store, self.entry(key), effects[key], self.commit_id), effects
            )
        return (self._stage_alone(self.entry(key), effect) for key, effect in effects.items())

    def _stage_alone(self, entry: TableEntry, effect: Effect) -> TableChange:
        if isinstance(effect, UnwrittenRows) and self._may_share and self._tip.is_busy:
            # A publish is under way: the next publisher writes these rows together with those of all waiting plans.
            return unstaged_change(entry, effect)
        return stage_change(self.store, entry, effect, self.commit_id, beside=self.store.workers)

    def _plan(
        self,
        changes: tuple[TableChange, ...],
        requirements: tuple[Requirement, ...],
        rebase_updates: bool,
        has_intent: bool,
    ) -> PublishPlan:
        used = {c.table_key for c in changes} | {r.table_key for r in requirements} | self._grafted
        return PublishPlan(
            commit_id=self.commit_id,
            branch=self.base.branch,
            native_branch=self.base.native_branch,
            base_version=self.base.version,
            base_head=self.base.head,
            kind=self._kind,
            op_class=LOGICAL,
            schema_hash=self.base.schema_hash,
            changes=changes,
            pins={key: Pin.of(self.entry(key)) for key in used},
            requirements=requirements,
            actor=self._actor,
            message=self._message,
            expect_head=self._expect_head,
            idempotency_key=self._idempotency_key,
            rebase_updates=rebase_updates,
            staged_at=ticks(),
            has_intent=has_intent,
            graft=self._graft,
        )
