"""Write streams into a graph: each batch of a streaming query is one commit, and a repeated batch is not applied again.

The commit has an idempotency key made of the stream and the number of the batch. Spark repeats a batch of unknown
outcome under the same number, and the branch holds the keys of all its commits, so any later process that sends the
batch again finds its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from omnigraph.api.options import Mode
from omnigraph.errors import InvalidArgument, Unsupported
from omnigraph.execution.spark.versions import is_connect, stream_writer_class
from omnigraph.graph import Graph
from omnigraph.pipeline.api import load
from omnigraph.pipeline.changes_source import keeping_type
from omnigraph.pipeline.sink import TypeWrite
from omnigraph.pipeline.source_options import Options
from omnigraph.versioning.refs import MAIN
from omnigraph.write.load import OVERWRITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY_ID = "sql.streaming.queryId"
"""A local property of the jobs of a streaming query; it stays the same as long as the checkpoint does."""

_Base: Any = stream_writer_class() or object
Part = Sequence[str] | Callable[["DataFrame"], "DataFrame"] | None


def batch_key(stream: str, batch_id: int, type_name: str | None = None) -> str:
    """Return the idempotency key of one batch of a stream; that of a writer of one type contains the type."""
    return ":".join(["stream", stream, *([] if type_name is None else [type_name]), str(batch_id)])


def stream_writer(options: Options, overwrite: bool) -> Any:
    """Return the writer of a streaming query through the data source."""
    if _Base is object:
        raise Unsupported(
            "writing streams through the data source needs Spark 4.1 or newer", hint="use pipeline.write_batch"
        )
    if overwrite:
        raise InvalidArgument(
            "output mode complete would replace the type with every batch",
            hint='use outputMode("append"), or pipeline.write_batch with mode "merge" and outputMode("update")',
        )
    return GraphStreamWriter(options)


@dataclass
class _StagedBatch(WriterCommitMessage):  # type: ignore[misc]
    """The answer of a staging task. The committing process has another writer, so the answer holds all it needs."""

    body: bytes
    write: TypeWrite
    query_id: str | None


class GraphStreamWriter(_Base):  # type: ignore[misc]
    """One `df.writeStream.format("omnigraph")`."""

    def __init__(self, options: Options) -> None:
        with keeping_type():
            self._write = TypeWrite.of(options, overwrite=False)
        if self._write.terms.mode == OVERWRITE:
            raise InvalidArgument("mode overwrite is not for streams", hint="use append or merge")
        self._stream = options.get("streamid")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition, in a task."""
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        return _StagedBatch(self._write.stage(iterator), self._write, query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch, once."""
        found = [m for m in messages if isinstance(m, _StagedBatch)]
        if not found:
            return
        stream = self._stream or next((m.query_id for m in found if m.query_id), None)
        if stream is None:
            raise InvalidArgument("Spark does not say which query this is", hint="name the stream: option streamId")
        write = found[0].write
        try:
            with keeping_type():
                write.publish([m.body for m in found], batch_key(stream, batchId, write.type_name))
        finally:
            write.clean_up()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the scratch. Nothing was published; staged files are garbage."""
        for staged in [m for m in messages if isinstance(m, _StagedBatch)][:1]:
            staged.write.clean_up()


def write_batch(
    graph: Graph, parts: Mapping[str, Part], *, stream: str | None = None, mode: Mode = "append", branch: str = MAIN,
    actor: str | None = None, message: str | None = None,
) -> Callable[[DataFrame, int], None]:  # fmt: skip
    """Return a function for `foreachBatch` that writes rows of several types in one commit, each batch once.

    `parts` maps node and edge types to what makes their rows of the batch: a function of its DataFrame, columns as
    `selectExpr` takes them, or None for the batch as it is. `stream` names the stream in the
    keys of its commits; without it the id of the query does, which lasts as long as its checkpoint.
    """
    if mode == OVERWRITE:
        raise InvalidArgument("mode overwrite is not for streams", hint="use append or merge")
    if not parts:
        raise InvalidArgument("there is nothing to write", hint="name types and what makes their rows")

    def write(batch: DataFrame, batch_id: int) -> None:
        spark = batch.sparkSession
        name = stream or (None if is_connect(spark) else spark.sparkContext.getLocalProperty(_QUERY_ID))
        if not name:
            raise InvalidArgument("Spark does not say which query this is", hint="give write_batch a `stream`")
        edges = graph.catalog(branch).edges
        frames = {type_name: _frame(batch, part) for type_name, part in parts.items()}
        load(
            spark, graph, {n: f for n, f in frames.items() if n not in edges},
            {n: f for n, f in frames.items() if n in edges}, mode, branch, actor=actor, message=message,
            idempotency_key=batch_key(name, batch_id),
        )  # fmt: skip

    return write


def _frame(batch: DataFrame, part: Part) -> DataFrame:
    if part is None:
        return batch
    return part(batch) if callable(part) else batch.selectExpr(*part)
