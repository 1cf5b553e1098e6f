"""The result of the statements of one mutation so far, over the rows that the graph holds (read your writes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import LimitExceeded
from omnigraph.query.plan.pushdown import NEVER, sql
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.lookup import locate, locate_ahead, rows_by_id
from omnigraph.storage.tables import Table
from omnigraph.storage.tail import Tail
from omnigraph.write.validation import Base, TableDelta

Test = Callable[[pa.Table], "np.ndarray[tuple[int], np.dtype[np.bool_]]"]
"""Whether a condition holds, for each row (physical columns)."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The rows that a statement selects: a test of some columns.

    `pinned`: only these ids can match. `is_exact`: all of those that exist do, and the id is the text of the key.
    `narrow` gives a predicate for storage that all matching rows of a table pass, where an index decides it.
    """

    test: Test
    columns: tuple[str, ...]
    narrow: Callable[[Table], str | None]
    pinned: tuple[str, ...] | None = None
    is_exact: bool = False


class Overlay:
    """Pending rows and removals of one table. A pending row shadows the stored one of its id; the last one wins."""

    def __init__(self, base: Base, entity: EntityType, max_entities: int | None = None) -> None:
        self.entity = entity
        self._base = base
        self._parts: list[pa.Table] = []
        self._ids: set[str] = set()
        self._fresh: set[str] = set()
        self._max = max_entities
        self.removed: dict[str, None] = {}

    def put(self, rows: pa.Table, *, fresh: bool = False) -> None:
        """Rows that are inserted or replaced. `fresh`: their ids were minted for this write."""
        ids = rows["id"].to_pylist()
        self._parts.append(rows)
        self._ids.update(ids)
        if fresh:
            self._fresh.update(ids)
        if self._max is not None and len(self._ids) > self._max:
            raise LimitExceeded(
                f"keyed entities for {self.entity.table_key}: {len(self._ids)} are more than {self._max}",
                hint="split the mutation, or use load",
            )

    def pending(self) -> pa.Table:
        """The pending rows, one per id."""
        if not self._parts:
            return self.entity.arrow_schema.empty_table()
        rows = pa.concat_tables(self._parts)
        if rows.num_rows > len(self._ids):
            last = {entity_id: index for index, entity_id in enumerate(rows["id"].to_pylist())}
            rows = rows.take(pa.array(sorted(last.values()), pa.int64()))
        self._parts = [rows]
        return rows

    def matching(self, condition: Condition, columns: Sequence[str]) -> pa.Table:
        """Some columns, `id` first, of the rows, pending and stored, for which a condition holds."""
        stored = self._stored(condition, columns)
        if not self._ids and not self.removed:
            return stored
        shadow = pa.array([*self._ids, *self.removed], pa.string())
        kept = _kept(self.pending(), condition).select(list(columns))
        return pa.concat_tables([kept, stored.filter(pc.invert(pc.is_in(stored["id"], value_set=shadow)))])

    def remove(self, condition: Condition) -> int:
        """Remove the rows, pending and stored, for which a condition holds; returns how many."""
        stored = self._stored_ids(condition)
        kept = _kept(self.pending(), condition)["id"].to_pylist() if self._ids else ()
        found = dict.fromkeys((*kept, *(i for i in stored if i not in self._ids)))
        fresh = [i for i in found if i not in self.removed]
        self.removed.update(dict.fromkeys(fresh))
        return len(fresh)

    def _stored_ids(self, condition: Condition) -> Sequence[str]:
        if condition.is_exact and condition.pinned is not None:
            return self._existing(*self._here(), condition.pinned)
        ids: list[str] = self._stored(condition, ["id"])["id"].to_pylist()
        return ids

    def _here(self) -> tuple[Table, Tail]:
        key = self.entity.table_key
        return self._base.table(key), self._base.entry(key).tail

    def _stored(self, condition: Condition, columns: Sequence[str]) -> pa.Table:
        table, tail = self._here()
        if condition.is_exact and condition.pinned is not None:
            return self._by_key(table, tail, condition.pinned, columns)
        tested = list(dict.fromkeys(("id", *condition.columns)))
        if condition.pinned is not None:
            rows = rows_by_id(table, condition.pinned, tail, list(dict.fromkeys((*columns, *tested))))
            return _kept(rows, condition).select(list(columns))
        where = condition.narrow(table)
        if where == sql(NEVER):
            return table.schema.empty_table().select(list(columns))
        found = _kept(table.scan(tested, where=where), condition)
        if set(columns) <= set(tested):
            return found.select(list(columns))
        # Columns that only the test needs are read of all rows, the others only of rows that it keeps.
        return rows_by_id(table, found["id"].to_pylist(), tail, columns)

    def _by_key(self, table: Table, tail: Tail, ids: tuple[str, ...], columns: Sequence[str]) -> pa.Table:
        """Columns of the rows of some ids which are the texts of their keys: neither of the two has to be read."""
        key = self.entity.property(self.entity.key[0]).column
        read = [name for name in columns if name not in ("id", key)]
        if read:
            rows = rows_by_id(table, ids, tail, ["id", *read])
        else:
            rows = pa.table({"id": pa.array(self._existing(table, tail, ids), pa.string())})
        schema = pa.schema([self.entity.arrow_schema.field(name) for name in columns])
        return pa.Table.from_arrays([rows["id" if name == key else name] for name in columns], schema=schema)

    @staticmethod
    def _existing(table: Table, tail: Tail, ids: tuple[str, ...]) -> Sequence[str]:
        locate_ahead(table, ids, tail)  # staging does the same lookup
        return locate(table, ids, tail).ids

    @property
    def removed_ids(self) -> pa.Array:
        """The ids that the statements remove."""
        return pa.array(list(self.removed), pa.string())

    def delta(self) -> TableDelta:
        """The combined effect of the statements on the table."""
        rows = self.pending()
        inserted, updated = rows.slice(0, 0), rows
        if self._fresh:
            fresh = pc.is_in(rows["id"], value_set=pa.array(list(self._fresh), pa.string()))
            inserted, updated = rows.filter(fresh), rows.filter(pc.invert(fresh))
        return TableDelta(
            entity=self.entity, inserted=inserted, updated=updated, removed=self.removed_ids, fresh_ids=True
        )


def _kept(rows: pa.Table, condition: Condition) -> pa.Table:
    return rows.filter(pa.array(condition.test(rows))) if rows.num_rows else rows


Overlays = Mapping[str, Overlay]
