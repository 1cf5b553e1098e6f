"""Leave out edges of a load that repeat an existing or an earlier edge, found by tasks.

    staged parts, fragments of the graph -> tasks cut digests into buckets -> tasks find repeated ones in each bucket
    -> tasks write the parts again without them

The driver holds four bytes for each edge that is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import whole
from omnigraph.pipeline.buckets import BUCKETS, VALUE, CutFile, Piece, Stream, cut, read_pieces
from omnigraph.pipeline.restaging import Restaged, keep_rows
from omnigraph.pipeline.staging import StagedPart, StagedSplit, StageJob
from omnigraph.storage.apply_effects import row_batches
from omnigraph.write.edge_duplicates import can_repeat, content_columns, content_digests
from omnigraph.write.load import OVERWRITE
from omnigraph.write.transaction import WriteTxn

CONTENT = "content"
_LOADED = pa.schema({VALUE: pa.string(), "part": pa.int32(), "row": pa.int32()})
_PRESENT = pa.schema({VALUE: pa.string()})
_BUCKETS_PER_TASK = 32
_FRAGMENTS_PER_TASK = 4
Tasks = Callable[[Callable[[Any], Any], Sequence[Any], str], list[Any]]
Rows = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Part:
    """A staged part, its number among those of the load, and its split."""

    number: int
    split: int
    staged: StagedPart


@dataclass(frozen=True, slots=True)
class _Fragments:
    """Some fragments of a table of the graph."""

    table_key: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The digests of one table in some buckets: those of the load and those of the graph."""

    loaded: Sequence[Piece]
    present: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A staged split, and the rows that its parts lose, by table."""

    staged: StagedSplit
    rows: Mapping[str, Rows]


def drop_repeated_edges(
    txn: WriteTxn, job: StageJob, mode: str, staged: dict[int, StagedSplit], tasks: Tasks
) -> Counter[str]:
    """Leave repeated edges out of the staged splits. Return their number by table."""
    parts = list(_parts(txn, staged))
    if not parts:
        return Counter()
    loaded = tasks(partial(_cut_part, job), parts, "bucket the edges of the load")
    base = list(_fragments(txn, {part.staged.table_key for part in parts})) if mode != OVERWRITE else []
    present = tasks(partial(_cut_fragments, job), base, "bucket the edges of the graph") if base else []
    buckets = list(_buckets(parts, loaded, present))
    repeated = _by_split(parts, tasks(partial(_find_repeated, job), buckets, "find repeated edges"))
    works = [_Repeated(staged[split], rows) for split, rows in repeated.items()]
    for answer in tasks(partial(_without, job), works, "leave repeated edges out") if works else []:
        if answer.staged.error is not None:
            raise answer.staged.error
        staged[answer.staged.number] = answer.staged
    counts: Counter[str] = Counter()
    for work in works:
        counts.update({key: len(rows) for key, rows in work.rows.items()})
    return counts


def _by_split(parts: Sequence[_Part], answers: Sequence[Mapping[int, Rows]]) -> dict[int, dict[str, Rows]]:
    found: dict[int, dict[str, Rows]] = {}
    for part in parts:
        mine = [answer[part.number] for answer in answers if part.number in answer]
        if mine:
            found.setdefault(part.split, {})[part.staged.table_key] = np.concatenate(mine)
    return found


def _parts(txn: WriteTxn, staged: Mapping[int, StagedSplit]) -> Iterator[_Part]:
    number = 0
    for split in sorted(staged):
        for part in staged[split].parts:
            if part.rows and can_repeat(txn.catalog.type_of(part.table_key)):
                yield _Part(number, split, part)
                number += 1


def _fragments(txn: WriteTxn, keys: set[str]) -> Iterator[_Fragments]:
    for key in sorted(keys):
        ids = list(txn.table(key).fragments) if txn.entry(key).row_count else []
        for first in range(0, len(ids), _FRAGMENTS_PER_TASK):
            yield _Fragments(key, tuple(ids[first : first + _FRAGMENTS_PER_TASK]))


def _buckets(parts: Sequence[_Part], loaded: Sequence[CutFile], present: Sequence[CutFile]) -> Iterator[_Bucket]:
    for key in sorted({part.staged.table_key for part in parts}):
        stream = Stream(CONTENT, key)
        for begin in range(0, BUCKETS, _BUCKETS_PER_TASK):
            mine, theirs = (
                [piece for file in files if (piece := file.piece(stream, begin, begin + _BUCKETS_PER_TASK)) is not None]
                for files in (loaded, present)
            )
            if mine:
                yield _Bucket(mine, theirs)


def _cut_part(job: StageJob, part: _Part) -> CutFile:
    key = part.staged.table_key
    columns = content_columns(job.store().catalog(job.schema_hash).type_of(key))
    digests: list[str] = []
    for batch in row_batches(job.store().tables, job.table(key), part.staged.fragments):
        digests += content_digests(pa.Table.from_batches([batch.select(columns)]))
    rows = [digests, np.full(len(digests), part.number, np.int32), np.arange(len(digests), dtype=np.int32)]
    return cut(job.scratch(CONTENT), {Stream(CONTENT, key): pa.table(rows, schema=_LOADED)}, job.store().objects)


def _cut_fragments(job: StageJob, split: _Fragments) -> CutFile:
    columns = content_columns(job.store().catalog(job.schema_hash).type_of(split.table_key))
    digests: list[str] = []
    for batch in job.table(split.table_key).batches(columns, fragments=split.ids):
        digests += content_digests(pa.Table.from_batches([batch]))
    rows = pa.table([digests], schema=_PRESENT)
    return cut(job.scratch(CONTENT), {Stream(CONTENT, split.table_key): rows}, job.store().objects)


def _find_repeated(job: StageJob, bucket: _Bucket) -> dict[int, Rows]:
    """Return the rows to leave out, by number of their part: repetitions of edges of the graph or of the load."""
    objects = job.store().objects
    present = read_pieces(bucket.present, _PRESENT, objects)
    loaded = read_pieces(bucket.loaded, _LOADED, objects).sort_by([("part", "ascending"), ("row", "ascending")])
    values = whole(loaded[VALUE])
    repeated = np.ones(len(values), np.bool_)
    repeated[np.unique(values.dictionary_encode().indices.to_numpy(), return_index=True)[1]] = False
    if present.num_rows:
        repeated |= pc.is_in(values, value_set=whole(present[VALUE])).to_numpy(zero_copy_only=False)
    part, row = loaded["part"].to_numpy()[repeated], loaded["row"].to_numpy()[repeated]
    return {int(number): row[part == number] for number in np.unique(part)}


def _without(job: StageJob, work: _Repeated) -> Restaged:
    def kept(part: StagedPart) -> npt.NDArray[np.bool_]:
        mask = np.ones(part.rows, np.bool_)
        mask[work.rows.get(part.table_key, np.empty(0, np.int32))] = False
        return mask

    return keep_rows(job, work.staged, kept)
