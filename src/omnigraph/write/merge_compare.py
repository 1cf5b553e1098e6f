"""The row work of a merge, which can run in other processes: compare the changed rows of tables, write the outcome.

The result is the same wherever it runs: `merge_table` decides about rows; one process checks the rules between rows and
publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from omnigraph.api.conflicts import Conflict
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.effects import ReplaceRows
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, TaskPool
from omnigraph.storage.tables import Table
from omnigraph.versioning.diff import Pinned, TableDelta, table_delta
from omnigraph.versioning.store import GraphStore
from omnigraph.write.merge_conflicts import Decisions
from omnigraph.write.merge_rows import TableMerge, merge_table
from omnigraph.write.transaction import WriteTxn


@dataclass(frozen=True, slots=True)
class Terms:
    """How a merge decides about rows that both sides changed."""

    decisions: Decisions
    property_level: bool = False


@dataclass(frozen=True, slots=True)
class TableSides:
    """One table of a merge: its type after it, and its pins. A side that did not change the table is None.

    `lineal`: both sides descend from the base, so that rows can be matched by their row ids as well.
    """

    entity: EntityType
    base: Pinned | None
    ours: Pinned | None
    theirs: Pinned | None
    lineal: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """The changes of a table on either side, the effect of the merge on it, and the conflicts met, resolved or not."""

    ours: TableDelta
    theirs: TableDelta
    merge: TableMerge
    conflicts: Sequence[Conflict]


class Comparison(Protocol):
    """Does the row work of one merge."""

    @property
    def pool(self) -> TaskPool:
        """The pool that builds the indexes of the written rows."""
        ...

    def compare(self, tables: Sequence[TableSides]) -> list[Compared]:
        """Compare the changed rows of some tables."""
        ...

    def effects(self, merges: Mapping[str, tuple[TableMerge, Table]]) -> dict[str, ReplaceRows]:
        """Write the rows of merges, each beside its target table."""
        ...


Comparing = Callable[[WriteTxn, Terms], AbstractContextManager[Comparison]]
"""Begins the row work of a transaction's merge, and ends it."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """The row work in this process."""

    store: GraphStore
    terms: Terms
    pool: TaskPool = LOCAL_POOL
    progress: Listener | None = None

    def compare(self, tables: Sequence[TableSides]) -> list[Compared]:
        """Compare tables one after the other."""
        found: list[Compared] = []
        with PhaseProgress(self.progress, "compare", len(tables), "tables") as phase:
            for each in tables:
                found.append(self._compared(each))
                phase.advance(1, rows=found[-1].ours.after.num_rows + found[-1].theirs.after.num_rows)
        return found

    def _compared(self, table: TableSides) -> Compared:
        # Reading is most of the work, and the sides are independent of each other.
        ours, theirs = self.store.workers.map(lambda side: self._delta(table, side), (table.ours, table.theirs))
        return compare_deltas(ours, theirs, self.terms, ours_changed=table.ours is not None)

    def _delta(self, table: TableSides, side: Pinned | None) -> TableDelta:
        if side is None:
            nothing = table.entity.arrow_schema.empty_table()
            return TableDelta(table.entity, nothing, nothing)
        return table_delta(self.store, table.base, side, table.entity, lineal=table.lineal)

    def effects(self, merges: Mapping[str, tuple[TableMerge, Table]]) -> dict[str, ReplaceRows]:
        """Write the rows of one table after the other."""
        effects: dict[str, ReplaceRows] = {}
        with PhaseProgress(self.progress, "write", len(merges), "tables") as phase:
            for key, (merge, target) in merges.items():
                effects[key] = merge.effect(self.store.tables, target)
                phase.advance(1, rows=len(merge.taken))
        return effects


def compare_deltas(ours: TableDelta, theirs: TableDelta, terms: Terms, *, ours_changed: bool) -> Compared:
    """Compare all changed rows of a table, or those of some ids: ids do not depend on each other."""
    merge, conflicts = merge_table(
        theirs.entity, theirs, ours if ours_changed else None, terms.decisions, property_level=terms.property_level
    )
    return Compared(ours, theirs, merge, conflicts)


def in_process(txn: WriteTxn, terms: Terms) -> AbstractContextManager[Comparison]:
    """Compare rows in this process."""
    return nullcontext(InProcess(txn.store, terms, progress=txn.progress))
