"""Write through the data source: tasks stage their partitions, one commit publishes all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph.api.options import MODES
from omnigraph.api.results import LoadResult
from omnigraph.errors import InvalidArgument, OmnigraphError, SchemaMoved
from omnigraph.execution.spark.frames import parts_by_id
from omnigraph.graph import Graph
from omnigraph.pipeline.load_commit import LoadCommit, LoadTerms, begin_load, earlier_load, stage_job
from omnigraph.pipeline.restaging import Excluded, RowData, exclude
from omnigraph.pipeline.source_options import Options, path_of, type_name_of
from omnigraph.pipeline.staging import StagedSplit, StageJob, answer, frame_place, message, stage_frame
from omnigraph.storage.layout import STAGING
from omnigraph.versioning.refs import MAIN
from omnigraph.write.load import OVERWRITE
from omnigraph.write.retries import retry_on_conflict

_ENDS = {"src": "from", "dst": "to"}


@dataclass(frozen=True)
class TypeWrite:
    """Rows of one type on their way into a graph. It is pickled to the tasks that stage them."""

    uri: str
    terms: LoadTerms
    type_name: str
    is_edge: bool
    job: StageJob

    @classmethod
    def of(cls, options: Options, overwrite: bool) -> TypeWrite:
        """Read the options, and the state of the branch that the rows are first checked against."""
        mode = OVERWRITE if overwrite else options.get("mode", "append")
        if mode not in MODES:
            raise InvalidArgument(f"mode {mode!r} is unknown", hint=f"use one of {', '.join(MODES)}")
        graph = Graph.open(path_of(options))
        terms = LoadTerms(
            mode=mode, branch=options.get("branch", MAIN), actor=options.get("actor"), message=options.get("message")
        )
        catalog, name = graph.catalog(terms.branch), type_name_of(options)
        _ = catalog.edge(name) if "edge" in options else catalog.node(name)
        job = stage_job(graph.repository.store, begin_load(graph.repository, terms), terms)
        return cls(graph.uri, terms, name, "edge" in options, job)

    def stage(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        """Stage one partition, in a task."""
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        named = (self._named(part) for batch in batches for part in parts_by_id(batch))
        return message(stage_frame(self.job, number, self.type_name, named, frame_place(self.type_name, number)))

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rename the columns of edges that have the names of reads."""
        if not self.is_edge:
            return batch
        return batch.rename_columns([_ENDS.get(name, name) for name in batch.schema.names])

    def publish(self, answers: Sequence[bytes], idempotency_key: str | None = None) -> LoadResult:
        """Publish everything that the tasks staged, unless a commit with the same key exists."""
        terms = replace(self.terms, idempotency_key=idempotency_key)
        graph = Graph.open(self.uri)
        done = earlier_load(graph.repository, terms)
        if done is not None:
            return done
        staged = {each.number: each for each in map(answer, answers)}
        for number in sorted(staged):
            error = staged[number].error
            if error is not None:
                raise error
        if terms.mode == OVERWRITE:
            result = self._commit_staged(graph, terms, staged)
        else:
            result = retry_on_conflict(lambda _: self._commit_staged(graph, terms, staged), fresh_first=True)
        if isinstance(result, SchemaMoved):
            raise result
        return result

    def _commit_staged(
        self, graph: Graph, terms: LoadTerms, staged: dict[int, StagedSplit]
    ) -> LoadResult | SchemaMoved:
        """Commit. Return a moved schema, since rows checked under another one are unusable."""

        def left_out(excluded: Excluded) -> RowData:
            return exclude(staged, excluded, lambda work, items: [work(self.job, each) for each in items], _no_rows)

        txn = begin_load(graph.repository, terms)
        if txn.base.schema_hash != self.job.schema_hash:
            return SchemaMoved(expected=self.job.schema_hash, actual=txn.base.schema_hash)
        return LoadCommit(graph.repository.store, terms, staged, []).finish(txn, left_out)

    def clean_up(self) -> None:
        """Remove the scratch at once; other staged and unpublished files are garbage."""
        with contextlib.suppress(OmnigraphError):
            Graph.open(self.uri).repository.store.objects.delete_prefix(f"{STAGING}/{self.job.commit_id}/")


@dataclass
class _Staged(WriterCommitMessage):  # type: ignore[misc]
    body: bytes


class GraphWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One `df.write.format("omnigraph")`. Spark pickles it to the tasks and to the process that commits."""

    def __init__(self, options: Options, overwrite: bool) -> None:
        self._write = TypeWrite.of(options, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition, in a task."""
        return _Staged(self._write.stage(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish everything that the tasks staged."""
        try:
            self._write.publish([m.body for m in messages if isinstance(m, _Staged)])
        finally:
            self._write.clean_up()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the scratch. Nothing was published; staged files are garbage."""
        self._write.clean_up()


def _no_rows(_: int) -> bool:
    """Return no rejects: a write through the source lists none."""
    return False
