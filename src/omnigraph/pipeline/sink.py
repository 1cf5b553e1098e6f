"""Writing through the data source: tasks stage their partition, one commit publishes all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.execution.spark.frames import parts_by_id
from omnigraph.graph import Graph
from omnigraph.pipeline.restaging import Excluded, RowData, exclude
from omnigraph.pipeline.settle import LoadTerms, Settlement, begin_load, stage_job
from omnigraph.pipeline.staging import StagedSplit, answer, frame_place, message, stage_frame
from omnigraph.storage.layout import STAGING
from omnigraph.versioning.refs import MAIN
from omnigraph.write.attempts import reprepared
from omnigraph.write.load import MODES, OVERWRITE, LoadResult
from omnigraph.write.transaction import WriteTxn

NO_PATH = 'give its path, .load("graph.omni") or .save("graph.omni"); a table of a Spark catalog has none, a view has'
_ENDS = {"src": "from", "dst": "to"}


@dataclass
class _Staged(WriterCommitMessage):  # type: ignore[misc]
    body: bytes


class GraphWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One `df.write.format("omnigraph")`. Spark pickles it to the tasks and to the process that commits."""

    def __init__(self, options: dict[str, str], overwrite: bool) -> None:
        if "path" not in options:
            raise InvalidArgument("the graph is missing", hint=NO_PATH)
        mode = OVERWRITE if overwrite else options.get("mode", "append")
        if mode not in MODES:
            raise InvalidArgument(f"mode {mode!r} is unknown", hint=f"use one of {', '.join(MODES)}")
        graph = Graph.open(options["path"])
        self._uri = graph.uri
        self._terms = LoadTerms(
            mode=mode, branch=options.get("branch", MAIN), actor=options.get("actor"), message=options.get("message")
        )
        catalog = graph.catalog(self._terms.branch)
        if ("type" in options) == ("edge" in options):
            raise InvalidArgument("name a node type with 'type' or an edge type with 'edge'")
        self._type = options.get("type") or options["edge"]
        self._is_edge = "edge" in options
        _ = catalog.edge(self._type) if self._is_edge else catalog.node(self._type)
        txn = self._begin(graph)
        self._job = stage_job(graph.repository.store, txn, self._terms)

    def _begin(self, graph: Graph) -> WriteTxn:
        return begin_load(graph.repository, self._terms)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition, in a task."""
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        batches = (self._named(part) for batch in iterator for part in parts_by_id(batch))
        place = frame_place(self._type, number)
        return _Staged(message(stage_frame(self._job, number, self._type, batches, place)))

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Edges may come with the column names that reading gave them."""
        if not self._is_edge:
            return batch
        return batch.rename_columns([_ENDS.get(name, name) for name in batch.schema.names])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish everything that the tasks staged."""
        staged = {each.number: each for each in (answer(m.body) for m in messages if isinstance(m, _Staged))}
        for number in sorted(staged):
            error = staged[number].error
            if error is not None:
                raise error
        graph = Graph.open(self._uri)
        try:
            if self._terms.mode == OVERWRITE:
                self._settled(graph, staged)
            else:
                reprepared(lambda _: self._settled(graph, staged), fresh_first=True)
        finally:
            self._clean_up(graph)

    def _settled(self, graph: Graph, staged: dict[int, StagedSplit]) -> LoadResult:
        def left_out(excluded: Excluded) -> RowData:
            return exclude(staged, excluded, lambda work, items: [work(self._job, each) for each in items], _no_rows)

        return Settlement(graph.repository.store, self._terms, staged, []).finish(self._begin(graph), left_out)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was published. What was staged is garbage; the scratch goes at once."""
        self._clean_up(Graph.open(self._uri))

    def _clean_up(self, graph: Graph) -> None:
        with contextlib.suppress(OmnigraphError):
            graph.repository.store.objects.delete_prefix(f"{STAGING}/{self._job.commit_id}/")


def _no_rows(_: int) -> bool:
    """A write through the source lists no rejected rows."""
    return False
