"""A graph as tables of Spark SQL: one temporary view per type, all of one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument
from omnigraph.graph import Graph
from omnigraph.pipeline.datasource import NAME
from omnigraph.pipeline.spark_session import with_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_type(
    spark: SparkSession, graph: Graph, type_name: str, at: Target = None, columns: Sequence[str] | None = None,
    filter: str | None = None,
) -> DataFrame:  # fmt: skip
    """Return a node or edge type of a snapshot as a DataFrame, with some columns or all, and the rows of a filter."""
    found = graph.snapshot(at)
    reader = with_source(spark).read.format(NAME).option("snapshot", found.commit_id)
    kind = "edge" if type_name in graph.catalog(at).edges else "type"
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    if filter is not None:
        reader = reader.option("filter", filter)
    return reader.option(kind, type_name).load(graph.uri)


def register_views(
    spark: SparkSession, graph: Graph, at: Target = None, *, prefix: str = "",
    columns: dict[str, Sequence[str]] | None = None,
) -> list[str]:  # fmt: skip
    """Register `Person`, `Knows`, ... as tables of Spark SQL, as of one snapshot. Return their names.

    `prefix` keeps several graphs or snapshots apart; `columns` narrows a type to the columns named, which is worth it
    for wide types because Spark reads every column that a view has.
    """
    catalog = graph.catalog(at)
    pinned = graph.snapshot(at).commit_id
    names: list[str] = []
    types = [*sorted(catalog.nodes), *sorted(catalog.edges)]
    require_distinct(spark, types)
    for type_name in types:
        frame = read_type(spark, graph, type_name, pinned, (columns or {}).get(type_name))
        frame.createOrReplaceTempView(f"{prefix}{type_name}")
        names.append(f"{prefix}{type_name}")
    return names


def require_distinct(spark: SparkSession, types: Sequence[str]) -> None:
    """Refuse types of which one view would replace the other: the session's setting decides, and stays as it is."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    seen: dict[str, str] = {}
    for name in types:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidArgument(
                f"the views {other} and {name} are one view for this session, which ignores case",
                hint="set spark.sql.caseSensitive to true",
            )
