"""Results as the JSON that every surface shows: `--json` of the command line, HTTP answers, tools of agents.

Names follow the HTTP interface. `wire.py` is the lossless form between programs of this package; these shapes are for
everyone else and keep their members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from omnigraph.json_values import json_value

if TYPE_CHECKING:
    from omnigraph.api.changes import ChangeBlock, EntityChange
    from omnigraph.api.commits import GraphCommit, Tag
    from omnigraph.api.reports import CleanupReport, CopyReport, IndexStatus, TableCleanupStats, TableOptimizeStats
    from omnigraph.api.results import LoadResult, MergeResult, MutationResult, RestoreResult

Json = dict[str, Any]


def commit_json(commit: GraphCommit) -> Json:
    """A commit. `created_at` is in microseconds since the epoch."""
    return {
        "graph_commit_id": commit.graph_commit_id,
        "graph_branch": commit.manifest_branch,
        "graph_manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent_commit_id,
        "merged_parent_commit_id": commit.merged_parent_commit_id,
        "actor_id": commit.actor_id,
        "created_at": commit.created_at,
        "kind": commit.kind,
        "op_class": commit.op_class,
        "message": commit.message,
        "recovery_for_actor": commit.recovery_for_actor,
    }


def _commit_or_none(commit: GraphCommit | None) -> Json | None:
    return None if commit is None else commit_json(commit)


def tag_json(tag: Tag) -> Json:
    """A tag and the state that it names."""
    return {
        "name": tag.name,
        "graph_commit_id": tag.graph_commit_id,
        "graph_branch": tag.branch,
        "graph_manifest_version": tag.manifest_version,
        "created_at": tag.created_at,
    }


def load_json(uri: str, result: LoadResult, actor: str | None) -> Json:
    """The outcome of a load into the graph at `uri`."""
    return {
        "uri": uri,
        "branch": result.branch,
        "mode": result.mode,
        "base_branch": result.base_branch,
        "branch_created": result.branch_created,
        "nodes": [{"name": name, "entities_loaded": count} for name, count in result.nodes.items()],
        "edges": [{"name": name, "entities_loaded": count} for name, count in result.edges.items()],
        "total_entities": result.total_entities,
        "actor_id": actor,
        "dry_run": result.dry_run,
        "rejected": [each.as_dict() for each in result.rejected],
        "duplicates": dict(result.duplicates),
        "sniffed": {path: dict(found) for path, found in result.sniffed.items()},
        "commit": _commit_or_none(result.commit),
    }


def mutation_json(result: MutationResult, actor: str | None) -> Json:
    """The outcome of a mutation."""
    return {
        "branch": result.branch,
        "query_name": result.query_name,
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
        "actor_id": actor,
        "replayed": result.replayed,
        "commit": _commit_or_none(result.commit),
    }


def restore_json(result: RestoreResult) -> Json:
    """The outcome of a restore or of a branch reset."""
    return {
        "branch": result.target,
        "outcome": result.outcome,
        "written": dict(result.written),
        "removed": dict(result.removed),
        "commit": _commit_or_none(result.commit),
    }


def merge_json(result: MergeResult, actor: str | None) -> Json:
    """The outcome of a merge of two branches."""
    return {
        "source": result.source,
        "target": result.target,
        "outcome": result.outcome,
        "base_commit_id": result.base_commit_id,
        "conflicts": [conflict.as_dict() for conflict in result.conflicts],
        "commit": _commit_or_none(result.commit),
        "actor_id": actor,
        "branch_deleted": result.branch_deleted,
        "branch_delete_error": result.branch_delete_error,
    }


def pick_json(result: MergeResult) -> Json:
    """The outcome of a merge of one commit: of `revert` and `cherry-pick`."""
    return {
        "source": result.source,
        "target": result.target,
        "outcome": result.outcome,
        "conflicts": [conflict.as_dict() for conflict in result.conflicts],
        "commit": _commit_or_none(result.commit),
    }


def change_json(change: EntityChange) -> Json:
    """A change, its values as JSON can carry them."""
    return {name: json_value(value) for name, value in change.as_dict().items()}


def block_json(block: ChangeBlock) -> Json:
    """A commit of the change feed with its changes."""
    return {
        "commit": commit_json(block.commit),
        "schema_changed": block.schema_changed,
        "changes": [change_json(change) for change in block.changes],
    }


def snapshot_json(snapshot: Any, format_version: int) -> Json:
    """The state of a branch: its tables, nodes before edges."""
    tables: Mapping[str, Any] = snapshot.tables
    keys = sorted(tables, key=lambda key: (not key.startswith("node:"), key))
    return {
        "graph_branch": snapshot.branch,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": format_version,
        "graph_commit_id": snapshot.commit_id,
        "datasets": [_dataset_json(key, tables[key]) for key in keys],
    }


def _dataset_json(key: str, entry: Any) -> Json:
    kind, _, name = key.partition(":")
    return {
        "entity_kind": kind,
        "type_name": name,
        "dataset_path": entry.location,
        "published_dataset_version": entry.table_version,
        "entity_count": entry.row_count,
    }


def cleanup_json(report: CleanupReport) -> Json:
    """What a cleanup removed, or would remove."""
    return {
        "confirm": report.confirmed,
        "manifest_versions_removed": report.manifest_versions_removed,
        "objects_removed": report.objects_removed,
        "bytes_removed": report.bytes_removed,
        "datasets": tables_json(report.tables),
    }


def tables_json(tables: Iterable[TableOptimizeStats | TableCleanupStats]) -> list[Json]:
    """What maintenance did to each table."""
    found = [asdict(table) for table in tables]
    return [{"type_key": table.pop("table_key"), **table} for table in found]


def copy_json(report: CopyReport) -> Json:
    """What a backup or clone copied."""
    return {
        "source": report.source,
        "target": report.target,
        "objects_copied": report.objects_copied,
        "bytes_copied": report.bytes_copied,
        "objects_skipped": report.objects_skipped,
        "objects_removed": report.objects_removed,
        "clean": report.is_clean,
        "problems": [{"check": p.check, "where": p.where, "message": p.message} for p in report.problems],
    }


def indexes_json(found: tuple[IndexStatus, ...]) -> list[Json]:
    """The indexes of a branch and what they cover."""
    return [asdict(each) for each in found]
