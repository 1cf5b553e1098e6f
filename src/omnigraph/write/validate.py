"""The checks of a write that need more than one row: duplicate keys, taken keys, endpoints, edges left dangling.

Each check that reads the graph returns the requirement that makes the publisher repeat it against whatever the branch
holds when the write becomes visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import DuplicateKey, KeyConflict, MissingEndpoint
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.lookup import existing_ids, missing_ids, rows_where_any
from omnigraph.versioning.plan import KeysAbsent, KeysPresent, NoIncident, Requirement
from omnigraph.write.rows import Batch
from omnigraph.write.transaction import WriteTxn

APPEND = "append"
MERGE = "merge"
OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge type: its column and the node type it must name."""

    column: str
    name: str
    node_key: str


def ends_of(edge: EdgeType) -> tuple[End, End]:
    """Both ends of an edge type."""
    return End("src", "src", f"node:{edge.source}"), End("dst", "dst", f"node:{edge.target}")


def without_duplicates(batch: Batch, mode: str) -> Batch:
    """Refuse two rows with one id. Only a merge of edges that name their own ids lets the last one win."""
    ids = batch.ids
    if len(set(ids)) == len(ids):
        return batch
    entity = batch.entity
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for at, entity_id in enumerate(ids):
        if entity_id in first and not (mode == MERGE and isinstance(entity, EdgeType) and not entity.key):
            if not entity.key:
                raise KeyConflict(entity.table_key, entity_id)
            raise DuplicateKey(
                f"row {batch.numbers[at]}: @unique violation on {entity.name}.{_key_text(batch)}: "
                f"{entity_id!r} is also in row {batch.numbers[first[entity_id]]}",
                type_key=entity.table_key, row=batch.numbers[at],
            )  # fmt: skip
        first.setdefault(entity_id, at)
        last[entity_id] = at
    keep = sorted(last.values())
    return Batch(entity, batch.table.take(pa.array(keep)), [batch.numbers[i] for i in keep], batch.fresh_ids)


def require_new_keys(txn: WriteTxn, batch: Batch) -> Iterator[Requirement]:
    """A strict insert: none of the ids may exist."""
    if batch.fresh_ids:
        return
    ids = tuple(batch.ids)
    entry = txn.entry(batch.entity.table_key)
    taken = existing_ids(txn.table(entry.table_key), ids, entry.tail)
    if taken:
        raise KeyConflict(entry.table_key, min(taken))
    yield KeysAbsent(entry.table_key, ids)


def require_endpoints(txn: WriteTxn, batches: Mapping[str, Batch], mode: str) -> Iterator[Requirement]:
    """Every edge's ends exist: among the rows of this write, or in the graph."""
    wanted: dict[str, dict[str, tuple[Batch, str]]] = {}
    for batch in batches.values():
        if isinstance(batch.entity, EdgeType):
            for end in ends_of(batch.entity):
                found = wanted.setdefault(end.node_key, {})
                for node_id in pc.unique(batch.table[end.column]).to_pylist():
                    found.setdefault(node_id, (batch, end.column))
    for node_key, needed in wanted.items():
        written = set(batches[node_key].ids) if node_key in batches else set()
        outside = [i for i in needed if i not in written]
        if not outside:
            continue
        entry = txn.entry(node_key)
        replaced = mode == OVERWRITE and node_key in batches
        gone = outside if replaced else missing_ids(txn.table(node_key), outside, entry.tail)
        if gone:
            raise _missing_endpoint(*needed[gone[0]], gone[0], node_key)
        yield KeysPresent(node_key, tuple(outside))


def require_no_dangling(txn: WriteTxn, batches: Mapping[str, Batch]) -> Iterator[Requirement]:
    """Overwriting a node type removes nodes; no edge that stays may still name one of them."""
    for batch in batches.values():
        if not isinstance(batch.entity, NodeType):
            continue
        before = txn.table(batch.entity.table_key).scan(["id"])["id"]
        removed = before.filter(pc.invert(pc.is_in(before, value_set=batch.table["id"].combine_chunks()))).to_pylist()
        if removed:
            yield from forbid_incident(txn, batch.entity, removed, except_keys=batches.keys())


def forbid_incident(
    txn: WriteTxn, node: NodeType, removed: list[str], except_keys: Iterable[str] = ()
) -> Iterator[Requirement]:
    """No edge of any type, apart from those given, may name a removed node."""
    skipped = set(except_keys)
    for edge in txn.catalog.edges.values():
        columns = tuple(end.column for end in ends_of(edge) if end.node_key == node.table_key)
        if not columns or edge.table_key in skipped:
            continue
        found = rows_where_any(txn.table(edge.table_key), columns, removed)
        if found.num_rows:
            raise MissingEndpoint(
                f"{edge.name} {found['id'][0].as_py()!r} still names a removed {node.name}: "
                f"{', '.join(f'{c} {found[c][0].as_py()!r}' for c in columns)} not found in {node.name}",
                type_key=edge.table_key,
                hint=f"include {edge.name} in the load, or keep the node",
            )
        yield NoIncident(edge.table_key, columns, tuple(removed))


def _missing_endpoint(batch: Batch, column: str, node_id: str, node_key: str) -> MissingEndpoint:
    at = batch.table[column].to_pylist().index(node_id)
    node = node_key.partition(":")[2]
    return MissingEndpoint(
        f"row {batch.numbers[at]}: {batch.entity.name} {column} {node_id!r} not found in {node}",
        type_key=batch.entity.table_key,
        row=batch.numbers[at],
        field={"src": "from", "dst": "to"}[column],
        hint=f"load the {node} first, or in the same load",
    )


def _key_text(batch: Batch) -> str:
    key = batch.entity.key
    return key[0] if len(key) == 1 else f"({', '.join(key)})"
