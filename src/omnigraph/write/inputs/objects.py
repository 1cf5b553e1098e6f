"""Objects of JSON as rows of one type."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from omnigraph.schema.catalog import EntityType
from omnigraph.write.inputs.json_files import json_objects
from omnigraph.write.inputs.meter import Meter
from omnigraph.write.inputs.partition_folders import folder_row
from omnigraph.write.inputs.tables import FilePart, open_stream
from omnigraph.write.validation import Findings

Parsed = list[tuple[int, Any]]
"""Objects with the numbers of their rows."""

_OBJECTS = 65_536


def object_rows(part: FilePart, found: Findings, meter: Meter | None = None) -> Iterator[Parsed]:
    """The objects of a file of JSON, some thousands at once. Values that are no objects are noted and left out."""
    with open_stream(part, meter) as stream:
        objects = json_objects(stream, part.path, found)
        while parsed := list(itertools.islice(objects, _OBJECTS)):
            yield parsed


def row_reader(part: FilePart, entity: EntityType) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that makes a row of an object, with the names of the mapping and the values of the folders."""
    columns, folders = part.columns, folder_row(part.folders, entity, part.columns)
    if columns:
        return lambda row: {name: row[column] for name, column in columns.items() if column in row} | folders
    return (lambda row: row | folders) if folders else (lambda row: row)
