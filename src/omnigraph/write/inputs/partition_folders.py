"""Columns in the names of folders: `country=NO/year=2024/part-0.parquet`, as Hive and Spark write them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from omnigraph.errors import DataError
from omnigraph.schema.catalog import EntityType
from omnigraph.write.values import BadValue, read_text

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
Folders = tuple[tuple[str, str | None], ...]
"""Names and values of the folders above a file, outermost first. Values are text, or None for null."""


def folders_of(path: str) -> Folders:
    """The partition folders directly above a file: an unbroken run of `name=value`."""
    found: list[tuple[str, str | None]] = []
    for segment in reversed(path.split("/")[:-1]):
        name, equals, value = segment.partition("=")
        if not (name and equals):
            break
        text = _decoded(value, path)
        found.append((_decoded(name, path), None if text == NULL_FOLDER else text))
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: two folders hold a value of {twice!r}", path=path, hint="rename one of them")
    return tuple(reversed(found))


def _decoded(text: str, path: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the folder name {text!r} is not UTF-8 behind its percent signs", path=path,
            hint="rename the folder",
        ) from error  # fmt: skip


def with_folders(table: pa.Table, folders: Folders) -> pa.Table:
    """The table with the values of its folders as text columns. A folder wins over a column of the file."""
    for name, value in folders:
        column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
        while name in table.column_names:
            table = table.remove_column(table.column_names.index(name))
        table = table.append_column(name, column)
    return table


def folder_row(folders: Folders, entity: EntityType, columns: Mapping[str, str]) -> dict[str, Any]:
    """The values that folders add to a row of JSON, by property: text is parsed as its property's type."""
    values, kinds = dict(folders), {prop.name: prop.type for prop in entity.properties}
    found: dict[str, Any] = {}
    for name, column in columns.items() if columns else ((each, each) for each in values):
        if column not in values:
            continue
        found[name] = text = values[column]
        if text is not None and name in kinds:
            with suppress(BadValue):  # it stays text and is refused with its row
                found[name] = read_text(text, kinds[name])
    return found
