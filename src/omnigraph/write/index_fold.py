"""Folding small fragments into the key index after writes, so that keyed lookups stay cheap.

Every small write leaves one fragment that no index covers. The process whose write makes them too many folds them,
after that write has returned: small fragments become one, the key indexes cover it, and a maintenance commit publishes
that. Processes that only ever write one row therefore keep their cost flat. Losing the race to publish a fold is not an
error: another writer folds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from omnigraph import logs
from omnigraph.errors import ConflictError, OmnigraphError
from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.indexes import fold_tail
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, TaskPool
from omnigraph.storage.tables import Table
from omnigraph.versioning.branch_heads import BranchHead
from omnigraph.versioning.maintenance_plan import maintenance_plan
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import TableEntry
from omnigraph.versioning.staging import open_table, stage_reshape
from omnigraph.write.validation.keys import unique_columns

FOLD_FRAGMENTS = 64
FOLD_STEP = 16
FOLD_ROWS = 65_536
FOLD_HASHES = 2_048
_OVERTAKEN = 2


def key_columns(entity: EntityType) -> tuple[str, ...]:
    """The columns whose BTREE a table has: ids, ends, and the columns by which unique values are looked up."""
    ends = ("src", "dst") if isinstance(entity, EdgeType) else ()
    return tuple(dict.fromkeys(("id", *ends, *unique_columns(entity))))


def is_fold_due(table: Table, entry: TableEntry) -> bool:
    """True for the write that crossed a threshold; at later thresholds another writer takes over a failed fold."""
    excess = len(table.uncovered_fragments) - FOLD_FRAGMENTS
    added = len(entry.changes.get("added", ())) or 1  # writes that shared a commit crossed the threshold together
    if excess > 0 and (excess - 1) % FOLD_STEP < added:
        return True
    return _is_heavy(table, entry)


def _is_heavy(table: Table, entry: TableEntry) -> bool:
    """Whether a tail is too large, in however few fragments."""
    return entry.tail.size > FOLD_HASHES or _uncovered_rows(table, entry) > FOLD_ROWS


def _uncovered_rows(table: Table, entry: TableEntry) -> int:
    """Rows that no key index covers, at most. Those of the tail are counted by their hashes."""
    unknown = [i for i in table.uncovered_fragments if i not in entry.tail.packed]
    return entry.tail.size + sum(int(table.fragments[i].num_rows) for i in unknown)


def fold_if_needed(
    repository: Repository, branch: str, native_branch: str | None, keys: Iterable[str], pool: TaskPool = LOCAL_POOL
) -> None:
    """Schedule the folds that are due in the just written tables, for after the write. Lookups do not need them.

    A `pool` sorts large tails, as a load leaves them.
    """
    tip = repository.tips.of(branch, native_branch)
    for key in sorted(keys):
        entry = tip.known.tables.get(key) if tip.known is not None else None
        if entry is None:
            continue
        table = open_table(repository.store, entry)
        if is_fold_due(table, entry):
            helpers = pool if _uncovered_rows(table, entry) > FOLD_ROWS else LOCAL_POOL
            name = f"fold {entry.location} {native_branch}"
            repository.store.later(name, partial(_fold_quietly, repository, tip, key, helpers))


def _fold_quietly(repository: Repository, tip: BranchHead, key: str, pool: TaskPool) -> None:
    """Fold a table; an error is logged only, since the write that made the fold due is acknowledged already.

    Writers are not blocked during the work; only after they have overtaken it several times does it hold the branch's
    turn.
    """
    try:
        _fold_beside_writers(repository, tip, key, pool)
    except ConflictError:
        return  # another process wrote or folded: a later write takes over
    except OmnigraphError as error:  # perhaps the graph is gone
        logs.event("fold.failed", logging.WARNING, graph=repository.store.root.uri, table=key, message=error.message)


def _fold_beside_writers(repository: Repository, tip: BranchHead, key: str, pool: TaskPool) -> None:
    for _ in range(_OVERTAKEN):
        try:
            _fold_if_still_due(repository, tip, key, pool)
        except ConflictError:
            continue
        return
    with tip.turn():
        _fold_if_still_due(repository, tip, key, LOCAL_POOL, in_turn=True)


def _fold_if_still_due(
    repository: Repository, tip: BranchHead, key: str, pool: TaskPool, *, in_turn: bool = False
) -> None:
    """Fold the newest state if it is still due: another process may have folded meanwhile."""
    state, _ = tip.swap_base()
    entry = state.tables.get(key)
    if entry is None or state.closed:
        return
    table = open_table(repository.store, entry)
    if len(table.uncovered_fragments) > FOLD_FRAGMENTS or _is_heavy(table, entry):
        fold(repository, state, entry, tip if in_turn else None, pool)


def fold(
    repository: Repository,
    state: ManifestState,
    entry: TableEntry,
    tip: BranchHead | None = None,
    pool: TaskPool = LOCAL_POOL,
) -> None:
    """Fold one table in a maintenance commit of its own. With `tip`, the caller holds the branch's turn."""
    store = repository.store
    base = open_table(store, entry)
    columns = key_columns(store.catalog(state.schema_hash).type_of(entry.table_key))
    folded = fold_tail(store.tables, base, columns, entry.high_water, pool)
    if folded is None:
        return
    table, effect = folded
    change = stage_reshape(store, entry, table, effect)
    plan = maintenance_plan(state, [change], kind="optimize", message=f"fold {entry.table_key}")
    if tip is None:
        repository.publisher.publish(plan)
    else:
        repository.publisher.publish_in_turn(tip, plan)
    hit(Point.FOLD_PUBLISHED)
    logs.event(
        "fold", graph=store.root.uri, branch=state.branch, table=entry.table_key,
        fragments=f"{len(base.fragments)}->{len(table.fragments)}",
    )  # fmt: skip
