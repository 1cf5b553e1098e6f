"""What commits change, entity by entity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from omnigraph.api.commits import GraphCommit
from omnigraph.datatypes import f32_digits
from omnigraph.errors import InvalidArgument
from omnigraph.schema.catalog import EntityType

Op = Literal["insert", "update", "delete"]


Kind = Literal["node", "edge"]


OPS: tuple[Op, ...] = get_args(Op)


KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """One entity that differs, with both images by public names; None where it was not there."""

    entity_kind: str
    type_name: str
    entity_id: str
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    f32: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Properties whose numbers have 32 bits."""

    def as_dict(self) -> dict[str, Any]:
        """For printing and `--json`: F32 values with their own digits."""
        return {
            "entity_kind": self.entity_kind, "type_name": self.type_name, "entity_id": self.entity_id, "op": self.op,
            "before": self._printed(self.before), "after": self._printed(self.after),
        }  # fmt: skip

    def _printed(self, image: dict[str, Any] | None) -> dict[str, Any] | None:
        if image is None or self.f32.isdisjoint(image):
            return image
        return {name: f32_digits(value) if name in self.f32 else value for name, value in image.items()}


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes are wanted; empty means all."""

    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    def require_known(self) -> None:
        """Refuse words that can match nothing."""
        for given, known in ((self.kinds, KINDS), (self.ops, OPS)):
            for word in given:
                if word not in known:
                    raise InvalidArgument(f"{word!r} is unknown", hint=f"use one of {', '.join(known)}")

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """Equal for filters that let the same changes pass."""
        return tuple(tuple(sorted(set(each))) for each in (self.kinds, self.types, self.ops))

    def __str__(self) -> str:
        """As the options of the command line."""
        names = ("--kind", "--type", "--op")
        return " ".join(f"{n} {word}" for n, words in zip(names, self.words, strict=True) for word in words)

    def wants(self, entity: EntityType) -> bool:
        """Whether a type can hold wanted changes."""
        return (not self.kinds or entity.kind in self.kinds) and (not self.types or entity.name in self.types)


EVERYTHING = ChangeFilter()


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """One commit of a branch with all it changed. `cursor` continues after it.

    `schema_changed`: names and types of properties may be others from this commit on.
    """

    commit: GraphCommit
    changes: tuple[EntityChange, ...]
    cursor: str
    schema_changed: bool = False


class ChangeFeed(Protocol):
    """The commits of a branch after a place, oldest first, each with what it changed. Reading it moves nothing."""

    caught_up: bool
    """Whether the last block is the head of the branch as the feed found it."""

    @property
    def cursor(self) -> str | None:
        """Where to go on; None before the first commit of a feed from the beginning."""

    def __iter__(self) -> Iterator[ChangeBlock]:
        """The blocks, each made when it is asked for."""
