"""Reverting a commit, cherry-picking one, and restoring a state: each is a new commit.

All three are merges of states. A revert merges the state before the commit into the branch, with the state after the
commit as the base; a cherry-pick merges the other way round. A restore merges the wanted state, with the branch itself
as the base, so that nothing is left to decide. History stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.commits import GraphCommit
from omnigraph.api.conflicts import Strategy
from omnigraph.api.results import MergeResult, RestoreResult
from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument, Unsupported
from omnigraph.schema.catalog import EntityType
from omnigraph.schema.identity import IdValue, id_text
from omnigraph.storage.effects import Effect, ReplaceRows
from omnigraph.versioning.ancestry import Lineage, relate
from omnigraph.versioning.diff import Pinned, table_delta
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import Unmoved
from omnigraph.versioning.repository import Repository
from omnigraph.write.merge import Joined, MergePlan, Merging, Sides, require_no_conflict
from omnigraph.write.merge_compare import Terms, in_process
from omnigraph.write.merge_conflicts import Decisions
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import TableDelta, validate

REVERTED, PICKED, RESTORED, UNCHANGED = "reverted", "cherry_picked", "restored", "nothing_to_do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of the new commit, and the message."""

    actor: str | None = None
    message: str | None = None


def revert_commit(
    repository: Repository, commit_id: str, branch: str, *, terms: Terms, author: Author, dry_run: bool = False
) -> MergeResult:
    """Revert the changes of a commit of the branch, and keep later changes."""
    commit = repository.commit(commit_id)
    after, before = repository.at(commit), _parent_state(repository, commit)
    txn = _transaction(repository, branch, "revert", author, f"revert {_named(commit)}")
    if commit.graph_commit_id not in Lineage(repository.store.objects, txn.base, {}):
        raise InvalidArgument(
            f"commit {commit_id} is not part of branch {branch!r}", hint="name the branch that has it with --branch"
        )
    return _merge_states(txn, commit, (after, before), REVERTED, terms, dry_run=dry_run)


def cherry_pick(
    repository: Repository, commit_id: str, branch: str, *, terms: Terms, author: Author, dry_run: bool = False
) -> MergeResult:
    """Make the changes of a commit of any branch on this one, without the rest of that branch."""
    commit = repository.commit(commit_id)
    after, before = repository.at(commit), _parent_state(repository, commit)
    txn = _transaction(repository, branch, "cherry_pick", author, f"cherry-pick {_named(commit)}")
    return _merge_states(txn, commit, (before, after), PICKED, terms, dry_run=dry_run)


def _merge_states(
    txn: WriteTxn, commit: GraphCommit, states: tuple[ManifestState, ManifestState], outcome: str, terms: Terms, *,
    dry_run: bool,
) -> MergeResult:  # fmt: skip
    base, theirs = states
    if base.schema_hash != theirs.schema_hash:
        raise Unsupported(
            f"commit {commit.graph_commit_id} changed the schema; only changes of rows are taken back or over",
            hint="`omnigraph schema show --at` prints the schema of another state, `schema apply` brings it back",
        )
    result = MergeResult(
        source=commit.graph_commit_id, target=txn.base.branch, outcome=outcome, base_commit_id=base.head
    )
    sides = Sides(txn.store, base, txn.base, theirs, lineal=False)
    with txn.repository.reading(*sides.states), in_process(txn, terms) as comparison:
        merging = Merging(txn, sides, terms.decisions, comparison, None)
        plan = merging.merged()
        result = replace(result, conflicts=tuple(plan.conflicts))
        if plan.is_empty and not result.open_conflicts:
            return replace(result, outcome=UNCHANGED)
        if not dry_run:
            require_no_conflict(result)
            result = replace(result, commit=merging.publish(plan))
    return result


def restore_graph(
    repository: Repository, target: Target, branch: str, *, author: Author, dry_run: bool = False
) -> RestoreResult:
    """Bring a branch to the rows and schema of another state, as one commit.

    A target of another branch becomes the second parent, so that a later merge finds both equal there.
    """
    wanted = repository.resolve(target)
    txn = _transaction(repository, branch, "restore", author, f"restore {_shown(target)}")
    objects, ours = repository.store.objects, txn.base
    joined = None
    if wanted.head not in Lineage(objects, ours, {}):
        joined = Joined(wanted.head, relate(objects, ours, wanted).theirs_only)
    sides = Sides(repository.store, ours, ours, wanted, lineal=False)
    with repository.reading(ours, wanted), in_process(txn, Terms(Decisions.of(None))) as comparison:
        merging = Merging(txn, sides, Decisions.of(None), comparison, joined)
        plan = merging.merged()
        written = {k: len(m.upserted) for k, m in plan.merges.items() if m.upserted}
        written |= {entry.table_key: entry.row_count for entry in plan.adopted}
        removed = {k: len(m.dropped) for k, m in plan.merges.items() if m.dropped}
        removed |= {key: ours.tables[key].row_count for key in plan.removed}
        result = RestoreResult(target=branch, outcome=RESTORED, written=written, removed=removed)
        if plan.is_empty and joined is None and sides.schema_hash is None:
            return replace(result, outcome=UNCHANGED)
        return result if dry_run else replace(result, commit=merging.publish(_whole(plan, ours)))


