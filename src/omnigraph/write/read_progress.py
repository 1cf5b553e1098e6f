"""Progress of reading the inputs of a load, in one unit: bytes of files as stored, or rows in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from omnigraph.api.progress import Listener, PhaseProgress, Unit
from omnigraph.write.inputs.locations import file_size
from omnigraph.write.rows import Batch
from omnigraph.write.sources import Input, Reading


class ReadProgress:
    """Returns the batches of inputs, and reports how many of them the caller has processed."""

    def __init__(self, phase: PhaseProgress, sizes: Sequence[int], unit: Unit) -> None:
        self._phase = phase
        self._sizes = list(sizes)
        self._unit = unit
        self._before = 0

    def batches(self, one: Input, reading: Reading) -> Iterator[Batch]:
        """The batches of the next input. A request for one means that the one before it is processed."""
        size = self._sizes.pop(0) if self._sizes else 0
        reading.meter.begin()
        for batch in one.read(reading):
            rows = batch.table.num_rows
            yield batch
            if self._unit == "bytes":
                self._phase.reach(self._before + min(reading.meter.position(size), size), rows)
            else:
                self._phase.advance(rows, rows)
        self._before += size
        self._phase.reach(self._before)


@contextmanager
def read_progress(listener: Listener | None, inputs: Sequence[Input]) -> Iterator[ReadProgress]:
    """Report the phase `read` of a load. Sizes of files are looked up only if there is a listener."""
    sizes: list[int] = []
    unit: Unit = "rows"
    if listener is not None:
        if all(each.path is not None for each in inputs):
            unit, sizes = "bytes", [file_size(each.path or "") for each in inputs]
        elif all(each.path is None for each in inputs):
            sizes = [each.rows for each in inputs]
    # Rows in memory beside files have no common unit: the rows are counted, and their total is known at the end.
    with PhaseProgress(listener, "read", sum(sizes) if sizes else None, unit) as phase:
        yield ReadProgress(phase, sizes, unit)
