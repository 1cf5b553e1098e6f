"""Requests that change a graph. Each names the actor and the message of the commit that it becomes."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from omnigraph.api.arguments import AtLeast, Count, EntityId
from omnigraph.api.commits import Branch, Tag
from omnigraph.api.conflicts import Conflict, Strategy
from omnigraph.api.options import Engine, Mode
from omnigraph.api.reports import CleanupReport, CopyReport, IndexReport, OptimizeReport, RecoveryRecord, RepairReport
from omnigraph.api.requests import MAIN
from omnigraph.api.results import (
    DeleteResult,
    HistoryExport,
    LoadResult,
    MergeResult,
    MutationResult,
    RestoreResult,
    SchemaChange,
)
from omnigraph.api.service import Request
from omnigraph.api.target import Target


@dataclass(frozen=True, kw_only=True)
class LoadRows(Request[LoadResult]):
    """Write nodes and edges of any types in one commit. `Graph.load` says what each option does."""

    data: Any
    mode: Mode = "append"
    branch: str = MAIN
    from_branch: str | None = None
    engine: Engine = "auto"
    actor: str | None = None
    message: str | None = None
    expect_head: str | None = None
    idempotency_key: str | None = None
    dry_run: bool = False
    max_errors: Annotated[int, AtLeast(0)] | None = None
    ignore_unknown: bool = False
    dedupe_edges: bool = False
    options: Any = None
    """`FileOptions`: how the files are written."""


@dataclass(frozen=True, kw_only=True)
class RunMutation(Request[MutationResult]):
    """Run one mutation of a text as one commit; no commit when nothing matches."""

    query: str
    name: str | None = None
    path: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expect_head: str | None = None
    idempotency_key: str | None = None
    max_entities: Annotated[int, AtLeast(0)] | None = None


@dataclass(frozen=True, kw_only=True)
class DeleteEntities(Request[DeleteResult]):
    """Remove entities by id, or by the value of their key; removing a node removes every edge that touches it."""

    type_name: str
    ids: Sequence[EntityId]
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class RevertCommit(Request[MergeResult]):
    """Take back what a commit of a branch changed, as a new commit; what was changed since stays."""

    commit_id: str
    branch: str = MAIN
    strategy: Strategy = None
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class CherryPick(Request[MergeResult]):
    """Make the changes of one commit, of whatever branch, on `branch` too, as a new commit."""

    commit_id: str
    branch: str = MAIN
    strategy: Strategy = None
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class RestoreTarget(Request[RestoreResult]):
    """Make a branch what a target was, as a new commit: all of it, the rows of some types, or some entities."""

    at: Target
    branch: str = MAIN
    types: Sequence[str] = ()
    ids: Mapping[str, Sequence[EntityId]] | None = None
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class CreateBranch(Request[Branch]):
    """A new branch that begins with a target."""

    name: str
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class DeleteBranch(Request[None]):
    """Delete a branch. Refused for main and while tags or descendants need it."""

    name: str


@dataclass(frozen=True, kw_only=True)
class MergeBranch(Request[MergeResult]):
    """Bring the changes of `source` into `into` in one commit with two parents. `Branches.merge` has the options."""

    source: str
    into: str = MAIN
    strategy: Strategy = None
    dry_run: bool = False
    delete_branch: bool = False
    property_level: bool = False
    actor: str | None = None
    message: str | None = None
    engine: Engine = "arrow"
    resolutions: str | os.PathLike[str] | Sequence[Conflict] | None = None


@dataclass(frozen=True, kw_only=True)
class CreateTag(Request[Tag]):
    """Name the state of a target."""

    name: str
    at: Target = None


@dataclass(frozen=True, kw_only=True)
class DeleteTag(Request[None]):
    """Forget a tag."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ApplySchema(Request[SchemaChange]):
    """Bring a branch to a schema in one commit. `Schema.apply` says what each option does."""

    text: str
    path: str | None = None
    branch: str = MAIN
    allow_data_loss: bool = False
    drop: Sequence[str] = ()
    allow_drops: bool = False
    fresh: Sequence[str] = ()
    plan: str | None = None
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExportHistory(Request[HistoryExport]):
    """Write every commit of a branch with what it changed, oldest first, as JSON lines."""

    target: str | os.PathLike[str]
    branch: str = MAIN


@dataclass(frozen=True, kw_only=True)
class EnsureIndices(Request[IndexReport]):
    """Build or extend every index that the schema asks for, in one commit that changes no answer."""

    branch: str = MAIN
    actor: str | None = None
    engine: Engine = "arrow"


@dataclass(frozen=True, kw_only=True)
class OptimizeTables(Request[OptimizeReport]):
    """Merge small fragments, drop deleted rows and extend indexes, beside writers; one commit, or none."""

    branch: str = MAIN
    actor: str | None = None
    auto: bool = False
    dry_run: bool = False
    target_rows: Count | None = None
    engine: Engine = "arrow"


@dataclass(frozen=True, kw_only=True)
class CleanUp(Request[CleanupReport]):
    """Say what old versions and abandoned files would be deleted; with `confirm`, delete them."""

    keep: Annotated[int, AtLeast(0)] | None = 10
    older_than: dt.timedelta | float | None = None
    confirm: bool = False
    grace: dt.timedelta | float | None = None
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class RepairGraph(Request[RepairReport]):
    """Report damage, lost names and foreign drift; with `confirm`, restore and move away what is provable."""

    confirm: bool = False
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class BackUp(Request[CopyReport]):
    """Copy the graph, with its branches, tags and kept versions, to another place, beside writers."""

    target: str | os.PathLike[str]
    verify: bool = True


@dataclass(frozen=True, kw_only=True)
class RunRecovery(Request[list[RecoveryRecord]]):
    """Resolve every intent whose lease has expired."""


@dataclass(frozen=True, kw_only=True)
class DiscardIntent(Request[RecoveryRecord]):
    """Give up an intent that cannot be read; its bytes go to quarantine."""

    operation_id: str
    reason: str = ""
    force: bool = False
