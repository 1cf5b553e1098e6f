"""Where a load's rows come from, and how files are cut into splits that tasks read by themselves.

Parquet and ORC are cut at row groups and stripes, JSON lines at byte ranges; CSV (whose quoted values may hold line
ends), JSON that spreads over lines and compressed text are read whole by one task each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from omnigraph.errors import DataError, InvalidArgument
from omnigraph.write.files import kind_of
from omnigraph.write.inputs.csv_files import CsvDialect
from omnigraph.write.inputs.locations import first_line, locate
from omnigraph.write.inputs.partition_folders import folders_of
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.tables import CSV, FORMATS, JSONL, ORC, PARQUET, FilePart, open_file

_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_SPLIT_BYTES = 64 << 20
_SPLIT_ROWS = 3 << 18
"""A task holds a split: fewer rows need less memory, and files of half as many would be merged by the next upkeep."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format that hold rows of one type, or envelope rows of any type (`type_name` None).

    `columns` maps a property (or `from`, `to`, `id`) to the column that holds it; unnamed ones keep their name.
    Folders such as `country=NO` are columns too, unless `partitions` is False. `where` is a condition in Spark SQL
    over the columns of the files, `cast` maps properties to types of Spark SQL. The options from `delimiter` on say
    how CSV files are written: `CsvDialect`.
    """

    type_name: str | None
    paths: tuple[str, ...]
    format: str
    columns: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    header: bool = True
    names: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ()
    encoding: str = "utf-8"
    partitions: bool = True
    where: str | None = None
    cast: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidArgument(f"format {self.format!r} is unknown", hint=f"use one of {', '.join(FORMATS)}")
        if self.type_name is None and (self.where is not None or self.cast):
            raise InvalidArgument("rows of several types take no `where` and no `cast`")
        _ = self.dialect

    @property
    def dialect(self) -> CsvDialect:
        """How its CSV files are written."""
        return CsvDialect(
            self.delimiter, self.quote, self.escape, self.header, self.names, self.null_values, self.encoding
        )

    @property
    def is_selected(self) -> bool:
        """Whether Spark SQL chooses its rows or computes its values."""
        return self.where is not None or bool(self.cast)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(FilePart):
    """A part of one file for one task. `begin` and `end` are row groups, stripes or bytes, by format.

    The first row of a byte range is counted by tasks, before the load: `lines_begun`.
    """

    number: int
    type_name: str | None


def format_of(path: str) -> str:
    """The format that a file's name tells; JSON lines where it tells nothing."""
    return kind_of(path)


def plan_splits(sources: Sequence[Files], first: int = 0, access: S3Access | None = None) -> list[Split]:
    """Cut every file of every source. Unreadable files are refused here, before any task starts."""
    splits: list[Split] = []
    for source in sources:
        for path in source.paths:
            folders = folders_of(path) if source.partitions and source.type_name is not None else ()
            whole = FilePart(
                path=path, format=source.format, columns=dict(source.columns), dialect=source.dialect,
                folders=folders, access=access,
            )  # fmt: skip
            try:
                parts = list(_parts_of(whole))
            except (OSError, pa.ArrowException) as error:
                reason = first_line(error)
                raise DataError(f"{path}: cannot be read as {source.format}: {reason}", path=path) from error
            for begin, end, first_row in parts:
                splits.append(
                    Split(
                        number=first + len(splits), type_name=source.type_name, path=path, format=source.format,
                        begin=begin, end=end, first_row=first_row, columns=whole.columns, dialect=whole.dialect,
                        folders=folders, access=access,
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
    """Neighbouring row groups together, up to the size of a split."""
    begin, first, total, seen = 0, 1, 0, 0
    for at, count in enumerate(rows):
        if total and total + count > _SPLIT_ROWS:
            yield begin, at, first
            begin, first, total = at, seen + 1, 0
        total += count
        seen += count
    yield begin, len(rows), first  # also for a file without rows: an overwrite empties its type
