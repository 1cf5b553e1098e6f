"""The values that rules between rows compare, as streams that are cut into buckets."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.pipeline.buckets import VALUE, Stream, count_values, distinct
from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.storage.lookup import tuple_keys
from omnigraph.write.validation.edges import ends_of
from omnigraph.write.validation.model import column_of

ID, ENDS, SOURCES, UNIQUE = "id", "ends", "sources", "unique "


def part_streams(entity: EntityType, fresh_ids: bool) -> tuple[str, ...]:
    """Return the streams that rules need of the rows of a load."""
    found = [] if fresh_ids else [ID]
    found += [f"{UNIQUE}{number}" for number in range(len(entity.uniques))]
    if isinstance(entity, EdgeType):
        found.append(ENDS)
        if entity.cardinality.min or entity.cardinality.max is not None:
            found.append(SOURCES)
    return tuple(found)


def streams_of(entity: EntityType, rows: pa.Table, wanted: Sequence[str]) -> dict[Stream, pa.Table]:
    """Return streams of some rows (their `needed_columns`, or those that the streams are made of)."""
    key = entity.table_key
    found: dict[Stream, pa.Table] = {}
    for what in wanted:
        if what == ID:
            found[Stream(ID, key)] = pa.table({VALUE: rows["id"].drop_null()})  # fresh ones are null
        elif what == SOURCES:
            found[Stream(SOURCES, key)] = count_values(rows["src"])
        elif what == ENDS:
            assert isinstance(entity, EdgeType), f"{key} has no ends"
            columns: dict[str, list[pa.ChunkedArray]] = {}
            for end in ends_of(entity):
                if end.column != "src" or SOURCES not in wanted:  # counted sources are ends as well
                    columns.setdefault(end.node_key, []).append(rows[end.column])
            found |= {Stream(ENDS, node_key): distinct(many) for node_key, many in columns.items()}
        else:
            group = entity.uniques[int(what.removeprefix(UNIQUE))]
            keys = tuple_keys([rows[column_of(entity, name)] for name in group])
            table = pa.table({VALUE: keys, "id": rows["id"]})
            found[Stream(what, key)] = table.filter(pc.is_valid(table[VALUE])) if keys.null_count else table
    return found
