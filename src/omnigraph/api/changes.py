"""Changes of commits, entity by entity."""

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
    """An entity that differs between two states, with both images by public names; an absent image is None."""

    entity_kind: str
    type_name: str
    entity_id: str
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    f32: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Properties whose numbers have 32 bits."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for printing and `--json`; F32 values keep their own digits."""
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
    """A filter on changes by kind, type and operation; an empty field passes everything."""

    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    def require_known(self) -> None:
        """Refuse filter words that can match nothing."""
        for given, known in ((self.kinds, KINDS), (self.ops, OPS)):
            for word in given:
                if word not in known:
                    raise InvalidArgument(f"{word!r} is unknown", hint=f"use one of {', '.join(known)}")

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """Return a normal form: filters that pass the same changes have equal words."""
        return tuple(tuple(sorted(set(each))) for each in (self.kinds, self.types, self.ops))

    def __str__(self) -> str:
        """Return the filter as options of the command line."""
        names = ("--kind", "--type", "--op")
        return " ".join(f"{n} {word}" for n, words in zip(names, self.words, strict=True) for word in words)

    def wants(self, entity: EntityType) -> bool:
        """Return whether changes of a type can pass the filter."""
        return (not self.kinds or entity.kind in self.kinds) and (not self.types or entity.name in self.types)


EVERYTHING = ChangeFilter()


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """One commit of a branch with all it changed. `cursor` continues after it.

    `schema_changed`: names and types of properties may differ from this commit on.
    """

    commit: GraphCommit
    changes: tuple[EntityChange, ...]
    cursor: str
    schema_changed: bool = False


class ChangeFeed(Protocol):
    """The commits of a branch after a cursor, oldest first, each with its changes. Reading does not move any cursor."""

    caught_up: bool
    """Whether the last block is the head that the branch had when the feed was opened."""

    @property
    def cursor(self) -> str | None:
        """Return the cursor to continue from; None before the first commit of a feed from the beginning."""

    def __iter__(self) -> Iterator[ChangeBlock]:
        """Yield the blocks, each computed on demand."""
