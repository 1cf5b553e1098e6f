"""Branch names: put-if-absent decides which incarnation owns a name, and no claim is ever changed.

The first branch of a name claims generation 1, its successor generation 2, and so on. The objects of one generation lie
together, so that one listing contains everything that decides whether a write on the branch counts:

::

    __refs/<name>/<generation>.json            the claim; main has one of generation 0
    __refs/<name>/<generation>.closed          the branch is deleted: this object, and nothing else, deletes it
    __refs/<name>/<generation>.floor-<version> versions below may be gone: a swap into a slot below never counts
    __refs/~retired/<generation>               claims up to this generation may be gone: no successor goes below it

Since every object belongs to one generation and no generation is used twice, a late process cannot touch a successor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from omnigraph.api.commits import Branch
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
from omnigraph.storage.layout import REFS, TAG_COPIES, is_name, quote_path, tag_name, unquote_path
from omnigraph.storage.objects import ObjectInfo, ObjectStore

MAIN = "main"
_RETIRED = f"{REFS}/~retired/"
_RESERVED = frozenset({"__schema_apply_lock__", "__manifest", "HEAD"})
_COMMIT_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE)
_PART = re.compile(r"(\d{6,})\.(json|closed|floor-(\d{20}))")
_NATIVE = re.compile(r"(.+)\.(\d{6,})-([0-9A-HJKMNP-TV-Z]{26})")


def parse_branch(value: Any, path: str) -> Branch:
    """The branch that the claim at `path` describes, each value checked."""
    with decoding(path):
        given = as_object(value, "a claim")
        branch = Branch(
            name=as_name(given["name"]),
            native_branch=as_native_branch(given["native_branch"]),
            parent=None if given["parent"] is None else as_name(given["parent"]),
            parent_native=as_native_branch(given["parent_native"]),
            base_commit=as_optional_commit_id(given["base_commit"]),
            created_at=as_integer(given["created_at"], "a time"),
            generation=as_integer(given["generation"], "a generation", high=10**9),
        )
        if path != _path(branch.name, branch.generation, "json"):
            raise Malformed(f"it claims the name {branch.name!r}, generation {branch.generation}")
        if branch.name != MAIN:
            parse_native(branch.native_branch)
    return branch


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """The status of one generation. A write counts on a branch that `is_open`, at or above its `floor`."""

    name: str
    generation: int
    is_claimed: bool = False
    is_closed: bool = False
    floor: int = 0
    listed: ObjectInfo | None = field(default=None, compare=False)
    """The claim's object as listed: a different object at the same path is a different claim."""

    @property
    def is_open(self) -> bool:
        """Whether the branch is claimed and not deleted."""
        return self.is_claimed and not self.is_closed


def native_name(name: str, generation: int, ulid: str) -> str:
    """The incarnation of a branch: its name, its generation and a unique text."""
    return f"{name}.{generation:06d}-{ulid}"


def parse_native(native_branch: str | None) -> tuple[str, int]:
    """Name and generation of an incarnation."""
    if native_branch is None:
        return MAIN, 0
    found = _NATIVE.fullmatch(native_branch)
    if found is None:
        raise CorruptGraph(
            f"{native_branch!r} is not the incarnation of a branch", hint="restore the object that names it"
        )
    return found[1], int(found[2])


def check_name(name: str, what: str = "branch") -> None:
    """Refuse names that could not be a file, a URL segment or a flag value, and those that mean something else."""
    if name in _RESERVED:
        raise InvalidArgument(f"{name!r} belongs to the system", hint="choose another name")
    if not is_name(name):
        raise InvalidArgument(
            f"{name[:250]!r} is not a {what} name",
            hint="use letters, digits and . _ - / (not at the ends), at most 200 (a / counts as three)",
        )
    if _COMMIT_ID.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} has the form of a commit id, which reads would confuse with it", hint="choose another name"
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """One listing of all claims: `newest` is the newest generation of every branch but main, `retired` the generation
    up to which claims may be gone, `tagged` the names of tags that have a second record.
    """

    newest: list[ClaimStatus]
    retired: int
    tagged: frozenset[str]


