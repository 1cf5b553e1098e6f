"""`Graph`: the handle on a graph root. Each method is a few lines over the packages below."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument, NotFound, OmnigraphError
from omnigraph.execution.arrow.engine import ArrowExecutor
from omnigraph.execution.explanation import Explanation
from omnigraph.execution.result import Result
from omnigraph.handles.branches import Branches
from omnigraph.handles.commits import Commits
from omnigraph.handles.maintenance import Maintenance
from omnigraph.handles.queries import Queries, text_of
from omnigraph.handles.recovery import RecoveryLog
from omnigraph.handles.schema import Schema
from omnigraph.handles.tags import TagNames
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.lookup import in_list
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.refs import MAIN
from omnigraph.versioning.repository import Repository, Target
from omnigraph.versioning.snapshot import Snapshot, TableEntry
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.stamp import INTERNAL_SCHEMA_VERSION
from omnigraph.versioning.store import GraphStore, Settings
from omnigraph.write.attempts import reprepared
from omnigraph.write.create import create_graph
from omnigraph.write.delete import DeleteResult, delete_entities
from omnigraph.write.load import LoadResult, load_rows
from omnigraph.write.validate import APPEND, OVERWRITE


class Graph:
    """A graph on a local path, `file://` or `s3://`.

    >>> import tempfile
    >>> g = Graph.init(tempfile.mkdtemp() + "/g", "node Person { name: String @key }")
    >>> g.load([{"type": "Person", "data": {"name": "Ada"}}], mode="append").total_entities
    1
    """

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._repository = Repository(store)
        self.branches = Branches(self._repository)
        self.commits = Commits(self._repository)
        self.tags = TagNames(self._repository)
        self.schema = Schema(self._repository)
        self.recovery = RecoveryLog(self._repository)
        self.maintenance = Maintenance(self._repository)
        self._executor = ArrowExecutor(store)
        self._asking = Queries(self._repository, self._executor)

    @classmethod
    def init(cls, uri: str | os.PathLike[str], schema: str | os.PathLike[str], *, actor: str | None = None) -> Graph:
        """Create a graph. `schema` is the path of a `.pg` file or schema text."""
        text, path = text_of(schema, "schema", ".pg")
        return cls(create_graph(GraphRoot.parse(uri), text, schema_path=path, actor=actor))

    @classmethod
    def open(cls, uri: str | os.PathLike[str], mode: str = "rw", *, settings: Settings | None = None) -> Graph:
        """Open a graph for reading and writing (`rw`) or for reading only (`ro`)."""
        if mode not in ("rw", "ro"):
            raise InvalidArgument(f"mode {mode!r} is unknown", hint="use 'rw' or 'ro'")
        graph = cls(GraphStore(GraphRoot.parse(uri), read_only=mode == "ro", settings=settings))
        graph._repository.head(MAIN)
        if mode == "rw":
            graph._repository.recovery.run()
        return graph

    @property
    def uri(self) -> str:
        """Where the graph lies."""
        return self._store.root.uri

    @property
    def internal_schema_version(self) -> int:
        """The storage format of this graph."""
        return INTERNAL_SCHEMA_VERSION

    # --- writing --------------------------------------------------------------------------------------------------

    def load(
        self, data: Any, mode: str = "append", branch: str = MAIN, from_branch: str | None = None,
        actor: str | None = None, *, message: str | None = None, expect_head: str | None = None,
    ) -> LoadResult:  # fmt: skip
        """Write nodes and edges in one commit.

        `data` is an iterable of envelope rows, or a mapping of type name to a `pyarrow.Table` or list of dicts.
        `append` refuses ids that exist, `merge` replaces them, `overwrite` replaces every row of the types given.
        `from_branch` forks `branch` from it when it does not exist yet.
        """
        rows = data if isinstance(data, (Mapping, Sequence)) or not isinstance(data, Iterable) else list(data)
        created = self._fork_if_missing(branch, from_branch)

        def attempt(fresh: bool) -> LoadResult:
            return load_rows(
                self._repository, rows, mode=mode, branch=branch, actor=actor, message=message,
                expect_head=expect_head, fresh=fresh,
            )  # fmt: skip

        fresh_first = mode != APPEND or self._store.root.is_local
        try:
            result = attempt(True) if mode == OVERWRITE else reprepared(attempt, fresh_first=fresh_first)
        except OmnigraphError:
            if created:  # a refused load leaves nothing behind, also not the branch it would have begun
                self._repository.refs.delete(branch)
            raise
        return replace(result, base_branch=from_branch, branch_created=created)

    def delete(
        self,
        type_name: str,
        ids: Sequence[str],
        branch: str = MAIN,
        actor: str | None = None,
        *,
        message: str | None = None,
    ) -> DeleteResult:
        """Remove entities by id in one commit; removing a node removes every edge that touches it."""
        return delete_entities(self._repository, type_name, ids, branch=branch, actor=actor, message=message)

    # --- querying -------------------------------------------------------------------------------------------------

    def query(
        self, query: str | os.PathLike[str], name: str | None = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, at: dt.datetime | None = None,
    ) -> Result:  # fmt: skip
        """Answer one query of a `.gq` text, file or directory from one snapshot.

        `name` chooses among several queries. `branch` reads a branch's head, `snapshot` any other target, `at` a
        branch as it was at a moment.
        """
        return self._asking.ask(query, name, params or {}, branch, snapshot, at)

    def explain(
        self, query: str | os.PathLike[str], name: str | None = None, params: Mapping[str, Any] | None = None,
        branch: str | None = None, snapshot: Target = None, *, analyze: bool = False,
    ) -> Explanation:  # fmt: skip
        """What a query means and the plan it follows; with `analyze` it is run, and each operator measured."""
        return self._asking.explain(query, name, params, branch, snapshot, analyze=analyze)

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

    def entity_at(self, table_key: str, entity_id: str, version: Target = None) -> dict[str, Any] | None:
        """One entity, with its public property names, as of a target; None when it does not exist there."""
        state = self._repository.resolve(version)
        rows = self._public_rows(state, table_key, where=in_list("id", [entity_id]))
        found: list[dict[str, Any]] = rows.to_pylist()
        return found[0] if found else None

    def rows(self, table_key: str, at: Target = None) -> pa.Table:
        """All rows of a type, with public property names, as of a target."""
        return self._public_rows(self._repository.resolve(at), table_key, where=None)

    def table(self, table_key: str, at: Target = None) -> tuple[str, int]:
        """The Lance dataset URI and version behind a type, for tools that read Lance themselves."""
        entry = self._repository.resolve(at).snapshot.table(table_key)
        return self._store.root.join(entry.location), entry.staged_version

    def catalog(self, at: Target = None) -> Catalog:
        """The schema as of a target."""
        return self._store.catalog(self._repository.resolve(at).schema_hash)

    def _public_rows(self, state: ManifestState, table_key: str, *, where: str | None) -> pa.Table:
        entry: TableEntry = state.snapshot.table(table_key)
        entity = self._store.catalog(state.schema_hash).type_of(table_key)
        names = {p.column: p.name for p in entity.properties}
        columns = [f.name for f in entity.arrow_schema]
        rows = open_table(self._store, entry).scan(columns, where=where)
        return rows.rename_columns([names.get(c, c) for c in columns])

    def _fork_if_missing(self, branch: str, from_branch: str | None) -> bool:
        if from_branch is None:
            return False
        try:
            self._repository.refs.get(branch)
        except NotFound:
            self._repository.create_branch(branch, from_branch)
            return True
        return False
