"""The columns and filters that a query uses of each table, read from the plan of Spark's optimizer.

Each table is replaced by an empty view with its columns, which is only analysed; nothing is executed. Plans are classes
of the JVM, which a classic session reaches by py4j and Spark Connect does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from omnigraph.execution.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_CATALYST = "org.apache.spark.sql.catalyst"
_COMMAND = f"{_CATALYST}.plans.logical.Command"
_NARROWING = ("Project", "Aggregate")
"""Nodes whose output depends only on the input columns that their expressions name."""


@dataclass(frozen=True, slots=True)
class TableUse:
    """One occurrence of a table in a query. `columns` None means all; `conditions` are conjuncts, of Spark's classes.

    `attributes` are the names of the table's columns by the ids that the conditions use.
    """

    name: str
    columns: frozenset[str] | None
    conditions: tuple[Any, ...]
    attributes: Mapping[int, str]


def planned_uses(spark: SparkSession, text: str, tables: Mapping[str, StructType]) -> list[TableUse] | None:
    """Return how a query uses tables, after Spark's optimizer; None where that is unknown before it runs.

    Views of the session are replaced by empty ones of the tables' names. Raises Spark's error for an invalid query.
    """
    if is_connect(spark):
        return None
    try:
        relations = {_empty_view(spark, name, schema): name for name, schema in tables.items()}
        execution = _execution(spark, text)
    except (Py4JError, PySparkException):
        return None
    try:
        analyzed = execution.analyzed()
    except Py4JError:
        return None
    try:
        if _is_bound_to_its_run(spark, analyzed):
            return None
        used = {relations[each.rdd().id()] for each in _nodes(analyzed) if _is_relation(each, relations)}
        found = list(_uses(execution.optimizedPlan(), relations))
    except (Py4JError, PySparkException):
        return None
    read = {use.name for use in found}
    return [*found, *(TableUse(name, frozenset(), (), {}) for name in sorted(used - read))]


def _empty_view(spark: SparkSession, name: str, schema: StructType) -> int:
    """Register an empty view, of which the optimizer sees only the columns. Return the number of its relation."""
    session: Any = spark._jsparkSession
    rows = spark.sparkContext._jsc.emptyRDD()
    frame = session.createDataFrame(rows, session.parseDataType(schema.json()))
    frame.createOrReplaceTempView(name)
    number: int = frame.queryExecution().analyzed().rdd().id()
    return number


def _execution(spark: SparkSession, text: str) -> Any:
    """Return the execution of a query that is analysed and optimized only: commands are not run."""
    state: Any = spark._jsparkSession.sessionState()
    modes = getattr(spark.sparkContext._jvm, "org.apache.spark.sql.execution.CommandExecutionMode")
    return state.executePlan(state.sqlParser().parsePlan(text), modes.SKIP())


def _is_bound_to_its_run(spark: SparkSession, analyzed: Any) -> bool:
    """Return whether a plan is a command, or reads the time or the user, which an optimized plan holds as constants."""
    gateway: Any = spark.sparkContext._gateway
    if any(is_instance_of(gateway, node, _COMMAND) for node in _nodes(analyzed)):
        return True
    patterns = getattr(spark.sparkContext._jvm, f"{_CATALYST}.trees.TreePattern")
    return bool(analyzed.containsPattern(patterns.CURRENT_LIKE()))


def sequence(found: Any) -> list[Any]:
    """Return the elements of a Scala collection."""
    elements, iterator = [], found.iterator()
    while iterator.hasNext():
        elements.append(iterator.next())
    return elements


def class_name(found: Any) -> str:
    """Return the name of a JVM object's class, without its package."""
    name: str = found.getClass().getSimpleName()
    return name


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in [*sequence(plan.children()), *sequence(plan.subqueries())]:
        yield from _nodes(child)


def _is_relation(node: Any, relations: Mapping[int, str]) -> bool:
    return class_name(node) == "LogicalRDD" and node.rdd().id() in relations


def _uses(
    plan: Any, relations: Mapping[int, str], wanted: frozenset[int] | None = None, conditions: tuple[Any, ...] = ()
) -> Iterator[TableUse]:
    """Collect the table uses of a plan, downwards. `wanted` are the columns that the nodes above read; None for all."""
    if _is_relation(plan, relations):
        attributes = {each.exprId().id(): each.name() for each in sequence(plan.output())}
        columns = None if wanted is None else frozenset(attributes[i] for i in wanted if i in attributes)
        yield TableUse(relations[plan.rdd().id()], columns, conditions, attributes)
        return
    kind = class_name(plan)
    below: frozenset[int] | None = None
    met: tuple[Any, ...] = ()
    if kind in _NARROWING:
        below = _references(plan)
    elif kind == "Filter":
        below = None if wanted is None else wanted | _references(plan)
        met = (*conditions, *_conjuncts(plan.condition()))
    for child in sequence(plan.children()):
        yield from _uses(child, relations, below, met)
    for subquery in sequence(plan.subqueries()):
        yield from _uses(subquery, relations)


def _references(plan: Any) -> frozenset[int]:
    return frozenset(each.exprId().id() for each in sequence(plan.references()))


def _conjuncts(condition: Any) -> list[Any]:
    if class_name(condition) != "And":
        return [condition]
    return [*_conjuncts(condition.left()), *_conjuncts(condition.right())]
