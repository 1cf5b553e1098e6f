"""Checking that a merged graph is valid. The only link between merging and validation.

Both branches are valid by themselves, so every violation in the merged graph involves a change of one side and a change
of the other. Each check therefore reads changed rows only. The facts that were read are returned as requirements, and
the publisher checks them again if the target moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.conflicts import OURS, THEIRS, Conflict, ConflictKind
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType
from omnigraph.storage.lookup import rows_where_any
from omnigraph.storage.tables import Table
from omnigraph.versioning.diff import TableDelta, public_row
from omnigraph.versioning.plan import KeysPresent, NoIncident, Requirement
from omnigraph.write.merge_conflicts import Decisions
from omnigraph.write.merge_rows import TableMerge
from omnigraph.write.schema_check import needs_data, violations
from omnigraph.write.validation.edges import End, ends_of

Row = dict[str, Any]
Merges = dict[str, TableMerge]


class Changes(Protocol):
    """The changed rows of either side, computed when first needed. Keys are those of the merged schema."""

    def ours_changed(self, table_key: str) -> bool:
        """Whether the target changed rows of the table."""
        ...

    def theirs_changed(self, table_key: str) -> bool:
        """Whether the source changed rows of the table."""
        ...

    def ours(self, table_key: str) -> TableDelta:
        """The target's changes since the base."""
        ...

    def merge_of(self, table_key: str) -> TableMerge:
        """The effect of the merge on the table."""
        ...

    def target(self, table_key: str) -> Table:
        """The target's table, before the merge."""
        ...

    def target_rows(self, table_key: str) -> pa.Table:
        """All rows of the target, before the merge, in the merged shape."""
        ...

    def new_constraints(self, table_key: str) -> EntityType:
        """The merged type with only those constraints that one of the sides did not have."""
        ...


@dataclass(frozen=True)
class Findings:
    """Conflicts, resolved or open, the effects of resolving them, and the requirements for the publisher."""

    conflicts: list[Conflict] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    revised: Merges = field(default_factory=dict)


def check_merge(catalog: Catalog, changes: Changes, decisions: Decisions) -> Findings:
    """Everything that the merged graph would violate, all together."""
    findings = Findings()
    ends = [(edge, end) for edge in catalog.edges.values() for end in ends_of(edge)]
    for check in (_arriving_edges, _standing_edges):  # decisions about arriving edges decide which ones stay
        for edge, end in ends:
            check(edge, end, changes, decisions, findings)
    for edge, end in ends:
        _require(edge, end, changes, findings)
    for entity in catalog.entity_types:
        if changes.ours_changed(entity.table_key) and changes.theirs_changed(entity.table_key):
            merge = _current(changes, findings, entity.table_key)
            findings.conflicts.extend(_unique_conflicts(entity, merge, changes.ours(entity.table_key)))
            if isinstance(entity, EdgeType):
                findings.conflicts.extend(_cardinality_conflicts(entity, merge, changes))
        if changes.ours_changed(entity.table_key) or changes.theirs_changed(entity.table_key):
            findings.conflicts.extend(_constraint_conflicts(entity, changes, findings))
    return findings


_KINDS = {
    "unique": ConflictKind.UNIQUE_VIOLATION,
    "card": ConflictKind.CARDINALITY_VIOLATION,
    "range": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    "check": ConflictKind.VALUE_CONSTRAINT_VIOLATION,
}


def _constraint_conflicts(entity: EntityType, changes: Changes, findings: Findings) -> Iterator[Conflict]:
    """Conflicts between a constraint that one side declared and rows that the other side wrote without it."""
    added = changes.new_constraints(entity.table_key)
    if not needs_data(added):
        return
    merge = _current(changes, findings, entity.table_key)
    written = merge.rows
    gone = pa.array(sorted(merge.dropped | merge.upserted), pa.string())
    standing = changes.target_rows(entity.table_key)
    standing = standing.filter(pc.invert(pc.is_in(standing["id"], value_set=gone)))
    for found in violations(added, pa.concat_tables([standing, written])):
        yield Conflict(
            kind=_KINDS[found.constraint], entity_kind=entity.kind, type_name=entity.name, entity_id=found.entity_id,
            message=found.message, theirs=merge.theirs.image(found.entity_id, after=True),
        )  # fmt: skip


