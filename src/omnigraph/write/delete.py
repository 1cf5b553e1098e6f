"""Deleting nodes together with every edge that touches them, and deleting edges, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.results import DeleteResult
from omnigraph.schema.catalog import NodeType
from omnigraph.schema.identity import IdValue, id_text
from omnigraph.storage.effects import ReplaceRows
from omnigraph.storage.lookup import locate, rows_where_any
from omnigraph.versioning.repository import Repository
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import Base, TableDelta, validate
from omnigraph.write.validation.edges import ends_of


def delete_entities(
    repository: Repository, type_name: str, ids: Sequence[IdValue], *, branch: str, actor: str | None = None,
    message: str | None = None,
) -> DeleteResult:  # fmt: skip
    """Remove entities by id. Ids that do not exist are ignored."""
    txn = WriteTxn(repository, branch, kind="mutate", actor=actor, message=message)
    catalog = txn.catalog
    entity = catalog.entity(type_name)
    entry = txn.entry(entity.table_key)
    wanted = dict.fromkeys(id_text(entity, each) for each in ids)
    found = locate(txn.table(entity.table_key), list(wanted), entry.tail).ids
    if not found:
        return DeleteResult(0, 0, None)
    deltas = removals(txn, {entity.table_key: pa.array(found, pa.string())})
    commit = txn.commit(
        {key: ReplaceRows(tuple(delta.removed.to_pylist())) for key, delta in deltas.items()},
        validate(txn, deltas).accepted(),
    )
    nodes = sum(len(d.removed) for d in deltas.values() if isinstance(d.entity, NodeType))
    return DeleteResult(nodes, sum(len(d.removed) for d in deltas.values()) - nodes, commit)


def removals(base: Base, removed: Mapping[str, pa.Array]) -> dict[str, TableDelta]:
    """Deltas that remove the given ids and every edge that touches a removed node. Untouched types have none."""
    wanted: dict[str, list[pa.Array]] = {key: [ids] for key, ids in removed.items()}
    for key, ids in removed.items():
        if key.startswith("node:"):
            for edge in base.catalog.edges.values():
                columns = tuple(end.column for end in ends_of(edge) if end.node_key == key)
                if columns:
                    rows = rows_where_any(base.table(edge.table_key), columns, ids.to_pylist())
                    wanted.setdefault(edge.table_key, []).append(rows["id"].combine_chunks())
    deltas = {}
    for key, parts in wanted.items():
        ids = pc.unique(pa.concat_arrays([part.cast(pa.string()) for part in parts]))
        if len(ids):
            entity = base.catalog.type_of(key)
            none = entity.arrow_schema.empty_table()
            deltas[key] = TableDelta(entity=entity, inserted=none, updated=none, removed=ids)
    return deltas
