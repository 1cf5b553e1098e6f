"""Adding a column to a pin, detached. Existing files stay as they are; a default goes to new files beside them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from lance import LanceOperation
from lance.schema import LanceSchema

from omnigraph.storage.faults import translated
from omnigraph.storage.staged import commit_detached
from omnigraph.storage.tables import Table, TableStore


def add_column(store: TableStore, base: Table, field: pa.Field, default: Any | None = None) -> Table:
    """A version with one more column: null in every row, which moves no data, or `default` in every row."""
    if default is None or not base.fragments:
        fragments = list(base.fragments.values())
        widened = base.schema.append(field.with_nullable(True) if base.fragments else field)
        # Columns are only ever added at the end, so numbering the whole schema gives every old field its old id.
        schema = LanceSchema.from_pyarrow(widened)
        return commit_detached(store, base, LanceOperation.Merge(fragments, schema), keeps_indexes=False)

    def filled(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = pa.array([default] * batch.num_rows, field.type)
        return pa.record_batch([column], schema=pa.schema([field]))

    fragments = []
    with translated(f"adding {field.name} to {base.path}"):
        for fragment in base.dataset.get_fragments():
            merged, schema = fragment.merge_columns(filled, columns=["id"])
            fragments.append(merged)
    return commit_detached(store, base, LanceOperation.Merge(fragments, schema), keeps_indexes=False)
