"""Changing the schema of a branch: an ordinary commit that brings tables and a schema contract together.

Renames, soft drops, wider enums and indexes touch no table. A table that gets columns is reshaped on its pin; a writer
that was prepared under the old schema finds it moved and validates again. Old snapshots keep their own schema.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.api.commits import GraphCommit
from omnigraph.api.results import SchemaChange
from omnigraph.errors import MissingEndpoint, PlanMoved
from omnigraph.schema import steps
from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.schema.evolve import Migration
from omnigraph.schema.evolve_constraints import added_constraints
from omnigraph.storage.lookup import missing_ids
from omnigraph.versioning.adopted_state import Graft
from omnigraph.versioning.contracts import save_contract
from omnigraph.versioning.diff import columns_of, in_shape
from omnigraph.versioning.plan import Requirement, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.write.reshape import Reshaped, born, fits, reshape_table, rewrite_table, with_columns
from omnigraph.write.retries import retry_on_conflict
from omnigraph.write.schema_check import needs_data, require_satisfied
from omnigraph.write.schema_plan import SchemaRequest, plan_on, plan_schema, require_allowed
from omnigraph.write.transaction import WriteTxn

__all__ = ["SchemaChange", "SchemaRequest", "apply_schema", "plan_schema"]


def apply_schema(
    repository: Repository, request: SchemaRequest, *, branch: str, actor: str | None = None,
    message: str | None = None,
) -> SchemaChange:  # fmt: skip
    """Change the schema of a branch to a schema text, in one commit.

    When the branch moves meanwhile the text is planned again. Only the first plan is carried out: a new plan with other
    steps is refused, because the user has not seen it.
    """
    first: list[tuple[str, Migration]] = []

    def attempt(fresh: bool) -> SchemaChange:
        txn = WriteTxn(repository, branch, kind="schema_apply", actor=actor, message=message, fresh=fresh)
        migration = plan_on(txn.store, txn.base, request)
        digest = migration.digest(txn.base.schema_hash)
        _require_planned(migration, digest, request.plan, first)
        first[:] = first or [(digest, migration)]
        require_allowed(migration, request)
        if not migration.steps:
            return SchemaChange((), graph_manifest_version=txn.base.version, digest=digest)
        commit = _Applying(txn, migration).publish()
        return SchemaChange(migration.steps, True, commit, commit.manifest_version, digest)

    return retry_on_conflict(attempt, fresh_first=True)


def _require_planned(migration: Migration, digest: str, wanted: str | None, first: list[tuple[str, Migration]]) -> None:
    """Raise when the steps are not those of the approved plan, or not those of the first attempt."""
    if wanted is not None and wanted != digest:
        raise PlanMoved(expected=wanted, actual=digest, steps=migration.steps)
    # Another process may have brought the branch to the same schema: then nothing is left to do.
    if first and migration.steps and not migration.is_same_change(first[0][1]):
        raise PlanMoved(expected=first[0][0], actual=digest, steps=migration.steps)


class _Applying:
    def __init__(self, txn: WriteTxn, migration: Migration) -> None:
        self._txn = txn
        self._migration = migration
        self._requirements: list[Requirement] = []
        self._renamed: dict[str, str] = {}
        self._changed: list[Reshaped] = []
        self._born: list[TableEntry] = []
        self._back: list[Reshaped] = []
        self._revived: list[TableEntry] = []
        self._removed: list[str] = []

    def publish(self) -> GraphCommit:
        store = self._txn.store
        for before, after in self._migration.pairs():
            if before is None and after is not None:
                self._add(after)
            elif before is not None and after is None:
                self._removed.append(before.table_key)
            elif before is not None and after is not None:
                self._carry(before, after)
        self._check_ends()
        schema_hash = save_contract(store.objects, self._migration.after, self._migration.source)
        is_hard = any(s.kind == steps.DROP_TYPE and s.fields["mode"] == steps.HARD for s in self._migration.steps)
        graft = Graft(
            adopted=(*self._born, *(each.entry for each in self._back)),
            reshaped=tuple(each.entry for each in self._changed),
            removed=() if is_hard else tuple(self._removed),
            erased=tuple(self._removed) if is_hard else (),
            renamed=self._renamed,
            schema_hash=schema_hash,
        )
        files = [name for each in (*self._changed, *self._back) for name in each.files]
        return self._txn.commit({}, self._requirements, graft=graft, files=files, restored=self._revived)

    def _add(self, after: EntityType) -> None:
        was = self._migration.restored.get(after.type_id)
        if was is None:
            self._born.append(born(self._txn.store, after, self._txn.commit_id))
            return
        entry = self._txn.base.tombstones[was.table_key].entry
        self._revived.append(entry)
        self._check_data(was, after, entry)
        self._back.append(self._fitted(was, after, entry))

    def _carry(self, before: EntityType, after: EntityType) -> None:
        entry = self._txn.entry(before.table_key)
        if self._check_data(before, after, entry):
            self._requirements.append(Unmoved(before.table_key))
        if before.table_key != after.table_key:
            self._renamed[after.table_key] = before.table_key
        made = self._fitted(before, after, entry)
        if not made.entry.is_same_pin(entry) or made.entry.content_version != entry.content_version:
            self._changed.append(made)

    def _fitted(self, before: EntityType, after: EntityType, entry: TableEntry) -> Reshaped:
        """The table of a type with what it needs to be that of another. Restored values count as changed rows."""
        store, have = self._txn.store, self._with_restored(before, after)
        if self._is_hard(after):
            present = set(open_table(store, entry).schema.names)
            hidden = [p for p in after.hidden if p.column in present]
            made = rewrite_table(
                store, entry, with_columns(have, hidden), with_columns(after, hidden), self._txn.commit_id
            )
            made = replace(made, entry=replace(made.entry, table_key=after.table_key))
        elif fits(have, after):
            made = Reshaped(replace(entry, table_key=after.table_key))
        else:
            made = reshape_table(store, entry, have, after)
        if have is before:
            return made
        return replace(made, entry=replace(made.entry, content_version=self._txn.commit_id))

    def _with_restored(self, before: EntityType, after: EntityType) -> EntityType:
        """The type as its table is, with the columns of restored properties."""
        ids = {p.property_id for p in after.properties}
        back = [p for p in before.hidden if p.property_id in ids]
        return with_columns(before, back) if back else before

    def _is_hard(self, after: EntityType) -> bool:
        return any(
            step.kind == steps.DROP_PROPERTY
            and step.fields["mode"] == steps.HARD
            and (step.fields["type_kind"], step.fields["type_name"]) == (after.kind, after.name)
            for step in self._migration.steps
        )

    def _check_data(self, before: EntityType, after: EntityType, entry: TableEntry) -> bool:
        """Check that existing rows satisfy new constraints. True when there was something to check."""
        added = added_constraints(before, after)
        if not needs_data(added):
            return False
        have = self._with_restored(before, after)
        rows = open_table(self._txn.store, entry).scan(columns_of(have))
        require_satisfied(added, in_shape(rows, have, after))
        return True

    def _check_ends(self) -> None:
        """Check that restored edges have both ends: a node may have been deleted while their type was dropped."""
        entries = {each.entry.table_key: each.entry for each in self._back}
        for edge in self._migration.after.edges.values():
            if edge.type_id in self._migration.restored:
                self._check_ends_of(edge, entries)

    def _check_ends_of(self, edge: EdgeType, entries: dict[str, TableEntry]) -> None:
        store, after = self._txn.store, self._migration.after
        rows = open_table(store, entries[edge.table_key]).scan(["src", "dst"])
        former = {t.type_id: t.table_key for t in self._migration.before.entity_types}
        for column, name in (("src", edge.source), ("dst", edge.target)):
            node = after.nodes[name]
            here = former.get(node.type_id)
            if here is not None:
                self._requirements.append(Unmoved(here))
            entry = self._txn.entry(here) if here is not None else entries[node.table_key]
            gone = missing_ids(open_table(store, entry), rows[column].unique().to_pylist(), entry.tail)
            if gone:
                raise MissingEndpoint(
                    f"{edge.table_key} cannot be restored: {len(gone)} of the nodes at its ends are gone, "
                    f"{node.table_key} {gone[0]!r} first",
                    type_key=edge.table_key,
                    hint=f"add the nodes again, or begin with an empty table: --fresh {edge.name}",
                )
