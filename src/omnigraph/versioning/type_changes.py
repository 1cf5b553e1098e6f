"""The changes of commits in one type, as pairs of pins from which a reader computes the changed rows itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from omnigraph.api.commits import GraphCommit
from omnigraph.schema.catalog import EntityType
from omnigraph.versioning.changes import has_changes, pins_by_type, reclaimed_as_gap, states_around
from omnigraph.versioning.diff import Pinned
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.row_images import can_differ

_KEPT = 4096
PinPair = tuple[Pinned | None, Pinned | None]


@dataclass(frozen=True)
class TypeChange:
    """One type before and after one commit. Several pairs: a type of that name was dropped and another created.

    `entity` is the type after the commit, or before it where the commit dropped it; None where it never existed.
    `renamed` is the name that the commit gave to the type.
    """

    commit: GraphCommit
    entity: EntityType | None
    pairs: tuple[PinPair, ...]
    renamed: str | None = None


class TypeChanges:
    """Finds what commits changed in one type, and caches it for commits that are requested again."""

    def __init__(self, repository: Repository, type_name: str) -> None:
        self._repository = repository
        self._name = type_name
        self.of = lru_cache(_KEPT)(self._find)

    def _find(self, commit: GraphCommit) -> TypeChange:
        """The pairs of pins of one commit whose rows can differ. Raises `ChangeFeedGap` when they are reclaimed."""
        if not has_changes(commit):
            return TypeChange(commit, None, ())
        store = self._repository.store
        with reclaimed_as_gap(commit):
            base, head = states_around(self._repository, commit)
            before, after = pins_by_type(store, base), pins_by_type(store, head)
        found = {i: p for i, p in after.items() if p.entity.name == self._name}
        gone = {i: p for i, p in before.items() if p.entity.name == self._name and i not in found}
        renamed = next((after[i].entity.name for i in gone if i in after), None)
        pairs: list[PinPair] = [(pin, None) for i, pin in sorted(gone.items()) if i not in after]
        pairs += [(before.get(i), pin) for i, pin in sorted(found.items())]
        named = next(iter((*found.values(), *gone.values())), None)
        entity = None if named is None else named.entity
        return TypeChange(commit, entity, tuple(pair for pair in pairs if can_differ(*pair)), renamed)
