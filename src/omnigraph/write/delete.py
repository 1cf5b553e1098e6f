"""Deleting nodes together with every edge that touches them, and deleting edges, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.schema.catalog import NodeType
from omnigraph.storage.effects import Effect, ReplaceRows
from omnigraph.storage.lookup import locate, rows_where_any
from omnigraph.versioning.commits import GraphCommit
from omnigraph.versioning.plan import NoIncident, Requirement
from omnigraph.versioning.repository import Repository
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validate import ends_of


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What a delete removed. `commit` is None when nothing matched."""

    affected_nodes: int
    affected_edges: int
    commit: GraphCommit | None


def delete_entities(
    repository: Repository, type_name: str, ids: Sequence[str], *, branch: str, actor: str | None = None,
    message: str | None = None,
) -> DeleteResult:  # fmt: skip
    """Remove entities by id. Ids that do not exist are ignored."""
    txn = WriteTxn(repository, branch, kind="mutate", actor=actor, message=message)
    catalog = txn.catalog
    entity = catalog.node(type_name) if type_name in catalog.nodes else catalog.edge(type_name)
    entry = txn.entry(entity.table_key)
    found = locate(txn.table(entity.table_key), list(dict.fromkeys(ids)), entry.tail).ids
    if not found:
        return DeleteResult(0, 0, None)
    effects: dict[str, Effect] = {entity.table_key: ReplaceRows(tuple(found))}
    requirements: list[Requirement] = []
    edges = 0
    if isinstance(entity, NodeType):
        for key, columns, incident in _incident(txn, entity, list(found)):
            if incident:
                effects[key] = ReplaceRows(tuple(incident))
                edges += len(incident)
            else:
                # An edge that appears after this moment makes the delete a conflict: nobody would remove it.
                requirements.append(NoIncident(key, columns, tuple(found)))
    commit = txn.commit(effects, requirements)
    if isinstance(entity, NodeType):
        return DeleteResult(len(found), edges, commit)
    return DeleteResult(0, len(found), commit)


def _incident(txn: WriteTxn, node: NodeType, ids: list[str]) -> list[tuple[str, tuple[str, ...], list[str]]]:
    found = []
    for edge in txn.catalog.edges.values():
        columns = tuple(end.column for end in ends_of(edge) if end.node_key == node.table_key)
        if columns:
            rows = rows_where_any(txn.table(edge.table_key), columns, ids)
            found.append((edge.table_key, columns, rows["id"].to_pylist()))
    return found
