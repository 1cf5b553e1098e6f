"""Apply change events in tasks: identify their rows, order them, and compute the effect of the last one of a row.

rows -> tasks: id, order, operation -> Spark: the last event of each id -> tasks: late ones out, upserts and deletes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import Scalar, whole
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.row_selection import WRONG, Selection
from omnigraph.pipeline.staging import Checks, StagedSplit, StageJob, staged_rows
from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.schema.identity import edge_key_ids, node_ids
from omnigraph.storage.lookup import rows_by_id
from omnigraph.storage.tail import EMPTY_TAIL
from omnigraph.write.frames import is_text, property_values
from omnigraph.write.inputs.change_events import DELETE, PRESETS, UPSERT, Cdc
from omnigraph.write.rows import ENDPOINTS, Batch, batch_from_rows
from omnigraph.write.validation import NOWHERE, Findings, Places

OP, SEQUENCE = "__omnigraph_op", "__omnigraph_sequence"
ID, ORDER, ACTION, DELETED_AT = "__omnigraph_id", "__omnigraph_order", "__omnigraph_action", "__omnigraph_deleted_at"
IDENTIFIED = ((ID, pa.string()), (ORDER, pa.int64()), (ACTION, pa.string()))
ORDERED = (Scalar.DATE, Scalar.DATETIME, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64)
_AT = "__omnigraph_at"
_ROWS_AT_ONCE = 200_000


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """The parameters of tasks for the events of one source. `kept_in` is the property that keeps the sequence."""

    selection: Selection
    cdc: Cdc
    entity: EntityType
    columns: tuple[str, ...]
    kept_in: str | None

    def identified(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add the id, order and operation of each event; null where it cannot be computed."""
        for batch in batches:
            table = pa.Table.from_batches([batch])
            ids, order = self._ids(table), self._order(table)
            ops = table[OP].to_pylist()
            meanings = {op: self.cdc.meaning(op) for op in set(ops)}
            actions = [meanings[op] for op in ops]
            if self.cdc.preset in PRESETS:  # a tombstone, which follows a delete in a log of Kafka, has no content
                empty = pc.and_(pc.is_null(ids), pc.is_null(table[OP])).to_pylist()
                actions = ["" if is_empty else action for is_empty, action in zip(empty, actions, strict=True)]
            for (name, kind), values in zip(IDENTIFIED, (ids, order, actions), strict=True):
                table = table.append_column(name, pa.array(values, kind) if isinstance(values, list) else values)
            said = pc.or_(pc.is_valid(table[WRONG]), pc.fill_null(pc.not_equal(table[ACTION], ""), True))
            yield from table.filter(said).combine_chunks().to_batches()

    def _ids(self, table: pa.Table) -> pa.Array:
        keys: dict[str, Any] = {}
        try:
            for name in self.entity.key:
                if name in ENDPOINTS and isinstance(self.entity, EdgeType):
                    keys[name] = whole(table[ENDPOINTS[name]].cast(pa.string()))
                else:
                    keys[name] = whole(self._values(name, table[name]))
        except (OmnigraphError, KeyError, pa.ArrowException):  # staging reports the error of the column
            return pa.nulls(table.num_rows, pa.string())
        known = np.ones(table.num_rows, np.bool_)
        for column in keys.values():
            known &= pc.is_valid(column).to_numpy(zero_copy_only=False)
        public = pa.table(keys).filter(pa.array(known))
        some = edge_key_ids(self.entity, public) if isinstance(self.entity, EdgeType) else node_ids(self.entity, public)
        found = np.full(table.num_rows, None, object)
        found[known] = some.to_pylist()
        return pa.array(found, pa.string())

    def _values(self, name: str, column: Any) -> Any:
        prop = self.entity.property(name)
        is_read = name in self.selection.text and is_text(column.type)
        return property_values(self.entity, prop, column, NOWHERE, Findings(len(column)), is_text=is_read)

    def _order(self, table: pa.Table) -> pa.Array:
        column = table[SEQUENCE]
        if self.kept_in is not None and not pa.types.is_null(column.type):
            try:
                column = self._values(self.kept_in, column)
            except OmnigraphError:
                return pa.nulls(table.num_rows, pa.int64())
        return order_of(column)

    def stage(self, job: StageJob, number: int, batches: Iterable[pa.RecordBatch]) -> StagedSplit:
        """Stage one partition of events of which each is the only one of its id."""
        found = Findings(job.limit)
        staging = _Staging(self, job, found, job.store().catalog(job.schema_hash).entity(self.entity.table_key))
        staged = staged_rows(job, number, staging.batches(batches), found)
        key = self.entity.table_key
        removed = {key: tuple(staging.removed)} if staging.removed else {}
        checks = staging.checks
        return replace(
            staged, removed=removed, late={key: staging.late} if staging.late else {},
            checks=dict(checks.counts), quarantined=tuple(checks.dropped),
        )  # fmt: skip


