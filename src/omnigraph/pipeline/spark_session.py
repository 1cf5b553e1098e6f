"""Sessions: the running one or a new one for the user, and copies of it for work with settings of its own.

The user's session is never changed: its settings and its views are the user's. Settings that a query of a graph or an
export needs are made on a copy of it, and DataFrames of the copy are returned on the user's session.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.errors import Unsupported
from omnigraph.execution.spark import versions
from omnigraph.execution.spark.versions import is_connect
from omnigraph.pipeline.java import provide_java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import DataFrame, SparkSession

_DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
}
"""Defaults of a session that is started here, where neither code, options nor `spark-defaults.conf` set them."""

_UNATTENDED = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
"""Further defaults of a session that no `spark-submit` started: no web page."""

_LOCAL = {
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "8",
}  # fmt: skip
_NEEDED = {
    # Property names of a graph are case sensitive; Spark's are only with this setting.
    "spark.sql.caseSensitive": "true",
    # A moment without a zone is one of UTC, and a value that cannot be cast is an error and not a null.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # A session may have one row to a batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
_JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
_LATE_OPTIMISATION = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
_ROWS_AT_ONCE = "spark.sql.execution.arrow.localRelationThreshold"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FEW_BYTES = 1 << 20
_ROWS_PER_PART = 1 << 20


def session(
    master: str | None = None, app_name: str | None = None, config: Mapping[str, Any] | None = None
) -> SparkSession:
    """The running session when there is one, else a new one.

    A running session, of any thread, is returned unchanged. A new one has the settings of `spark-submit` and
    `spark-defaults.conf`; `master` and `config` win over them, and they over the defaults here. Without a master of
    either kind it is that of `SPARK_MASTER`, else `local[*]`. The session knows the data source `omnigraph`.
    """
    return with_source(plain_session(master, app_name, config))


def plain_session(
    master: str | None = None, app_name: str | None = None, config: Mapping[str, Any] | None = None, *,
    progress: Listener | None = None,
) -> SparkSession:  # fmt: skip
    """Return the session of `session`, perhaps without the data source: Spark starts a Python process to register it.

    Loads, queries and maintenance do not need the source. `progress` receives the phase `start` of a new session.
    """
    spark_module()
    running = versions.running_session()
    if running is not None:
        return running
    with PhaseProgress(progress, "start", 1, "steps"):
        return _started(master, app_name, config or {})


def with_source(spark: SparkSession) -> SparkSession:
    """Register the data source `omnigraph` with a session, and return it."""
    from omnigraph.pipeline.datasource import OmnigraphSource

    spark.dataSource.register(OmnigraphSource)
    return spark


def work_session(spark: SparkSession) -> SparkSession:
    """Copy a session with its settings, views and functions, and add the settings of internal work."""
    copy = versions.clone_session(spark)
    for name, value in _NEEDED.items():
        copy.conf.set(name, value)
    return copy


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame. Rows of a large one stay Arrow, a part per task, until tasks convert them.

    Spark's default converts up to 48 MB to rows at once, on the driver, where they take ten times the memory.
    """
    if is_connect(spark):
        return versions.create_frame(spark, table)
    copy = work_session(spark)
    if table.nbytes < _FEW_BYTES:
        return versions.frame_on(spark, versions.create_frame(copy, table))
    parts = max(1, spark.sparkContext.defaultParallelism, -(-table.num_rows // _ROWS_PER_PART))
    copy.conf.set(_ROWS_AT_ONCE, "0")
    copy.conf.set(_BATCH_ROWS, str(-(-table.num_rows // parts)))
    return versions.frame_on(spark, versions.create_frame(copy, table.combine_chunks()))


def spark_module() -> Any:
    """Return `pyspark`, or raise an error with the way to install it."""
    try:
        import pyspark
    except ImportError as error:
        raise Unsupported("Spark is not installed", hint="pip install 'omnigraph[spark]'") from error
    return pyspark


def _started(master: str | None, app_name: str | None, config: Mapping[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession

    remote = master if master is not None and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return SparkSession.builder.remote(remote).config(map=dict(config)).getOrCreate()
    has_gateway = "PYSPARK_GATEWAY_PORT" in os.environ
    is_submitted = has_gateway or "PYSPARK_SUBMIT_ARGS" in os.environ
    if not has_gateway:
        provide_java()
    if not is_submitted:
        # The JVM finds data sources with the Python that its environment names, by default any `python3`.
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with _QuietLaunch(), contextlib.nullcontext() if is_submitted else _QuickStart():
        conf = versions.launched_conf()
        chosen = master or (None if is_submitted else os.environ.get("SPARK_MASTER"))
        given = {**({"spark.master": chosen} if chosen else {}), **config}
        for key, value in given.items():
            conf.set(key, str(value))
        _name(conf, app_name, is_submitted=is_submitted)
        local = _LOCAL if conf.get("spark.master", "").startswith("local") else {}
        for key, value in {**_DEFAULTS, **local, **({} if is_submitted else _UNATTENDED)}.items():
            conf.setIfMissing(key, value)
        if not is_submitted:
            os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
        if not (is_submitted or conf.contains("spark.log.level")):
            spark.sparkContext.setLogLevel("ERROR")
    return spark


def _name(conf: SparkConf, app_name: str | None, *, is_submitted: bool) -> None:
    """Name the application, which Spark otherwise calls `pyspark-shell`."""
    is_unnamed = not is_submitted and conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell"
    if app_name is not None or is_unnamed:
        conf.setAppName(app_name or "omnigraph")


class _QuickStart:
    """Raise the optimisation threshold of a JVM launched here tenfold.

    Spark's start and its first job run much code a few times: compiling it takes a third of their processor time.
    """

    def __enter__(self) -> None:
        self._before = os.environ.get(_JVM_OPTIONS)
        os.environ[_JVM_OPTIONS] = f"{_LATE_OPTIMISATION} {self._before or ''}".strip()

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del os.environ[_JVM_OPTIONS]
        else:
            os.environ[_JVM_OPTIONS] = self._before


class _QuietLaunch:
    """Discard the launcher's banner and log warnings: a JVM inherits the descriptor, so it is swapped."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self._kept = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if os.environ.get("OMNIGRAPH_SPARK_LOG") != "on":
            os.dup2(nowhere, 2)
        os.close(nowhere)

    def __exit__(self, *_: object) -> None:
        os.dup2(self._kept, 2)
        os.close(self._kept)
