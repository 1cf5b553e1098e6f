"""Conflicts that a merge cannot decide by itself, and how a caller decides them beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.api.conflicts import OURS, RESOLVABLE, THEIRS, ConflictKind, Image, Strategy
from omnigraph.errors import InvalidArgument
from omnigraph.json_values import json_value
from omnigraph.schema.catalog import EntityType


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The side that wins in one conflict, and the values between which it was chosen, as JSON has them."""

    kind: str
    table_key: str
    entity_id: str
    side: str
    ours: Any = None
    theirs: Any = None

    @property
    def place(self) -> tuple[str, str, str]:
        """The conflict that this resolves."""
        return self.kind, self.table_key, self.entity_id


@dataclass(frozen=True, slots=True)
class Decisions:
    """The winning side: for single conflicts, by type or kind of conflict, or for all."""

    everywhere: str | None
    chosen: Mapping[str, str]
    single: Mapping[tuple[str, str, str], Resolution] = field(default_factory=dict)

    @classmethod
    def of(cls, strategy: Strategy, resolutions: Sequence[Resolution] = ()) -> Decisions:
        """Parse a strategy: `"ours"`, or `{"DivergentUpdate": "theirs", "Person": "ours"}`."""
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
        """The side that wins, or None when undecided. An entity takes precedence over its type, a type over a kind.

        A decision about other values than these two does not count.
        """
        single = self.single.get((str(kind), entity.table_key, entity_id))
        if single is not None and (json_value(ours), json_value(theirs)) == (single.ours, single.theirs):
            return single.side
        for name in (entity.table_key, entity.name, str(kind)):
            if name in self.chosen:
                return self.chosen[name]
        return self.everywhere

    def require_known_types(self, known: Mapping[str, Any]) -> None:
        """Refuse a name that is neither a kind of conflict nor a type."""
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
