"""The inputs of a load, whatever their form, as chunks: rows or a table of one type, with their places in the input.

Inputs can be read again: a load that deduplicates edges and has to leave rows out, or that finds the branch moved,
starts over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

import pyarrow as pa

from omnigraph.errors import DataError, InvalidArgument, OmnigraphError
from omnigraph.schema.catalog import Catalog
from omnigraph.write.files import Sniffed, envelope_chunks, spool_stream, typed_chunks
from omnigraph.write.frames import batch_from_table
from omnigraph.write.inputs.csv_files import BLOCK_BYTES
from omnigraph.write.inputs.file_options import NO_OPTIONS, FileOptions
from omnigraph.write.inputs.locations import expand_paths, is_pattern, is_uri, require_path
from omnigraph.write.inputs.meter import Meter
from omnigraph.write.inputs.partition_folders import folders_of
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.suffixes import kind_of
from omnigraph.write.inputs.tables import JSONL, FilePart
from omnigraph.write.rows import Batch, batch_from_rows, group_envelopes
from omnigraph.write.validation import Findings, Places

CHUNK_ROWS = 65_536
_FEW_ROWS = 64
_HINT = 'pass a path, envelope rows, or {"Person": path, table or rows, "Knows": path, table or rows}'


@dataclass(frozen=True, slots=True)
class EdgeFile:
    """A file of edges whose ends are in columns of other names."""

    path: str | os.PathLike[str]
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The context and options for reading inputs."""

    catalog: Catalog
    found: Findings
    ignore_unknown: bool = False
    block_bytes: int = BLOCK_BYTES
    sniffed: Sniffed = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)


@dataclass(frozen=True, slots=True)
class Input:
    """One input: `read` reads it from its beginning. It is a file, or so many rows in memory."""

    read: Callable[[Reading], Iterator[Batch]]
    path: str | None = None
    rows: int = 0


def inputs_of(data: Any, options: FileOptions = NO_OPTIONS) -> list[Input]:
    """The inputs that a `data` argument names. The options are those of its files."""
    if isinstance(data, Mapping):
        require_one_type(data, options)
        return [each for name, value in data.items() for each in _typed_inputs(str(name), value, options)]
    if _is_path(data):
        return _path_inputs(data, options)
    if hasattr(data, "read"):
        return [_stream_input(data)]
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        items = list(data)
        if items and all(_is_path(item) for item in items):
            return [each for item in items for each in _path_inputs(item, options)]
        return [Input(lambda reading: _envelopes(enumerate(items, start=1), None, reading), rows=len(items))]
    raise InvalidArgument(f"cannot load {type(data).__name__}", hint=_HINT)


def require_one_type(data: Mapping[Any, Any], options: FileOptions) -> None:
    """Refuse a mapping of columns where it could mean the properties of several types."""
    if options.columns and len(data) > 1:
        raise InvalidArgument(
            "`columns` maps the properties of one type, and several are given",
            hint="name each file with `Files`, which has columns of its own",
        )


def holds_few_rows(data: Any) -> bool:
    """Whether `data` is a handful of rows in memory."""
    groups = list(data.values()) if isinstance(data, Mapping) else [data]
    if not all(isinstance(group, list) for group in groups) or sum(map(len, groups)) > _FEW_ROWS:
        return False
    return all(isinstance(row, Mapping) for group in groups for row in group)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _path_inputs(path: str | os.PathLike[str], options: FileOptions) -> list[Input]:
    """Files of envelopes, and files that are named after their type; below `nodes` and `edges` its kind is clear."""
    return [_named_input(file, options) for file in _expanded(path)]


def _named_input(path: str, options: FileOptions) -> Input:
    if kind_of(path) == JSONL:
        options.require_format(path, JSONL)
        return Input(lambda reading: _envelope_file(path, reading), path)
    folder, file = os.path.split(path)
    kind = {"nodes": "node:", "edges": "edge:"}.get(os.path.basename(folder), "")
    return _file_input(kind + file.partition(".")[0], path, options)


def _stream_input(stream: IO[bytes] | IO[str]) -> Input:
    """Copy a stream to a temporary file, because a load may have to read it again."""
    path = spool_stream(stream)
    return Input(lambda reading: _envelope_file(path, reading, shown_as="<stdin>"), path)


def _envelope_file(path: str, reading: Reading, *, shown_as: str | None = None) -> Iterator[Batch]:
    return envelope_chunks(
        path, reading.catalog, reading.found, reading.meter, shown_as=shown_as, block_bytes=reading.block_bytes,
        sniffed=reading.sniffed,
    )  # fmt: skip


def _typed_inputs(name: str, value: Any, options: FileOptions) -> list[Input]:
    if _names_files(value):
        return _files_inputs(name, value, options)
    if isinstance(value, Sequence) and value and all(map(_names_files, value)):
        return [each for item in value for each in _files_inputs(name, item, options)]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        rows = list(value)
        return [Input(lambda reading: _rows(name, rows, reading), rows=len(rows))]
    table = table_of(name, value)
    return [Input(lambda reading: _table(name, table, reading), rows=table.num_rows)]


