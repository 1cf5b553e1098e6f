"""Rules between tables: endpoints exist, removed nodes leave no edge behind, sources keep their `@card`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.lookup import in_list, missing_ids, rows_where_any
from omnigraph.versioning.plan import CardinalityWithin, KeysPresent, NoIncident, Requirement
from omnigraph.versioning.requirements import edges_from
from omnigraph.write.validation.findings import Findings
from omnigraph.write.validation.model import Base, TableDelta

_MANY = 200_000
_FEW_TIMES = 100
"""Up to this many edges per node, looking up all ends is cheaper than first making them distinct."""
Deltas = Mapping[str, TableDelta]


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge type: its column, its name in the input and the node type it must name."""

    column: str
    field: str
    node_key: str


def ends_of(edge: EdgeType) -> tuple[End, End]:
    """Both ends of an edge type."""
    return End("src", "from", f"node:{edge.source}"), End("dst", "to", f"node:{edge.target}")


def check_endpoints(base: Base, deltas: Deltas, found: Findings) -> Iterator[Requirement]:
    """Check that every edge's ends exist afterwards: among the rows of this write, or in the graph and not removed."""
    columns = [
        (end.node_key, delta.written[end.column])
        for delta in deltas.values()
        if isinstance(delta.entity, EdgeType) and delta.written.num_rows
        for end in ends_of(delta.entity)
    ]
    nodes = {key: deltas[key].written["id"].combine_chunks() for key, _ in columns if key in deltas}
    wanted: dict[str, list[pa.Array]] = {}
    for (key, _), ids in zip(columns, _named_outside([(nodes.get(k), c) for k, c in columns]), strict=True):
        wanted.setdefault(key, []).append(ids)
    for node_key, parts in wanted.items():
        missing, outside = _resolve(base, deltas.get(node_key), node_key, pc.unique(pa.concat_arrays(parts)))
        if missing:
            _note_missing(deltas, node_key, pa.array(missing, pa.string()), found)
        if outside:
            yield KeysPresent(node_key, tuple(outside))


def _named_outside(columns: list[tuple[pa.Array | None, pa.ChunkedArray]]) -> list[pa.Array]:
    """Of each column the distinct ids that are not among the nodes of the same write, which are given beside it.

    Long columns are processed in parallel, because Arrow releases the interpreter.
    """
    if sum(len(column) for _, column in columns) < _MANY:
        return [_distinct(column, nodes) for nodes, column in columns]
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(lambda each: _distinct(each[1], each[0]), columns))


def _distinct(column: pa.ChunkedArray, nodes: pa.Array | None) -> pa.Array:
    if nodes is None or not len(nodes):
        return pc.unique(column)
    if len(nodes) * _FEW_TIMES < len(column):
        ids = pc.unique(column)
        return ids.filter(pc.invert(pc.is_in(ids, value_set=nodes)))
    known = pc.is_in(column, value_set=nodes)  # looking ids up is cheaper than making them distinct
    return pc.unique(column.slice(0, 0) if pc.all(known).as_py() else column.filter(pc.invert(known)))


def _resolve(base: Base, delta: TableDelta | None, node_key: str, needed: pa.Array) -> tuple[list[str], list[str]]:
    """Of ids that are not written here: those that will not exist, and those that the graph has to have."""
    outside: list[str] = needed.to_pylist()
    if delta is not None and delta.overwrites:
        return outside, []
    removed = set(delta.removed.to_pylist()) if delta is not None else set()
    gone = [i for i in outside if i in removed]
    outside = [i for i in outside if i not in removed]
    if outside:
        absent = missing_ids(base.table(node_key), outside, base.entry(node_key).tail)
        gone += absent
        if absent:
            absent_set = set(absent)
            outside = [i for i in outside if i not in absent_set]
    return gone, outside


def _note_missing(deltas: Deltas, node_key: str, missing: pa.Array, found: Findings) -> None:
    node = node_key.partition(":")[2]
    for delta in deltas.values():
        if not isinstance(delta.entity, EdgeType):
            continue
        written = delta.written
        for end in ends_of(delta.entity):
            if end.node_key != node_key or not written.num_rows:
                continue
            for index in found.rows(pc.is_in(written[end.column], value_set=missing)):
                node_id = written[end.column][index].as_py()
                text = f"{delta.entity.name} {end.column} {node_id!r} not found in {node}"
                found.note(
                    "endpoint", text, delta.entity, places=delta.places, index=index, field=end.field, value=node_id,
                    hint=f"load the {node} first, or in the same load",
                )  # fmt: skip


