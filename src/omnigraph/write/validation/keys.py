"""Identity: no id twice in one write, no insert of an id that exists, no unique value twice anywhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import canonical_texts, whole
from omnigraph.errors import taken_text
from omnigraph.schema.catalog import EntityType
from omnigraph.storage.hashes import rows_with_equal_hash
from omnigraph.storage.lookup import existing_ids, rows_with_values, tuple_keys
from omnigraph.versioning.plan import KeysAbsent, Requirement, ValuesAbsent
from omnigraph.write.validation.findings import Findings
from omnigraph.write.validation.model import Base, Place, TableDelta, column_of

_MANY = 100_000


def check_keys(base: Base, delta: TableDelta, found: Findings) -> Iterator[Requirement]:
    """Check that no id occurs twice among the rows, and that none of the inserted ids exists."""
    if delta.fresh_ids and not delta.updated.num_rows:
        return
    written = delta.written
    for index, first in duplicates(written["id"]):
        entity_id = written["id"][index].as_py()
        if delta.entity.key:
            name = f"{delta.entity.name}.{_listed(delta.entity.key)}"
            text = f"@unique violation on {name}: {entity_id!r} {_also(delta, first)}"
            found.note("key", text, delta.entity, places=delta.places, index=index, entity_id=entity_id)
        else:
            text = f"{taken_text(delta.entity.table_key, entity_id)} in this write"
            found.note("taken", text, delta.entity, places=delta.places, index=index, entity_id=entity_id)
    if delta.overwrites or delta.fresh_ids or not delta.inserted.num_rows:
        return
    key = delta.entity.table_key
    ids = delta.inserted["id"]
    wanted = tuple(ids.drop_null().to_pylist())
    taken = existing_ids(base.table(key), wanted, base.entry(key).tail)
    if taken:
        for index in found.rows(pc.is_in(ids, value_set=pa.array(sorted(taken), pa.string()))):
            entity_id = ids[index].as_py()
            text = taken_text(key, entity_id)
            found.note("taken", text, delta.entity, places=delta.places, index=index, entity_id=entity_id)
    yield KeysAbsent(key, wanted)


def check_uniques(base: Base, delta: TableDelta, found: Findings) -> Iterator[Requirement]:
    """Check that no two rows, of this write or of the graph, share the values of a unique group. Nulls never match."""
    for group in delta.entity.uniques:
        yield from _check_unique(base, delta, group, found)


def _check_unique(base: Base, delta: TableDelta, group: tuple[str, ...], found: Findings) -> Iterator[Requirement]:
    entity, written = delta.entity, delta.written
    columns = tuple(column_of(entity, name) for name in group)
    if not written.num_rows:
        return
    keys = tuple_keys([written[column] for column in columns])
    for index, first in duplicates(keys):
        shown = _values(written, columns, index)
        text = f"@unique violation on {entity.name}.{_listed(group)}: {shown} {_also(delta, first)}"
        found.note("unique", text, entity, places=delta.places, index=index, field=group[0], value=shown)
    if delta.overwrites:
        return
    present = written.filter(pc.is_valid(keys))
    if not present.num_rows:
        return
    values = _texts(present, columns)
    gone = delta.gone
    rows = rows_with_values(base.table(entity.table_key), columns, values)
    if rows.num_rows:
        others = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=pa.array(gone, pa.string()))))
        for index in found.rows(pc.is_in(keys, value_set=others["key"].combine_chunks())):
            shown = _values(written, columns, index)
            holder = others["id"][pc.index(others["key"], keys[index]).as_py()].as_py()
            text = f"@unique violation on {entity.name}.{_listed(group)}: {shown} belongs to {holder!r}"
            found.note("unique", text, entity, places=delta.places, index=index, field=group[0], value=shown)
    yield ValuesAbsent(entity.table_key, columns, values, tuple(gone))


def replaced_rows(delta: TableDelta) -> set[Place]:
    """Places of rows that a later row of the same id replaces: upserts of edges that have no key of their own."""
    replaced: set[Place] = set()
    if delta.entity.key or delta.entity.kind != "edge" or delta.fresh_ids:
        return replaced
    last: dict[str, int] = {}
    for index, entity_id in enumerate(delta.written["id"].to_pylist()):
        if entity_id is None:
            continue
        if entity_id in last:
            replaced.add(delta.places.at(last[entity_id]))
        last[entity_id] = index
    return replaced


def duplicates(keys: pa.Array | pa.ChunkedArray, many: int = _MANY) -> list[tuple[int, int]]:
    """Rows whose key an earlier row has, each with that row. Null is no key."""
    array = whole(keys)
    if len(array) < 2:
        return []
    if len(array) <= many or array.type != pa.string():
        return _equal_rows(array)
    suspects = rows_with_equal_hash(array)
    return [(int(suspects[row]), int(suspects[first])) for row, first in _equal_rows(array.take(suspects))]


def _equal_rows(array: pa.Array) -> list[tuple[int, int]]:
    encoded = array.dictionary_encode()
    if len(encoded.dictionary) == len(array) - array.null_count:
        return []
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(codes >= 0)
    _, places, groups = np.unique(codes[rows], return_index=True, return_inverse=True)
    first = rows[places][groups]
    return [(int(row), int(origin)) for row, origin in zip(rows, first, strict=True) if row != origin]


def _also(delta: TableDelta, first: int) -> str:
    path, row = delta.places.at(first)
    if row is None:
        return "is written twice"
    return f"is also in {'row' if path is None else 'line'} {row}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _texts(rows: pa.Table, columns: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    texts = [canonical_texts(whole(rows[column])).to_pylist() for column in columns]
    return tuple(zip(*texts, strict=True))


def _values(rows: pa.Table, columns: tuple[str, ...], index: int) -> str:
    shown = [repr(rows[column][index].as_py()) for column in columns]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def unique_columns(entity: EntityType) -> tuple[str, ...]:
    """The columns by which unique values are looked up."""
    return tuple(dict.fromkeys(column_of(entity, group[0]) for group in entity.uniques))
