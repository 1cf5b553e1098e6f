"""Conflicts of a merge: the changes of two branches that need a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from omnigraph.errors.codec import error_part
from omnigraph.json_values import json_value

Image = dict[str, Any] | None
OURS, THEIRS = "ours", "theirs"


Strategy = str | Mapping[str, str] | None


class ConflictKind(StrEnum):
    """The kinds of conflict between two branches."""

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
"""Kinds that can be resolved by choosing a side. The others need a change on one of the branches."""


@error_part
@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One conflict. `ours` is the value on the branch that is merged into, `theirs` that on the merged branch.

    `resolution` is the side that a strategy chose; None marks an open conflict.
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
