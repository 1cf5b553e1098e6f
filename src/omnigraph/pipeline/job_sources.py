"""The files behind the sources of a job."""

from __future__ import annotations

from omnigraph.pipeline.job import Job, JobSource
from omnigraph.write.inputs.locations import expand_paths
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.suffixes import kind_of

Listed = dict[str, dict[str, list[Files]]]
"""Sources of each type, under `nodes` and `edges`."""


def job_files(job: Job, source: JobSource, access: S3Access | None = None) -> Files:
    """The files of a source of a job; paths are relative to the job file."""
    paths = expand_paths([job.located(path) for path in source.paths], access)
    return Files(source.type_name, paths, source.format or kind_of(paths[0]), **source.options)


def listed_sources(job: Job, access: S3Access | None) -> Listed:
    """The files of all sources of a job."""
    found: Listed = {"nodes": {}, "edges": {}}
    for section, sources in (("nodes", job.nodes), ("edges", job.edges)):
        for source in sources:
            found[section].setdefault(source.type_name, []).append(job_files(job, source, access))
    return found
