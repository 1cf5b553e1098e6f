"""Report one run of a job: log records, OpenLineage events, and a summary in numbers."""

from __future__ import annotations

import datetime as dt
import logging
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph import logs
from omnigraph.api.progress import Listener
from omnigraph.api.results import LoadResult
from omnigraph.api.run_summary import RunSummary, TypeSummary
from omnigraph.graph import Graph
from omnigraph.pipeline.job_model import Job
from omnigraph.pipeline.lineage import ABORT, COMPLETE, FAIL, START, LineageRun, lineage_of
from omnigraph.pipeline.phases import Phases
from omnigraph.write.inputs.s3_access import S3Access


class RunWatch:
    """The data of a run while it runs."""

    def __init__(self, job: Job, graph: Graph, access: S3Access | None, progress: Listener | None) -> None:
        self.run_id = str(uuid.uuid4())
        self.phases = Phases(job.name, progress)
        self._job = job
        self._graph = graph
        self._started_at = dt.datetime.now(dt.UTC)
        self._begun = time.perf_counter()
        self.lineage = LineageRun(lineage_of(job), job, graph, self.run_id, access)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start of the run."""
        return time.perf_counter() - self._begun

    def finished(self, result: LoadResult) -> LoadResult:
        """Return the result with its summary, and report the run as complete."""
        self.lineage.send(COMPLETE, result)
        summary = RunSummary(
            run_id=self.run_id, job=self._job.name, started_at=self._started_at, seconds=self.seconds,
            types=tuple(_types(result)), phases=dict(self.phases.seconds), lineage_error=self.lineage.error,
        )  # fmt: skip
        logs.event(
            "pipeline.finished", job=self._job.name, run=self.run_id, graph=self._graph.uri, branch=result.branch,
            commit=None if result.commit is None else result.commit.graph_commit_id, rows=result.total_entities,
            rejected=len(result.rejected), seconds=round(summary.seconds, 3),
        )  # fmt: skip
        return replace(result, phases=summary.phases, summary=summary)


@contextmanager
def watched_run(job: Job, graph: Graph, access: S3Access | None, progress: Listener | None) -> Iterator[RunWatch]:
    """Report the start of a run, and its failure when the block raises."""
    watch = RunWatch(job, graph, access, progress)
    logs.event("pipeline.started", job=job.name, run=watch.run_id, graph=graph.uri, branch=job.branch)
    watch.lineage.send(START)
    is_done = False
    try:
        yield watch
        is_done = True
    finally:
        if not is_done:
            _report_failure(job, watch, sys.exc_info()[1])


def _report_failure(job: Job, watch: RunWatch, error: BaseException | None) -> None:
    is_stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
    watch.lineage.send(ABORT if is_stopped else FAIL, failure=error)
    logs.event(
        "pipeline.failed", logging.WARNING, job=job.name, run=watch.run_id, code=getattr(error, "code", None),
        message=str(error).partition("\n")[0], seconds=round(watch.seconds, 3),
    )  # fmt: skip


def _types(result: LoadResult) -> Iterator[TypeSummary]:
    for kind, counts in (("node", result.nodes), ("edge", result.edges)):
        for name, written in counts.items():
            sources = [source for source in result.sources if source.type_name == name]
            yield TypeSummary(
                name, kind, sum(each.read for each in sources), written, sum(each.rejected for each in sources),
                sum(sum(each.dropped.values()) for each in sources), result.bytes.get(f"{kind}:{name}", 0),
            )  # fmt: skip
