"""The driver's side of screening: the work of tasks, and the selection of rows for the validator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.pipeline.buckets import CutFile, Stream, bucket_ranges, pieces_of
from omnigraph.pipeline.screening import (
    BaseSplit,
    BucketWork,
    MaskWork,
    MatchedRows,
    Screened,
    Screening,
    cut_base,
    cut_part,
    mask,
    screen,
)
from omnigraph.pipeline.staging import StagedPart, StageJob, read_keys
from omnigraph.pipeline.streams import ENDS, ID, SOURCES, UNIQUE, part_streams
from omnigraph.schema.catalog import EdgeType, EntityType
from omnigraph.storage.effects import AppendRows, MaskRows, WrittenFragment
from omnigraph.storage.lookup import tuple_keys
from omnigraph.versioning.plan import KeysPresent, Requirement, Unmoved
from omnigraph.write.load import APPEND, MERGE, OVERWRITE
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import NOWHERE, Places, needed_columns
from omnigraph.write.validation.edges import ends_of
from omnigraph.write.validation.model import column_of

SCREENED_ROWS = 250_000
"""Fewer rows than this are judged by the driver alone: that costs less than two more rounds of tasks."""

CUT_ROWS = 1 << 15
"""A task that stages fewer rows does not cut them: many tiny tasks would make more pieces than rows."""

_ROWS_PER_TASK = 1 << 19
"""Few enough that lookup tables fit the processor's cache."""
_ROWS_PER_BASE_SPLIT = 1 << 21
Gathered = Mapping[str, Sequence[StagedPart]]
Tasks = Callable[[Callable[[Any], Any], Sequence[Any], str], list[Any]]
"""Applies a function to every item in tasks and returns the answers in order. The text names the step."""


class Screener:
    """Screens large loads by tasks. Cut streams are reused when a load is judged again."""

    def __init__(self, tasks: Tasks, parallelism: Callable[[], int]) -> None:
        self._tasks = tasks
        self._parallelism = parallelism
        self._cut: dict[str, CutFile] = {}

    def is_worth_it(self, txn: WriteTxn, mode: str, gathered: Gathered) -> bool:
        """Return whether a load is large, and can be judged bucket by bucket."""
        if sum(part.rows for parts in gathered.values() for part in parts) < SCREENED_ROWS:
            return False
        return not any(_needs_all_rows(txn, mode, key, parts) for key, parts in gathered.items())

    def screened(self, txn: WriteTxn, job: StageJob, mode: str, gathered: Gathered) -> Screened:
        """Return the suspects that no bucket could clear."""
        base = list(_base_splits(txn, mode, gathered))
        screening = Screening(job, mode)
        parts = [part for mine in gathered.values() for part in mine if part.is_judged]
        missing = [part for part in parts if part.cut is None and part.keys not in self._cut]
        if missing:
            cuts = self._tasks(partial(cut_part, screening), missing, "bucket the rows of the load")
            self._cut |= {str(part.keys): file for part, file in zip(missing, cuts, strict=True)}
        present = self._tasks(partial(cut_base, screening), base, "bucket the rows of the graph")
        loaded = [part.cut or self._cut[str(part.keys)] for part in parts]
        found = Screened()
        ranges = self._ranges(txn, gathered, base)
        work = [BucketWork(pieces_of(loaded, *each), pieces_of(present, *each)) for each in ranges]
        for answer in self._tasks(partial(screen, screening), work, "check the rules between rows"):
            found.add(answer)
        return found

    def masked(
        self,
        txn: WriteTxn,
        job: StageJob,
        key: str,
        matched: Sequence[MatchedRows],
        fragments: tuple[WrittenFragment, ...],
    ) -> MaskRows | AppendRows:
        """Return the effect of an upsert: tasks write the masks of removed rows, the driver receives fragments only."""
        ranges: dict[int, list[tuple[str, int, int]]] = {}
        for file in matched:
            for at, fragment in enumerate(file.fragments.tolist()):
                ranges.setdefault(fragment, []).append((file.path, int(file.bounds[at]), int(file.bounds[at + 1])))
        if not ranges:
            return AppendRows(fragments)
        work = [MaskWork(key, fragment, tuple(ranges[fragment])) for fragment in sorted(ranges)]
        left = self._tasks(partial(mask, job), work, "remove the rows that are replaced")
        gone = tuple(each.fragment for each, after in zip(work, left, strict=True) if after is None)
        return MaskRows(txn.table(key).version, gone, tuple(after for after in left if after is not None), fragments)

    def _ranges(self, txn: WriteTxn, gathered: Gathered, base: Sequence[BaseSplit]) -> Iterator[tuple[int, int]]:
        rows = sum(part.rows for parts in gathered.values() for part in parts)
        rows += sum(txn.entry(key).row_count for key in {split.table_key for split in base})
        return bucket_ranges(rows, _ROWS_PER_TASK, self._parallelism())


def _needs_all_rows(txn: WriteTxn, mode: str, key: str, parts: Sequence[StagedPart]) -> bool:
    """Return whether the rules need all rows: for removed nodes, and for sources that lose edges."""
    entity = txn.catalog.type_of(key)
    if not txn.entry(key).row_count:
        return False
    if mode == OVERWRITE:
        return not isinstance(entity, EdgeType)
    is_fresh = all(part.fresh_ids for part in parts)
    return mode == MERGE and not is_fresh and SOURCES in part_streams(entity, is_fresh)


