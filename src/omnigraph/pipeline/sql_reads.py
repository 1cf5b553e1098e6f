"""SQL over one snapshot: Spark plans the query first, then only the columns and rows that it uses are read.

    query -> planned over empty views -> columns and filters of each type -> views that read those -> query

Such a view has all columns of its type; those that the query does not use are null. Spark applies its filters again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.api.target import Target
from omnigraph.errors import OmnigraphError
from omnigraph.execution.spark.frames import public_fields, spark_arrow_schema
from omnigraph.execution.spark.plans import TableUse, planned_uses
from omnigraph.execution.spark.versions import spark_schema
from omnigraph.graph import Graph
from omnigraph.pipeline.rowfilter import RowFilter
from omnigraph.pipeline.sql_filters import filter_text
from omnigraph.pipeline.views import read_type, register_views, require_distinct
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENDS = {"src": "from", "dst": "to"}


@dataclass(frozen=True, slots=True)
class TypeRead:
    """The part of one type that a query reads: some columns or all, and the rows that pass a filter or all."""

    name: str
    columns: tuple[str, ...] | None
    filter: str | None


def run_sql(spark: SparkSession, graph: Graph, text: str, at: Target = None) -> DataFrame:
    """Execute a query over the views of a snapshot, which are made in the session given: a copy of the user's."""
    pinned = graph.snapshot(at).commit_id
    reads = planned_reads(spark, graph.catalog(pinned), text)
    if reads is None:
        register_views(spark, graph, pinned)
        return spark.sql(text)
    for read in reads:
        _register(spark, graph, read, pinned)
    return spark.sql(text)


def planned_reads(spark: SparkSession, catalog: Catalog, text: str) -> list[TypeRead] | None:
    """Return the reads of a query by type; None when only running it can tell. Replaces the session's views."""
    entities: dict[str, EntityType] = {**catalog.nodes, **catalog.edges}
    require_distinct(spark, [*catalog.nodes, *catalog.edges])
    tables = {name: spark_schema(spark_arrow_schema(entity)) for name, entity in entities.items()}
    found = planned_uses(spark, text, tables)
    if found is None:
        return None
    uses: dict[str, list[TableUse]] = defaultdict(list)
    for use in found:
        uses[use.name].append(use)
    return [_read(entities[name], catalog, mine) for name, mine in sorted(uses.items())]


def _read(entity: EntityType, catalog: Catalog, uses: Sequence[TableUse]) -> TypeRead:
    columns: tuple[str, ...] | None = None
    names = [name for name, _, _ in public_fields(entity)]
    if all(use.columns is not None for use in uses):
        used = frozenset().union(*(use.columns or () for use in uses)) or {"id"}
        columns = tuple(name for name in names if name in used)
    return TypeRead(entity.name, columns, _common_filter(entity, catalog, uses))


def _common_filter(entity: EntityType, catalog: Catalog, uses: Sequence[TableUse]) -> str | None:
    """Return a condition that holds for every row that any of the uses keeps."""
    alternatives: list[str] = []
    for use in uses:
        conditions = _conditions(entity, catalog, use)
        if not conditions:
            return None
        alternatives.append(" and ".join(conditions))
    alternatives = list(dict.fromkeys(alternatives))
    text = alternatives[0] if len(alternatives) == 1 else " or ".join(f"({each})" for each in alternatives)
    return text if _compiles(text, entity, catalog) else None


def _conditions(entity: EntityType, catalog: Catalog, use: TableUse) -> list[str]:
    known = {each.name: each.name for each in entity.properties} | (_ENDS if isinstance(entity, EdgeType) else {})
    names = {number: known[name] for number, name in use.attributes.items() if name in known}
    texts = (filter_text(condition, names) for condition in use.conditions)
    return [text for text in texts if text is not None and _compiles(text, entity, catalog)]


def _compiles(text: str, entity: EntityType, catalog: Catalog) -> bool:
    """Return whether the query language has the condition: it accepts fewer values of an enum than SQL."""
    try:
        RowFilter.of(text, entity, catalog)
    except OmnigraphError:
        return False
    return True


def _register(spark: SparkSession, graph: Graph, read: TypeRead, pinned: str) -> None:
    from pyspark.sql import functions as F

    entity = graph.catalog(pinned).nodes.get(read.name) or graph.catalog(pinned).edges[read.name]
    schema = spark_schema(spark_arrow_schema(entity))
    columns = None if _has_ambiguous(spark, schema.names) else read.columns
    frame = read_type(spark, graph, read.name, pinned, columns, read.filter)
    if columns is not None:
        used = set(columns)
        nothing = F.lit(None)
        frame = frame.select(
            *(F.col(f"`{f.name}`") if f.name in used else nothing.cast(f.dataType).alias(f.name) for f in schema)
        )
    frame.createOrReplaceTempView(read.name)


def _has_ambiguous(spark: SparkSession, names: Iterable[str]) -> bool:
    """Return whether columns differ only in case for a session that ignores it, so that their names are ambiguous."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return False
    lowered = [name.lower() for name in names]
    return len(set(lowered)) < len(lowered)
