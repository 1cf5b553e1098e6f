"""Where a load's rows come from, and how files are cut into splits that tasks read by themselves.

Parquet and ORC are cut at row groups and stripes, JSON lines at byte ranges; CSV (whose quoted values may hold line
ends) and compressed text are read whole by one task each.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.orc as orc
import pyarrow.parquet as pq

from omnigraph.errors import DataError, InvalidArgument
from omnigraph.write.files import kind_of

PARQUET, CSV, JSONL, ORC, ARROW = "parquet", "csv", "jsonl", "orc", "arrow"
FORMATS = (PARQUET, CSV, JSONL, ORC, ARROW)
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_SPLIT_BYTES = 64 << 20
_SPLIT_ROWS = 3 << 18
"""A task holds a split: fewer rows need less memory, and files of half as many would be merged by the next upkeep."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format that hold rows of one type, or envelope rows of any type (`type_name` None).

    `columns` maps a property (or `from`, `to`, `id`) to the column that holds it; unnamed ones keep their name.
    """

    type_name: str | None
    paths: tuple[str, ...]
    format: str
    columns: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one file. `begin` and `end` are row groups, stripes or bytes, by format; `first_row` counts from 1.

    The first row of a byte range is counted by tasks, before the load: `numbered_lines`.
    """

    number: int
    type_name: str | None
    path: str
    format: str
    begin: int = 0
    end: int = -1
    first_row: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","


def format_of(path: str) -> str:
    """The format that a file's name tells; JSON lines where it tells nothing."""
    return ORC if path.lower().endswith(".orc") else kind_of(path)


def expand_paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Files behind paths, directories and patterns, in a stable order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[str] = []
    for item in [os.fspath(path) for path in given]:
        files = sorted(_files_of(item))
        if not files:
            raise InvalidArgument(f"{item}: there is no such file", hint="check the path or the pattern")
        found.extend(files)
    return tuple(found)


def _files_of(item: str) -> Iterator[str]:
    if "://" in item and not item.startswith("file://"):
        filesystem, path = filesystem_of(item)
        info = filesystem.get_file_info(path)
        scheme = item.partition("://")[0]
        if info.type == pafs.FileType.Directory:
            selector = pafs.FileSelector(path, recursive=True)
            yield from (f"{scheme}://{f.path}" for f in filesystem.get_file_info(selector) if _is_data(f))
        elif info.type == pafs.FileType.File:
            yield item
        return
    local = item.removeprefix("file://")
    for match in glob.glob(local) if glob.has_magic(local) else [local]:
        if os.path.isdir(match):
            for folder, _, names in os.walk(match):
                yield from (os.path.join(folder, n) for n in names if not n.startswith(("_", ".")))
        elif os.path.exists(match):
            yield os.path.abspath(match)


def _is_data(info: Any) -> bool:
    return info.type == pafs.FileType.File and not info.base_name.startswith(("_", "."))


def filesystem_of(path: str) -> tuple[Any, str]:
    """The Arrow filesystem of a path or URI, and the path inside it."""
    if "://" not in path:
        return pafs.LocalFileSystem(), path
    filesystem, inner = pafs.FileSystem.from_uri(path)
    return filesystem, inner


def plan_splits(sources: Sequence[Files], first: int = 0) -> list[Split]:
    """Cut every file of every source. Unreadable files are refused here, before any task starts."""
    splits: list[Split] = []
    for source in sources:
        for path in source.paths:
            try:
                parts = list(_parts_of(source, path))
            except (OSError, pa.ArrowInvalid) as error:
                raise DataError(f"{path}: cannot be read as {source.format}: {error}", path=path) from error
            for begin, end, first_row in parts:
                splits.append(
                    Split(
                        first + len(splits), source.type_name, path, source.format, begin, end, first_row,
                        dict(source.columns), source.delimiter,
                    )
                )  # fmt: skip
    return splits


def _parts_of(source: Files, path: str) -> Iterator[tuple[int, int, int]]:
    filesystem, inner = filesystem_of(path)
    if source.format == PARQUET:
        with filesystem.open_input_file(inner) as stream:
            metadata = pq.ParquetFile(stream).metadata
            rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        yield from _grouped(rows)
    elif source.format == ORC:
        with filesystem.open_input_file(inner) as stream:
            file = orc.ORCFile(stream)
            rows = [file.read_stripe(i, columns=[]).num_rows for i in range(file.nstripes)]
        yield from _grouped(rows)
    elif source.format == JSONL and not path.lower().endswith(_COMPRESSED):
        size = filesystem.get_file_info(inner).size or 0
        for begin in range(0, max(size, 1), _SPLIT_BYTES):
            yield begin, min(begin + _SPLIT_BYTES, size), 1
    else:
        with filesystem.open_input_file(inner):
            # The heading of a CSV file is its first line.
            yield 0, -1, 2 if source.format == CSV else 1


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
