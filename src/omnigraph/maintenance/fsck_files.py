"""Comparing the files of a graph with their records at commit: presence, size and, deep, checksum."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.errors import OmnigraphError
from omnigraph.storage.digests import Digest, digest_bytes
from omnigraph.storage.layout import manifest_path, version_file
from omnigraph.storage.manifest_table import ManifestVersion
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.store import GraphStore

Pin = tuple[str, int]
MISSING = "is missing"


@dataclass(frozen=True, slots=True)
class NeededBy:
    """A version of a branch, its commit, and the pins it needs."""

    branch: str
    version: int
    commit_id: str
    pins: frozenset[Pin]

    @classmethod
    def of(cls, state: ManifestState) -> NeededBy:
        """The pins that a state needs."""
        pins = frozenset((entry.location, entry.staged_version) for entry in state.tables.values())
        return cls(state.branch, state.version, state.head, pins)


@dataclass
class FileChecker:
    """Compares files, each once. With `deep` it reads them."""

    store: GraphStore
    deep: bool = False
    unrecorded: int = 0
    bytes_read: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    """The fault of each file, by its path."""
    table_keys: dict[str, str] = field(default_factory=dict)
    files_of: dict[Pin, set[str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _sizes: dict[str, dict[str, int]] = field(default_factory=dict)

    def check_pin(self, pin: Pin, table_key: str, names: Iterable[str], recorded: Mapping[str, Digest]) -> bool:
        """Whether the files that a pin needs, given by their paths below the table, are as they were committed."""
        location = pin[0]
        paths = {f"{location}/{name}": recorded.get(name) for name in names}
        self.files_of.setdefault(pin, set()).update(paths)
        fresh = {path: digest for path, digest in paths.items() if path not in self._seen}
        self._seen.update(fresh)
        faults = self._compare(location, fresh)
        self.faults.update(faults)
        self.table_keys.update(dict.fromkeys(faults, table_key))
        self.unrecorded += sum(digest is None for digest in fresh.values())
        return not any(path in self.faults for path in paths)

    def check_manifests(
        self, native_branch: str | None, opened: Iterable[ManifestVersion], kept: Container[int]
    ) -> list[str]:
        """Faults in the files of the `kept` versions of a branch, as far as they could be opened."""
        location = manifest_path(native_branch)
        wanted: dict[str, Digest | None] = {}
        for each in opened:
            wanted.update(dict.fromkeys(each.data_files(), each.data_digest))
            if each.version - 1 in kept:
                wanted[f"{location}/{version_file(each.version - 1)}"] = each.previous_digest
        return [f"{path} {fault}" for path, fault in self._compare(location, wanted).items()]

    def _compare(self, location: str, wanted: Mapping[str, Digest | None]) -> dict[str, str]:
        """Faults of some files below a location."""
        sizes = self._sizes_below(location)
        if not sizes.keys() >= wanted.keys():  # perhaps written since the listing
            del self._sizes[location]
            sizes = self._sizes_below(location)
        faults = {}
        readable: dict[str, Digest] = {}
        for path, digest in wanted.items():
            size = sizes.get(path)
            if size is None:
                faults[path] = MISSING
            elif digest is not None and size != digest.size:
                faults[path] = f"has {size} bytes and had {digest.size} when it was committed"
            elif digest is not None:
                readable[path] = digest
        if self.deep:
            self.bytes_read += sum(digest.size for digest in readable.values())
            found = zip(readable, self.store.workers.map(self._fault, readable, readable.values()), strict=True)
            faults.update({path: fault for path, fault in found if fault is not None})
        return faults

    def _fault(self, path: str, wanted: Digest) -> str | None:
        try:
            found = self._measure(path)
        except OmnigraphError as error:  # a disk that cannot read one of its blocks
            return f"cannot be read: {error.message}"
        return None if found == wanted else "is damaged: its checksum is not that of what was committed"

    def _measure(self, path: str) -> Digest:
        if self.store.root.is_local:
            return self.store.tables.digester.measure(path)
        return digest_bytes(self.store.objects.get(path) or b"")

    def _sizes_below(self, location: str) -> dict[str, int]:
        if location not in self._sizes:
            self._sizes[location] = {i.path: i.size for i in self.store.objects.list(f"{location}/")}
        return self._sizes[location]

    def who_needs(self, path: str, states: Iterable[NeededBy]) -> tuple[str, str]:
        """The versions that need a file, and advice on what to do about its loss."""
        pins = {pin for pin, files in self.files_of.items() if path in files}
        by_branch: dict[str, list[NeededBy]] = {}
        for state in states:
            by_branch.setdefault(state.branch, []).append(state)
        needed, advice = [], ["restore the file from a copy of the store"]
        for branch, mine in sorted(by_branch.items()):
            mine.sort(key=lambda state: state.version)
            affected = [state.version for state in mine if not pins.isdisjoint(state.pins)]
            if not affected:
                continue
            needed.append(f"{branch}@{_ranges(affected)}")
            before = [s for s in mine if s.version < affected[0]]
            if affected[-1] != mine[-1].version:
                advice.append(f"the head of {branch!r} does not need it")
            elif before:
                advice.append(
                    f"of {branch!r}, commit {before[-1].commit_id} (version {before[-1].version}) is unaffected"
                )
            else:
                advice.append(f"no older version of {branch!r} is without it")
        return ", ".join(needed), "; ".join(advice)


def _ranges(numbers: list[int]) -> str:
    """`3-5,9` for 3, 4, 5, 9."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
