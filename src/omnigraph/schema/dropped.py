"""What a migration may bring back: types and properties that were dropped softly and whose rows are still there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from omnigraph.schema.model import EntityType, Property


@dataclass(frozen=True, slots=True)
class DroppedType:
    """A type that was dropped, as it was then. `ends` are the ids of the node types at the ends of an edge type.

    `rows` is None when cleanup has reclaimed them.
    """

    entity: EntityType
    ends: tuple[str, ...]
    rows: int | None


@dataclass(frozen=True, slots=True)
class HeldValues:
    """How many rows of a table have a value in the column of a dropped property, and how many have none."""

    present: int
    absent: int


class Kept(Protocol):
    """What a graph still holds of dropped types and properties."""

    def dropped_type(self, table_key: str) -> DroppedType | None:
        """The type of that key that was dropped last."""
        ...

    def held_values(self, entity: EntityType, prop: Property) -> HeldValues | None:
        """The values of a dropped property; None when its column is not in the table any more."""
        ...


class NothingKept:
    """For comparing schemas without a graph."""

    def dropped_type(self, table_key: str) -> DroppedType | None:
        """None."""
        return None

    def held_values(self, entity: EntityType, prop: Property) -> HeldValues | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """What is asked for beside the text.

    `allow_data_loss`: drops are hard. `drop` names what may be dropped, `Person` or `Person.age`; a property that was
    dropped softly before and is named there is removed by a hard drop too. `fresh` names what begins anew instead of
    being restored.
    """

    allow_data_loss: bool = False
    drop: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()
