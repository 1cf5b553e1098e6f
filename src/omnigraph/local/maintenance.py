"""Handle requests of maintenance: indexes, compaction, cleanup, checks, copies, recovery."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from omnigraph.api.options import Engine
from omnigraph.api.progress import Listener
from omnigraph.api.reports import (
    CleanupReport,
    CopyReport,
    FsckReport,
    GraphStats,
    IndexReport,
    IndexStatus,
    OptimizeReport,
    PendingIntent,
    RecoveryRecord,
    RepairReport,
)
from omnigraph.api.requests import AuditRecovery, CheckGraph, GetIndexStatus, GetStats, ListIntents
from omnigraph.api.write_requests import (
    BackUp,
    CleanUp,
    DiscardIntent,
    EnsureIndices,
    OptimizeTables,
    RepairGraph,
    RunRecovery,
)
from omnigraph.errors import InvalidArgument
from omnigraph.local.engines import find_engine
from omnigraph.local.graph_state import Handlers, LocalGraph
from omnigraph.maintenance.backup import copy_graph
from omnigraph.maintenance.cleanup import CleanupPolicy, cleanup
from omnigraph.maintenance.fsck import fsck
from omnigraph.maintenance.indices import ensure_indices, index_status
from omnigraph.maintenance.optimize import optimize
from omnigraph.maintenance.repair import repair
from omnigraph.maintenance.stats import stats
from omnigraph.storage.compaction import TARGET_ROWS
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.maintenance_tasks import LOCAL_POOL, TaskPool


def build_indexes(graph: LocalGraph, request: EnsureIndices, _: Listener | None) -> IndexReport:
    """Build or extend every index that the schema asks for."""
    pool = _pool(graph, request.engine)
    return ensure_indices(graph.repository, request.branch, actor=request.actor, pool=pool)


def list_indexes(graph: LocalGraph, request: GetIndexStatus, _: Listener | None) -> tuple[IndexStatus, ...]:
    """Every index that the schema asks for, and the rows it covers."""
    return index_status(graph.repository, request.branch)


def optimize_tables(graph: LocalGraph, request: OptimizeTables, progress: Listener | None) -> OptimizeReport:
    """Merge small fragments, drop deleted rows and extend indexes."""
    return optimize(
        graph.repository, request.branch, actor=request.actor, target_rows=request.target_rows or TARGET_ROWS,
        auto=request.auto, dry_run=request.dry_run, pace=graph.pace, pool=_pool(graph, request.engine, progress),
        progress=progress,
    )  # fmt: skip


def _pool(graph: LocalGraph, engine: Engine, progress: Listener | None = None) -> TaskPool:
    return LOCAL_POOL if engine in ("arrow", "auto") else find_engine(engine).pool(graph.store.root.uri, progress)


def back_up(graph: LocalGraph, request: BackUp, progress: Listener | None) -> CopyReport:
    """Copy the graph to another place."""
    place = GraphRoot.parse(request.target)
    return copy_graph(graph.repository, place, verify=request.verify, progress=progress)


def repair_graph(graph: LocalGraph, request: RepairGraph, _: Listener | None) -> RepairReport:
    """Report damage; with `confirm`, restore what is provable."""
    return repair(graph.repository, confirm=request.confirm, force=request.force)


def check_graph(graph: LocalGraph, request: CheckGraph, _: Listener | None) -> FsckReport:
    """Read the whole graph and report every inconsistency."""
    return fsck(graph.repository, deep=request.deep, type_name=request.type_name)


def get_stats(graph: LocalGraph, request: GetStats, _: Listener | None) -> GraphStats:
    """Sizes, fragments, index coverage and history."""
    return stats(graph.repository, request.branch, garbage=request.garbage)


def clean_up(graph: LocalGraph, request: CleanUp, progress: Listener | None) -> CleanupReport:
    """Delete old versions and abandoned files, or report those that would be deleted."""
    policy = CleanupPolicy(
        request.keep, _duration("older_than", request.older_than), _duration("grace", request.grace), request.force
    )
    return cleanup(graph.repository, policy, confirm=request.confirm, progress=progress)


def _duration(name: str, value: dt.timedelta | float | None) -> dt.timedelta | None:
    if value is None or isinstance(value, dt.timedelta):
        return value
    try:
        return dt.timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError) as error:  # a text, not a number, for infinity
        raise InvalidArgument(f"{name}={value!r} is not a duration", hint="give seconds or a timedelta") from error


def run_recovery(graph: LocalGraph, _: RunRecovery, __: Listener | None) -> list[RecoveryRecord]:
    """Resolve every intent whose lease has expired."""
    return graph.repository.recovery.run()


def discard_intent(graph: LocalGraph, request: DiscardIntent, _: Listener | None) -> RecoveryRecord:
    """Give up an intent that cannot be read."""
    return graph.repository.recovery.discard(
        request.operation_id, reason=request.reason or "no reason given", force=request.force
    )


def audit_recovery(graph: LocalGraph, _: AuditRecovery, __: Listener | None) -> pa.Table:
    """Return the actions of recovery, as rows."""
    return graph.repository.recovery.audit_table()


def list_intents(graph: LocalGraph, _: ListIntents, __: Listener | None) -> list[PendingIntent]:
    """Writes that were announced and neither published nor withdrawn."""
    return graph.repository.recovery.list()


HANDLERS: Handlers = {
    EnsureIndices: build_indexes,
    GetIndexStatus: list_indexes,
    OptimizeTables: optimize_tables,
    BackUp: back_up,
    RepairGraph: repair_graph,
    CheckGraph: check_graph,
    GetStats: get_stats,
    CleanUp: clean_up,
    RunRecovery: run_recovery,
    DiscardIntent: discard_intent,
    AuditRecovery: audit_recovery,
    ListIntents: list_intents,
}