class Claims:
    """Reads and writes claims. Claims never change, so each is read once.

    While a store was moved away, another claim may have been read from the same path: what was read is cached for
    exactly the object that was listed.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._known: dict[str, tuple[ObjectInfo, Branch]] = {}
        self._owners: dict[str, tuple[str, str | None]] = {}
        """By path: the identity of the object that was read, and the incarnation that it claims the name for."""

    def put_main(self) -> None:
        """Put main's claim, when the graph is created. A store without it is not the store that was opened."""
        self._objects.put_new_json(_path(MAIN, 0, "json"), asdict(Branch(MAIN)))

    def listed(self, native_branch: str | None) -> ClaimStatus:
        """The status of an incarnation from the names of its claim objects: one listing, no object is read."""
        name, generation = parse_native(native_branch)
        parts = (_PART.fullmatch(part) for part in self._objects.names(f"{REFS}/{quote_path(name)}/"))
        return _status(name, generation, [p for p in parts if p is not None and int(p[1]) == generation])

    def status(self, native_branch: str | None) -> ClaimStatus:
        """The status that decides whether a write on an incarnation counts; on a local disk its owner is checked."""
        status = self.listed(native_branch)
        name, generation = status.name, status.generation
        if status.is_claimed and self._objects.root.is_local and self._owner(name, generation) != native_branch:
            return replace(status, is_claimed=False)
        return status

    def _owner(self, name: str, generation: int) -> str | None:
        """The incarnation that a claim is for.

        Generations are not used twice in one store. While a local store was moved away, another directory in its place
        may have had a claim of the same generation, and the owner read there must not be taken for the owner here.
        """
        path = claim_path(name, generation)
        identity = self._objects.identity(path)
        known = self._owners.get(path)
        if identity is None:
            return None
        if known is not None and known[0] == identity:
            return known[1]
        value = self._objects.get_json(path)
        if value is None:  # moved away between the probe and the read: says nothing about the file that was probed
            return None
        owner = parse_branch(value, path).native_branch
        if self._objects.identity(path) == identity:
            self._owners[path] = (identity, owner)
        return owner

    def newest(self, name: str | None = None) -> list[ClaimStatus]:
        """The newest generation of one name, or of every name but main; one listing."""
        return _newest(self._objects.list(REFS if name is None else f"{REFS}/{quote_path(name)}/"))

    def survey(self) -> Survey:
        """Every name in use, from one listing.

        A collector records which generations may be gone before it removes a claim. A reader that no longer sees the
        claim sees that record if it lists it last: the record's name sorts last, and only a local store lists in
        another order.
        """
        listed = self._objects.list(REFS)
        last = self._objects.list(_RETIRED) if self._objects.root.is_local else listed
        retired = (int(i.path.removeprefix(_RETIRED)) for i in last if i.path.startswith(_RETIRED))
        tags = frozenset(tag_name(info.path) for info in listed if info.path.startswith(f"{TAG_COPIES}/"))
        return Survey(_newest(listed), max(retired, default=0), tags)

    def every(self) -> list[Branch]:
        """Every generation of every name that has a claim, deleted ones included; not main."""
        infos = self._objects.list(REFS)
        listed = {info.path: info for info in infos}
        found = _by_name(infos)
        pairs = [(n, int(p[1])) for n, parts in found.items() for p in parts if p[2] == "json" and n != MAIN]
        branches = (self._get(listed[claim_path(name, generation)]) for name, generation in sorted(pairs))
        return [branch for branch in branches if branch is not None]

    def read(self, claim: ClaimStatus) -> Branch:
        """The branch behind a claim."""
        assert claim.listed is not None, "only a claim that was listed is read"
        branch = self._get(claim.listed)
        if branch is None:
            path = claim.listed.path
            raise CorruptGraph(f"{path} was listed and cannot be read", hint="restore it from a copy of the store")
        return branch

    def put(self, branch: Branch) -> bool:
        """Claim the branch's name for its generation; False when another process has claimed it."""
        return self._objects.put_new_json(_path(branch.name, branch.generation, "json"), asdict(branch))

    def close(self, branch: Branch, token: str) -> bool:
        """Delete the branch: from now on no write on it counts. False when another process has deleted it."""
        return self._objects.put_new(closed_path(branch), token.encode())

    def raise_floor(self, native_branch: str | None, version: int) -> None:
        """Record that versions below may be gone, before any is removed. Lower floors are removed."""
        name, generation = parse_native(native_branch)
        self._objects.put_new(_path(name, generation, f"floor-{version:020d}"), b"")
        parts = (_PART.fullmatch(part) for part in self._objects.names(f"{REFS}/{quote_path(name)}/"))
        older = [p[0] for p in parts if p is not None and p[3] and int(p[1]) == generation and int(p[3]) < version]
        self._objects.delete([f"{REFS}/{quote_path(name)}/{part}" for part in older])

    def objects_of(self, branch: Branch) -> list[str]:
        """The objects of a generation, the claim first: they are removed in this order."""
        parts = (_PART.fullmatch(part) for part in self._objects.names(f"{REFS}/{quote_path(branch.name)}/"))
        mine = sorted((p[0] for p in parts if p is not None and int(p[1]) == branch.generation), key=_claim_first)
        return [f"{REFS}/{quote_path(branch.name)}/{part}" for part in mine]

    def retire(self, branches: Iterable[Branch]) -> None:
        """Remove the objects of deleted branches whose files are all gone."""
        gone = list(branches)
        if not gone:
            return
        newest = max(branch.generation for branch in gone)
        self._objects.put_new(f"{_RETIRED}{newest:06d}", b"")
        for branch in gone:
            for path in self.objects_of(branch):  # one by one: the claim has to be gone before the closing mark is
                self._objects.delete([path])
                self._known.pop(path, None)
                self._owners.pop(path, None)
        lower = [i.path for i in self._objects.list(_RETIRED) if int(i.path.removeprefix(_RETIRED)) < newest]
        self._objects.delete(lower)
        self._objects.remove_empty_directories(f"{REFS}/{quote_path(branch.name)}" for branch in gone)

    def _get(self, listed: ObjectInfo) -> Branch | None:
        known, branch = self._known.get(listed.path, (None, None))
        if known != listed:
            value = self._objects.get_json(listed.path)
            if value is None:
                return None
            branch = parse_branch(value, listed.path)
            self._known[listed.path] = (listed, branch)
        return branch


