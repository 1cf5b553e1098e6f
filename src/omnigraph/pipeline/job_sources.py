"""The files behind the sources of a job."""

from __future__ import annotations

from omnigraph.pipeline.job_model import Job, JobSource, NamedSource
from omnigraph.write.inputs.locations import expand_paths
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.suffixes import kind_of

Listed = dict[str, dict[str, list[Files | JobSource]]]
"""Sources of each type, under `nodes` and `edges`: files, or the rows of a named source or a step."""


def job_files(job: Job, source: JobSource, access: S3Access | None = None) -> Files:
    """Return the files of a source of a job; paths are relative to the job file."""
    paths = expand_paths([job.located(path) for path in source.paths], access)
    return Files(source.type_name, paths, source.format or kind_of(paths[0]), **source.options)


def named_files(job: Job, source: NamedSource, access: S3Access | None = None, type_name: str | None = None) -> Files:
    """Return the files of a named source; without a type they are reported by its name."""
    paths = expand_paths([job.located(path) for path in source.paths], access)
    return Files(type_name or source.name, paths, source.format or kind_of(paths[0]), **source.options)


def listed_sources(job: Job, access: S3Access | None) -> Listed:
    """Return the files of all sources of a job."""
    found: Listed = {"nodes": {}, "edges": {}}
    for section, sources in (("nodes", job.nodes), ("edges", job.edges)):
        for source in sources:
            rows = job_files(job, source, access) if source.input is None else source
            found[section].setdefault(source.type_name, []).append(rows)
    return found