def _current(changes: Changes, findings: Findings, table_key: str) -> TableMerge:
    return findings.revised.get(table_key) or changes.merge_of(table_key)


def _arriving_edges(edge: EdgeType, end: End, changes: Changes, decisions: Decisions, findings: Findings) -> None:
    """The source adds an edge to a node that the target deleted. Theirs: the node is restored. Ours: no edge."""
    if not (changes.theirs_changed(edge.table_key) and changes.ours_changed(end.node_key)):
        return
    nodes = changes.ours(end.node_key)
    lost = nodes.deleted - _current(changes, findings, end.node_key).upserted
    if not lost:
        return
    merge = _current(changes, findings, edge.table_key)
    ids = _ids_at(merge.rows, end.column, lost)
    if not ids:
        return
    rows = merge.full_rows(ids)
    sides: dict[str, str | None] = {}
    for row in (rows[i] for i in ids):
        side = decisions.side(ConflictKind.ORPHAN_EDGE, edge, row["id"], theirs=public_row(edge, row))
        sides[row["id"]] = side
        findings.conflicts.append(_orphan(edge, end, row, theirs=row, side=side))
    refused = frozenset(i for i in ids if sides[i] == OURS)
    wanted = sorted({rows[i][end.column] for i in ids if sides[i] == THEIRS})
    if refused:
        findings.revised[edge.table_key] = merge.without(refused)
    if wanted:
        back = nodes.rows(wanted, after=False)
        findings.revised[end.node_key] = _current(changes, findings, end.node_key).also(rows=back)


def _standing_edges(edge: EdgeType, end: End, changes: Changes, decisions: Decisions, findings: Findings) -> None:
    """The source deletes a node that an edge of the target names. Theirs: the edge goes too. Ours: the node stays."""
    if not changes.theirs_changed(end.node_key):
        return
    gone = _current(changes, findings, end.node_key).dropped
    if not gone:
        return
    merge = _current(changes, findings, edge.table_key)
    found = _kept_rows_at(edge, end, gone, merge, changes)
    if not found:
        return
    dropped: set[str] = set()
    kept: set[str] = set()
    for row in found:
        side = decisions.side(ConflictKind.ORPHAN_EDGE, edge, row["id"], ours=public_row(edge, row))
        findings.conflicts.append(_orphan(edge, end, row, ours=row, side=side))
        if side == THEIRS:
            dropped.add(row["id"])
        elif side == OURS:
            kept.add(row[end.column])
    if dropped:
        findings.revised[edge.table_key] = merge.also(dropped=frozenset(dropped))
    if kept:
        node_merge = _current(changes, findings, end.node_key)
        findings.revised[end.node_key] = node_merge.without(frozenset(kept))


def _kept_rows_at(edge: EdgeType, end: End, nodes: frozenset[str], merge: TableMerge, changes: Changes) -> list[Row]:
    """Rows of the target at some nodes that the source's validity does not cover, in the order of their ids.

    They changed in the target, or in the source and were not taken over.
    """
    known: frozenset[str] = frozenset()
    found: dict[str, Row] = {}
    if changes.ours_changed(edge.table_key):
        ours = changes.ours(edge.table_key)
        known = frozenset(ours.ids)
        found |= ours.rows(_ids_at(ours.after, end.column, nodes), after=True)
    before = _ids_at(merge.theirs.before, end.column, nodes)
    found |= merge.theirs.rows([i for i in before if i not in known], after=False)
    return [found[i] for i in sorted(found) if i not in merge.dropped and i not in merge.upserted]


def _require(edge: EdgeType, end: End, changes: Changes, findings: Findings) -> None:
    if changes.theirs_changed(edge.table_key):
        merge = _current(changes, findings, edge.table_key)
        ends = set(pc.unique(merge.rows[end.column]).to_pylist()) if merge.upserted else set()
        if changes.theirs_changed(end.node_key):
            ends -= _current(changes, findings, end.node_key).upserted
        if ends:
            findings.requirements.append(KeysPresent(end.node_key, tuple(sorted(ends))))
    if changes.theirs_changed(end.node_key):
        gone = _current(changes, findings, end.node_key).dropped
        if gone:
            findings.requirements.append(NoIncident(edge.table_key, (end.column,), tuple(sorted(gone))))