def _base_splits(txn: WriteTxn, mode: str, gathered: Gathered) -> Iterator[BaseSplit]:
    """Return the columns of the graph that rules read, in pieces."""
    wanted: dict[str, set[str]] = {}
    for key, parts in gathered.items():
        entity = txn.catalog.type_of(key)
        if mode != OVERWRITE:
            mine = part_streams(entity, all(part.fresh_ids for part in parts))
            wanted.setdefault(key, set()).update(what for what in mine if what != ENDS)
        if isinstance(entity, EdgeType):
            for end in ends_of(entity):
                if mode != OVERWRITE or end.node_key not in gathered:
                    wanted.setdefault(end.node_key, set()).add(ID)
    for key, streams in sorted(wanted.items()):
        if streams and txn.entry(key).row_count:
            for fragments in grouped_fragments({i: f.num_rows for i, f in txn.table(key).fragments.items()}):
                yield BaseSplit(key, fragments, tuple(sorted(streams)))


def grouped_fragments(rows: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield groups of adjacent fragments, one for each task; `rows` has the number of rows of each fragment."""
    group: list[int] = []
    total = 0
    for fragment_id, count in rows.items():
        if group and total + count > _ROWS_PER_BASE_SPLIT:
            yield tuple(group)
            group, total = [], 0
        group.append(fragment_id)
        total += count
    if group:
        yield tuple(group)


def demands_of(txn: WriteTxn, mode: str, gathered: Gathered, screened: Screened) -> tuple[Requirement, ...]:
    """Return the demands on the state at which a screened load is published. Very many ids demand the whole table."""
    found: list[Requirement] = []
    for key, parts in gathered.items():
        streams = part_streams(txn.catalog.type_of(key), all(part.fresh_ids for part in parts))
        if mode in (APPEND, MERGE) and any(what != ENDS for what in streams) and any(part.rows for part in parts):
            found.append(Unmoved(key))
    for node_key, ids in screened.outside.items():
        found.append(Unmoved(node_key) if ids is None else KeysPresent(node_key, tuple(ids)))
    return tuple(found)


class SuspectRows:
    """Selects, part by part, the rows related to suspects."""

    def __init__(self, txn: WriteTxn, gathered: Gathered, screened: Screened) -> None:
        self._txn = txn
        self._catalog = txn.catalog
        self._gathered = gathered
        self._suspects = {stream: set(values) for stream, values in screened.suspects.items()}

    def chosen(self) -> dict[str, tuple[pa.Table, Places]]:
        """Return rows and their places, by table; empty without suspects."""
        if not self._suspects:
            return {}
        edges = [key for key in self._gathered if isinstance(self._catalog.type_of(key), EdgeType)]
        found = {key: self._rows(key) for key in edges}
        for key in edges:
            self._follow(key, found[key][0])
            found[key] = self._rows(key)  # now with all edges of each source whose edges are counted
            self._follow(key, found[key][0])
        # In the order of the load, in which violations are reported.
        return {key: found[key] if key in found else self._rows(key) for key in self._gathered}

    def _follow(self, key: str, rows: pa.Table) -> None:
        """Add the nodes at both ends, and other edges of the same sources."""
        edge = self._catalog.type_of(key)
        assert isinstance(edge, EdgeType), f"{key} has no ends"
        for end in ends_of(edge):
            self._suspects.setdefault(Stream(ID, end.node_key), set()).update(rows[end.column].to_pylist())
        if SOURCES in part_streams(edge, True):
            self._suspects.setdefault(Stream(SOURCES, key), set()).update(rows["src"].to_pylist())

    def _rows(self, key: str) -> tuple[pa.Table, Places]:
        entity = self._catalog.type_of(key)
        columns = needed_columns(entity)
        tables: list[pa.Table] = []
        places = NOWHERE
        for part in self._gathered[key]:
            if not part.is_judged:
                continue
            rows = read_keys(self._txn.store, self._txn.table(key), part, columns)
            mask = self._mask(entity, rows)
            if mask is None:
                continue
            at = pc.indices_nonzero(pc.fill_null(mask, False))
            tables.append(rows.take(at))
            places += part.places.taken(at.to_pylist())
        none = entity.arrow_schema.empty_table().select(columns)
        return pa.concat_tables(tables) if tables else none, places

    def _mask(self, entity: EntityType, rows: pa.Table) -> Any:
        """Return which rows have a suspect value."""
        mask = None
        for stream, column in self._columns(entity, rows):
            values = self._suspects.get(Stream(*stream))
            if values:
                hit = pc.fill_null(pc.is_in(column, value_set=pa.array(sorted(values), pa.string())), False)
                mask = hit if mask is None else pc.or_(mask, hit)
        return mask

    def _columns(self, entity: EntityType, rows: pa.Table) -> Iterator[tuple[tuple[str, str], Any]]:
        key = entity.table_key
        yield (ID, key), rows["id"]
        if isinstance(entity, EdgeType):
            yield (SOURCES, key), rows["src"]
            for end in ends_of(entity):
                yield (ENDS, end.node_key), rows[end.column]
        for number, group in enumerate(entity.uniques):
            if Stream(f"{UNIQUE}{number}", key) in self._suspects:
                yield (f"{UNIQUE}{number}", key), tuple_keys([rows[column_of(entity, name)] for name in group])
