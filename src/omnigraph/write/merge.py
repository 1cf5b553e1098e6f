"""Merging a branch into another: base, changed rows of both sides, conflicts, one commit with two parents.

A table that only the source changed is adopted by its pin, and no row moves. A table that both changed is merged row by
row over what changed, and the source's rows are written anew onto the target's pin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from omnigraph.api.commits import GraphCommit
from omnigraph.api.conflicts import Conflict, ConflictKind, Strategy
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.api.results import MergeResult
from omnigraph.errors import InvalidArgument, MergeConflict, OmnigraphError
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType
from omnigraph.schema.evolve_constraints import added_constraints, joined_constraints, without_constraints
from omnigraph.schema.format import format_catalog
from omnigraph.schema.reconcile import Reconciled, reconcile
from omnigraph.storage.effects import Effect, ReplaceRows
from omnigraph.storage.lookup import locate_ahead
from omnigraph.storage.tables import Table
from omnigraph.versioning.adopted_state import Graft
from omnigraph.versioning.ancestry import Lineage, relate
from omnigraph.versioning.contracts import save_contract
from omnigraph.versioning.diff import Pinned, TableDelta, columns_of, in_shape, is_unchanged, table_delta
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import Requirement, TableChange, Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table, stage_change
from omnigraph.versioning.store import GraphStore
from omnigraph.write.merge_check import check_merge
from omnigraph.write.merge_compare import Compared, Comparing, Comparison, TableSides, Terms, in_process
from omnigraph.write.merge_conflicts import Decisions
from omnigraph.write.merge_files import Resolutions, resolutions_of
from omnigraph.write.merge_rows import TableMerge
from omnigraph.write.reshape import clashes, fits, reshape_table, rewrite_table
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation.edges import ends_of

UP_TO_DATE, FAST_FORWARD, MERGED = "already_up_to_date", "fast_forward", "merged"


def merge_branch(
    repository: Repository, source: str, into: str, *, strategy: Strategy = None, dry_run: bool = False,
    property_level: bool = False, actor: str | None = None, message: str | None = None,
    comparing: Comparing = in_process, resolutions: Resolutions | None = None, progress: Listener | None = None,
) -> MergeResult:  # fmt: skip
    """Bring the changes of `source` into `into`, or raise `MergeConflict` with everything that needs a decision.

    `comparing` compares and writes rows where both branches moved under one schema; other merges have hardly any row
    work.
    """
    if source == into:
        raise InvalidArgument(f"{source!r} cannot be merged into itself", hint="name two branches")
    terms = Terms(Decisions.of(strategy, resolutions_of(resolutions)), property_level)
    text = message or f"merge {source} into {into}"
    txn = WriteTxn(repository, into, kind="merge", actor=actor, message=text, progress=progress)
    theirs = repository.head(source)
    if theirs.head in Lineage(repository.store.objects, txn.base, {}):
        return MergeResult(source=source, target=into, outcome=UP_TO_DATE)
    relation = relate(repository.store.objects, txn.base, theirs)
    sides = Sides(repository.store, repository.at(relation.base), txn.base, theirs)
    is_forward = relation.base.graph_commit_id == txn.base.head
    result = MergeResult(
        source=source, target=into, outcome=FAST_FORWARD if is_forward else MERGED,
        base_commit_id=relation.base.graph_commit_id,
    )  # fmt: skip
    begin = in_process if is_forward or not sides.is_one_schema else comparing
    with repository.reading(*sides.states), begin(txn, terms) as comparison:
        merging = Merging(txn, sides, terms.decisions, comparison, Joined(theirs.head, relation.theirs_only))
        plan = merging.fast_forward() if is_forward else merging.merged()
        result = replace(result, conflicts=tuple(plan.conflicts))
        if not dry_run:
            require_no_conflict(result)
            result = replace(result, commit=merging.publish(plan))
    return result


def require_no_conflict(result: MergeResult) -> None:
    """Raise for conflicts that no strategy or resolution decides."""
    found = result.open_conflicts
    if found:
        places = f"{len(found)} place{'s' if len(found) > 1 else ''}"
        raise MergeConflict(
            f"{result.source} and {result.target} contradict each other in {places}; nothing was merged", found
        )


class Sides:
    """The three states of a merge and their types, matched by identity.

    Not `lineal`: `theirs` may be any state, perhaps an earlier one, that does not descend from `base`. Then a row id
    may mean another row there, and a table that the target has keeps its own pin.
    """

    def __init__(
        self, store: GraphStore, base: ManifestState, ours: ManifestState, theirs: ManifestState, *, lineal: bool = True
    ) -> None:
        self.store = store
        self.is_lineal = lineal
        self.states = (base, ours, theirs)
        self.base, self.ours, self.theirs = (_pinned(store, state) for state in self.states)

    @property
    def is_one_schema(self) -> bool:
        """Whether all three states have the same schema."""
        return len({state.schema_hash for state in self.states}) == 1

    @cached_property
    def schema(self) -> Reconciled:
        """The schema after the merge."""
        return reconcile(*(self.store.catalog(state.schema_hash) for state in self.states))

    @property
    def schema_hash(self) -> str | None:
        """The merged schema's hash if it differs from the target's; the text of a new schema is stored first."""
        _, ours, theirs = self.states
        merged = self.schema.catalog
        if merged.contract_hash == self.store.catalog(ours.schema_hash).contract_hash:
            return None
        if merged.contract_hash == self.store.catalog(theirs.schema_hash).contract_hash:
            return theirs.schema_hash
        return save_contract(self.store.objects, merged, format_catalog(merged))


def _pinned(store: GraphStore, state: ManifestState) -> dict[str, Pinned]:
    types = store.catalog(state.schema_hash).entity_types
    return {t.type_id: Pinned(state.tables[t.table_key], t) for t in types}


@dataclass(frozen=True, slots=True)
class Joined:
    """The history that a merge joins: the source's head becomes a parent, and commits that only it has are copied."""

    parent: str
    commits: tuple[GraphCommit, ...]


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The effects of a merge on each table, and the conflicts that it met, decided or not."""

    conflicts: Sequence[Conflict]
    merges: dict[str, TableMerge]
    requirements: Sequence[Requirement]
    adopted: tuple[TableEntry, ...] = ()
    kept: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the target stays as it is."""
        return not (self.merges or self.adopted or self.removed)


