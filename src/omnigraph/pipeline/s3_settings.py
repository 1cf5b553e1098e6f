"""S3 access from a Spark session: its settings for `s3a`, for input files without access in the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.write.inputs.s3_access import HADOOP_SETTINGS, S3Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def s3_access(spark: SparkSession) -> S3Access | None:
    """Return the access in `spark.hadoop.fs.s3a.*`; settings of the running session take precedence."""
    found: dict[str, str] = {}
    for name in HADOOP_SETTINGS:
        for key in (name, f"spark.hadoop.{name}"):
            value = spark.conf.get(key, "")
            if value:
                found.setdefault(name, str(value))
    return S3Access.of_hadoop(found)
