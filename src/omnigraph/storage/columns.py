"""Adding columns to a pin, detached. Existing files stay as they are.

A column that is null in every row moves no data. A default, or a copy of another column in a wider type, goes to new
files beside the old ones. Nothing here drops a column: Lance would number the others anew, and read one as another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.schema import LanceSchema

from omnigraph.storage.apply_effects import commit_detached
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.tables import Table, TableStore


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add: filled from `copy_of`, an existing column, with `default`, or with nulls.

    With both, `default` is used where the existing column is null.
    """

    field: pa.Field
    default: Any | None = None
    copy_of: str | None = None


def add_column(store: TableStore, base: Table, field: pa.Field, default: Any | None = None) -> Table:
    """A version with one more column: null in every row, which moves no data, or `default` in every row."""
    return add_columns(store, base, [NewColumn(field, default)])


def add_columns(store: TableStore, base: Table, columns: Sequence[NewColumn]) -> Table:
    """A version with more columns."""
    table = base
    empty = [c for c in columns if not base.fragments or (c.default is None and c.copy_of is None)]
    if empty:
        fields = [c.field.with_nullable(True) if base.fragments else c.field for c in empty]
        widened = table.schema
        for field in fields:
            widened = widened.append(field)
        # Columns are only ever added at the end, so numbering the whole schema gives every old field its old id.
        schema = LanceSchema.from_pyarrow(widened)
        fragments = list(table.fragments.values())
        table = commit_detached(store, table, LanceOperation.Merge(fragments, schema), keeps_indexes=False)
    full = [c for c in columns if c not in empty]
    return _with_values(store, table, full) if full else table


def _with_values(store: TableStore, base: Table, columns: Sequence[NewColumn]) -> Table:
    read = list(dict.fromkeys(["id", *(c.copy_of for c in columns if c.copy_of is not None)]))

    def filled(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_values(batch, c) for c in columns]
        return pa.record_batch(arrays, schema=pa.schema([c.field for c in columns]))

    fragments = []
    schema = None
    with translate_faults(f"adding columns to {base.path}"):
        for fragment in base.dataset.get_fragments():
            merged, schema = fragment.merge_columns(filled, columns=read)
            fragments.append(merged)
    return commit_detached(store, base, LanceOperation.Merge(fragments, schema), keeps_indexes=False)


def _values(batch: pa.RecordBatch, column: NewColumn) -> pa.Array:
    if column.copy_of is not None:
        copied = batch[column.copy_of].cast(column.field.type)
        return copied if column.default is None else pc.fill_null(copied, pa.scalar(column.default, column.field.type))
    return pa.array([column.default] * batch.num_rows, column.field.type)


def relax(store: TableStore, base: Table, names: Sequence[str]) -> Table:
    """A version in which these columns may hold nulls. No data moves."""
    # Every column stays where it is, so numbering them gives each its old id.
    schema = pa.schema([f.with_nullable(True) if f.name in names else f for f in base.schema])
    operation = LanceOperation.Project(LanceSchema.from_pyarrow(schema))
    return commit_detached(store, base, operation, keeps_indexes=False)