def check_removed_nodes(base: Base, deltas: Deltas, found: Findings) -> Iterator[Requirement]:
    """Check that no remaining edge names a removed node."""
    for delta in deltas.values():
        if isinstance(delta.entity, NodeType):
            removed = _removed_ids(base, delta)
            if removed:
                for edge in base.catalog.edges.values():
                    yield from _check_incident(base, deltas.get(edge.table_key), edge, delta.entity, removed, found)


def _removed_ids(base: Base, delta: TableDelta) -> list[str]:
    removed: list[str] = delta.removed.to_pylist()
    if delta.overwrites:
        before = base.table(delta.entity.table_key).scan(["id"])["id"]
        kept = pc.is_in(before, value_set=delta.written["id"].combine_chunks())
        removed += before.filter(pc.invert(kept)).to_pylist()
    return removed


def _check_incident(
    base: Base, changed: TableDelta | None, edge: EdgeType, node: NodeType, removed: list[str], found: Findings
) -> Iterator[Requirement]:
    columns = tuple(end.column for end in ends_of(edge) if end.node_key == node.table_key)
    if not columns or (changed is not None and changed.overwrites):
        return
    gone = changed.gone if changed is not None else []
    rows = rows_where_any(base.table(edge.table_key), columns, removed)
    stays = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=pa.array(gone, pa.string())))) if gone else rows
    for index in range(stays.num_rows):
        if found.full:
            break
        ends = ", ".join(f"{c} {stays[c][index].as_py()!r}" for c in columns)
        edge_id = stays["id"][index].as_py()
        found.note(
            "endpoint", f"{edge.name} {edge_id!r} still names a removed {node.name}: {ends} not found in {node.name}",
            edge, entity_id=edge_id, hint=f"include {edge.name} in the write, or keep the node",
        )  # fmt: skip
    yield NoIncident(edge.table_key, columns, tuple(removed), tuple(gone))


def check_cardinality(base: Base, deltas: Deltas, found: Findings) -> Iterator[Requirement]:
    """Check that every surviving source whose edges change has as many of them as `@card` allows."""
    for delta in deltas.values():
        edge = delta.entity
        if isinstance(edge, EdgeType) and (edge.cardinality.min or edge.cardinality.max is not None):
            yield from _check_card(base, delta, edge, deltas.get(f"node:{edge.source}"), found)


def _check_card(
    base: Base, delta: TableDelta, edge: EdgeType, sources: TableDelta | None, found: Findings
) -> Iterator[Requirement]:
    written = delta.written["src"].to_pylist()
    added: Counter[str] = Counter(written)
    gone = delta.gone
    if delta.overwrites:
        counts = dict(added)
    else:
        added.update(dict.fromkeys(_sources_of(base, edge.table_key, gone), 0))
        dead = set(sources.removed.to_pylist()) if sources is not None else set()
        added = Counter({source: n for source, n in added.items() if source not in dead})
        counts = dict(added)
        excepted = set(gone)
        for edge_id, source in edges_from(base.table(edge.table_key), list(counts)):
            counts[source] += edge_id not in excepted
        if counts:
            card = edge.cardinality
            yield CardinalityWithin(edge.table_key, card.min, card.max, tuple(added.items()), tuple(gone))
    _note_counts(delta, edge, counts, written, found)


def _sources_of(base: Base, edge_key: str, edge_ids: list[str]) -> list[str]:
    """Sources that lose an edge: those of the rows that are replaced or removed."""
    if not edge_ids:
        return []
    table = base.table(edge_key)
    if len(edge_ids) <= 4096:
        found: list[str] = table.scan(["src"], where=in_list("id", edge_ids))["src"].to_pylist()
        return found
    rows = table.scan(["id", "src"])
    kept: list[str] = rows.filter(pc.is_in(rows["id"], value_set=pa.array(edge_ids, pa.string())))["src"].to_pylist()
    return kept


def _note_counts(
    delta: TableDelta, edge: EdgeType, counts: Mapping[str, int], written: list[str], found: Findings
) -> None:
    card = edge.cardinality
    wrong = {s: n for s, n in counts.items() if n < card.min or (card.max is not None and n > card.max)}
    last = {source: index for index, source in enumerate(written) if source in wrong} if wrong else {}
    for source, count in wrong.items():
        bound = f"min {card.min}" if count < card.min else f"max {card.max}"
        text = f"@card violation on edge {edge.name}: {source!r} would have {count} ({bound})"
        found.note(
            "card", text, edge, places=delta.places, index=last.get(source), field="from", value=source,
        )  # fmt: skip