class Merging:
    """One merge between three states, which may join the history of the source. Also the `Changes` validation reads."""

    def __init__(
        self, txn: WriteTxn, sides: Sides, decisions: Decisions, comparison: Comparison, joined: Joined | None
    ) -> None:
        self._txn = txn
        self._joined = joined
        self._sides = sides
        self._decisions = decisions
        self._comparison = comparison
        self._tables: dict[str, Compared] = {}
        self._types = {t.table_key: t for t in sides.schema.catalog.entity_types}
        decisions.require_known_types(self._types)

    # --- what changed ---------------------------------------------------------------------------------------------

    def ours_changed(self, table_key: str) -> bool:
        """Whether the target changed rows of the table since the base."""
        return self._changed(table_key, self._sides.ours)

    def theirs_changed(self, table_key: str) -> bool:
        """Whether the source changed rows of the table since the base."""
        return self._changed(table_key, self._sides.theirs)

    def ours(self, table_key: str) -> TableDelta:
        """The target's changed rows."""
        return self._compared(table_key).ours

    def theirs(self, table_key: str) -> TableDelta:
        """The source's changed rows."""
        return self._compared(table_key).theirs

    def target(self, table_key: str) -> Table:
        """The target's table before the merge."""
        return open_table(self._sides.store, self._sides.ours[self._types[table_key].type_id].entry)

    def target_rows(self, table_key: str) -> pa.Table:
        """All rows of the target, in the merged shape: read only where the schemas differ in a constraint."""
        entity = self._types[table_key]
        here = self._sides.ours.get(entity.type_id)
        if here is None:
            return entity.arrow_schema.empty_table()
        return in_shape(self.target(table_key).scan(columns_of(here.entity)), here.entity, entity)

    def new_constraints(self, table_key: str) -> EntityType:
        """The constraints that one of the sides did not have when it wrote its rows."""
        entity = self._types[table_key]
        sides = [s[entity.type_id] for s in (self._sides.ours, self._sides.theirs) if entity.type_id in s]
        if all(side.entity == entity for side in sides):
            return without_constraints(entity)
        return joined_constraints(entity, [added_constraints(side.entity, entity) for side in sides])

    def merge_of(self, table_key: str) -> TableMerge:
        """The effect of the merge on one table."""
        return self._compared(table_key).merge

    def _changed(self, table_key: str, side: dict[str, Pinned]) -> bool:
        type_id = self._types[table_key].type_id
        base, here = self._sides.base.get(type_id), side.get(type_id)
        return here is not None and not is_unchanged(base.entry if base else None, here.entry)

    def _compared(self, table_key: str) -> Compared:
        self._compare([table_key])
        return self._tables[table_key]

    def _compare(self, table_keys: Iterable[str]) -> None:
        """Compare tables that were not compared yet, all at once."""
        missing = [key for key in table_keys if key not in self._tables]
        if missing:
            found = self._comparison.compare([self._table_sides(key) for key in missing])
            self._tables.update(zip(missing, found, strict=True))

    def _table_sides(self, table_key: str) -> TableSides:
        entity = self._types[table_key]
        ours, theirs = (
            side.get(entity.type_id) if self._changed(table_key, side) else None
            for side in (self._sides.ours, self._sides.theirs)
        )
        base = self._sides.base.get(entity.type_id)
        return TableSides(entity, base, ours, theirs, lineal=self._sides.is_lineal)

    # --- what to do -----------------------------------------------------------------------------------------------

    def fast_forward(self) -> MergePlan:
        """The target has not moved since the branches parted: it becomes what the source is, and no row is read."""
        _, ours, theirs = self._sides.states
        adopted = tuple(
            entry
            for key, entry in theirs.tables.items()
            if key not in ours.tables or self._is_news(ours.tables[key], entry)
        )
        removed = tuple(key for key in ours.tables if key not in theirs.tables)
        # If a table that is related to these moves meanwhile, this has to become a merge like any other.
        touched = {*removed, *(entry.table_key for entry in adopted)}
        near = self._neighbours(touched) if ours.schema_hash == theirs.schema_hash else set(ours.tables)
        return MergePlan([], {}, [Unmoved(key) for key in sorted(near & ours.tables.keys())], adopted, (), removed)

    def _neighbours(self, keys: set[str]) -> set[str]:
        """Tables with their edges, and edge tables with their nodes."""
        near = set(keys)
        for edge in self._sides.schema.catalog.edges.values():
            ends = {end.node_key for end in ends_of(edge)}
            if edge.table_key in keys:
                near |= ends
            elif ends & keys:
                near.add(edge.table_key)
        return near

    def _is_news(self, before: TableEntry, entry: TableEntry) -> bool:
        if before.is_same_pin(entry):
            return False
        if before.type_id != entry.type_id or before.row_count != entry.row_count:
            return True
        here, there = (side[entry.type_id].entity for side in (self._sides.ours, self._sides.theirs))
        if before.content_version == entry.content_version or not fits(here, there):
            return True
        # The number of rows is the same: perhaps the edits of the branch cancel out.
        return bool(self.theirs(entry.table_key).ids)

    def merged(self) -> MergePlan:
        """Both moved: adopt tables that only the source changed, merge those that both did."""
        problems = self._schema_conflicts()
        if problems:
            return MergePlan(problems, {}, [])
        catalog: Catalog = self._sides.schema.catalog
        both = [k for k in self._types if self.theirs_changed(k) and self.ours_changed(k)]
        self._compare(both)
        conflicts = [c for key in both for c in self._compared(key).conflicts]
        with PhaseProgress(self._txn.progress, "check", 1, "steps"):
            findings = check_merge(catalog, self, self._decisions)
        for key, merge in findings.revised.items():
            self._tables[key] = replace(self._compared(key), merge=merge, conflicts=())
        adopted = [k for k in self._types if self._is_adoptable(k)]
        entries = tuple(replace(self._sides.theirs[self._types[k].type_id].entry, table_key=k) for k in adopted)
        # Also tables that only the source changed, if the schemas differ so that its pin cannot replace the target's.
        written = {k: self.merge_of(k) for k in self._types if k not in adopted and self.theirs_changed(k)}
        written |= {k: compared.merge for k, compared in self._tables.items() if k not in adopted}
        merges = {k: m for k, m in written.items() if not m.is_empty}
        kept = tuple(k for k in self._types if k not in adopted and self._types[k].type_id in self._sides.ours)
        removed = tuple(
            p.entry.table_key for i, p in self._sides.ours.items() if i not in {t.type_id for t in self._types.values()}
        )
        found = [*conflicts, *findings.conflicts]
        requirements = [*findings.requirements, *self._decided(found)]
        return MergePlan(found, merges, requirements, entries, kept, removed)

    def _decided(self, conflicts: Iterable[Conflict]) -> list[Requirement]:
        """Requirements for decided conflicts: if one of their tables moves, the strategy may have to decide again."""
        keys: set[str] = set()
        for conflict in conflicts:
            entity = self._types.get(f"{conflict.entity_kind}:{conflict.type_name}")
            if conflict.resolution is not None and entity is not None:
                keys.add(entity.table_key)
                if conflict.kind == ConflictKind.ORPHAN_EDGE and isinstance(entity, EdgeType):
                    keys |= {end.node_key for end in ends_of(entity)}
        return [Unmoved(key) for key in sorted(keys)]

    def _is_adoptable(self, table_key: str) -> bool:
        entity = self._types[table_key]
        theirs = self._sides.theirs.get(entity.type_id)
        if theirs is None:
            return False
        if entity.type_id not in self._sides.ours:
            return True
        if not self._sides.is_lineal:
            return False
        if self.ours_changed(table_key) or not self.theirs_changed(table_key) or not fits(theirs.entity, entity):
            return False
        known = self._tables.get(table_key)
        if known is not None and not known.merge.is_whole:
            return False
        before = self._sides.ours[entity.type_id].entry
        return before.row_count != theirs.entry.row_count or bool(self.theirs(table_key).ids)

    def _schema_conflicts(self) -> list[Conflict]:
        found = [_schema_conflict(p.entity, p.message, p.base, p.ours, p.theirs) for p in self._sides.schema.problems]
        kept = {t.type_id for t in self._types.values()}
        for type_id, base in self._sides.base.items():
            if type_id in kept:
                continue
            for side in (self._sides.ours, self._sides.theirs):
                here = side.get(type_id)
                if here is not None and self._has_edits(base, here):
                    key = here.entity.table_key
                    found.append(_schema_conflict(key, f"one branch dropped {key}, the other changed its rows"))
        return found

    def _has_edits(self, base: Pinned, here: Pinned) -> bool:
        """Whether rows differ in the end. Edits that were undone do not count."""
        if is_unchanged(base.entry, here.entry):
            return False
        return bool(table_delta(self._sides.store, base, here, here.entity, lineal=True).ids)

    # --- doing it -------------------------------------------------------------------------------------------------

    def publish(self, plan: MergePlan) -> GraphCommit:
        """Write and publish the merge."""
        renamed = self._renamed((*plan.kept, *(entry.table_key for entry in plan.adopted)))
        merges: dict[str, tuple[TableMerge, Table]] = {}
        changed: list[TableEntry] = []
        files: list[str] = []
        for key in plan.kept:
            here = self._sides.ours[self._types[key].type_id]
            merge = plan.merges.get(key)
            if key in renamed or not fits(here.entity, self._types[key]):
                entry, written = self._reshaped(here, self._types[key], merge)
                changed.append(entry)
                files.extend(written)
            elif merge is not None:
                merges[key] = (merge, self._txn.table(key))
        # The positions of the replaced rows are looked up while other rows are written.
        lookups = [
            self._sides.store.workers.submit(locate_ahead, table, merge.replaced, self._txn.entry(key).tail)
            for key, (merge, table) in merges.items()
        ]
        effects: Mapping[str, Effect] = self._comparison.effects(merges)
        for lookup in lookups:
            lookup.result()
        adopted: list[TableEntry] = []
        for entry in plan.adopted:
            fitted, written = self._without_refused(entry)
            adopted.append(fitted)
            files.extend(written)
        graft = Graft(
            adopted=tuple(adopted),
            reshaped=tuple(changed),
            removed=plan.removed,
            renamed=renamed,
            schema_hash=self._sides.schema_hash,
            merged_parent=self._joined.parent if self._joined is not None else None,
            parted=self._parted(plan),
            commits=self._joined.commits if self._joined is not None else (),
        )
        requirements = [r for r in plan.requirements if r.table_key in self._txn.base.tables]
        return self._txn.commit(
            effects, requirements, graft=graft, files=files, revived=plan.adopted, pool=self._comparison.pool,
            restored=() if self._sides.is_lineal else plan.adopted,
        )  # fmt: skip

    def _without_refused(self, entry: TableEntry) -> tuple[TableEntry, tuple[str, ...]]:
        """A table that only the source has, without rows that were decided against: edges of deleted nodes."""
        found = self._tables.get(entry.table_key)
        refused = found.merge.theirs.new.keys() - found.merge.taken if found is not None else None
        if not refused:
            return entry, ()
        effect = ReplaceRows(tuple(sorted(refused)), ())
        change = stage_change(self._sides.store, entry, effect, self._txn.commit_id)
        return self._staged(entry, change), change.files

    def _renamed(self, keys: Iterable[str]) -> dict[str, str]:
        """Tables that have another key in the merged schema than on the target, with the target's key."""
        here = {key: self._sides.ours.get(self._types[key].type_id) for key in keys}
        return {key: p.entity.table_key for key, p in here.items() if p is not None and p.entity.table_key != key}

    def _parted(self, plan: MergePlan) -> tuple[str, ...]:
        adopted = {entry.table_key for entry in plan.adopted} if self._sides.is_lineal else set()
        return tuple(k for k in self._types if k not in adopted and self.theirs_changed(k))

    def _reshaped(self, here: Pinned, want: EntityType, merge: TableMerge | None) -> tuple[TableEntry, tuple[str, ...]]:
        store = self._sides.store
        if clashes(open_table(store, here.entry), here.entity, want):
            made = rewrite_table(store, here.entry, here.entity, want, self._txn.commit_id)
        else:
            made = reshape_table(store, here.entry, here.entity, want)
        if merge is None:
            return made.entry, made.files
        effect = merge.effect(store.tables, open_table(store, made.entry))
        change = stage_change(store, made.entry, effect, self._txn.commit_id)
        return self._staged(made.entry, change), (*made.files, *change.files)

    def _staged(self, entry: TableEntry, change: TableChange) -> TableEntry:
        return replace(
            entry, staged_version=change.staged_version, row_count=change.row_count, tail=change.tail,
            high_water=change.high_water, content_version=self._txn.commit_id, digests=change.digests,
        )  # fmt: skip


def _schema_conflict(
    entity: str, message: str, base: object = None, ours: object = None, theirs: object = None
) -> Conflict:
    kind, _, name = entity.partition(":")
    return Conflict(
        kind=ConflictKind.SCHEMA_CONFLICT, entity_kind=kind, type_name=name, message=message, base=base, ours=ours,
        theirs=theirs,
    )  # fmt: skip


def delete_merged(repository: Repository, result: MergeResult) -> MergeResult:
    """Delete the branch that was merged. A reason why it cannot be deleted is part of the result, not an error."""
    try:
        repository.refs.delete(result.source)
    except OmnigraphError as error:
        return replace(result, branch_delete_error=error.message)
    return replace(result, branch_deleted=True)
