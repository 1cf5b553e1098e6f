"""Finding entities by id at a pin: the key index for the fragments it covers, key hashes for the tail it does not.

A one-row append leaves a fragment that no index covers, and reading every such fragment is what makes a naive table
slow. So each pin carries the key hashes of its small uncovered fragments (`Tail`), and a lookup opens only the
fragments whose hashes match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import canonical_texts, whole
from omnigraph.errors import MissingData
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.calls import record
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.index_prefetch import IndexPrefetch
from omnigraph.storage.key_sets import KeySets
from omnigraph.storage.predicates import sql_literal
from omnigraph.storage.table_memory import KnownIds
from omnigraph.storage.tables import Table, data_file
from omnigraph.storage.tail import Tail, key_hash

MAX_LISTED = 4096
"""Above this many ids one scan of the id column is cheaper than a predicate that lists them."""
_MAX_WRITTEN_HERE = 4096
_FEW = 256
_written_here: BoundedCache[str, frozenset[str]] = BoundedCache(_MAX_WRITTEN_HERE)
KEY_SETS = KeySets()
INDEX_WARMING = IndexPrefetch()
_NO_ADDRESSES = pa.table({"_rowaddr": pa.array([], pa.uint64())})


@dataclass(frozen=True, slots=True)
class Located:
    """Ids that exist, each with its row address."""

    ids: tuple[str, ...]
    addresses: tuple[int, ...]


def locate(table: Table, ids: Sequence[str], tail: Tail, answered: frozenset[int] = frozenset()) -> Located:
    """The ids of `ids` (each given once) that exist in the table, and where. `answered` fragments hold none of them."""
    if not ids or not table.fragments:
        return Located((), ())
    if len(ids) > MAX_LISTED:
        return _locate_by_scan(table, ids)
    known: Located | None = table.memory.located(tuple(ids))
    if known is not None:
        return known
    remembered = _remembered(table, ids, tail, answered)
    if remembered is not None:
        return remembered
    # Usually all exist or none does, and then the index alone answers: no row has to be read to distinguish them.
    found = _matches(table, ids, tail, answered, columns=[])
    if 0 < found.num_rows < len(ids):
        found = _matches(table, ids, tail, answered, columns=["id"])
        return Located(tuple(found["id"].to_pylist()), tuple(found["_rowaddr"].to_pylist()))
    return Located(tuple(ids) if found.num_rows else (), tuple(found["_rowaddr"].to_pylist()))


def _remembered(table: Table, ids: Sequence[str], tail: Tail, answered: frozenset[int]) -> Located | None:
    """`locate` where key sets in memory replace the index. Uncovered fragments are read where one of `ids` may be."""
    known = KEY_SETS.locate(table, ids) if _is_index_needed(table, answered) else []
    if known is None:
        return None
    suspects = _suspects(table, ids, tail, answered)
    if suspects:
        rows = _probe(table, in_list("id", ids), ["id"], fragments=suspects)
        known += zip(rows["id"].to_pylist(), rows["_rowaddr"].to_pylist(), strict=True)
    return Located(tuple(i for i, _ in known), tuple(address for _, address in known))


def locate_ahead(table: Table, ids: Sequence[str], tail: Tail) -> None:
    """`locate`, and keep the answer for an equal lookup at the same version that follows. Many ids are not kept."""
    if 0 < len(ids) <= _FEW:
        found = locate(table, ids, tail)
        _remember_located(table, tuple(ids), found)


def existing_ids(table: Table, ids: Sequence[str], tail: Tail, absent_in: Table | None = None) -> frozenset[str]:
    """The ids of `ids` that exist. Fragments that this process wrote itself are answered from memory.

    `absent_in` is a version known to hold none of them: the fragments that both have in common are not searched.
    """
    if len(ids) > MAX_LISTED:
        return frozenset(locate(table, ids, tail).ids)
    memory = _memory_of(table)
    found = memory.ids.intersection(ids)
    rest = [i for i in ids if i not in found]
    answered = memory.fragments if absent_in is None else memory.fragments | _common_fragments(absent_in, table)
    if rest and _is_index_needed(table, answered) and KEY_SETS.certainly_new(table, rest):
        answered |= table.covered_fragments
    if not rest or answered.issuperset(table.fragments):
        return found
    return found.union(locate(table, rest, tail, answered=answered).ids)


def _common_fragments(before: Table, table: Table) -> frozenset[int]:
    """Fragments that two versions hold with the same rows."""
    old = before.fragments
    return frozenset(
        i
        for i, fragment in table.fragments.items()
        if (was := old.get(i)) is not None
        and (fragment is was or (data_file(fragment) == data_file(was) and fragment.deletion_file == was.deletion_file))
    )


def _memory_of(table: Table) -> KnownIds:
    """The ids of a version's uncovered fragments as far as they are known without reading."""
    return table.memory.known_ids(lambda: _ids_written_here(table))


