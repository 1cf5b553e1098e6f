"""`Graph`: the handle on a graph root. Each method is a few lines over the packages below."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Annotated, Any, Literal

import pyarrow as pa

from omnigraph import logs
from omnigraph.api.arguments import AtLeast, Count, EntityId, Remedy, checked
from omnigraph.api.changes import ChangeFilter, EntityChange, Kind, Op
from omnigraph.api.conflicts import Strategy
from omnigraph.api.explanation import Explanation
from omnigraph.api.options import Engine, Format, Mode
from omnigraph.api.progress import Listener
from omnigraph.api.query_result import Result, ResultStream
from omnigraph.api.results import DeleteResult, ExportResult, LoadResult, MergeResult, MutationResult, RestoreResult
from omnigraph.api.target import Target
from omnigraph.errors import InvalidArgument, NotFound, OmnigraphError
from omnigraph.execution.arrow.data import GraphData
from omnigraph.execution.arrow.engine import ArrowExecutor
from omnigraph.handles.analytics import Analytics
from omnigraph.handles.blobs import Blobs
from omnigraph.handles.branches import Branches
from omnigraph.handles.commits import Commits
from omnigraph.handles.engines import find_engine, holds_spark_frames
from omnigraph.handles.maintenance import Maintenance
from omnigraph.handles.queries import Queries, source_of, text_of
from omnigraph.handles.recovery import RecoveryLog
from omnigraph.handles.schema import Schema
from omnigraph.handles.tags import TagNames
from omnigraph.maintenance.copying import copy_graph
from omnigraph.query import bind_params
from omnigraph.query.ir import QueryIR
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.identity import id_text
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.lookup import in_list
from omnigraph.versioning.changes import Feed, changes_between, require_types
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.snapshot import Snapshot, TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.stamp import INTERNAL_SCHEMA_VERSION
from omnigraph.versioning.store import GraphStore, Settings
from omnigraph.write.attempts import reprepared
from omnigraph.write.create import create_graph
from omnigraph.write.delete import delete_entities
from omnigraph.write.export import export_rows
from omnigraph.write.inference import infer_schema
from omnigraph.write.inputs.file_options import FileOptions, file_options
from omnigraph.write.load import APPEND, OVERWRITE, LoadRequest, load_rows
from omnigraph.write.mutate import MutationRequest, mutate
from omnigraph.write.sources import holds_few_rows, inputs_of
from omnigraph.write.undo import Author, cherry_pick, restore_graph, restore_rows, revert_commit, terms_of

QueryName = Annotated[str | None, Remedy("parameters have a name of their own: params={...}")]


@checked
class Graph:
    """A graph on a local path, `file://` or `s3://`.

    >>> import tempfile
    >>> g = Graph.init(tempfile.mkdtemp() + "/g", "node Person { name: String @key }")
    >>> g.load([{"type": "Person", "data": {"name": "Ada"}}], mode="append").total_entities
    1
    """

    def __init__(self, store: GraphStore) -> None:
        logs.configure()
        self._store = store
        self._repository = Repository(store)
        self.blobs = Blobs(self._repository)
        self.branches = Branches(self._repository)
        self.commits = Commits(self._repository)
        self.tags = TagNames(self._repository)
        self.schema = Schema(self._repository)
        self.recovery = RecoveryLog(self._repository)
        self.maintenance = Maintenance(self._repository)
        self._executor = ArrowExecutor(store)
        self._asking = Queries(self._repository, self._executor)
        self.analytics = Analytics(self._data, self.load)

    @classmethod
    def init(cls, uri: str | os.PathLike[str], schema: str | os.PathLike[str], *, actor: str | None = None) -> Graph:
        """Create a graph. `schema` is the path of a `.pg` file or schema text."""
        text, path = text_of(schema, "schema", ".pg")
        return cls(create_graph(GraphRoot.parse(uri), text, schema_path=path, actor=actor))

    @classmethod
    def infer(
        cls, files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, options: FileOptions | None = None
    ) -> str:
        """Propose the text of a schema for CSV, Parquet, Arrow, ORC or JSON files. Its comments say why."""
        paths = [files] if isinstance(files, str | os.PathLike) else list(files)
        return infer_schema(paths, options or FileOptions())

    @classmethod
    def open(
        cls, uri: str | os.PathLike[str], mode: Literal["rw", "ro"] = "rw", *, settings: Settings | None = None
    ) -> Graph:
        """Open a graph for reading and writing (`rw`) or for reading only (`ro`)."""
        graph = cls(GraphStore(GraphRoot.parse(uri), read_only=mode == "ro", settings=settings))
        graph._repository.head(MAIN)
        if mode == "rw":
            graph._repository.recovery.run()
        return graph

    @classmethod
    def clone(
        cls, source: str | os.PathLike[str], target: str | os.PathLike[str], *, progress: Listener | None = None
    ) -> Graph:
        """Copy a graph, with its branches, tags and kept versions, to a place that is empty, and open the copy."""
        found = cls(GraphStore(GraphRoot.parse(source), read_only=True))
        found._repository.head(MAIN)
        copy_graph(found._repository, GraphRoot.parse(target), fresh=True, progress=progress)
        return cls.open(target)

    def __repr__(self) -> str:
        mode = "read-only, " if self._store.read_only else ""
        return f"<Graph {self.uri} ({mode}{'local' if self._store.root.is_local else 'remote'})>"

    @property
    def uri(self) -> str:
        """Where the graph lies."""
        return self._store.root.uri

    @property
    def repository(self) -> Repository:
        """The graph below the facade, for engines that stage and publish by themselves."""
        return self._repository

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
        `dry_run` checks everything and writes nothing, `max_errors` leaves out so many bad rows, `ignore_unknown` skips
        columns that a type does not have, `dedupe_edges` edges without a key that are there already. The branch applies
        a load with an `idempotency_key` once, and refuses one that expects another head. `progress` is called with
        `omnigraph.Progress`: how far each phase has come. `engine` is `arrow` (this process), `spark`, or `auto`: Spark
        when a frame is one of Spark. `columns` maps properties to columns of the files, and the keywords from
        `delimiter` on say how CSV is written, or `options` says all of that: `FileOptions`.
        """
        written = file_options(options, {
            "columns": columns, "delimiter": delimiter, "quote": quote, "escape": escape, "header": header,
            "names": names, "null_values": null_values, "encoding": encoding, "date_format": date_format,
            "datetime_format": datetime_format,
        })  # fmt: skip
        if engine == "spark" or (engine == "auto" and holds_spark_frames(data)):
            done: LoadResult = find_engine("spark").load(
                self, data, mode, branch, from_branch=from_branch, actor=actor, message=message,
                expect_head=expect_head, idempotency_key=idempotency_key, dry_run=dry_run, max_errors=max_errors,
                ignore_unknown=ignore_unknown, dedupe_edges=dedupe_edges, progress=progress, options=written,
            )  # fmt: skip
            return done
        request = LoadRequest(
            inputs=inputs_of(data, written), mode=mode, branch=branch, actor=actor, message=message,
            expect_head=expect_head, idempotency_key=idempotency_key, dry_run=dry_run, max_errors=max_errors,
            ignore_unknown=ignore_unknown, dedupe_edges=dedupe_edges, progress=progress,
            is_small=holds_few_rows(data),
        )  # fmt: skip
        created = self.fork_if_missing(branch, from_branch)

        def attempt(fresh: bool) -> LoadResult:
            return load_rows(self._repository, request, fresh=fresh)

        fresh_first = mode != APPEND or self._store.root.is_local
        try:
            result = attempt(True) if mode == OVERWRITE else reprepared(attempt, fresh_first=fresh_first)
        except OmnigraphError:
            if created:  # a refused load leaves nothing behind, also not the branch it would have begun
                self._repository.refs.delete(branch)
            raise
        except KeyboardInterrupt:
            if created:  # it may have been published when it was stopped
                self._repository.refs.delete_unused(branch)
            raise
        if created and request.dry_run:
            self._repository.refs.delete(branch)
        return replace(result, base_branch=from_branch, branch_created=created)

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

        `expect_head` refuses a branch that moved on. A request with an `idempotency_key` that the branch has seen is
        not applied again. `max_entities` bounds how many rows of one type it may touch.
        """
        text, path = source_of(query, name)
        self._store.require_writable()

        def request(fresh: bool) -> MutationRequest:
            state = self._repository.head(branch) if fresh else self._repository.recent_head(branch)
            compiled = self._asking.compiled(
                text, self._store.catalog(state.schema_hash), state.schema_hash, name, path
            )
            if isinstance(compiled, QueryIR):
                raise InvalidArgument(f"{compiled.name} is a read, not a mutation", hint="use query() for reads")
            return MutationRequest(
                query=compiled, schema_hash=state.schema_hash, params=bind_params(compiled, params or {}),
                branch=branch, actor=actor, message=message, expect_head=expect_head,
                idempotency_key=idempotency_key, max_entities=max_entities,
            )  # fmt: skip

        try:
            first = request(fresh=False)
        except OmnigraphError:  # of a state that is some seconds old: the newest may have what is missing there
            first = request(fresh=True)
        if not first.only_inserts:
            return mutate(self._repository, first)
        return reprepared(
            lambda fresh: mutate(self._repository, request(fresh), fresh=fresh), fresh_first=self._store.root.is_local
        )

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
        return delete_entities(self._repository, type_name, ids, branch=branch, actor=actor, message=message)

    def revert(
        self, commit_id: str, branch: str = MAIN, *, strategy: Strategy = None, dry_run: bool = False,
        actor: str | None = None, message: str | None = None,
    ) -> MergeResult:  # fmt: skip
        """Take back what a commit of a branch changed, as a new commit; what was changed since stays.

        Entities that were changed again are conflicts, which `strategy` decides: `ours` keeps them, `theirs` takes them
        back all the same. `dry_run` only tells.
        """
        terms = terms_of(strategy, property_level=True)
        author = Author(actor=actor, message=message)
        return reprepared(
            lambda _: revert_commit(self._repository, commit_id, branch, terms=terms, author=author, dry_run=dry_run),
            fresh_first=True,
        )

    def cherry_pick(
        self, commit_id: str, branch: str = MAIN, *, strategy: Strategy = None, dry_run: bool = False,
        actor: str | None = None, message: str | None = None,
    ) -> MergeResult:  # fmt: skip
        """Make the changes of one commit, of whatever branch, on `branch` too, as a new commit."""
        terms = terms_of(strategy, property_level=True)
        author = Author(actor=actor, message=message)
        return reprepared(
            lambda _: cherry_pick(self._repository, commit_id, branch, terms=terms, author=author, dry_run=dry_run),
            fresh_first=True,
        )

    def restore(
        self, at: Target, branch: str = MAIN, *, types: Sequence[str] = (),
        ids: Mapping[str, Sequence[EntityId]] | None = None, dry_run: bool = False, actor: str | None = None,
        message: str | None = None,
    ) -> RestoreResult:  # fmt: skip
        """Make a branch what a target was, as a new commit: all of it, the rows of some types, or some entities.

        The whole graph comes back with its schema. `types` and `ids` (by type) keep the present schema, and what they
        bring back is checked like any other write. Nothing is lost: the state before is a commit like every other.
        """
        author = Author(actor=actor, message=message)
        if not types and ids is None:
            return restore_graph(self._repository, at, branch, author=author, dry_run=dry_run)
        wanted: dict[str, Sequence[EntityId] | None] = {**(ids or {}), **dict.fromkeys(types)}
        return restore_rows(self._repository, at, branch, wanted, author=author, dry_run=dry_run)

    def export(
        self, target: str | os.PathLike[str] | IO[bytes], format: Format = "jsonl", *, branch: str | None = None,
        snapshot: Target = None, at: Target = None, types: Sequence[str] | None = None,
        progress: Listener | None = None,
    ) -> ExportResult:  # fmt: skip
        """Write rows as JSON lines (a file or stream), Parquet or CSV (a directory with a file per type)."""
        given = [each for each in (branch, snapshot, at) if each is not None]
        if len(given) > 1:
            raise InvalidArgument("an export reads one state, and several are named", hint="give `at` alone")
        state = self._repository.resolve(given[0] if given else None)
        with self._repository.reading(state):
            return export_rows(self._store, state, target, format=format, types=types, progress=progress)

    # --- querying -------------------------------------------------------------------------------------------------

    def query(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, at: Target = None, *, engine: Engine = "arrow",
    ) -> Result:  # fmt: skip
        """Answer one query of a `.gq` text, file or directory from one snapshot.

        `name` chooses among several queries. `at` says what is read: a branch, tag, version, moment, a commit id or its
        beginning, or a text such as `dev@17` or `main~1`; main's head without it. `engine` is `arrow` (this process) or
        `spark`; the rows are the same.
        """
        return self._asking.ask(query, name, params or {}, branch, snapshot, at, engine)

    def stream(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, at: Target = None, *, max_rows: Count = 65_536,
    ) -> ResultStream:  # fmt: skip
        """Answer like `query`, in Arrow batches of at most `max_rows` rows that are made when they are asked for."""
        return self._asking.stream(query, name, params or {}, branch, snapshot, at, max_rows)

    def explain(
        self, query: str | os.PathLike[str], name: QueryName = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, *, at: Target = None, analyze: bool = False,
    ) -> Explanation:  # fmt: skip
        """What a query means and the plan it follows; with `analyze` it is run, and each operator measured."""
        return self._asking.explain(query, name, params, branch, snapshot, at, analyze=analyze)

    def _data(self, at: Target) -> GraphData:
        state = self._repository.resolve(at)
        return self._executor.data(state.snapshot, self._store.catalog(state.schema_hash))

    # --- reading --------------------------------------------------------------------------------------------------

    def snapshot(self, at: Target = None) -> Snapshot:
        """What a branch, tag, commit or manifest version of main holds. None is main's head."""
        return self._repository.resolve(at).snapshot

    snapshot_of = snapshot

    def snapshot_at_version(self, version: int, branch: str = MAIN) -> Snapshot:
        """A branch as it was at one of its manifest versions."""
        return self._repository.at_version(version, branch).snapshot

    def snapshot_at_time(self, moment: dt.datetime, branch: str = MAIN) -> Snapshot:
        """A branch as it was at a moment; a time without a zone is in UTC."""
        return self._repository.at_time(moment, branch).snapshot

    def entity_at(
        self, table_key: str, entity_id: EntityId, at: Target = None, *, version: Target = None
    ) -> dict[str, Any] | None:
        """One entity, with its public property names, as of a target; None when it does not exist there."""
        state = self._repository.resolve(version if at is None else at)
        entity = self._store.catalog(state.schema_hash).entity(table_key)
        rows = self._public_rows(state, table_key, where=in_list("id", [id_text(entity, entity_id)]))
        found: list[dict[str, Any]] = rows.to_pylist()
        return found[0] if found else None

    def rows(self, table_key: str, at: Target = None) -> pa.Table:
        """All rows of a type, with public property names, as of a target."""
        return self._public_rows(self._repository.resolve(at), table_key, where=None)

    def table(self, table_key: str, at: Target = None) -> tuple[str, int]:
        """The Lance dataset URI and version behind a type, for tools that read Lance themselves."""
        state = self._repository.resolve(at)
        entry = state.snapshot.table(self._store.catalog(state.schema_hash).entity(table_key).table_key)
        return self._store.root.join(entry.location), entry.staged_version

    def catalog(self, at: Target = None) -> Catalog:
        """The schema as of a target."""
        return self._store.catalog(self._repository.resolve(at).schema_hash)

    # --- what changed ---------------------------------------------------------------------------------------------

    def diff(
        self, a: Target, b: Target = None, *, kinds: Sequence[Kind] = (), types: Sequence[str] = (),
        ops: Sequence[Op] = (),
    ) -> Iterator[EntityChange]:  # fmt: skip
        """What would turn target `a` into target `b`, entity by entity: nodes before edges, then by type and id."""
        base, head = self._repository.resolve(a), self._repository.resolve(b)
        require_types(self._store, head, types)
        found = changes_between(self._store, base, head, ChangeFilter(tuple(kinds), tuple(types), tuple(ops)))
        return self._repository.read_through(found, base, head)

    def changes(
        self, cursor: str | None = None, start: str = "now", branch: str = MAIN, *, limit: Count | None = None,
        kinds: Sequence[Kind] = (), types: Sequence[str] = (), ops: Sequence[Op] = (),
    ) -> Feed:  # fmt: skip
        """The commits of a branch after a cursor, oldest first, each with what it changed.

        Without a cursor the feed begins `now`, at the `beginning`, or `after:<commit id>`. Keep the cursor of a block
        once you have dealt with it: whoever crashes and resumes sees every commit at least once, in order.
        """
        if cursor is None:  # a feed that goes on was checked when it began
            require_types(self._store, self._repository.head(branch), types)
        wanted = ChangeFilter(tuple(kinds), tuple(types), tuple(ops))
        return Feed(self._repository, branch=branch, cursor=cursor, start=start, wanted=wanted, limit=limit)

    def _public_rows(self, state: ManifestState, table_key: str, *, where: str | None) -> pa.Table:
        entity = self._store.catalog(state.schema_hash).entity(table_key)
        entry: TableEntry = state.snapshot.table(entity.table_key)
        names = {p.column: p.name for p in entity.properties}
        columns = [f.name for f in entity.arrow_schema]
        with self._repository.reading(state):
            rows = open_table(self._store, entry).scan(columns, where=where)
        return rows.rename_columns([names.get(c, c) for c in columns])

    def fork_if_missing(self, branch: str, from_branch: str | None) -> bool:
        """Create `branch` from another when one is named and it does not exist; whether that was done."""
        if from_branch is None:
            return False
        try:
            self._repository.refs.get(branch)
        except NotFound:
            self._repository.create_branch(branch, from_branch)
            return True
        return False
