"""Differences between versions of Spark, in one place, and uses of undocumented functions.

Versions 4.0 to 4.3 are run by `make test-spark-versions`.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import Unsupported

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def newest_java() -> int:
    """Return the newest long-term Java of this version of Spark: before 4.1 it uses classes that Java 24 removed."""
    import pyspark

    return 21 if pyspark.__version__.startswith("4.0.") else 25


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark one. Moments have the zone UTC, which was the only one before 4.2."""
    from pyspark.sql.pandas.types import to_arrow_schema

    has_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    options: dict[str, Any] = {"timezone": "UTC"} if has_zone else {}
    return to_arrow_schema(schema, **options)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of an Arrow one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def stream_limits() -> Any:
    """Return the module of limits of streaming reads, or None: before 4.2 a Python source receives none."""
    try:
        from pyspark.sql.streaming import datasource
    except ImportError:
        return None
    return datasource


def stream_writer_class() -> Any:
    """Return the class of streaming writers that take Arrow, or None before 4.1."""
    from pyspark.sql import datasource

    return getattr(datasource, "DataSourceStreamArrowWriter", None)


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session uses a Spark Connect server, which has no `SparkContext` on this side."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def running_session() -> SparkSession | None:
    """Return the session of this thread, else the default one, of Spark or Spark Connect; None without any."""
    from pyspark.errors import PySparkException

    for module in ("pyspark.sql", "pyspark.sql.connect.session"):
        if module in sys.modules:
            try:
                found = sys.modules[module].SparkSession.active()
            except PySparkException:
                continue
            if is_connect(found) or found.sparkContext._jsc is not None:  # not one whose context was stopped
                return found
    return None


def launched_conf() -> SparkConf:
    """The settings of `spark-submit` and `spark-defaults.conf`; launches the JVM, which reads them, if none runs."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return SparkConf()


def clone_session(spark: SparkSession) -> SparkSession:
    """Copy a session with its settings, temporary views and functions; later changes of either stay its own."""
    if hasattr(spark, "cloneSession"):
        return spark.cloneSession()
    if is_connect(spark):
        raise Unsupported(
            "Spark Connect before 4.1 cannot copy a session", hint="use a newer client, or a classic session"
        )
    from pyspark import RDD
    from pyspark.sql import SparkSession

    to_frame = RDD.toDF
    try:
        return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    finally:
        RDD.toDF = to_frame  # the constructor makes every RDD use the new session


def create_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Call `createDataFrame` without making the session the active one of the thread."""
    if is_connect(spark):
        return spark.createDataFrame(table)
    from pyspark.sql import SparkSession

    sessions = getattr(spark.sparkContext._jvm, "org.apache.spark.sql.classic.SparkSession")
    active, in_thread = SparkSession._activeSession, sessions.getActiveSession()
    try:
        return spark.createDataFrame(table)
    finally:
        SparkSession._activeSession = active
        if in_thread.isDefined():
            sessions.setActiveSession(in_thread.get())
        else:
            sessions.clearActiveSession()


def frame_on(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return a DataFrame of a copy of a session as one of the session itself, where views of it belong."""
    if is_connect(spark):
        return frame
    from pyspark.sql import DataFrame

    dataset = getattr(spark.sparkContext._jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, frame._jdf.queryExecution().analyzed()), spark)


def local_checkpoint(frame: DataFrame, *, eager: bool) -> DataFrame:
    """Call `localCheckpoint`; Spark Connect returns the result on the active session, which may be another."""
    found = frame.localCheckpoint(eager=eager)
    spark = frame.sparkSession
    if not is_connect(spark) or found.sparkSession is spark:
        return found
    plan: Any = found._plan
    plan._spark_session = spark
    made: Any = type(found)
    return made(plan, spark)
