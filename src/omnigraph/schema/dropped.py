"""Softly dropped types and properties whose rows still exist, which a migration may restore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from omnigraph.schema.model import EntityType, Property


@dataclass(frozen=True, slots=True)
class DroppedType:
    """A dropped type as it was. `ends` are the ids of the node types at the ends of an edge type.

    `rows` is None when cleanup has reclaimed them.
    """

    entity: EntityType
    ends: tuple[str, ...]
    rows: int | None


@dataclass(frozen=True, slots=True)
class HeldValues:
    """The numbers of rows with and without a value in the column of a dropped property."""

    present: int
    absent: int


class Kept(Protocol):
    """Provides the rows of dropped types and properties that a graph still holds."""

    def dropped_type(self, table_key: str) -> DroppedType | None:
        """Return the type of that key that was dropped last."""
        ...

    def held_values(self, entity: EntityType, prop: Property) -> HeldValues | None:
        """Return the values of a dropped property; None when its column is not in the table any more."""
        ...


class NothingKept:
    """The empty implementation, for comparing schemas without a graph."""

    def dropped_type(self, table_key: str) -> DroppedType | None:
        """Return None."""
        return None

    def held_values(self, entity: EntityType, prop: Property) -> HeldValues | None:
        """Return None."""
        return None


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """Options of a migration beside the schema text.

    `allow_data_loss`: drops are hard. `drop` names what may be dropped, `Person` or `Person.age`; a property that was
    dropped softly before and is named there is removed by a hard drop too. `fresh` names types and properties that
    begin empty instead of being restored.
    """

    allow_data_loss: bool = False
    drop: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()
