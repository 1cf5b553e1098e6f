"""The input of the validator: a delta per table and the state it applies to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.schema.catalog import Catalog, EdgeType, EntityType
from omnigraph.storage.tables import Table
from omnigraph.versioning.snapshot import TableEntry

Mask = npt.NDArray[np.bool_]
"""True for each selected row."""
Place = tuple[str | None, int | None]
"""A row of the input: its file, and its line or number there."""


class Base(Protocol):
    """The state that a write starts from; `WriteTxn` is one."""

    @property
    def catalog(self) -> Catalog:
        """The schema."""

    def entry(self, table_key: str) -> TableEntry:
        """The pin of a table."""

    def table(self, table_key: str) -> Table:
        """The table at its pin."""


class Subject(Protocol):
    """The subject of a violation: a type of the graph, or rows that have no type yet."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def table_key(self) -> str | None:
        """The table of a type."""


@dataclass(frozen=True, slots=True)
class Places:
    """Places of rows in the input: for each file (or None), the lines or row numbers of its rows, in order."""

    parts: tuple[tuple[str | None, Sequence[int]], ...] = ()

    def at(self, index: int) -> Place:
        """File and number of a row."""
        for path, numbers in self.parts:
            if index < len(numbers):
                return path, int(numbers[index])
            index -= len(numbers)
        return None, None

    def __iter__(self) -> Iterator[tuple[str | None, int]]:
        return ((path, int(number)) for path, numbers in self.parts for number in numbers)

    def taken(self, keep: Sequence[int]) -> Places:
        """The places of some rows, in ascending order."""
        mask = np.zeros(sum(len(numbers) for _, numbers in self.parts), bool)
        mask[np.asarray(keep, np.int64)] = True
        return self.filtered(mask)

    def filtered(self, mask: Mask) -> Places:
        """The places of the rows where a mask is true."""
        parts: list[tuple[str | None, Sequence[int]]] = []
        first = 0
        for path, numbers in self.parts:
            mine = _as_array(numbers)[mask[first : first + len(numbers)]]
            first += len(numbers)
            parts.append((path, cast(Sequence[int], mine)))
        return Places(tuple(parts))

    def outside(self, refused: Iterable[Place]) -> Mask:
        """True for the rows that are not at any of some places."""
        by_path: dict[str | None, list[int]] = {}
        for path, row in refused:
            if row is not None:
                by_path.setdefault(path, []).append(row)
        masks = [
            ~np.isin(_as_array(numbers), by_path[path]) if path in by_path else np.ones(len(numbers), bool)
            for path, numbers in self.parts
        ]
        return np.concatenate(masks) if masks else np.ones(0, bool)

    def __add__(self, other: Places) -> Places:
        return Places((*self.parts, *other.parts))


def _as_array(numbers: Sequence[int]) -> npt.NDArray[np.int64]:
    if isinstance(numbers, range):
        return np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
    return np.asarray(numbers, np.int64)


NOWHERE = Places()
"""Rows that come from no input: a mutation's, a merge's."""


def no_ids() -> pa.Array:
    """An empty array of ids."""
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDelta:
    """The change of one table by a write.

    `inserted` rows must be new. `updated` rows replace the row of their id, or are new where there is none. `removed`
    are ids of rows that are deleted and not written again. Rows have physical columns; rules over more than one row
    need only those of `needed_columns`, so a delta of a large load leaves the others out and sets `fields_checked`.
    """

    entity: EntityType
    inserted: pa.Table
    updated: pa.Table
    removed: pa.Array
    places: Places = NOWHERE
    fresh_ids: bool = False
    """Every inserted id was minted for this write, so none of them can exist."""
    overwrites: bool = False
    """All existing rows of the table are removed."""
    fields_checked: bool = False

    @property
    def written(self) -> pa.Table:
        """The rows that exist afterwards: inserted ones, then updated ones, in the order of `places`."""
        if not self.updated.num_rows:
            return self.inserted
        return pa.concat_tables([self.inserted, self.updated]) if self.inserted.num_rows else self.updated

    @property
    def gone(self) -> list[str]:
        """Ids whose present row, if there is one, is removed: updated and removed ones."""
        found: list[str] = self.updated["id"].drop_null().to_pylist() + self.removed.to_pylist()
        return found


def column_of(entity: EntityType, name: str) -> str:
    """The physical column of a property name, or of `src` and `dst`."""
    if isinstance(entity, EdgeType) and name in ("src", "dst"):
        return name
    return entity.property(name).column


def needed_columns(entity: EntityType) -> list[str]:
    """The columns that rules over more than one row read."""
    ends = ["src", "dst"] if isinstance(entity, EdgeType) else []
    uniques = [column_of(entity, name) for group in entity.uniques for name in group]
    return list(dict.fromkeys(["id", *ends, *uniques]))