def _whole(plan: MergePlan, ours: ManifestState) -> MergePlan:
    """The plan, requiring that no table has moved: rows written meanwhile are not of the requested state."""
    return replace(plan, requirements=[Unmoved(key) for key in sorted(ours.tables)])


def restore_rows(
    repository: Repository, target: Target, branch: str, ids: Mapping[str, Sequence[IdValue] | None], *, author: Author,
    dry_run: bool = False,
) -> RestoreResult:  # fmt: skip
    """Restore some types, or some entities of them, to an earlier state. They are validated like any other write."""
    wanted = repository.resolve(target)
    txn = _transaction(repository, branch, "restore", author, f"restore {', '.join(ids)} of {_shown(target)}")
    deltas = {}
    with repository.reading(txn.base, wanted):
        for name, some in ids.items():
            entity = txn.catalog.entity(name)
            deltas[entity.table_key] = _back(txn, wanted, entity, some)
        deltas = {key: delta for key, delta in deltas.items() if delta.written.num_rows or len(delta.removed)}
        result = RestoreResult(
            target=branch, outcome=RESTORED if deltas else UNCHANGED,
            written={key: delta.written.num_rows for key, delta in deltas.items() if delta.written.num_rows},
            removed={key: len(delta.removed) for key, delta in deltas.items() if len(delta.removed)},
        )  # fmt: skip
        accepted = validate(txn, deltas).accepted()
        if dry_run or not deltas:
            return result
        effects: dict[str, Effect] = {}
        for key, delta in deltas.items():
            rows = delta.written
            effects[key] = txn.effect(key, rows, delta.gone) if rows.num_rows else ReplaceRows(tuple(delta.gone))
        return replace(result, commit=txn.commit(effects, [*accepted, *(Unmoved(key) for key in deltas)]))


def _back(txn: WriteTxn, wanted: ManifestState, entity: EntityType, ids: Sequence[IdValue] | None) -> TableDelta:
    """The delta that restores a table, or some of its rows."""
    there = {t.type_id: t for t in txn.store.catalog(wanted.schema_hash).entity_types}.get(entity.type_id)
    if there is None:
        raise InvalidArgument(
            f"{entity.name} is not in the graph at that state", hint="restore the whole graph, or choose a later state"
        )
    here = Pinned(txn.entry(entity.table_key), entity)
    found = table_delta(txn.store, here, Pinned(wanted.tables[there.table_key], there), entity)
    kept = None if ids is None else frozenset(id_text(entity, each) for each in ids)
    inserted = [i for i in found.new if i not in found.old and (kept is None or i in kept)]
    updated = [i for i in found.new if i in found.old and (kept is None or i in kept)]
    removed = sorted(i for i in found.deleted if kept is None or i in kept)
    return TableDelta(
        entity=entity, inserted=_of_ids(found.after, inserted), updated=_of_ids(found.after, updated),
        removed=pa.array(removed, pa.string()),
    )  # fmt: skip


def _of_ids(rows: pa.Table, ids: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows["id"], value_set=pa.array(ids, rows.schema.field("id").type)))


def _parent_state(repository: Repository, commit: GraphCommit) -> ManifestState:
    if commit.parent_commit_id is None:
        raise InvalidArgument(
            f"commit {commit.graph_commit_id} is the first of the graph: there is no state before it",
            hint="`omnigraph commit list` shows later ones",
        )
    return repository.at(repository.commit(commit.parent_commit_id))


def _transaction(repository: Repository, branch: str, kind: str, author: Author, message: str) -> WriteTxn:
    return WriteTxn(repository, branch, kind=kind, actor=author.actor, message=author.message or message)


def terms_of(strategy: Strategy, *, property_level: bool) -> Terms:
    """How to decide about rows that were changed since."""
    return Terms(Decisions.of(strategy), property_level)


def _named(commit: GraphCommit) -> str:
    return f"{commit.graph_commit_id} ({commit.message or commit.kind})"


def _shown(target: Target) -> str:
    return "main" if target is None else str(target)
