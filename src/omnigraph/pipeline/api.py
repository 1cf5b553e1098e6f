"""The public functions of the pipeline: `load`, `run`, `export`, on a session and an open graph."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from omnigraph.api.arguments import AtLeast, checked_call
from omnigraph.api.options import Mode
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.errors import JobError
from omnigraph.graph import Graph
from omnigraph.local.writes import fork_if_missing
from omnigraph.pipeline.bulk_load import run_load
from omnigraph.pipeline.incremental import load_again, load_new_files
from omnigraph.pipeline.job_model import Job
from omnigraph.pipeline.job_sources import Listed, listed_sources
from omnigraph.pipeline.load_commit import LoadTerms, earlier_load
from omnigraph.pipeline.load_plan import Source, Sources, planned_load
from omnigraph.pipeline.phases import Phases
from omnigraph.pipeline.run_events import watched_run
from omnigraph.pipeline.s3_settings import s3_access
from omnigraph.versioning.load_lists import LoadList
from omnigraph.versioning.refs import MAIN
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.rejects import write_rejects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@checked_call
def load(
    spark: SparkSession, graph: Graph, nodes: Mapping[str, Source] | None = None,
    edges: Mapping[str, Source] | None = None, mode: Mode = "append", branch: str = MAIN, *, data: Source = None,
    from_branch: str | None = None, actor: str | None = None, message: str | None = None,
    max_errors: Annotated[int, AtLeast(0)] | None = None, dry_run: bool = False, progress: Listener | None = None,
    expect_head: str | None = None, idempotency_key: str | None = None, ignore_unknown: bool = False,
    dedupe_edges: bool = False,
) -> LoadResult:  # fmt: skip
    """Load files and DataFrames of any size in one commit, checked like every other load.

    `nodes` and `edges` map type names to sources; `data` names files of envelope rows. `max_errors` None refuses the
    whole load for one bad row; a number lets so many rows be left out, and the result lists them. The branch
    refuses a load that expects another head, and applies one with an `idempotency_key` once. `ignore_unknown`
    skips columns that a type does not have; `dedupe_edges` skips edges without a key that are there already, or came
    earlier in the load, with the same ends and property values.
    """
    terms = LoadTerms(
        mode=mode, branch=branch, actor=actor, message=message, max_errors=max_errors, dry_run=dry_run,
        expect_head=expect_head, idempotency_key=idempotency_key, ignore_unknown=ignore_unknown,
        dedupe_edges=dedupe_edges,
    )  # fmt: skip
    return load_sources(spark, graph, Sources(nodes or {}, edges or {}, data), terms, from_branch, Phases("", progress))


def load_sources(
    spark: SparkSession, graph: Graph, given: Sources, terms: LoadTerms, from_branch: str | None, phases: Phases
) -> LoadResult:  # fmt: skip
    """Load sources with the given terms. A branch forked for a load that writes nothing is deleted again."""
    created = fork_if_missing(graph.repository, terms.branch, from_branch)
    result: LoadResult | None = None
    sniffed: Mapping[str, Mapping[str, str]] = {}
    try:
        result = earlier_load(graph.repository, terms)
        if result is None:
            with phases.phase("plan", "plan"):
                planned = planned_load(spark, graph, given, terms, phases)
            sniffed = planned.sniffed
            result = run_load(spark, graph.repository, planned, phases)
    except KeyboardInterrupt:
        if created:  # an interrupted load may have been published
            created = False
            graph.repository.refs.delete_unused(terms.branch)
        raise
    finally:
        if created and (result is None or terms.dry_run):
            graph.branches.delete(terms.branch)
    return replace(result, base_branch=from_branch, branch_created=created, sniffed=sniffed)


def run(spark: SparkSession, job: Job, graph: Graph | None = None, progress: Listener | None = None) -> LoadResult:
    """Run a job, and write the rows that it left out to its `rejects`."""
    target, access = graph or open_target(job), s3_access(spark)
    with watched_run(job, target, access, progress) as watch:
        once = partial(_run_once, spark, target, phases=watch.phases)
        if job.incremental:
            result = load_new_files(target, job, access, once)
        else:
            result = once(job, listed_sources(job, access))
        return watch.finished(_with_rejects_written(job, result, access))


def backfill(
    spark: SparkSession, job: Job, graph: Graph | None = None, *, since: dt.datetime | None = None,
    progress: Listener | None = None,
) -> LoadResult:  # fmt: skip
    """Load the files of an incremental job again: all of them, or those that changed since a moment."""
    target, access = graph or open_target(job), s3_access(spark)
    with watched_run(job, target, access, progress) as watch:
        once = partial(_run_once, spark, target, phases=watch.phases)
        return watch.finished(_with_rejects_written(job, load_again(target, job, access, once, since), access))


def _with_rejects_written(job: Job, result: LoadResult, access: S3Access | None) -> LoadResult:
    if job.rejects is not None:
        write_rejects(job.located(job.rejects), (*result.rejected, *result.quarantined), access)
    return result


def _run_once(
    spark: SparkSession, graph: Graph, job: Job, given: Listed, load_list: LoadList | None = None,
    *, phases: Phases,
) -> LoadResult:  # fmt: skip
    terms = LoadTerms(
        mode=job.mode, branch=job.branch, actor=job.actor, message=job.message, max_errors=_max_errors(job),
        dry_run=job.dry_run, expect_head=job.expect_head, idempotency_key=job.idempotency_key,
        ignore_unknown=job.ignore_unknown, dedupe_edges=job.dedupe_edges, load_list=load_list,
    )  # fmt: skip
    return load_sources(spark, graph, Sources(given["nodes"], given["edges"], job=job), terms, job.from_branch, phases)


def open_target(job: Job) -> Graph:
    """Open the graph that a job names."""
    if job.graph is None:
        raise JobError("the job names no graph", hint="add `graph: path`, or give --store")
    return Graph.open(job.located(job.graph))


def _max_errors(job: Job) -> int | None:
    if job.on_error == "fail":
        return None
    return 1_000_000 if job.max_errors is None else job.max_errors
