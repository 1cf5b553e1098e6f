"""The columns of files and their types, which Spark needs before it computes with them.

Tables declare them. Objects of JSON do not: tasks read them once, and a column that holds values of several kinds is
text for Spark, with other values as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import DataError
from omnigraph.execution.spark.frames import spark_arrow_type
from omnigraph.pipeline.reading import parsed_rows
from omnigraph.pipeline.sources import Split
from omnigraph.pipeline.task_runner import TaskRunner
from omnigraph.write.inputs.locations import readable
from omnigraph.write.inputs.tables import JSON, JSONL, schema_of
from omnigraph.write.validation import Findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PERMISSIVE = "permissive"


def row_schema(spark: SparkSession, splits: Sequence[Split]) -> pa.Schema:
    """Return the columns of all files together; those of folders are text."""
    asked = [s for s in splits if s.format in (JSON, JSONL) or s.begin == 0]
    found = TaskRunner(spark, "read the columns of files").map(split_schema, asked, "find columns")
    schema = unite_schemas(found, [s.path for s in asked])
    folders = dict.fromkeys(name for s in splits for name, _ in s.folders)
    texts = [pa.field(name, pa.string()) for name in folders]
    return pa.schema([*(field for field in schema if field.name not in folders), *texts])


def split_schema(split: Split) -> pa.Schema:
    """Return the columns of one file, or of the objects of one split."""
    with readable(split.path):
        if split.format not in (JSON, JSONL):
            return schema_of(split)
        found = pa.schema([])
        for parsed in parsed_rows(split, Findings(sys.maxsize)):
            found = _merged(found, _objects_schema([row for _, row in parsed]))
        return found


def unite_schemas(schemas: Iterable[pa.Schema], paths: Sequence[str]) -> pa.Schema:
    """Return all columns of several files. A duplicate name in one file is refused as ambiguous."""
    found = pa.schema([])
    for schema, path in zip(schemas, paths, strict=True):
        twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{path}: column {twice!r} appears twice", path=path, hint="rename one of them")
        found = _merged(found, schema)
    return found


def _merged(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    fields = {field.name: field for field in one}
    for field in other:
        known = fields.get(field.name, field)
        fields[field.name] = known if known.type == field.type else pa.field(field.name, _common(known, field))
    return pa.schema([pa.field(name, field.type) for name, field in fields.items()])


def _common(one: pa.Field, other: pa.Field) -> pa.DataType:
    schemas = [pa.schema([one.with_nullable(True)]), pa.schema([other.with_nullable(True)])]
    try:
        return pa.unify_schemas(schemas, promote_options=_PERMISSIVE).types[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()


def _objects_schema(rows: Sequence[dict[str, Any]]) -> pa.Schema:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([pa.field(name, _kind([row.get(name) for row in rows])) for name in names])


def _kind(values: list[Any]) -> pa.DataType:
    try:
        return pa.array(values).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.string()


def spark_fields(schema: pa.Schema) -> pa.Schema:
    """Return the columns as Spark fields; those of types that Spark lacks are left out."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    fields = []
    for field in schema:
        kind = pa.string() if pa.types.is_null(field.type) else spark_arrow_type(field.type)
        kind = pa.float32() if pa.types.is_float16(kind) else kind
        if pa.types.is_time(kind):  # Spark has the type but does not take it from Arrow
            continue
        try:
            from_arrow_type(kind)
        except (PySparkException, TypeError):
            continue
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def column_for_spark(table: pa.Table, field: pa.Field) -> Any:
    """Return a column in its type for Spark: null where the table has none, text where files disagree on a type."""
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table[field.name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(field.type)


def objects_for_spark(rows: Sequence[dict[str, Any]], field: pa.Field) -> Any:
    """Return one member of some objects as a column."""
    values = [row.get(field.name) for row in rows]
    if pa.types.is_string(field.type):
        values = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
    return pa.array(values, field.type)


def require_mapped_members(spark: SparkSession, splits: Sequence[Split]) -> None:
    """Refuse a mapping to a member that no object has, as of tables a mapping to a missing column.

    The first objects nearly always have all of them; otherwise tasks search the others.
    """
    splits = [s for s in splits if s.format in (JSON, JSONL)]
    wanted = {c for s in splits for c in s.columns.values()} - {name for s in splits for name, _ in s.folders}
    if not wanted:
        return
    has_rows, found = members_among(splits[0], wanted, few=True)
    if wanted - found:
        search = partial(members_among, wanted=wanted - found)
        answers = TaskRunner(spark, "read the columns of files").map(search, splits, "look for mapped columns")
        has_rows = any(any_rows for any_rows, _ in answers)
        found = found.union(*(names for _, names in answers))
    missing = sorted(wanted - found)
    if missing and has_rows:
        paths = list(dict.fromkeys(s.path for s in splits))
        place = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        raise DataError(f"{place}: column {missing[0]!r} is missing", path=paths[0], hint="no row has it")


def members_among(split: Split, wanted: set[str], *, few: bool = False) -> tuple[bool, set[str]]:
    """Return whether a split has rows, and which of some members they have; `few` reads the first rows only."""
    found: set[str] = set()
    any_rows = False
    with readable(split.path):
        for parsed in parsed_rows(split, Findings(sys.maxsize)):
            any_rows = any_rows or bool(parsed)
            found |= {name for _, row in parsed for name in wanted & row.keys()}
            if few or found == wanted:
                break
    return any_rows, found