class _Staging:
    """Applies one partition of events to the table at its pin."""

    def __init__(self, rows: ChangeRows, job: StageJob, found: Findings, entity: EntityType) -> None:
        self._rows = rows
        self._job = job
        self._found = found
        self._entity = entity
        self._missing = self._missing_columns() if rows.cdc.partial else {}
        self.removed: list[str] = []
        self.checks = Checks()
        self.late = 0

    def _missing_columns(self) -> dict[str, str]:
        """Return the physical column of each property without a column in the source, except the ends of edges."""
        fields = {prop.name: prop.column for prop in self._entity.properties}
        return {name: column for name, column in fields.items() if name not in self._rows.columns}

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        """Yield the rows to upsert; record the rows to delete and the late events."""
        yield batch_from_rows(self._entity, [], Places(), self._found)
        for table in _large_tables(batches):
            rows = self._rows.selection.readable(table, self._entity, self._found)
            rows = self._understood(rows)
            if rows.num_rows:
                yield self._upserts(rows)
            if self._found.full:
                return

    def _understood(self, rows: pa.Table) -> pa.Table:
        """Leave out events without an operation, a row or an order."""
        bad: set[int] = set()
        places, name = self._rows.selection.places(rows), self._entity.name
        is_delete = pc.fill_null(pc.equal(rows[ACTION], DELETE), False)
        for mask, field, text in (
            (pc.is_null(rows[ACTION]), OP, f"the operation of an event of {name} is unknown"),
            (pc.is_null(rows[ORDER]), SEQUENCE, f"the sequence of an event of {name} is no whole number, date or time"),
            (pc.and_(is_delete, pc.is_null(rows[ID])), None, f"an event that deletes a {name} has no key"),
        ):
            for index in np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False)).tolist():
                value = None if field is None else rows[field][index].as_py()
                shown = "" if value is None else f": {value!r}"
                self._found.note("type", text + shown, self._entity, places=places, index=index, value=value)
                bad.add(index)
        return rows.take([i for i in range(rows.num_rows) if i not in bad]) if bad else rows

    def _upserts(self, rows: pa.Table) -> Batch:
        kept = None if self._rows.kept_in is None else self._entity.property(self._rows.kept_in).column
        columns = list(dict.fromkeys(["id", *([kept] if kept else []), *self._missing.values()]))
        ids = rows[ID].drop_null().to_pylist()
        base = rows_by_id(self._job.table(self._entity.table_key), ids, EMPTY_TAIL, columns)
        at = pc.index_in(rows[ID], value_set=whole(base["id"]))
        before = pa.nulls(rows.num_rows, pa.int64()) if kept is None else order_of(base[kept]).take(whole(at))
        is_late = pc.fill_null(pc.greater(before, rows[ORDER]), False)
        self.late += pc.sum(is_late).as_py() or 0
        is_delete = pc.equal(rows[ACTION], DELETE)
        gone = pc.and_(pc.and_(is_delete, pc.invert(is_late)), pc.is_valid(at))
        self.removed += rows[ID].filter(gone).to_pylist()
        # A row that was deleted and inserted again within the load keeps no old values, unless the delete was late.
        reborn = pc.fill_null(pc.greater_equal(rows[DELETED_AT], pc.fill_null(before, np.iinfo(np.int64).min)), False)
        at = pc.if_else(reborn, pa.scalar(None, pa.int32()), at)
        mask = pc.and_(pc.equal(rows[ACTION], UPSERT), pc.invert(is_late))
        return self._typed(rows.filter(mask), base, whole(at).filter(whole(mask)))

    def _typed(self, rows: pa.Table, base: pa.Table, at: pa.Array) -> Batch:
        if self._rows.selection.expect:
            kept = rows.append_column(_AT, at)
            kept = self._rows.selection.expected(kept, self._entity, self.checks)
            rows, at = kept.drop([_AT]), whole(kept[_AT])
        for name, column in self._missing.items():
            rows = rows.append_column(name, base[column].take(at))
        ignore = self._job.ignore_unknown
        return self._rows.selection.batch(rows, self._entity, self._found, ignore_unknown=ignore)


def order_of(column: Any) -> pa.Array:
    """Return integers, dates and times as numbers of the same order, null where a value is none of them."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return whole(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()))
    if pa.types.is_date(kind):
        return whole(column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
    try:
        return whole(column.cast(pa.int64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_whole_number(each) for each in column.to_pylist()], pa.int64())


def _whole_number(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if (isinstance(value, str) or number == value) and -(2**63) <= number < 2**63 else None


def _large_tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to large tables, since ids are looked up once for each table."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
