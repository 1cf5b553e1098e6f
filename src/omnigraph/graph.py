"""`Graph`: the handle on a graph. Each method makes one request of a service."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, Self

import pyarrow as pa

from omnigraph import logs
from omnigraph.api.arguments import AtLeast, Count, EntityId, Remedy, checked
from omnigraph.api.changes import ChangeFeed, EntityChange, Kind, Op
from omnigraph.api.conflicts import Strategy
from omnigraph.api.explanation import Explanation
from omnigraph.api.options import Engine, Format, Mode
from omnigraph.api.progress import Listener
from omnigraph.api.query_result import Result, ResultStream
from omnigraph.api.requests import (
    MAIN,
    DiffTargets,
    ExplainQuery,
    ExportRows,
    LocateTable,
    PollChanges,
    ReadCatalog,
    ReadEntity,
    ReadRows,
    ReadSnapshot,
    RunQuery,
    StreamQuery,
)
from omnigraph.api.results import DeleteResult, ExportResult, LoadResult, MergeResult, MutationResult, RestoreResult
from omnigraph.api.service import GraphService
from omnigraph.api.target import Place, Target
from omnigraph.api.write_requests import (
    CherryPick,
    DeleteEntities,
    LoadRows,
    RestoreTarget,
    RevertCommit,
    RunMutation,
)
from omnigraph.errors import InvalidArgument
from omnigraph.handles.analytics import Analytics
from omnigraph.handles.blobs import Blobs
from omnigraph.handles.branches import Branches
from omnigraph.handles.commits import Commits
from omnigraph.handles.maintenance import Maintenance
from omnigraph.handles.recovery import RecoveryLog
from omnigraph.handles.schema import Schema
from omnigraph.handles.tags import TagNames
from omnigraph.handles.texts import source_of, text_of
from omnigraph.local.engines import find_engine
from omnigraph.local.service import LocalService
from omnigraph.schema.catalog import Catalog
from omnigraph.versioning.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import Snapshot
from omnigraph.versioning.store import Settings
from omnigraph.write.inputs.file_options import FileOptions, file_options

if TYPE_CHECKING:
    from omnigraph.local.graph_state import LocalGraph

QueryName = Annotated[str | None, Remedy("parameters have a name of their own: params={...}")]


@checked
class Graph:
    """A graph on a local path, `file://` or `s3://`.

    >>> import tempfile
    >>> g = Graph.init(tempfile.mkdtemp() + "/g", "node Person { name: String @key }")
    >>> g.load([{"type": "Person", "data": {"name": "Ada"}}], mode="append").total_entities
    1
    """

    def __init__(self, service: GraphService) -> None:
        logs.configure()
        self.service = service
        self.blobs = Blobs(service)
        self.branches = Branches(service)
        self.commits = Commits(service)
        self.tags = TagNames(service)
        self.schema = Schema(service)
        self.recovery = RecoveryLog(service)
        self.maintenance = Maintenance(service)
        self.analytics = Analytics(service)

    @classmethod
    def init(cls, uri: str | os.PathLike[str], schema: str | os.PathLike[str], *, actor: str | None = None) -> Graph:
        """Create a graph. `schema` is the path of a `.pg` file or schema text."""
        text, path = text_of(schema, "schema", ".pg")
        return cls(LocalService.create(uri, text, path=path, actor=actor))

    @classmethod
    def infer(
        cls, files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, options: FileOptions | None = None
    ) -> str:
        """Propose the text of a schema for CSV, Parquet, Arrow, ORC or JSON files. Its comments say why."""
        from omnigraph.write.inference import infer_schema

        paths = [files] if isinstance(files, str | os.PathLike) else list(files)
        return infer_schema(paths, options or FileOptions())

    @classmethod
    def open(
        cls, uri: str | os.PathLike[str], mode: Literal["rw", "ro"] = "rw", *, settings: Settings | None = None
    ) -> Graph:
        """Open a graph for reading and writing (`rw`) or for reading only (`ro`)."""
        return cls(LocalService.open(uri, mode, settings))

    @classmethod
    def clone(
        cls, source: str | os.PathLike[str], target: str | os.PathLike[str], *, progress: Listener | None = None
    ) -> Graph:
        """Copy a graph, with its branches, tags and kept versions, to a place that is empty, and open the copy."""
        return cls(LocalService.clone(source, target, progress))

    def __repr__(self) -> str:
        mode = "read-only, " if self.service.is_read_only else ""
        return f"<Graph {self.uri} ({mode}{'local' if self.service.is_local else 'remote'})>"

    def close(self) -> None:
        """Finish pending maintenance, end the threads and release memory. A `with` block calls it at its end."""
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self.service.uri

    @property
    def local(self) -> LocalGraph:
        """The graph in this process, for engines that stage and publish."""
        found: LocalGraph = self.service.local_graph()
        return found

    @property
    def repository(self) -> Repository:
        """The repository of the graph in this process, from `local`."""
        return self.local.repository

    @property
    def internal_schema_version(self) -> int:
        """The storage format of this graph."""
        return INTERNAL_SCHEMA_VERSION

    # --- writing --------------------------------------------------------------------------------------------------

    def load(
        self, data: Any, mode: Mode = "append", branch: str = MAIN, from_branch: str | None = None,
        actor: str | None = None, engine: Engine = "auto", *, message: str | None = None,
        expect_head: str | None = None, idempotency_key: str | None = None, dry_run: bool = False,
        max_errors: Annotated[int, AtLeast(0)] | None = None, ignore_unknown: bool = False, dedupe_edges: bool = False,
        progress: Listener | None = None, options: FileOptions | None = None,
        columns: Mapping[str, str] | None = None, delimiter: str | None = None, quote: str | None = None,
        escape: str | None = None, header: bool | None = None, names: Sequence[str] | None = None,
        null_values: Sequence[str] | None = None, encoding: str | None = None, date_format: str | None = None,
        datetime_format: str | None = None,
    ) -> LoadResult:  # fmt: skip
        """Write nodes and edges in one commit.

        `data` is a path, several paths, an iterable of envelope rows, or a mapping of type name to a path, a frame
        (pyarrow, pandas, polars) or a list of dicts. `append` refuses ids that exist, `merge` replaces them,
        `overwrite` replaces every row of the types given. `from_branch` forks `branch` when it does not exist yet.
        `dry_run` checks everything and writes nothing, `max_errors` leaves out up to that many bad rows,
        `ignore_unknown` skips columns that a type does not have, `dedupe_edges` edges without a key that are there
        already. The branch applies a load with an `idempotency_key` once, and refuses one that expects another head.
        `progress` is called with `omnigraph.Progress`: how far each phase has come. `engine` is `arrow` (this process),
        `spark`, or `auto`: Spark when a frame is one of Spark. `columns` maps properties to columns of the files, and
        the keywords from `delimiter` on describe the CSV format; `options` (`FileOptions`) holds all of these in one
        value.
        """
        written = file_options(options, {
            "columns": columns, "delimiter": delimiter, "quote": quote, "escape": escape, "header": header,
            "names": names, "null_values": null_values, "encoding": encoding, "date_format": date_format,
            "datetime_format": datetime_format,
        })  # fmt: skip
        request = LoadRows(
            data=data, mode=mode, branch=branch, from_branch=from_branch, engine=engine, actor=actor, message=message,
            expect_head=expect_head, idempotency_key=idempotency_key, dry_run=dry_run, max_errors=max_errors,
            ignore_unknown=ignore_unknown, dedupe_edges=dedupe_edges, options=written,
        )  # fmt: skip
        return self.service.call(request, progress)

    @property
    def spark(self) -> Any:
        """The graph on Spark: DataFrames, SQL views, analytics. Needs `omnigraph[spark]`."""
        return find_engine("spark").view(self)

    def mutate(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str = MAIN, actor: str | None = None, expect_head: str | None = None, *, message: str | None = None,
        idempotency_key: str | None = None, max_entities: Annotated[int, AtLeast(0)] | None = None,
    ) -> MutationResult:  # fmt: skip
        """Run one mutation of a `.gq` text or file as one commit; no commit when nothing matches.

        `expect_head` refuses the mutation if the branch has another head. A request with an `idempotency_key` that the
        branch has seen is not applied again. `max_entities` bounds how many rows of one type it may touch.
        """
        text, path = source_of(query, name)
        return self.service.call(
            RunMutation(
                query=text, name=name, path=path, params=params or {}, branch=branch, actor=actor, message=message,
                expect_head=expect_head, idempotency_key=idempotency_key, max_entities=max_entities,
            )
        )  # fmt: skip

    def delete(
        self,
        type_name: str,
        ids: Sequence[EntityId],
        branch: str = MAIN,
        actor: str | None = None,
        *,
        message: str | None = None,
    ) -> DeleteResult:
        """Remove entities by id, or by the value of their key; removing a node removes every edge that touches it."""
        return self.service.call(
            DeleteEntities(type_name=type_name, ids=ids, branch=branch, actor=actor, message=message)
        )

    def revert(
        self, commit_id: str, branch: str = MAIN, *, strategy: Strategy = None, dry_run: bool = False,
        actor: str | None = None, message: str | None = None,
    ) -> MergeResult:  # fmt: skip
        """Take back what a commit of a branch changed, as a new commit; what was changed since stays.

        Entities that were changed again are conflicts, which `strategy` decides: `ours` keeps them, `theirs` reverts
        them too. `dry_run` only reports.
        """
        return self.service.call(
            RevertCommit(
                commit_id=commit_id, branch=branch, strategy=strategy, dry_run=dry_run, actor=actor, message=message
            )
        )  # fmt: skip

    def cherry_pick(
        self, commit_id: str, branch: str = MAIN, *, strategy: Strategy = None, dry_run: bool = False,
        actor: str | None = None, message: str | None = None,
    ) -> MergeResult:  # fmt: skip
        """Make the changes of one commit, of whatever branch, on `branch` too, as a new commit."""
        return self.service.call(
            CherryPick(
                commit_id=commit_id, branch=branch, strategy=strategy, dry_run=dry_run, actor=actor, message=message
            )
        )  # fmt: skip

    def restore(
        self, at: Target, branch: str = MAIN, *, types: Sequence[str] = (),
        ids: Mapping[str, Sequence[EntityId]] | None = None, dry_run: bool = False, actor: str | None = None,
        message: str | None = None,
    ) -> RestoreResult:  # fmt: skip
        """Make a branch what a target was, as a new commit: all of it, the rows of some types, or some entities.

        The whole graph comes back with its schema. `types` and `ids` (by type) keep the present schema, and what they
        bring back is checked like any other write. Nothing is lost: the state before is a commit like every other.
        """
        return self.service.call(
            RestoreTarget(
                at=at, branch=branch, types=types, ids=ids, dry_run=dry_run, actor=actor, message=message
            )
        )  # fmt: skip

    def export(
        self, target: str | os.PathLike[str] | IO[bytes], format: Format = "jsonl", *, branch: str | None = None,
        snapshot: Target = None, at: Target = None, types: Sequence[str] | None = None,
        progress: Listener | None = None,
    ) -> ExportResult:  # fmt: skip
        """Write rows as JSON lines (a file or stream), Parquet or CSV (a directory with a file per type)."""
        wanted = _one_target(branch, snapshot, at, "an export")
        return self.service.call(ExportRows(target=target, format=format, at=wanted, types=types), progress)

    # --- querying -------------------------------------------------------------------------------------------------

    def query(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, at: Target = None, *, engine: Engine = "arrow",
    ) -> Result:  # fmt: skip
        """Answer one query of a `.gq` text, file or directory from one snapshot.

        `name` chooses among several queries. `at` names the state to read: a branch, tag, version, moment, a commit id
        or its beginning, or a text such as `dev@17` or `main~1`; main's head without it. `engine` is `arrow` (this
        process) or `spark`; the rows are the same.
        """
        wanted = _one_target(branch, snapshot, at, "a query")
        text, path = source_of(query, name)
        return self.service.call(
            RunQuery(query=text, name=name, path=path, params=params or {}, at=wanted, engine=engine)
        )

    def stream(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, at: Target = None, *, max_rows: Count = 65_536,
    ) -> ResultStream:  # fmt: skip
        """Answer like `query`, in Arrow batches of at most `max_rows` rows that are made when they are asked for."""
        wanted = _one_target(branch, snapshot, at, "a query")
        text, path = source_of(query, name)
        return self.service.call(
            StreamQuery(query=text, name=name, path=path, params=params or {}, at=wanted, max_rows=max_rows)
        )

    def explain(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, *, at: Target = None, analyze: bool = False,
    ) -> Explanation:  # fmt: skip
        """What a query means and the plan it follows; with `analyze` it is run, and each operator measured."""
        wanted = _one_target(branch, snapshot, at, "a query")
        text, path = source_of(query, name)
        return self.service.call(
            ExplainQuery(query=text, name=name, path=path, params=params, at=wanted, analyze=analyze)
        )

    # --- reading --------------------------------------------------------------------------------------------------

    def snapshot(self, at: Target = None) -> Snapshot:
        """What a branch, tag, commit or manifest version of main holds. None is main's head."""
        found: Snapshot = self.service.call(ReadSnapshot(at=at))
        return found

    snapshot_of = snapshot

    def snapshot_at_version(self, version: int, branch: str = MAIN) -> Snapshot:
        """A branch as it was at one of its manifest versions."""
        return self.snapshot(Place(branch, version))

    def snapshot_at_time(self, moment: dt.datetime, branch: str = MAIN) -> Snapshot:
        """A branch as it was at a moment; a time without a zone is in UTC."""
        return self.snapshot(Place(branch, moment))

    def entity_at(
        self, table_key: str, entity_id: EntityId, at: Target = None, *, version: Target = None
    ) -> dict[str, Any] | None:
        """One entity, with its public property names, as of a target; None when it does not exist there."""
        return self.service.call(ReadEntity(table_key=table_key, entity_id=entity_id, at=version if at is None else at))

    def rows(self, table_key: str, at: Target = None) -> pa.Table:
        """All rows of a type, with public property names, as of a target."""
        return self.service.call(ReadRows(table_key=table_key, at=at))

    def table(self, table_key: str, at: Target = None) -> tuple[str, int]:
        """The Lance dataset URI and version behind a type, for tools that read Lance themselves."""
        return self.service.call(LocateTable(table_key=table_key, at=at))

    def catalog(self, at: Target = None) -> Catalog:
        """The schema as of a target."""
        return self.service.call(ReadCatalog(at=at))

    # --- what changed ---------------------------------------------------------------------------------------------

    def diff(
        self, a: Target, b: Target = None, *, kinds: Sequence[Kind] = (), types: Sequence[str] = (),
        ops: Sequence[Op] = (),
    ) -> Iterator[EntityChange]:  # fmt: skip
        """What would turn target `a` into target `b`, entity by entity: nodes before edges, then by type and id."""
        return self.service.call(DiffTargets(a=a, b=b, kinds=kinds, types=types, ops=ops))

    def changes(
        self, cursor: str | None = None, start: str = "now", branch: str = MAIN, *, limit: Count | None = None,
        kinds: Sequence[Kind] = (), types: Sequence[str] = (), ops: Sequence[Op] = (),
    ) -> ChangeFeed:  # fmt: skip
        """The commits of a branch after a cursor, oldest first, each with what it changed.

        Without a cursor the feed begins `now`, at the `beginning`, or `after:<commit id>`. Keep the cursor of a block
        once it is processed: a consumer that crashes and resumes sees every commit at least once, in order.
        """
        return self.service.call(
            PollChanges(cursor=cursor, start=start, branch=branch, limit=limit, kinds=kinds, types=types, ops=ops)
        )


def _one_target(branch: str | None, snapshot: Target, at: Target, reader: str) -> Target:
    """Return the target that `at`, `branch` or `snapshot` names; a moment may be that of a branch."""
    if branch is not None and snapshot is None and isinstance(at, dt.datetime):
        return Place(branch, at)
    given = [each for each in (branch, snapshot, at) if each is not None]
    if len(given) > 1:
        raise InvalidArgument(f"{reader} reads one state, and several are named", hint="give `at` alone")
    return given[0] if given else None
