"""Requests that read: queries, rows, histories. A request is a frozen dataclass that names the result which answers it.

`at` is a target: a branch, tag, commit, version or moment (`target`); None is main's head.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Annotated, Any

import pyarrow as pa

from omnigraph.api.arguments import AtLeast, Count, EntityId
from omnigraph.api.changes import ChangeFeed, EntityChange, Kind, Op
from omnigraph.api.commits import Branch, GraphCommit, Tag
from omnigraph.api.explanation import Explanation
from omnigraph.api.options import Engine, Format
from omnigraph.api.query_result import Result, ResultStream
from omnigraph.api.reports import FsckReport, GraphStats, IndexStatus, PendingIntent
from omnigraph.api.results import BlobInfo, ExportResult, SchemaChange
from omnigraph.api.service import Request
from omnigraph.api.target import Target
from omnigraph.schema.catalog import Catalog

MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class RunQuery(Request[Result]):
    """Answer one query of a text. `name` chooses among several; `path` is where the text came from, for errors."""

    query: str
    name: str | None = None
    path: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    at: Target = None
    engine: Engine = "arrow"


@dataclass(frozen=True, kw_only=True)
class StreamQuery(Request[ResultStream]):
    """Answer one query in batches of at most `max_rows` rows, which are made when they are asked for."""

    query: str
    name: str | None = None
    path: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    at: Target = None
    max_rows: Count = 65_536


@dataclass(frozen=True, kw_only=True)
class ExplainQuery(Request[Explanation]):
    """The meaning and the plan of a query; with `analyze` it is run, and each operator measured."""

    query: str
    name: str | None = None
    path: str | None = None
    params: Mapping[str, Any] | None = None
    at: Target = None
    analyze: bool = False


@dataclass(frozen=True, kw_only=True)
class ReadRows(Request[pa.Table]):
    """All rows of a type, with public property names."""

    table_key: str
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class ReadEntity(Request[dict[str, Any] | None]):
    """One entity with its public property names; None when it does not exist."""

    table_key: str
    entity_id: EntityId
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class ReadSnapshot(Request[Any]):
    """What a target holds: its commit, and of each type the rows and the table behind it."""

    at: Target = None


@dataclass(frozen=True, kw_only=True)
class LocateTable(Request[tuple[str, int]]):
    """The Lance dataset URI and version behind a type, for tools that read Lance themselves."""

    table_key: str
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class ReadCatalog(Request[Catalog]):
    """The types of a target: properties, keys and constraints."""

    at: Target = None


@dataclass(frozen=True, kw_only=True)
class ExportRows(Request[ExportResult]):
    """Write rows as JSON lines (a file or stream), Parquet or CSV (a directory with a file per type)."""

    target: str | os.PathLike[str] | IO[bytes]
    format: Format = "jsonl"
    at: Target = None
    types: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class DiffTargets(Request[Iterator[EntityChange]]):
    """What would turn target `a` into target `b`: nodes before edges, then by type and id."""

    a: Target
    b: Target = None
    kinds: Sequence[Kind] = ()
    types: Sequence[str] = ()
    ops: Sequence[Op] = ()


@dataclass(frozen=True, kw_only=True)
class PollChanges(Request[ChangeFeed]):
    """The commits of a branch after a cursor, oldest first, each with what it changed."""

    cursor: str | None = None
    start: str = "now"
    branch: str = MAIN
    limit: Count | None = None
    kinds: Sequence[Kind] = ()
    types: Sequence[str] = ()
    ops: Sequence[Op] = ()


@dataclass(frozen=True, kw_only=True)
class ListBranches(Request[list[Branch]]):
    """All branches, main first."""


@dataclass(frozen=True, kw_only=True)
class GetBranch(Request[Branch]):
    """One branch by name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ListTags(Request[list[Tag]]):
    """All tags by name."""


@dataclass(frozen=True, kw_only=True)
class ListCommits(Request[Iterator[GraphCommit]]):
    """Commits of a branch, newest first, read as far as the caller goes."""

    branch: str = MAIN
    actor: str | None = None
    limit: Count | None = None


@dataclass(frozen=True, kw_only=True)
class GetCommit(Request[GraphCommit]):
    """One commit by id, on whatever branch it is."""

    commit_id: str


@dataclass(frozen=True, kw_only=True)
class GetHead(Request[GraphCommit]):
    """The newest commit of a branch."""

    branch: str = MAIN


@dataclass(frozen=True, kw_only=True)
class CommitChanges(Request[tuple[EntityChange, ...]]):
    """What a commit changed against its first parent."""

    commit_id: str
    kinds: Sequence[Kind] = ()
    types: Sequence[str] = ()
    ops: Sequence[Op] = ()


@dataclass(frozen=True, kw_only=True)
class ShowSchema(Request[str]):
    """The schema text of a target."""

    at: Target = None


@dataclass(frozen=True, kw_only=True)
class PlanSchema(Request[SchemaChange]):
    """The steps that would bring a branch to a schema, and their digest. Nothing is changed."""

    text: str
    path: str | None = None
    branch: str = MAIN
    allow_data_loss: bool = False
    drop: Sequence[str] = ()
    fresh: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class GetBlob(Request[bytes | None]):
    """Bytes of a blob from `offset` on, at most `length` of them; None when the property is null."""

    table_key: str
    entity_id: EntityId
    property_name: str
    at: Target = None
    offset: Annotated[int, AtLeast(0)] = 0
    length: Count | None = None


@dataclass(frozen=True, kw_only=True)
class StatBlob(Request[BlobInfo | None]):
    """Size and etag of a blob; None when the property is null."""

    table_key: str
    entity_id: EntityId
    property_name: str
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class GetStats(Request[GraphStats]):
    """Sizes, fragments, index coverage and history; with `garbage` also what a cleanup would free."""

    branch: str = MAIN
    garbage: bool = False


@dataclass(frozen=True, kw_only=True)
class GetIndexStatus(Request[tuple[IndexStatus, ...]]):
    """Every index that the schema asks for, and the rows it covers."""

    branch: str = MAIN


@dataclass(frozen=True, kw_only=True)
class CheckGraph(Request[FsckReport]):
    """Read the whole graph, or one type, and report whatever does not fit. Changes nothing."""

    deep: bool = False
    type_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class ListIntents(Request[list[PendingIntent]]):
    """Writes that were announced and neither published nor withdrawn."""


@dataclass(frozen=True, kw_only=True)
class AuditRecovery(Request[pa.Table]):
    """What recovery has done, as rows."""
