"""The sources of a load, and the splits of files that tasks read independently.

Parquet and ORC are cut at row groups and stripes, JSON lines at byte ranges; CSV (whose quoted values may hold line
ends), JSON that spreads over lines and compressed text are read whole by one task each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from omnigraph.errors import DataError
from omnigraph.write.files import Sniffed
from omnigraph.write.inputs.locations import first_line, locate
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.tables import CSV, JSONL, ORC, PARQUET, FilePart, open_file, resolve_part

_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_SPLIT_BYTES = 64 << 20
_SPLIT_ROWS = 3 << 18
"""A task holds a split: fewer rows need less memory, but files of half as many would be merged by `optimize`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(FilePart):
    """A part of one file for one task. `begin` and `end` are row groups, stripes or bytes, by format.

    The first row of a byte range is counted by tasks, before the load: `lines_begun`.
    """

    number: int
    type_name: str | None
    unknown: str | None = None
    source: str = ""


def plan_splits(
    sources: Sequence[Files], first: int = 0, access: S3Access | None = None, sniffed: Sniffed | None = None
) -> list[Split]:
    """Cut every file of every source. Unreadable files are refused here, before any task starts."""
    splits: list[Split] = []
    for source in sources:
        for whole in source.parts(access):
            try:
                whole, noted = resolve_part(whole)
                if noted and sniffed is not None:
                    sniffed[whole.path] = noted
                parts = list(_parts_of(whole))
            except (OSError, pa.ArrowException) as error:
                raise DataError(
                    f"{whole.path}: cannot be read as {whole.format}: {first_line(error)}", path=whole.path
                ) from error
            for begin, end, first_row in parts:
                splits.append(
                    Split(
                        number=first + len(splits), type_name=source.type_name, path=whole.path, format=whole.format,
                        begin=begin, end=end, first_row=first_row, columns=whole.columns, dialect=whole.dialect,
                        folders=whole.folders, access=access,
                        unknown=source.unknown, source=source.place,
                    )
                )  # fmt: skip
    return splits


def _parts_of(whole: FilePart) -> Iterator[tuple[int, int, int]]:
    if whole.format == PARQUET:
        with open_file(whole) as stream:
            metadata = pq.ParquetFile(stream).metadata
            rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        yield from _grouped(rows)
    elif whole.format == ORC:
        with open_file(whole) as stream:
            file = orc.ORCFile(stream)
            rows = [file.read_stripe(i, columns=[]).num_rows for i in range(file.nstripes)]
        yield from _grouped(rows)
    elif whole.format == JSONL and not whole.path.lower().endswith(_COMPRESSED):
        place = locate(whole.path, whole.access)
        size = place.filesystem.get_file_info(place.path).size or 0
        for begin in range(0, max(size, 1), _SPLIT_BYTES):
            yield begin, min(begin + _SPLIT_BYTES, size), 1
    else:
        with open_file(whole):
            yield 0, -1, whole.dialect.first_row if whole.format == CSV else 1


def _grouped(rows: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Group adjacent row groups up to the size of a split."""
    begin, first, total, seen = 0, 1, 0, 0
    for at, count in enumerate(rows):
        if total and total + count > _SPLIT_ROWS:
            yield begin, at, first
            begin, first, total = at, seen + 1, 0
        total += count
        seen += count
    yield begin, len(rows), first  # also for a file without rows: an overwrite empties its type
