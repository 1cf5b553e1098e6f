"""Copying a graph to another place, on disk or on an object store: all of it, or the changes since the last copy.

Almost every object in a store is written once under a name of its own, so an object that exists with the right size is
copied already. Names and manifests are listed first and copied last: every object that a listed manifest names existed
before the manifest did. A copy that was cut short either has no claim of main, and is no graph, or has the states that
it had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.api.reports import CopyReport, Problem
from omnigraph.errors import HistoricalVersionReclaimed, InvalidArgument, OmnigraphError
from omnigraph.maintenance.fsck import fsck
from omnigraph.storage.layout import (
    AUDIT,
    CHANGES,
    HISTORY,
    LEDGERS,
    LOADS,
    MANIFEST,
    REFS,
    SCHEMAS,
    TAGS,
    GraphRoot,
    moved_path,
)
from omnigraph.storage.objects import ObjectInfo, ObjectStore
from omnigraph.versioning.ancestry import Lineage
from omnigraph.versioning.claims import MAIN, claim_path
from omnigraph.versioning.repository import Repository
from omnigraph.versioning.store import GraphStore
from omnigraph.write.create import require_outside

_CONTENT = ("nodes", "edges", SCHEMAS, HISTORY, CHANGES, LEDGERS, LOADS, AUDIT)
_ROOTS = (MANIFEST, TAGS, REFS)
_MUTABLE = "latest_version_hint.json"
_BATCH = 64


def copy_graph(
    repository: Repository, target: GraphRoot, *, fresh: bool = False, verify: bool = True,
    progress: Listener | None = None,
) -> CopyReport:  # fmt: skip
    """Copy every kept version, branch and tag. `fresh` refuses a place that is not empty; else new objects are added.

    Writers of the source go on meanwhile: the copy is the source as it was when the copy began, or some moments later.
    """
    source = repository.store
    if target == source.root:
        raise InvalidArgument("a graph is not copied onto itself", hint="name another place")
    copy = GraphStore(target)
    require_outside(target)
    for parent in source.root.parents():
        if parent == target:
            raise InvalidArgument(f"{target.uri} holds the graph {source.root.uri}", hint="name a place outside of it")
    roots = {prefix: _objects(source, prefix, target) for prefix in _ROOTS}
    content = [found for prefix in _CONTENT for found in _objects(source, prefix, target)]
    there = {info.path: info for prefix in (*_CONTENT, *_ROOTS) for info in copy.objects.list(f"{prefix}/")}
    if there and fresh:
        raise InvalidArgument(f"{target.uri} holds something already", hint="name an empty place, or use `backup`")
    if there:
        _require_earlier_copy(repository, copy, [*content, *chain(*roots.values())], there)
    copy.objects.create_root()
    in_order = [list(some) for _, some in groupby(sorted(chain(*roots.values()), key=_phase), key=_phase)]
    run = _Run(source.objects, copy, there)
    run.copy([content, *in_order], progress)
    named = {each.path for prefix in (TAGS, REFS) for each in roots[prefix]}
    gone = [path for path in there if path.startswith((f"{TAGS}/", f"{REFS}/")) and path not in named]
    copy.objects.delete(gone)
    found: tuple[Problem, ...] = ()
    if verify:
        with PhaseProgress(progress, "verify", 1, "steps"):
            found = fsck(Repository(GraphStore(target, read_only=True))).problems
    return CopyReport(
        source=source.root.uri, target=target.uri, objects_copied=run.objects, bytes_copied=run.bytes,
        objects_skipped=run.skipped, objects_removed=len(gone), problems=found,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of the source, and its path in the copy."""

    listed: str
    path: str
    size: int


def _objects(source: GraphStore, prefix: str, target: GraphRoot) -> list[_Object]:
    found = source.objects.list(f"{prefix}/")
    return [_Object(info.path, moved_path(info.path, source.root, target), info.size) for info in found]


def _require_earlier_copy(
    repository: Repository, copy: GraphStore, listed: Sequence[_Object], there: dict[str, ObjectInfo]
) -> None:
    """Refuse a place with another graph, or with a copy that has been written to or is newer than this source."""
    sizes = {each.path: each.size for each in listed}
    newest: dict[str, str] = {}  # names of versions count down
    for path in sizes:
        if _is_state(path):
            branch = path.rpartition("/")[0]
            newest[branch] = min(path, newest.get(branch, path))
    for path, info in there.items():
        differs = sizes.get(path, info.size) != info.size and not path.endswith(_MUTABLE)
        if differs or (_is_state(path) and path < newest.get(path.rpartition("/")[0], path)):
            raise _no_copy(repository, copy, f"{path} is not the same there")
    try:
        head = Repository(GraphStore(copy.root, read_only=True)).head(MAIN).head
    except OmnigraphError:  # a copy that was cut short
        return
    if head not in Lineage(repository.store.objects, repository.head(MAIN), {}):
        raise _no_copy(repository, copy, f"commit {head}, the head of main there, is not in its history")


def _no_copy(repository: Repository, copy: GraphStore, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{copy.root.uri} is no copy of {repository.store.root.uri}: {why}",
        hint="a backup is not written to; name an empty place for a new one",
    )


def _is_state(path: str) -> bool:
    return path.startswith(f"{MANIFEST}/") and "/_versions/" in path and path.endswith(".manifest")


def _phase(info: _Object) -> int:
    """The order of copying: files of states, versions that name them, names of branches and tags, main's claim last."""
    if info.path.startswith(f"{MANIFEST}/"):
        return int("/_versions/" in info.path)
    return 3 if info.path == claim_path(MAIN, 0) else 2


class _Run:
    """One copy: what has been done so far."""

    def __init__(self, source: ObjectStore, copy: GraphStore, there: dict[str, ObjectInfo]) -> None:
        self._source = source
        self._copy = copy
        self._there = there
        self.objects = self.bytes = self.skipped = 0

    def copy(self, in_order: Iterable[Iterable[_Object]], progress: Listener | None) -> None:
        """Copy missing objects, one group after the other, several at a time, and make each durable."""
        wanted = [self._wanted(group) for group in in_order]
        with PhaseProgress(progress, "copy", sum(info.size for group in wanted for info in group), "bytes") as phase:
            for group in wanted:
                for first in range(0, len(group), _BATCH):
                    self._copy_batch(group[first : first + _BATCH], phase)

    def _wanted(self, infos: Iterable[_Object]) -> list[_Object]:
        wanted = []
        for info in infos:
            known = self._there.get(info.path)
            if known is not None and known.size == info.size and not info.path.endswith(_MUTABLE):
                self.skipped += 1
            else:
                wanted.append(info)
        return wanted

    def _copy_batch(self, batch: Sequence[_Object], phase: PhaseProgress) -> None:
        for size in self._copy.workers.map(self._copy_one, batch):
            self.objects += 1
            self.bytes += size
            phase.advance(size)
        self._copy.objects.sync_files([info.path for info in batch])

    def _copy_one(self, info: _Object) -> int:
        if not self._source.copy_to(info.listed, self._copy.objects, info.path):
            raise HistoricalVersionReclaimed(
                f"{info.listed} was reclaimed by a cleanup while it was to be copied", hint="copy again: it goes on"
            )
        return info.size
