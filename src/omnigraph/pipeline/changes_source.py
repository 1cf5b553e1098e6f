"""The change feed of one type through the data source, as a stream and as a batch.

An offset of a stream is a cursor of the feed: after one complete commit of one branch of one graph, for one type. A
range of commits becomes partitions of pins, so that tasks compute the changes independently. The reader of a stream
lives in a process of Spark's driver as long as the query runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from omnigraph.api.changes import ChangeFilter
from omnigraph.api.commits import GraphCommit
from omnigraph.errors import ChangeFeedGap, ChangeFeedSchemaChanged, InvalidArgument, OmnigraphError, Unsupported
from omnigraph.execution.spark.task_errors import TaskRefusal
from omnigraph.execution.spark.versions import stream_limits
from omnigraph.graph import Graph
from omnigraph.pipeline.change_rows import ChangeColumns, ChangePartition, change_schema, read_changes
from omnigraph.pipeline.source_options import Options, columns_of, entity_of, number_of, path_of, type_name_of
from omnigraph.versioning.changes import Cursor, Feed, reclaimed_as_gap
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.row_images import changed_rows
from omnigraph.versioning.type_changes import TypeChange, TypeChanges

OPTIONS = (
    "changes", "branch", "columns", "images", "startingVersion", "endingVersion", "schemaVersion",
    "maxCommitsPerTrigger", "maxRowsPerTrigger",
)  # fmt: skip
EARLIEST, LATEST = "earliest", "latest"
_IMAGES = ("after", "before_and_after")
_MAX_PARTITIONS = 64
_LIMITS = stream_limits()
_AvailableNow: Any = object if _LIMITS is None else _LIMITS.SupportsTriggerAvailableNow
Offset = dict[str, Any]


def changes_schema(options: Options) -> StructType:
    """Return the columns of a feed: those of the type in one schema version, by default the newest that is read."""
    graph = Graph.open(path_of(options), mode="ro")
    branch = options.get("branch", MAIN)
    version = number_of(options, "schemaVersion") or number_of(options, "endingVersion")
    state = graph.repository.head(branch) if version is None else graph.repository.at_version(version, branch)
    images = options.get("images", _IMAGES[0])
    if images not in _IMAGES:
        raise InvalidArgument(f"images {images!r} is unknown", hint=f"use one of {', '.join(_IMAGES)}")
    entity = entity_of(graph.repository.store.catalog(state.schema_hash), options)
    return change_schema(entity, columns_of(options), with_before=images == _IMAGES[1])


@dataclass(frozen=True)
class ChangeScan:
    """The scope of a query of the feed: one type of one branch, in the columns with which the query began."""

    uri: str
    branch: str
    type_name: str
    columns: ChangeColumns
    start: str | None
    end: int | None
    schema_version: int | None
    max_commits: int | None
    max_rows: int | None

    @classmethod
    def of(cls, options: Options, schema: StructType) -> ChangeScan:
        """Read the options."""
        max_commits, max_rows = number_of(options, "maxCommitsPerTrigger"), number_of(options, "maxRowsPerTrigger")
        if max_commits is not None and max_rows is not None:
            raise InvalidArgument("give one of maxCommitsPerTrigger and maxRowsPerTrigger")
        return cls(
            Graph.open(path_of(options), mode="ro").uri, options.get("branch", MAIN), type_name_of(options),
            ChangeColumns(schema, "columns" not in options), options.get("startingversion"),
            number_of(options, "endingVersion"), number_of(options, "schemaVersion"), max_commits, max_rows,
        )  # fmt: skip


class ChangeLog:
    """The feed of a scan on the driver: commits, and the pins of the changes of each."""

    def __init__(self, scan: ChangeScan) -> None:
        self._scan = scan
        self._repository = Graph.open(scan.uri, mode="ro").repository
        self._found = TypeChanges(self._repository, scan.type_name)
        self._counts: dict[str, int] = {}

    def feed(self, start: Offset | None = None) -> Feed:
        """Return the commits after an offset, or all."""
        wanted = ChangeFilter(types=(self._scan.type_name,))
        cursor = None if start is None else str(start["cursor"])
        return Feed(self._repository, branch=self._scan.branch, cursor=cursor, start="beginning", wanted=wanted)

    def is_at_head(self, offset: Offset) -> bool:
        """Return whether no commit came after an offset; the only read of an idle stream."""
        return Cursor.parse(str(offset["cursor"])).commit_id == self._repository.head(self._scan.branch).head

    def offset_before(self, version: str) -> Offset:
        """Return the offset before the first commit of a version, `earliest` or `latest`."""
        feed = self.feed()
        return offset_after(feed, feed.commits[self._count_before(feed.commits, version) - 1])

    def offset_of_schema(self) -> Offset:
        """The offset after the last of the commits from `schemaVersion` on that have its columns, else the newest.

        For versions of Spark that do not pass the start of a batch.
        """
        feed = self.feed()
        version = self._scan.schema_version
        if version is None:
            return offset_after(feed, feed.commits[-1])
        first = self._count_before(feed.commits, str(version))
        last = feed.commits[first - 1]
        for commit in feed.commits[first:]:
            try:
                last = self.checked(commit).commit
            except ChangeFeedSchemaChanged:
                break
        return offset_after(feed, last)

    def in_versions(self, start: str, end: int | None) -> list[TypeChange]:
        """Return the changes of the commits of some versions, both included."""
        commits = self.feed().commits
        stop = len(commits)
        if end is not None:
            self._require_version(end, "endingVersion")
            stop = self._count_before(commits, str(end + 1))
        return [self.checked(each) for each in commits[self._count_before(commits, start) : stop]]

    def between(self, start: Offset, end: Offset) -> list[TypeChange]:
        """Return the changes of the commits after one offset and up to another."""
        last = Cursor.parse(str(end["cursor"])).commit_id
        if Cursor.parse(str(start["cursor"])).commit_id == last:
            return []
        commits = self.feed(start).commits
        stop = next((at for at, commit in enumerate(commits, 1) if commit.graph_commit_id == last), None)
        if stop is None:
            raise ChangeFeedGap(last)
        return [self.checked(each) for each in commits[:stop]]

    def checked(self, commit: GraphCommit) -> TypeChange:
        """Return the changes of a commit. Raises `ChangeFeedSchemaChanged` when the columns are not the query's."""
        found = self._found.of(commit)
        what = None
        if found.renamed is not None:
            what = f"the type is called {found.renamed}"
        elif found.entity is not None:
            what = self._scan.columns.difference_to(found.entity)
        if what is None:
            return found
        raise ChangeFeedSchemaChanged(
            type_name=self._scan.type_name, commit_id=commit.graph_commit_id, version=commit.manifest_version, what=what
        )

    def count_rows(self, change: TypeChange) -> int:
        """Count the rows that a commit changed. Reads the change; counts are cached by commit."""
        commit_id = change.commit.graph_commit_id
        if commit_id not in self._counts:
            with reclaimed_as_gap(change.commit):
                found = [changed_rows(self._repository.store, *pair, lineal=True) for pair in change.pairs]
            self._counts[commit_id] = sum(len(each.delta.ids) for each in found if each is not None)
        return self._counts[commit_id]

    def _count_before(self, commits: Sequence[GraphCommit], version: str) -> int:
        """Return the number of commits before a version; at least one, since a graph's first commit has no changes."""
        if version == LATEST:
            return len(commits)
        if version == EARLIEST:
            return 1
        if not version.isdecimal() or int(version) < 1:
            raise InvalidArgument(f"startingVersion {version!r} is no version", hint="a number, earliest or latest")
        self._require_version(int(version) - 1, "startingVersion")
        state = self._repository.head(self._scan.branch)
        own = (state.branch, state.native_branch)
        found = (
            at for at, each in enumerate(commits)
            if (each.manifest_branch, each.native_branch) == own and each.manifest_version >= int(version)
        )  # fmt: skip
        return max(1, next(found, len(commits)))

    def _require_version(self, version: int, option: str) -> None:
        newest = self._repository.head(self._scan.branch).version
        if version > newest:
            raise InvalidArgument(
                f"{option}: {self._scan.branch!r} is at version {newest}", hint="`omnigraph log` shows the versions"
            )


