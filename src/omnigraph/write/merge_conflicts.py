"""What a merge cannot decide by itself, and how a caller decides it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.schema.catalog import EntityType

OURS, THEIRS = "ours", "theirs"


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

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and HTTP bodies."""
        return {**asdict(self), "kind": str(self.kind)}


Strategy = str | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Decisions:
    """A checked strategy: which side wins, for everything or by type or kind of conflict."""

    everywhere: str | None
    chosen: Mapping[str, str]

    @classmethod
    def of(cls, strategy: Strategy) -> Decisions:
        """From what a caller wrote: `"ours"`, or `{"DivergentUpdate": "theirs", "Person": "ours"}`."""
        if strategy is None or isinstance(strategy, str):
            _require_side(strategy)
            return cls(strategy, {})
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
        return cls(None, chosen)

    def side(self, kind: ConflictKind, entity: EntityType) -> str | None:
        """The side that wins, or None when nobody said. A type is more particular than a kind."""
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