def _ids_at(rows: pa.Table, column: str, nodes: frozenset[str]) -> list[str]:
    """Ids of the rows that name one of some nodes, in the order of the rows."""
    mask = pc.is_in(rows[column], value_set=pa.array(sorted(nodes), pa.string()))
    found: list[str] = rows["id"].filter(mask).to_pylist()
    return found


def _orphan(
    edge: EdgeType, end: End, row: Row, *, ours: Row | None = None, theirs: Row | None = None, side: str | None
) -> Conflict:
    node = end.node_key.partition(":")[2]
    return Conflict(
        kind=ConflictKind.ORPHAN_EDGE, entity_kind="edge", type_name=edge.name, entity_id=row["id"],
        message=f"{edge.name} {row['id']!r} names {node} {row[end.column]!r}, which the other branch deleted",
        ours=ours and public_row(edge, ours), theirs=theirs and public_row(edge, theirs), resolution=side,
    )  # fmt: skip


def _unique_conflicts(entity: EntityType, merge: TableMerge, ours: TableDelta) -> Iterator[Conflict]:
    """Conflicts where the two branches gave one unique value to two entities."""
    if not entity.uniques or merge.is_empty:
        return
    written = merge.rows
    for group in entity.uniques:
        columns = [name if name in ("src", "dst") else entity.property(name).column for name in group]
        taken = _by_value(ours.after, columns, merge.dropped | merge.upserted)
        for value, entity_id in _by_value(written, columns, frozenset()).items():
            if value in taken:  # by another entity: `taken` has none that the merge writes
                shown = ", ".join(f"{n}={v!r}" for n, v in zip(group, value, strict=True))
                yield Conflict(
                    kind=ConflictKind.UNIQUE_VIOLATION, entity_kind=entity.kind, type_name=entity.name,
                    entity_id=entity_id, message=f"{entity.name} {entity_id!r} and {taken[value]!r} both have {shown}",
                    ours=ours.image(taken[value], after=True), theirs=merge.theirs.image(entity_id, after=True),
                )  # fmt: skip


def _by_value(rows: pa.Table, columns: list[str], skipped: frozenset[str]) -> dict[tuple[Any, ...], str]:
    found: dict[tuple[Any, ...], str] = {}
    for row in rows.select(["id", *(c for c in columns if c != "id")]).to_pylist():
        value = tuple(row[c] for c in columns)
        if row["id"] not in skipped and None not in value:
            found[value] = row["id"]
    return found


def _cardinality_conflicts(edge: EdgeType, merge: TableMerge, changes: Changes) -> Iterator[Conflict]:
    """Sources at which both branches changed edges, counted as they would be after the merge."""
    low, high = edge.cardinality.min, edge.cardinality.max
    if (low == 0 and high is None) or merge.is_empty:
        return
    theirs, ours = merge.theirs, changes.ours(edge.table_key)
    touched = {src for rows in (theirs.before, theirs.after) for src in rows["src"].to_pylist()}
    touched &= {src for rows in (ours.before, ours.after) for src in rows["src"].to_pylist()}
    if not touched:
        return
    counts = _counts_after(edge, merge, changes, sorted(touched))
    for src in sorted(touched):
        count = counts[src]
        if (high is not None and count > high) or (0 < count < low):
            bounds = f"{low}..{'' if high is None else high}"
            yield Conflict(
                kind=ConflictKind.CARDINALITY_VIOLATION, entity_kind="edge", type_name=edge.name, entity_id=src,
                message=f"{src!r} would have {count} {edge.name} edges; @card allows {bounds}",
                ours=sum(1 for s in ours.after["src"].to_pylist() if s == src),
                theirs=sum(1 for s in theirs.after["src"].to_pylist() if s == src),
            )  # fmt: skip


def _counts_after(edge: EdgeType, merge: TableMerge, changes: Changes, sources: list[str]) -> Mapping[str, int]:
    standing = rows_where_any(changes.target(edge.table_key), ["src"], sources)
    replaced = merge.dropped | merge.upserted
    counts = Counter(
        src for i, src in zip(standing["id"].to_pylist(), standing["src"].to_pylist(), strict=True) if i not in replaced
    )
    counts.update(merge.rows["src"].to_pylist())
    return counts
