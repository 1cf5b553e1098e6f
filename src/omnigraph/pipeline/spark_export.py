"""Export on Spark: every type as a directory of Parquet, JSON lines or CSV files, written by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.api.arguments import Count, checked_call
from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument
from omnigraph.graph import Graph
from omnigraph.pipeline.spark_session import work_session
from omnigraph.pipeline.views import read_type
from omnigraph.write.inputs.partition_folders import NULL_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
_MOMENT_TEXT = (
    "replace(CAST(timestampadd(MILLISECOND, unix_millis(`{0}`), TIMESTAMP_NTZ'1970-01-01 00:00:00') AS string), "
    "' ', 'T') || 'Z'"
)
_FORMATS = {"parquet": "parquet", "jsonl": "json", "csv": "csv", "orc": "orc"}


@dataclass(frozen=True, slots=True)
class Exported:
    """The outcome of an export: the directory of each type."""

    graph_commit_id: str
    directories: dict[str, str]


@checked_call
def export(
    spark: SparkSession, graph: Graph, path: str, format: Literal["parquet", "jsonl", "csv", "orc"] = "parquet",
    at: Target = None, *, types: Sequence[str] | None = None, partition_by: Sequence[str] = (),
    files: Count | None = None,
) -> Exported:  # fmt: skip
    """Write the types of one snapshot below `path`, a directory each; edges have columns `from` and `to`.

    `partition_by` names properties that become directories; `files` is how many files each type is written to.
    """
    spark = work_session(spark)
    catalog = graph.catalog(at)
    commit_id = graph.snapshot(at).commit_id
    written: dict[str, str] = {}
    for named in types or [*sorted(catalog.nodes), *sorted(catalog.edges)]:
        entity = catalog.entity(named)
        name, is_edge = entity.name, entity.kind == "edge"
        frame = read_type(spark, graph, name, commit_id)
        if is_edge:
            frame = frame.withColumnsRenamed({"src": "from", "dst": "to"})
        elif entity.key:
            frame = frame.drop("id")  # derived from the key when it is loaded again
        if files is not None:
            frame = frame.repartition(files)
        directory = f"{path.rstrip('/')}/{'edges' if is_edge else 'nodes'}/{name}"
        by = [column for column in partition_by if column in frame.columns]
        _write(frame, format, directory, by)
        written[name] = directory
    return Exported(commit_id, written)


def _write(frame: DataFrame, format: str, directory: str, by: Sequence[str]) -> None:
    frame = _with_folder_texts(frame, by, directory.rsplit("/", 1)[-1])
    writer = frame.write.mode("error").format(_FORMATS[format])
    if by:
        writer = writer.partitionBy(*by)
    if format == "csv":
        nested = [field.name for field in frame.schema.fields if field.dataType.typeName() in ("array", "binary")]
        if nested:
            raise InvalidArgument(
                f"{nested[0]!r} of {directory.rsplit('/', 1)[-1]} has no place in a CSV file",
                hint="use parquet or jsonl, or leave the type out",
            )
        # A backslash is an ordinary character, and empty text differs from null, as `CsvDialect` reads it.
        writer = writer.options(header="true", escape='"', emptyValue='""', timestampFormat=_MOMENT)
    if format == "jsonl":
        writer = writer.option("timestampFormat", _MOMENT)
    writer.save(directory)


def _with_folder_texts(frame: DataFrame, by: Sequence[str], name: str) -> DataFrame:
    """Return the frame with partition columns as text that can be read back from folder names.

    Spark writes moments in the zone of the session and without it, and has one name for null and for empty text.
    """
    from pyspark.sql import functions as F

    if by and len(by) == len(frame.columns):
        raise InvalidArgument(
            f"{name} has no other property than {', '.join(by)}", hint="leave one out of `partition_by`"
        )
    for column in by:
        kind = frame.schema[column].dataType.typeName()
        if kind in ("array", "binary"):
            raise InvalidArgument(f"{column!r} of {name} has no place in the name of a folder")
        if kind == "timestamp":
            frame = frame.withColumn(column, F.expr(_MOMENT_TEXT.format(column)))
        if kind == "string" and not frame.where(F.col(column).isin("", NULL_FOLDER)).isEmpty():
            raise InvalidArgument(
                f"{column!r} of {name} is empty text or {NULL_FOLDER!r} in some rows, which folders cannot tell "
                "from null",
                hint="leave it out of `partition_by`",
            )
    return frame
