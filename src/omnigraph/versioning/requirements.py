"""Checking a plan's requirements again, against the state that its swap is about to replace.

`rebase` is the whole concurrency rule of the system: which plans may follow a branch that moved, and which conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from omnigraph.errors import ConstraintConflict, EndpointConflict, ExpectedVersionMismatch, KeyConflict, SchemaMoved
from omnigraph.storage.apply_effects import fits
from omnigraph.storage.effects import (
    AppendRows,
    Compacted,
    MaskRows,
    OverwriteRows,
    ReplaceRows,
    Reshape,
    UnwrittenRows,
)
from omnigraph.storage.lookup import MAX_LISTED, existing_ids, in_list, missing_ids, rows_where_any, rows_with_values
from omnigraph.storage.tables import Table
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.plan import (
    UNSTAGED,
    CardinalityWithin,
    KeysAbsent,
    KeysPresent,
    NoIncident,
    Pin,
    PublishPlan,
    Requirement,
    TableChange,
    Unmoved,
    ValuesAbsent,
)
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table, stage_change
from omnigraph.versioning.store import GraphStore


def rebase(store: GraphStore, plan: PublishPlan, state: ManifestState) -> PublishPlan:
    """The plan as it may be published on `state`: itself when nothing it used has moved, restaged when that is safe.

    Raises a `ConflictError` when the outcome could differ from what the writer validated.
    """
    moved = require_holds(store, plan, state)
    unstaged = {change.table_key for change in plan.changes if change.staged_version == UNSTAGED}
    if not moved and not unstaged:
        return plan
    moved |= unstaged
    changes = tuple(
        stage_change(store, state.tables[c.table_key], c.effect, plan.commit_id) if c.table_key in moved else c
        for c in plan.changes
    )
    return replace(plan, changes=changes, pins={key: Pin.of(state.tables[key]) for key in plan.pins})


def require_holds(store: GraphStore, plan: PublishPlan, state: ManifestState) -> set[str]:
    """The tables of a plan that moved since it was made; raises when a requirement does not hold any more."""
    if plan.schema_hash != state.schema_hash:
        raise SchemaMoved(expected=plan.schema_hash, actual=state.schema_hash)
    moved = {key for key, pin in plan.pins.items() if _entry(plan, state, key).staged_version != pin.staged_version}
    logically = {key for key in moved if state.tables[key].content_version != plan.pins[key].content_version}
    for requirement in plan.requirements:
        if requirement.table_key in logically:
            check(store, plan, requirement, state.tables[requirement.table_key])
    for change in plan.changes:
        if change.table_key in moved:
            _require_replayable(store, plan, change, state.tables[change.table_key], change.table_key in logically)
    _require_graftable(plan, state, moved, logically)
    return moved


def _require_graftable(plan: PublishPlan, state: ManifestState, moved: set[str], logically: set[str]) -> None:
    """Raise unless adopted pins replace pins moved by maintenance at most, and reshaped pins replace unmoved ones."""
    was = plan.graft.renamed
    adopted = {was.get(e.table_key, e.table_key) for e in plan.graft.adopted}
    for key in sorted(moved & plan.graft.keys):
        if key in logically or key not in adopted:
            pin = plan.pins[key]
            raise ExpectedVersionMismatch(key, expected=pin.table_version, actual=state.tables[key].table_version)


def check(store: GraphStore, plan: PublishPlan, requirement: Requirement, entry: TableEntry) -> None:
    """Raise when a requirement does not hold of a table's present rows."""
    table = open_table(store, entry)
    match requirement:
        case KeysAbsent(table_key, ids):
            # It held at the plan's pin, so only rows that were added since can break it.
            then = store.tables.known(entry.location, plan.pins[table_key].staged_version)
            taken = existing_ids(table, ids, entry.tail, absent_in=then)
            if taken:
                raise KeyConflict(table_key, min(taken))
        case KeysPresent(table_key, ids):
            gone = missing_ids(table, ids, entry.tail)
            if gone:
                raise EndpointConflict(
                    f"{table_key} {gone[0]!r} was removed while an edge to it was being written",
                    type_key=table_key,
                    entity_id=gone[0],
                )
        case NoIncident(table_key, columns, ids, except_ids):
            found = [i for i in rows_where_any(table, columns, ids)["id"].to_pylist() if i not in set(except_ids)]
            if found:
                message = f"{table_key} got an edge at a node that is being removed"
                raise EndpointConflict(message, type_key=table_key, entity_id=found[0])
        case ValuesAbsent() | CardinalityWithin():
            _check_constraint(table, requirement)
        case Unmoved(table_key):
            pin = plan.pins[table_key]
            raise ExpectedVersionMismatch(table_key, expected=pin.table_version, actual=entry.table_version)
        case _:
            assert_never(requirement)


def _check_constraint(table: Table, requirement: ValuesAbsent | CardinalityWithin) -> None:
    key = requirement.table_key
    excepted = set(requirement.except_ids)
    if isinstance(requirement, ValuesAbsent):
        rows = rows_with_values(table, requirement.columns, requirement.values)
        if not excepted.issuperset(rows["id"].to_pylist()):
            columns = ", ".join(requirement.columns)
            raise ConstraintConflict(f"@unique violation on {key} ({columns}): the value was taken", type_key=key)
        return
    counts = dict(requirement.added)
    for edge_id, source in edges_from(table, list(counts)):
        counts[source] += edge_id not in excepted
    for source, count in counts.items():
        if count < requirement.min or (requirement.max is not None and count > requirement.max):
            raise ConstraintConflict(f"@card violation on {key}: {source!r} would have {count} edges now", type_key=key)


def edges_from(table: Table, sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Id and source of every edge that begins at one of the nodes."""
    rows = rows_where_any(table, ("src",), sources)
    return zip(rows["id"].to_pylist(), rows["src"].to_pylist(), strict=True)


def _entry(plan: PublishPlan, state: ManifestState, table_key: str) -> TableEntry:
    entry = state.tables.get(table_key)
    if entry is None:
        raise ExpectedVersionMismatch(table_key, expected=plan.pins[table_key].table_version, actual=0)
    return entry


def _require_replayable(
    store: GraphStore, plan: PublishPlan, change: TableChange, entry: TableEntry, logically: bool
) -> None:
    """Raise unless the effect, applied to the moved table, gives the rows that the writer validated."""
    pin = plan.pins[change.table_key]
    mismatch = ExpectedVersionMismatch(change.table_key, expected=pin.table_version, actual=entry.table_version)
    match change.effect:
        case AppendRows():
            return
        case ReplaceRows(ids, _) | UnwrittenRows(ids, _):
            if ids and logically and not (plan.rebase_updates and _same_rows(store, change, entry, ids)):
                raise mismatch
        case MaskRows():
            raise mismatch  # its deletion files are those of one version
        case OverwriteRows():
            if logically:
                raise mismatch
        case Compacted():
            if not fits(open_table(store, entry), change.effect):
                raise mismatch
        case Reshape():
            # A physical version fits no other pin; maintenance plans it again.
            raise mismatch
        case _:
            assert_never(change.effect)


def _same_rows(store: GraphStore, change: TableChange, entry: TableEntry, ids: tuple[str, ...]) -> bool:
    """True when the rows that the write replaces are unchanged in the moved table."""
    if len(ids) > MAX_LISTED:
        return False
    if not ids:
        return True
    before = store.tables.open(change.location, change.base_version)
    after = open_table(store, entry)
    where = in_list("id", ids)
    return bool(before.scan(where=where).sort_by("id").equals(after.scan(where=where).sort_by("id")))
