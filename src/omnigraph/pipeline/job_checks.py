"""Check a job before it runs: types, columns, files and functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.pipeline.job_model import Job, JobSource, NamedSource, Step
from omnigraph.pipeline.job_sources import job_files, named_files
from omnigraph.pipeline.load_plan import check_columns, type_named
from omnigraph.pipeline.sources import plan_splits
from omnigraph.pipeline.user_functions import load_function
from omnigraph.schema.catalog import Catalog
from omnigraph.write.inputs.expectations import ADD
from omnigraph.write.inputs.locations import is_on_s3
from omnigraph.write.rows import known_fields


def validate(job: Job, graph: Graph, *, with_s3: bool = True) -> list[str]:
    """Return the errors of a job that can be found before it runs.

    Without `with_s3`, files on S3 are not checked: only the session may have their credentials.
    """
    catalog = graph.catalog(job.branch if job.from_branch is None else job.from_branch)
    checks: list[Callable[[], None]] = [partial(_check_named, job, each, with_s3=with_s3) for each in job.sources]
    checks += [partial(_check_step, job, each) for each in job.steps]
    for kind, sources in (("node", job.nodes), ("edge", job.edges)):
        checks += [partial(_check_type, job, each, kind, catalog, with_s3=with_s3) for each in sources]
    found: list[str] = []
    for check in checks:
        try:
            check()
        except OmnigraphError as error:
            found.append(error.message if error.hint is None else f"{error.message} ({error.hint})")
    return found


def _check_type(job: Job, source: JobSource, kind: str, catalog: Catalog, *, with_s3: bool) -> None:
    entity = type_named(source.type_name, kind, catalog)
    for name in source.options.get("columns", ()) if source.options.get("unknown") != ADD else ():
        if name not in known_fields(entity):
            entity.property(name)
    if source.input is None and (with_s3 or not any(map(is_on_s3, source.paths))):
        files = job_files(job, source)
        plan_splits([files])
        if files.unknown != ADD:
            check_columns(files, catalog)


def _check_named(job: Job, source: NamedSource, *, with_s3: bool) -> None:
    if source.function is not None:
        load_function(source.function, job.directory, source.origin)
    elif source.paths and (with_s3 or not any(map(is_on_s3, source.paths))):
        plan_splits([named_files(job, source)])


def _check_step(job: Job, step: Step) -> None:
    if step.function is not None:
        load_function(step.function, job.directory, step.origin)
