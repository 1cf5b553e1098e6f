"""What a merge cannot decide by itself, and how a caller decides it beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.errors.codec import error_part
from omnigraph.json_values import json_value
from omnigraph.schema.catalog import EntityType

OURS, THEIRS = "ours", "theirs"
Image = dict[str, Any] | None


class ConflictKind(StrEnum):
    """Every way in which two branches can contradict each other."""

    DIVERGENT_INSERT = "DivergentInsert"
    DIVERGENT_UPDATE = "DivergentUpdate"
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    ORPHAN_EDGE = "OrphanEdge"
    UNIQUE_VIOLATION = "UniqueViolation"
    CARDINALITY_VIOLATION = "CardinalityViolation"
    VALUE_CONSTRAINT_VIOLATION = "ValueConstraintViolation"
    SCHEMA_CONFLICT = "SchemaConflict"


RESOLVABLE = (
    ConflictKind.DIVERGENT_INSERT,
    ConflictKind.DIVERGENT_UPDATE,
    ConflictKind.DELETE_VS_UPDATE,
    ConflictKind.ORPHAN_EDGE,
)
"""Kinds with two sides to choose from. The others need a change on one of the branches."""


@error_part
@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One contradiction. `ours` is the value on the branch that is merged into, `theirs` the one that is merged.

    `resolution` says which side a strategy chose; None is an open conflict.
    """

    kind: ConflictKind
    entity_kind: str
    type_name: str
    message: str
    entity_id: str | None = None
    base: Any = None
    ours: Any = None
    theirs: Any = None
    resolution: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", ConflictKind(self.kind))  # which travels as its text

    def as_dict(self) -> dict[str, Any]:
        """For `--json`, files and HTTP bodies: values that JSON can carry."""
        return {name: json_value(value) for name, value in {**asdict(self), "kind": str(self.kind)}.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The side that wins in one conflict, between the values that it was chosen for, as JSON has them."""

    kind: str
    table_key: str
    entity_id: str
    side: str
    ours: Any = None
    theirs: Any = None

    @property
    def place(self) -> tuple[str, str, str]:
        """Which conflict is meant."""
        return self.kind, self.table_key, self.entity_id


Strategy = str | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Decisions:
    """Which side wins: for single conflicts, by type or kind of conflict, or for everything."""

    everywhere: str | None
    chosen: Mapping[str, str]
    single: Mapping[tuple[str, str, str], Resolution] = field(default_factory=dict)

    @classmethod
    def of(cls, strategy: Strategy, resolutions: Sequence[Resolution] = ()) -> Decisions:
        """From what a caller wrote: `"ours"`, or `{"DivergentUpdate": "theirs", "Person": "ours"}`."""
        single = {each.place: each for each in resolutions}
        if strategy is None or isinstance(strategy, str):
            _require_side(strategy)
            return cls(strategy, {}, single)
        kinds = {str(kind).lower(): str(kind) for kind in ConflictKind}
        chosen = {}
        for name, side in strategy.items():
            _require_side(side)
            kind = kinds.get(str(name).lower())
            if kind is not None and kind not in RESOLVABLE:
                raise InvalidArgument(
                    f"a {kind} has no side to choose", hint="change one of the branches so that it does not arise"
                )
            chosen[kind or str(name)] = side
        return cls(None, chosen, single)

    def side(
        self, kind: ConflictKind, entity: EntityType, entity_id: str, *, ours: Image = None, theirs: Image = None
    ) -> str | None:
        """The side that wins, or None when nobody said. An entity is more particular than its type, a type than a kind.

        What was decided about other values than these two is not decided.
        """
        single = self.single.get((str(kind), entity.table_key, entity_id))
        if single is not None and (json_value(ours), json_value(theirs)) == (single.ours, single.theirs):
            return single.side
        for name in (entity.table_key, entity.name, str(kind)):
            if name in self.chosen:
                return self.chosen[name]
        return self.everywhere

    def require_known_types(self, known: Mapping[str, Any]) -> None:
        """Refuse the name of something that is neither a kind of conflict nor a type."""
        names = {str(kind) for kind in ConflictKind} | set(known) | {key.partition(":")[2] for key in known}
        for name in self.chosen:
            if name not in names:
                raise InvalidArgument(
                    f"strategy names {name!r}, which is no type and no kind of conflict",
                    hint=f"kinds: {', '.join(RESOLVABLE)}",
                )


def _require_side(side: str | None) -> None:
    if side not in (None, OURS, THEIRS):
        raise InvalidArgument(f"strategy {side!r} is unknown", hint="use 'ours' or 'theirs'")
