"""The pipeline on Spark: load, read, export and analyse graphs of any size.

Modules are imported on first use, so `import omnigraph` needs neither Spark nor a JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.execution.spark.task_errors import error_of
    from omnigraph.pipeline.api import backfill, load, run
    from omnigraph.pipeline.cdc_frames import Changes
    from omnigraph.pipeline.decorators import Pipeline, expect, expect_or_drop, expect_or_fail
    from omnigraph.pipeline.frame_rows import Rows
    from omnigraph.pipeline.incremental import job_status
    from omnigraph.pipeline.job import read_job
    from omnigraph.pipeline.job_checks import validate
    from omnigraph.pipeline.job_model import Lineage
    from omnigraph.pipeline.spark_analytics import SparkAnalytics as analytics
    from omnigraph.pipeline.spark_export import export
    from omnigraph.pipeline.spark_maintenance import build_indices, optimize
    from omnigraph.pipeline.spark_merge import merge
    from omnigraph.pipeline.spark_session import session
    from omnigraph.pipeline.stream_sink import write_batch
    from omnigraph.pipeline.views import read_type, register_views
    from omnigraph.pipeline.worker_code import send_code
    from omnigraph.write.inputs.change_events import Cdc
    from omnigraph.write.inputs.expectations import Expectation
    from omnigraph.write.inputs.source_files import Files

_WHERE = {
    "analytics": ("omnigraph.pipeline.spark_analytics", "SparkAnalytics"),
    "Cdc": ("omnigraph.write.inputs.change_events", "Cdc"),
    "Changes": ("omnigraph.pipeline.cdc_frames", "Changes"),
    "backfill": ("omnigraph.pipeline.api", "backfill"),
    "build_indices": ("omnigraph.pipeline.spark_maintenance", "build_indices"),
    "error_of": ("omnigraph.execution.spark.task_errors", "error_of"),
    "expect": ("omnigraph.pipeline.decorators", "expect"),
    "expect_or_drop": ("omnigraph.pipeline.decorators", "expect_or_drop"),
    "expect_or_fail": ("omnigraph.pipeline.decorators", "expect_or_fail"),
    "export": ("omnigraph.pipeline.spark_export", "export"),
    "Expectation": ("omnigraph.write.inputs.expectations", "Expectation"),
    "Files": ("omnigraph.write.inputs.source_files", "Files"),
    "job_status": ("omnigraph.pipeline.incremental", "job_status"),
    "load": ("omnigraph.pipeline.api", "load"),
    "merge": ("omnigraph.pipeline.spark_merge", "merge"),
    "optimize": ("omnigraph.pipeline.spark_maintenance", "optimize"),
    "Lineage": ("omnigraph.pipeline.job_model", "Lineage"),
    "Pipeline": ("omnigraph.pipeline.decorators", "Pipeline"),
    "Rows": ("omnigraph.pipeline.frame_rows", "Rows"),
    "read_job": ("omnigraph.pipeline.job", "read_job"),
    "read_type": ("omnigraph.pipeline.views", "read_type"),
    "register_views": ("omnigraph.pipeline.views", "register_views"),
    "run": ("omnigraph.pipeline.api", "run"),
    "send_code": ("omnigraph.pipeline.worker_code", "send_code"),
    "session": ("omnigraph.pipeline.spark_session", "session"),
    "validate": ("omnigraph.pipeline.job_checks", "validate"),
    "write_batch": ("omnigraph.pipeline.stream_sink", "write_batch"),
}

__all__ = [
    "Cdc",
    "Changes",
    "Expectation",
    "Files",
    "Lineage",
    "Pipeline",
    "Rows",
    "analytics",
    "backfill",
    "build_indices",
    "error_of",
    "expect",
    "expect_or_drop",
    "expect_or_fail",
    "export",
    "job_status",
    "load",
    "merge",
    "optimize",
    "read_job",
    "read_type",
    "register_views",
    "run",
    "send_code",
    "session",
    "validate",
    "write_batch",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, member = _WHERE[name]
    return getattr(importlib.import_module(module), member)
