"""Branch names. Who owns a name is decided by put-if-absent, and no claim is ever changed or removed.

The first branch of a name claims generation 1, its successor generation 2, and so on, by the object
`__refs/<name>/<generation>.json`. A deleted branch is marked by `<generation>.closed`, which only saves readers a look
at the branch itself. Since every object belongs to one generation, nothing that a late process does can touch a
successor.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.errors import CorruptGraph, InvalidArgument
from omnigraph.storage.decode import (
    Malformed,
    as_integer,
    as_name,
    as_native_branch,
    as_object,
    as_optional_commit_id,
    decoding,
)
from omnigraph.storage.layout import REFS, is_name, quoted, unquoted
from omnigraph.storage.objects import ObjectStore

MAIN = "main"
_OBJECT = re.compile(rf"{REFS}/([^/]+)/(\d{{6}})\.(json|closed)")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as its claim describes it. `native_branch` is the incarnation; None is main's."""

    name: str
    native_branch: str | None = None
    parent: str | None = None
    parent_native: str | None = None
    base_commit: str | None = None
    created_at: int = 0
    generation: int = 0

    @classmethod
    def from_json(cls, value: Any, path: str) -> Branch:
        """The branch that the claim at `path` describes, each value checked."""
        with decoding(path):
            given = as_object(value, "a claim")
            branch = cls(
                name=as_name(given["name"]),
                native_branch=as_native_branch(given["native_branch"]),
                parent=None if given["parent"] is None else as_name(given["parent"]),
                parent_native=as_native_branch(given["parent_native"]),
                base_commit=as_optional_commit_id(given["base_commit"]),
                created_at=as_integer(given["created_at"], "a time"),
                generation=as_integer(given["generation"], "a generation", high=999_999),
            )
            if path != _path(branch.name, branch.generation, "json"):
                raise Malformed(f"it claims the name {branch.name!r}, generation {branch.generation}")
        return branch


@dataclass(frozen=True, slots=True)
class ListedClaim:
    """The newest generation of a name, as a listing shows it. Not `is_closed` means: probably open, look at it."""

    name: str
    generation: int
    is_closed: bool


def check_name(name: str, what: str = "branch") -> None:
    """Refuse names that could not be a file, a URL segment or a flag value, and those that belong to the system."""
    if name.startswith("__"):
        raise InvalidArgument(f"{what} names beginning with '__' belong to the system", hint="choose another name")
    if not is_name(name):
        raise InvalidArgument(
            f"{name[:250]!r} is not a {what} name",
            hint="use letters, digits and . _ - / (not at the ends), at most 200 (a / counts as three)",
        )


class Claims:
    """Reads and writes claims."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def newest(self, name: str | None = None) -> list[ListedClaim]:
        """The newest generation of one name, or of every name; one listing."""
        prefix = REFS if name is None else f"{REFS}/{quoted(name)}/"
        claimed: dict[str, int] = {}
        closed: set[tuple[str, int]] = set()
        for info in self._objects.list(prefix):
            match = _OBJECT.fullmatch(info.path)
            if match is None:
                continue
            owner, generation = unquoted(match[1]), int(match[2])
            if match[3] == "json":
                claimed[owner] = max(claimed.get(owner, 0), generation)
            else:
                closed.add((owner, generation))
        return [ListedClaim(n, g, (n, g) in closed) for n, g in sorted(claimed.items())]

    def every(self) -> list[Branch]:
        """Every generation of every name, ended ones included."""
        paths = [i.path for i in self._objects.list(REFS) if i.path.endswith(".json")]
        found = ((self._objects.get_json(path), path) for path in paths)
        return [Branch.from_json(value, path) for value, path in found if value is not None]

    def read(self, claim: ListedClaim) -> Branch:
        """The branch behind a claim."""
        path = _path(claim.name, claim.generation, "json")
        value = self._objects.get_json(path)
        if value is None:
            raise CorruptGraph(f"{path} was listed and cannot be read", hint="restore it from a copy of the store")
        return Branch.from_json(value, path)

    def put(self, branch: Branch) -> bool:
        """Claim the branch's name for its generation; False when somebody else has."""
        return self._objects.put_new_json(_path(branch.name, branch.generation, "json"), asdict(branch))

    def mark_closed(self, name: str, generation: int) -> None:
        """Note that the branch of this generation is closed."""
        self._objects.put_new(_path(name, generation, "closed"), b"")


def _path(name: str, generation: int, part: str) -> str:
    return f"{REFS}/{quoted(name)}/{generation:06d}.{part}"