def _ids_written_here(table: Table) -> KnownIds:
    fragments: set[int] = set()
    ids: set[str] = set()
    for fragment_id in table.uncovered_fragments:
        fragment = table.fragments[fragment_id]
        written = _written_here.get(data_file(fragment)) if fragment.deletion_file is None else None
        if written is not None:
            fragments.add(fragment_id)
            ids |= written
    return KnownIds(frozenset(fragments), frozenset(ids))


def remember_append(base: Table, table: Table, new_fragments: Sequence[int], files: Sequence[str]) -> None:
    """Carry the known ids of a version over to one that adds rows and removes none of the known ones."""
    memory = _memory_of(base)
    written = [(i, _written_here.get(file)) for i, file in zip(new_fragments, files, strict=False)]
    known = [(i, ids) for i, ids in written if ids is not None]
    fragments = memory.fragments.union(i for i, _ in known)
    table.memory.learn_ids(KnownIds(fragments, memory.ids.union(*(ids for _, ids in known))))


def missing_ids(table: Table, ids: Sequence[str], tail: Tail) -> list[str]:
    """Those of `ids` that do not exist, in input order."""
    found = existing_ids(table, ids, tail)
    return [i for i in ids if i not in found]


def remember_written(file: str, ids: Iterable[str]) -> None:
    """Cache the ids of a small data file that this process has just written. Data files never change."""
    _written_here.put(file, frozenset(ids))


def rows_where_any(table: Table, columns: Sequence[str], ids: Sequence[str]) -> pa.Table:
    """Ids and the given columns of rows in which any of the columns holds one of `ids` (incident edges)."""
    wanted = ["id", *columns]
    if not ids or not table.fragments:
        return table.schema.empty_table().select(wanted)
    if len(ids) <= MAX_LISTED:
        return table.scan(wanted, where=" OR ".join(in_list(c, ids) for c in columns))
    rows = table.scan(wanted)
    mask = pc.is_in(rows[columns[0]], value_set=pa.array(ids))
    for column in columns[1:]:
        mask = pc.or_(mask, pc.is_in(rows[column], value_set=pa.array(ids)))
    return rows.filter(mask)


def rows_by_id(table: Table, ids: Sequence[str], tail: Tail, columns: Sequence[str]) -> pa.Table:
    """The rows of some ids, read from the fragments that hold them and no others."""
    wanted = tuple(dict.fromkeys(ids))
    if not wanted or not table.fragments:
        return table.schema.empty_table().select(list(columns))
    if len(wanted) > MAX_LISTED:
        rows = table.scan(list(dict.fromkeys(("id", *columns))))
        return rows.filter(pc.is_in(rows["id"], value_set=pa.array(wanted, pa.string()))).select(list(columns))
    with_id = list(dict.fromkeys(("id", *columns)))
    rows = _read_remembered(table, wanted, tail, with_id) if len(wanted) <= _FEW else None
    if rows is None:
        rows = _matches(table, wanted, tail, frozenset(), columns=with_id)
    if not rows.num_rows:
        return table.schema.empty_table().select(list(columns))
    if len(wanted) <= _FEW:  # rows that were read are often written next, at the same version
        found = Located(tuple(rows["id"].to_pylist()), tuple(rows["_rowaddr"].to_pylist()))
        _remember_located(table, wanted, found)
    return rows.select(list(columns))


def _read_remembered(table: Table, ids: Sequence[str], tail: Tail, columns: list[str]) -> pa.Table | None:
    """`_matches` where key sets in memory replace the index: the rows are read by position, without a search."""
    home = table.index_home
    if not _is_index_needed(table, frozenset()) or not set(columns).issubset(home.schema.names):
        return None
    known = KEY_SETS.locate(table, ids)
    if not known or _suspects(table, ids, tail, frozenset()):
        return None
    addresses = sorted(address for _, address in known)
    by_fragment = groupby(addresses, key=lambda address: address >> 32)
    try:
        parts = [home.rows_at(owner, [a & 0xFFFFFFFF for a in mine], columns) for owner, mine in by_fragment]
    except MissingData:  # of the version whose index is used: the present one has its own
        return None
    return pa.concat_tables(parts).append_column("_rowaddr", pa.array(addresses, pa.uint64()))


def _remember_located(table: Table, wanted: tuple[str, ...], found: Located) -> None:
    table.memory.remember_located(wanted, found)