def _newest(listed: Iterable[ObjectInfo]) -> list[ClaimStatus]:
    newest = []
    infos = {info.path: info for info in listed}
    for owner, parts in sorted(_by_name(infos.values()).items()):
        claimed = [int(p[1]) for p in parts if p[2] == "json"]
        if claimed and owner != MAIN:
            generation = max(claimed)
            status = _status(owner, generation, [p for p in parts if int(p[1]) == generation])
            newest.append(replace(status, listed=infos[claim_path(owner, generation)]))
    return newest


def _by_name(listed: Iterable[ObjectInfo]) -> dict[str, list[re.Match[str]]]:
    found: dict[str, list[re.Match[str]]] = {}
    for info in listed:
        _, owner, *rest = info.path.split("/")
        part = _PART.fullmatch(rest[0]) if len(rest) == 1 else None
        if part is not None and not owner.startswith("~"):
            found.setdefault(unquote_path(owner), []).append(part)
    return found


def _status(name: str, generation: int, parts: list[re.Match[str]]) -> ClaimStatus:
    kinds = {part[2] for part in parts}
    floor = max((int(part[3]) for part in parts if part[3]), default=0)
    return ClaimStatus(name, generation, "json" in kinds, "closed" in kinds, floor)


def _claim_first(part: str) -> tuple[bool, str]:
    return not part.endswith(".json"), part


def _path(name: str, generation: int, part: str) -> str:
    return f"{REFS}/{quote_path(name)}/{generation:06d}.{part}"


def claim_path(name: str, generation: int) -> str:
    """The object of a claim."""
    return _path(name, generation, "json")


def closed_path(branch: Branch) -> str:
    """The object that deletes a branch."""
    return _path(branch.name, branch.generation, "closed")
