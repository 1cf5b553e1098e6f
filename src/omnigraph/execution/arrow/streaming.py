"""Stream the rows of a result in batches: matched bindings are held, projections are computed on demand.

The width of rows is unknown before they are read. So the first batch is small, and later ones have as many rows as fit
a number of bytes, estimated by the widest batch so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.datatypes import whole
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.governor import Governor

BATCH_BYTES = 8 * 2**20
_FIRST_ROWS = 256
_GROWTH = 8


@dataclass(frozen=True)
class Streamed:
    """Rows in batches: their schema, their number, and the batches."""

    schema: pa.Schema
    row_count: int
    batches: Iterator[pa.RecordBatch]


def projected_batches(
    project: Callable[[Frame], pa.Table], frame: Frame, schema: pa.Schema, governor: Governor, max_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a frame, projected in batches of at most the given number of rows and about `BATCH_BYTES`."""
    at, size, widest = 0, min(_FIRST_ROWS, max_rows), 1.0
    while at < frame.length:
        governor.check_time()
        rows = np.arange(at, min(at + size, frame.length), dtype=np.int64)
        table = project(frame.take(rows))
        batch = pa.RecordBatch.from_arrays([whole(column) for column in table.columns], schema=schema)
        at += len(rows)
        widest = max(widest, batch.nbytes / len(rows))
        size = max(1, min(max_rows, len(rows) * _GROWTH, int(BATCH_BYTES / widest)))
        handed_over = governor.clock()
        yield batch
        governor.rested(governor.clock() - handed_over)