def offset_after(feed: Feed, commit: GraphCommit) -> Offset:
    """Return the offset after a commit. The cursor is authoritative; the version makes a checkpoint readable."""
    return {"cursor": feed.cursor_after(commit), "version": commit.manifest_version}


def group_changes(changes: Sequence[TypeChange]) -> list[ChangePartition]:
    """Group commits with changes into partitions, adjacent ones together where there are many."""
    found = [each for each in changes if each.pairs]
    size = -(-len(found) // _MAX_PARTITIONS) or 1
    return [ChangePartition(tuple(found[at : at + size])) for at in range(0, len(found), size)]


@contextmanager
def keeping_type() -> Iterator[None]:
    """Preserve the type of errors in transport through Spark's processes: `pipeline.error_of` finds it."""
    try:
        yield
    except OmnigraphError as error:
        raise TaskRefusal(error) from error


class ChangesReader(DataSourceReader):  # type: ignore[misc]
    """Reads a range of the feed as a batch; the range is resolved once, here."""

    def __init__(self, scan: ChangeScan) -> None:
        if scan.max_commits is not None or scan.max_rows is not None:
            raise InvalidArgument("a limit per trigger is for streams", hint="a batch has `endingVersion`")
        self._uri, self._columns = scan.uri, scan.columns
        with keeping_type():
            self._changes = ChangeLog(scan).in_versions(scan.start or EARLIEST, scan.end)

    def partitions(self) -> list[ChangePartition]:
        """Commits for each task."""
        return group_changes(self._changes) or [ChangePartition(())]

    def read(self, partition: ChangePartition) -> Iterator[pa.RecordBatch]:
        """The rows of some commits, in a task."""
        with keeping_type():
            yield from read_changes(self._uri, self._columns, partition.changes)


class ChangesStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads the feed as a stream. Spark creates one for the driver and pickles another for the tasks."""

    def __init__(self, scan: ChangeScan) -> None:
        if scan.end is not None:
            raise InvalidArgument("endingVersion is for batches", hint="trigger(availableNow=True) ends at the head")
        if _LIMITS is None and (scan.max_commits is not None or scan.max_rows is not None):
            raise Unsupported("limits per trigger need Spark 4.2 or newer", hint="leave the option out")
        self._scan = scan
        self._target: str | None = None

    @cached_property
    def _log(self) -> ChangeLog:
        return ChangeLog(self._scan)

    def initialOffset(self) -> Offset:
        """Return the start of a query without a checkpoint."""
        with keeping_type():
            return self._log.offset_before(self._scan.start or LATEST)

    def prepareForTriggerAvailableNow(self) -> None:
        """Keep the newest commit as the end of the query."""
        with keeping_type():
            self._target = self._log.feed().commits[-1].graph_commit_id

    def getDefaultReadLimit(self) -> Any:
        """Return the limit that the options set, as one of files: Spark has no limit of commits."""
        if self._scan.max_commits is not None:
            return _LIMITS.ReadMaxFiles(self._scan.max_commits)
        if self._scan.max_rows is not None:
            return _LIMITS.ReadMaxRows(self._scan.max_rows)
        return _LIMITS.ReadAllAvailable()

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """Return the end of the next batch: after whole commits, at least one if there is any.

        A batch ends before a commit with other columns, so that the query fails with everything before it delivered.
        """
        with keeping_type():
            if start is None:  # before 4.2
                return self._log.offset_of_schema()
            if self._log.is_at_head(start):
                return start
            feed = self._log.feed(start)
            end = None
            for commit in self._within(feed, limit):
                end = commit
            return start if end is None else offset_after(feed, end)

    def _within(self, feed: Feed, limit: Any) -> Iterator[GraphCommit]:
        """Return the commits of the next batch."""
        most_commits, most_rows = getattr(limit, "max_files", None), getattr(limit, "max_rows", None)
        rows = 0
        for count, commit in enumerate(self._until_target(feed), 1):
            try:
                change = self._log.checked(commit)
            except ChangeFeedSchemaChanged:
                if count == 1:
                    raise
                return
            rows += 0 if most_rows is None else self._log.count_rows(change)
            if count > 1 and most_rows is not None and rows > most_rows:
                return
            yield commit
            if count == most_commits:
                return

    def _until_target(self, feed: Feed) -> Iterator[GraphCommit]:
        """Return the commits after an offset, up to the newest one when an available-now query began."""
        commits = feed.commits
        if self._target is None:
            yield from commits
            return
        ids = [commit.graph_commit_id for commit in commits]
        yield from commits[: ids.index(self._target) + 1] if self._target in ids else ()

    def partitions(self, start: Offset, end: Offset) -> list[ChangePartition]:
        """Commits for each task."""
        with keeping_type():
            return group_changes(self._log.between(start, end))

    def read(self, partition: ChangePartition) -> Iterator[pa.RecordBatch]:
        """The rows of some commits, in a task."""
        with keeping_type():
            yield from read_changes(self._scan.uri, self._scan.columns, partition.changes)