def _expanded(item: Any) -> Sequence[Any]:
    """The files of a directory, a pattern or a URI; the path of a file is shown as it was given."""
    if isinstance(item, EdgeFile):
        return [EdgeFile(path, item.source, item.target) for path in _expanded(item.path)]
    path = os.fspath(item)
    require_path(path)
    stands_for_others = not os.path.isfile(path) and (os.path.isdir(path) or is_pattern(path) or is_uri(path))
    return expand_paths(path) if stands_for_others else [path]


def table_of(name: str, frame: Any) -> pa.Table:
    """A table in memory, of any supported library, as an Arrow one."""
    try:
        table = _arrow_table(name, frame)
        table.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, OmnigraphError):
            raise
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"{name}: the frame cannot be read: {reason}", hint="check its columns and their types"
        ) from error
    return table


def _arrow_table(name: str, frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if type(frame).__module__.partition(".")[0] == "pandas":
        plain = frame.copy(deep=False)
        plain.attrs = {}  # remarks of the frame's creator; those that are not JSON would cause a warning
        return _with_whole_numbers(pa.Table.from_pandas(plain, preserve_index=False))
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):
        frame = frame.collect()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise InvalidArgument(
        f"{name}: cannot load {type(frame).__name__}",
        hint="pass a path, a pyarrow, pandas or polars table, or a list of dicts",
    )


def _with_whole_numbers(table: pa.Table) -> pa.Table:
    """Integers that pandas keeps as floats because some values are missing, as integers."""
    for index, column in enumerate(table.columns):
        if pa.types.is_floating(column.type) and column.null_count:
            try:
                table = table.set_column(index, table.column_names[index], column.cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
    return table


def _file_input(name: str, file: str | os.PathLike[str] | EdgeFile, options: FileOptions = NO_OPTIONS) -> Input:
    path = os.fspath(file.path if isinstance(file, EdgeFile) else file)
    renamed = {file.source: "from", file.target: "to"} if isinstance(file, EdgeFile) else {}
    folders = folders_of(path if is_uri(path) else os.path.abspath(path))
    options.require_format(path, kind_of(path))
    part = FilePart(
        path=path, format=kind_of(path), columns=dict(options.columns), dialect=options.dialect, folders=folders
    )
    return _part_input(name, part, renamed)


def _part_input(name: str, part: FilePart, renamed: Mapping[str, str] | None = None) -> Input:
    def read(reading: Reading) -> Iterator[Batch]:
        entity = reading.catalog.entity(name)
        return typed_chunks(
            entity, part, reading.found, reading.meter, ignore_unknown=reading.ignore_unknown, renamed=renamed,
            sniffed=reading.sniffed,
        )  # fmt: skip

    return Input(read, part.path)


def _names_files(value: Any) -> bool:
    return isinstance(value, (EdgeFile, Files)) or _is_path(value)


def _files_inputs(name: str, files: Any, options: FileOptions) -> list[Input]:
    """Paths, or files with options. Conditions, casts and change events need Spark."""
    if not isinstance(files, Files):
        return [_file_input(name, file, options) for file in _expanded(files)]
    if files.is_selected:
        raise InvalidArgument(
            f"{name}: `where`, `cast`, `cdc` and `expect` are for Spark", hint="load with the engine spark"
        )
    if files.type_name != name.removeprefix("node:").removeprefix("edge:"):
        raise InvalidArgument(f"{name}: these files are those of {files.type_name}")
    if files.unknown is not None:
        raise InvalidArgument(f"{name}: `unknown` of a source is for Spark", hint="load with ignore_unknown")
    located = replace(files, paths=expand_paths(files.paths))
    return [_part_input(name, part) for part in located.parts()]


def _rows(name: str, rows: list[Any], reading: Reading) -> Iterator[Batch]:
    entity = reading.catalog.entity(name)
    if not rows:
        yield batch_from_rows(entity, [], Places(), reading.found)
    for first in range(0, len(rows), CHUNK_ROWS):
        part = rows[first : first + CHUNK_ROWS]
        places = Places(((None, range(first + 1, first + 1 + len(part))),))
        yield batch_from_rows(entity, part, places, reading.found)


def _table(name: str, table: pa.Table, reading: Reading) -> Iterator[Batch]:
    entity = reading.catalog.entity(name)
    yield batch_from_table(entity, table, Places(((None, range(1, table.num_rows + 1)),)), reading.found)


def _envelopes(rows: Iterable[tuple[int, Any]], path: str | None, reading: Reading) -> Iterator[Batch]:
    for group in group_envelopes(rows, reading.catalog, path, reading.found):
        yield batch_from_rows(group.entity, group.rows, Places(((path, group.numbers),)), reading.found)