def rows_with_values(table: Table, columns: Sequence[str], values: Sequence[Sequence[str]]) -> pa.Table:
    """Ids and canonical texts of rows whose columns hold, together, one of `values` (tuples of canonical texts).

    The first column narrows the search, through its index where it has one; the rest is compared here.
    """
    empty = pa.table({"id": pa.array([], pa.string()), "key": pa.array([], pa.string())})
    if not values or not table.fragments:
        return empty
    first = list(dict.fromkeys(value[0] for value in values))
    where = None
    if len(first) <= MAX_LISTED:
        kind = table.schema.field(columns[0]).type
        where = f"`{columns[0]}` IN ({','.join(_literal(text, kind) for text in first)})"
    rows = table.scan(["id", *(c for c in columns if c != "id")], where=where)
    keys = tuple_keys([rows[column] for column in columns])
    wanted = tuple_keys([pa.chunked_array([pa.array(part, pa.string())]) for part in zip(*values, strict=True)])
    found = pa.table({"id": rows["id"], "key": keys})
    return found.filter(pc.is_in(keys, value_set=wanted))


def tuple_keys(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """One text per row, equal exactly where the tuples of values are; null where one of the values is."""
    texts = [canonical_texts(whole(column)) for column in columns]
    if len(texts) == 1:
        return texts[0]
    parts: list[pa.Array] = []
    for text in texts:
        parts += [pc.binary_length(text).cast(pa.string()), text]
    # Lengths go first: ("x|y", "z") and ("x", "y|z") are different tuples.
    return pc.binary_join_element_wise(*parts, ":")


def _literal(text: str, kind: pa.DataType) -> str:
    """A canonical text as an SQL literal of a column's type."""
    if pa.types.is_string(kind):
        return sql_literal(pa.scalar(text))
    if pa.types.is_date(kind):
        return sql_literal(pa.scalar(int(text), pa.int32()).cast(pa.date32()))
    if pa.types.is_timestamp(kind):
        return sql_literal(pa.scalar(int(text), pa.int64()).cast(pa.timestamp("ms", kind.tz)))
    return text


def in_list(column: str, values: Sequence[str]) -> str:
    """An SQL predicate `column IN (...)` with quoted text literals."""
    literals = ",".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"`{column}` IN ({literals})"


def _matches(table: Table, ids: Sequence[str], tail: Tail, answered: frozenset[int], columns: list[str]) -> pa.Table:
    predicate = in_list("id", ids)
    parts: list[pa.Table] = []
    if _is_index_needed(table, answered):
        parts.append(_probe_covered(table, predicate, columns))
    suspects = _suspects(table, ids, tail, answered)
    if suspects:
        parts.append(_probe(table, predicate, columns, fragments=suspects))
    if not parts:
        return _NO_ADDRESSES
    return pa.concat_tables(parts)


def _is_index_needed(table: Table, answered: frozenset[int]) -> bool:
    """Whether there are covered fragments that are not `answered`."""
    return not answered.union(table.uncovered_fragments).issuperset(table.fragments)


def _suspects(table: Table, ids: Sequence[str], tail: Tail, answered: frozenset[int]) -> list[int]:
    """Fragments that no index covers and that may hold one of `ids`."""
    open_questions = [i for i in table.uncovered_fragments if i not in answered]
    wanted = frozenset(map(key_hash, ids)) if open_questions else frozenset()
    return tail.suspects(open_questions, wanted)


def _probe_covered(table: Table, predicate: str, columns: list[str]) -> pa.Table:
    """Matches in covered fragments, from the version whose index is already loaded, without rows removed since."""
    home = table.index_home
    INDEX_WARMING.looked_up(home)
    if home is table:
        return _probe(table, predicate, columns, fragments=None)
    try:
        found = _probe(home, predicate, columns, fragments=None)
    except MissingData:  # that version has been reclaimed
        table.move_home()
        return _probe(table, predicate, columns, fragments=None)
    live = [table.still_holds(address) for address in found["_rowaddr"].to_pylist()]
    return found if all(live) else found.filter(pa.array(live))


def _probe(table: Table, predicate: str, columns: list[str], *, fragments: list[int] | None) -> pa.Table:
    record("key lookup")
    dataset = table.dataset
    chosen = None if fragments is None else [f for f in map(dataset.get_fragment, fragments) if f is not None]
    with translate_faults(f"looking up ids in {table.path}"):
        # fast_search skips fragments that the index does not cover: those are probed by name.
        return dataset.scanner(
            columns=columns,
            filter=predicate,
            with_row_address=True,
            fragments=chosen,
            fast_search=fragments is None,
        ).to_table()


def _locate_by_scan(table: Table, ids: Sequence[str]) -> Located:
    with translate_faults(f"looking up ids in {table.path}"):
        rows = table.dataset.scanner(columns=["id"], with_row_address=True).to_table()
    found = rows.filter(pc.is_in(rows["id"], value_set=pa.array(ids, pa.string())))
    return Located(tuple(found["id"].to_pylist()), tuple(found["_rowaddr"].to_pylist()))
