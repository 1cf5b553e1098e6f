"""Changing the schema of a branch: an ordinary commit that brings tables and a schema contract together.

Renames, soft drops, wider enums and indexes touch no table. A table that gets columns is reshaped on its pin; a writer
that was prepared under the old schema finds it moved and validates again. Old snapshots keep their own schema.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import SchemaChangeRefused
from omnigraph.schema import steps
from omnigraph.schema.catalog import EntityType
from omnigraph.schema.evolve import Migration, plan_migration
from omnigraph.schema.evolve_constraints import added_constraints
from omnigraph.schema.steps import Step, refusal
from omnigraph.versioning.commits import GraphCommit
from omnigraph.versioning.contracts import save_contract
from omnigraph.versioning.diff import columns_of, in_shape
from omnigraph.versioning.graft import Graft
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.store import mint
from omnigraph.write.attempts import reprepared
from omnigraph.write.reshape import Reshaped, born, fits, reshaped, rewritten
from omnigraph.write.schema_check import needs_data, require_satisfied
from omnigraph.write.transaction import WriteTxn


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The steps to a schema, and whether they were taken. Without steps there is nothing to apply."""

    steps: tuple[Step, ...]
    applied: bool = False
    commit: GraphCommit | None = None
    graph_manifest_version: int | None = None

    @property
    def supported(self) -> bool:
        """True when every step can be taken."""
        return all(step.is_supported for step in self.steps)


def plan_schema(
    repository: Repository, text: str, *, branch: str, allow_data_loss: bool = False, path: str | None = None
) -> SchemaChange:
    """What applying a schema text would do. Data is not looked at."""
    state = repository.head(branch)
    current = repository.store.catalog(state.schema_hash)
    migration = plan_migration(current, text, mint, path, allow_data_loss=allow_data_loss)
    return SchemaChange(migration.steps, graph_manifest_version=state.version)


def apply_schema(
    repository: Repository, text: str, *, branch: str, allow_data_loss: bool = False, actor: str | None = None,
    message: str | None = None, path: str | None = None,
) -> SchemaChange:  # fmt: skip
    """Make a branch follow a schema text, in one commit. Planned again when the branch moves meanwhile."""

    def attempt(fresh: bool) -> SchemaChange:
        txn = WriteTxn(repository, branch, kind="schema_apply", actor=actor, message=message, fresh=fresh)
        migration = plan_migration(txn.catalog, text, mint, path, allow_data_loss=allow_data_loss)
        _require_supported(migration)
        if not migration.steps:
            return SchemaChange((), graph_manifest_version=txn.base.version)
        commit = _Applying(txn, migration).publish()
        return SchemaChange(migration.steps, True, commit, commit.manifest_version)

    return reprepared(attempt, fresh_first=True)


def _require_supported(migration: Migration) -> None:
    refused = [step for step in migration.steps if not step.is_supported]
    if refused:
        first = refused[0]
        code = first.fields.get("code")
        shown = f"[{code}] {first.fields['reason']}" if code else refusal(first)
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise SchemaChangeRefused(
            f"{first.fields['entity']}: {shown}{more}",
            migration.steps,
            hint="`omnigraph schema plan` shows every step; nothing was changed",
        )


class _Applying:
    def __init__(self, txn: WriteTxn, migration: Migration) -> None:
        self._txn = txn
        self._migration = migration
        self._requirements: list[Requirement] = []
        self._renamed: dict[str, str] = {}
        self._changed: list[Reshaped] = []
        self._born: list[TableEntry] = []
        self._removed: list[str] = []

    def publish(self) -> GraphCommit:
        store = self._txn.store
        for before, after in self._migration.pairs():
            if before is None and after is not None:
                self._born.append(born(store, after, self._txn.commit_id))
            elif before is not None and after is None:
                self._removed.append(before.table_key)
            elif before is not None and after is not None:
                self._carry(before, after)
        schema_hash = save_contract(store.objects, self._migration.after, self._migration.source)
        graft = Graft(
            adopted=tuple(self._born),
            reshaped=tuple(each.entry for each in self._changed),
            removed=tuple(self._removed),
            renamed=self._renamed,
            schema_hash=schema_hash,
        )
        files = [name for each in self._changed for name in each.files]
        return self._txn.commit({}, self._requirements, graft=graft, files=files)

    def _carry(self, before: EntityType, after: EntityType) -> None:
        store, entry = self._txn.store, self._txn.entry(before.table_key)
        self._check_data(before, after)
        if before.table_key != after.table_key:
            self._renamed[after.table_key] = before.table_key
        if self._is_hard(after):
            self._changed.append(rewritten(store, entry, before, after, self._txn.commit_id))
        elif not fits(before, after):
            made = reshaped(store, entry, before, after)
            if not made.entry.is_same_pin(entry):
                self._changed.append(made)

    def _is_hard(self, after: EntityType) -> bool:
        return any(
            step.kind == steps.DROP_PROPERTY
            and step.fields["mode"] == steps.HARD
            and (step.fields["type_kind"], step.fields["type_name"]) == (after.kind, after.name)
            for step in self._migration.steps
        )

    def _check_data(self, before: EntityType, after: EntityType) -> None:
        """New constraints hold of the rows that are there, and of no others when the schema is published."""
        added = added_constraints(before, after)
        if not needs_data(added):
            return
        rows = self._txn.table(before.table_key).scan(columns_of(before))
        require_satisfied(added, in_shape(rows, before, after))
        self._requirements.append(Unmoved(before.table_key))
