"""Three-way merge of one table's rows, by entity id, over the rows that changed on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from omnigraph.api.conflicts import OURS, THEIRS, Conflict, ConflictKind
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import ReplaceRows
from omnigraph.storage.tables import Table, TableStore
from omnigraph.versioning.diff import TableDelta, public_row, same_ids, same_value
from omnigraph.write.merge_conflicts import Decisions

Row = dict[str, Any]


@dataclass(frozen=True)
class TableMerge:
    """The effect of a merge on one table of the target: rows taken as the source has them, composed rows, deletions."""

    entity: EntityType
    theirs: TableDelta
    taken: frozenset[str] = frozenset()
    composed: Mapping[str, Row] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """True when the source's changes are taken exactly as they are."""
        theirs = self.theirs
        return not self.composed and self.taken == theirs.new.keys() and self.dropped == theirs.deleted

    @property
    def is_empty(self) -> bool:
        """True when the target's rows stay what they are."""
        return not (self.taken or self.composed or self.dropped)

    @property
    def upserted(self) -> frozenset[str]:
        """Ids that the merge writes."""
        return self.taken.union(self.composed)

    @cached_property
    def replaced(self) -> tuple[str, ...]:
        """Ids whose rows the target loses, if it has them: those that are written, and those that are deleted."""
        return tuple(sorted(self.upserted | self.dropped))

    @cached_property
    def rows(self) -> pa.Table:
        """The rows that the merge writes, in the columns that `theirs` has."""
        places = [self.theirs.new[i] for i in sorted(self.taken)]
        taken = self.theirs.after.take(pa.array(places, pa.int64()))
        if not self.composed:
            return taken
        extra = pa.Table.from_pylist([self.composed[i] for i in sorted(self.composed)], schema=taken.schema)
        return pa.concat_tables([taken, extra])

    def full_rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Some of the rows that the merge writes, with all their columns."""
        taken = self.theirs.rows([i for i in ids if i in self.taken], after=True)
        return taken | {i: self.composed[i] for i in ids if i in self.composed}

    def effect(self, store: TableStore, target: Table) -> ReplaceRows:
        """Write the rows beside a target table: they come from another table, so columns are matched by name."""
        rows = self.rows
        fragments = write_rows(store, target, rows) if rows.num_rows else ()
        return ReplaceRows(self.replaced, fragments)

    def without(self, ids: frozenset[str]) -> TableMerge:
        """The same merge without these ids, which keep the target's rows."""
        composed = {i: row for i, row in self.composed.items() if i not in ids}
        return replace(self, taken=self.taken - ids, composed=composed, dropped=self.dropped - ids)

    def also(self, *, rows: Mapping[str, Row] | None = None, dropped: frozenset[str] = frozenset()) -> TableMerge:
        """The same merge with more rows written or dropped."""
        return replace(
            self.without(frozenset(rows or ()) | dropped),
            composed={**self.composed, **(rows or {})},
            dropped=self.dropped | dropped,
        )


def merge_table(
    entity: EntityType, theirs: TableDelta, ours: TableDelta | None, decisions: Decisions, *, property_level: bool
) -> tuple[TableMerge, list[Conflict]]:
    """The merge of one table, and every conflict that it met, resolved or not."""
    if ours is None:
        return TableMerge(entity, theirs, frozenset(theirs.new), {}, theirs.deleted), []
    both = [i for i in theirs.ids if i in ours.old or i in ours.new]
    agreed = same_ids(ours.after, ours.new, theirs.after, theirs.new)
    untouched = frozenset(theirs.ids).difference(both)
    merge = TableMerge(entity, theirs, untouched.intersection(theirs.new), {}, untouched.intersection(theirs.deleted))
    conflicts: list[Conflict] = []
    taken, composed, dropped = set(merge.taken), dict(merge.composed), set(merge.dropped)
    for entity_id in (i for i in both if i not in agreed):
        base = theirs.row(entity_id, after=False)
        mine, other = ours.row(entity_id, after=True), theirs.row(entity_id, after=True)
        if mine is None and other is None:
            continue
        if property_level and base is not None and mine is not None and other is not None:
            joined = _joined(base, mine, other)
            if joined is not None:
                composed[entity_id] = joined
                continue
        kind = _kind(base, mine, other)
        images = [None if row is None else public_row(entity, row) for row in (base, mine, other)]
        side = decisions.side(kind, entity, entity_id, ours=images[1], theirs=images[2])
        conflicts.append(_conflict(entity, entity_id, kind, images, side))
        if side == THEIRS and other is None:
            dropped.add(entity_id)
        elif side == THEIRS:
            taken.add(entity_id)
    return TableMerge(entity, theirs, frozenset(taken), composed, frozenset(dropped)), conflicts


def _joined(base: Row, mine: Row, other: Row) -> Row | None:
    """Both edits of one entity combined, if they touch different properties or agree; else None."""
    joined = dict(mine)
    for name, value in other.items():
        if same_value(value, base[name]) or same_value(value, mine[name]):
            continue
        if not same_value(mine[name], base[name]):
            return None
        joined[name] = value
    return joined


def _kind(base: Row | None, mine: Row | None, other: Row | None) -> ConflictKind:
    if base is None:
        return ConflictKind.DIVERGENT_INSERT
    if mine is None or other is None:
        return ConflictKind.DELETE_VS_UPDATE
    return ConflictKind.DIVERGENT_UPDATE


_MESSAGES = {
    ConflictKind.DIVERGENT_INSERT: "both branches inserted it, with different values",
    ConflictKind.DIVERGENT_UPDATE: "both branches changed it, to different values",
    ConflictKind.DELETE_VS_UPDATE: "one branch deleted it, the other changed it",
}


def _conflict(
    entity: EntityType, entity_id: str, kind: ConflictKind, images: Sequence[Row | None], side: str | None
) -> Conflict:
    return Conflict(
        kind=kind, entity_kind=entity.kind, type_name=entity.name, entity_id=entity_id,
        message=f"{entity.name} {entity_id!r}: {_MESSAGES[kind]}", base=images[0], ours=images[1], theirs=images[2],
        resolution=side,
    )  # fmt: skip


__all__ = ["OURS", "THEIRS", "TableMerge", "merge_table"]
