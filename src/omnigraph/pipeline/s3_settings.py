"""What a Spark session says about S3: its settings for `s3a`, for input files where the environment says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.write.inputs.s3_access import HADOOP_SETTINGS, S3Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def s3_access(spark: SparkSession) -> S3Access | None:
    """The access that `spark.hadoop.fs.s3a.*` gives; settings made on the running session win."""
    found: dict[str, str] = {}
    for name in HADOOP_SETTINGS:
        for key in (name, f"spark.hadoop.{name}"):
            value = spark.conf.get(key, "")
            if value:
                found.setdefault(name, str(value))
    return S3Access.of_hadoop(found)
