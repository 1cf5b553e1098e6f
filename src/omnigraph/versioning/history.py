"""Archived history: immutable, levelled files of old commits, so that a publish never rewrites old commits.

Up to `INLINE_MAX` commits stay in `__manifest`. Then the oldest move to a file of level 0; `FANOUT` adjacent files of
one level are merged into one file of the next level. Ten thousand commits are a handful of files.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace

from omnigraph.api.commits import GraphCommit
from omnigraph.errors import CorruptGraph
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.checksums import damaged_object
from omnigraph.storage.decode import Malformed, as_list, decoding, parse_json
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.layout import HISTORY
from omnigraph.storage.objects import ObjectStore
from omnigraph.versioning.commits import parse_commit
from omnigraph.versioning.manifest import HistoryExtent, ManifestState

INLINE_MAX = 256
INLINE_KEEP = 64
FANOUT = 16
_MAX_REQUEST_FILES = 1_024
_MAX_BYTES = 1 << 30
_requests: BoundedCache[str, dict[str, GraphCommit]] = BoundedCache(_MAX_REQUEST_FILES)
"""By the name of a history file, which is derived from its content."""


def archive_commits(objects: ObjectStore, state: ManifestState) -> ManifestState:
    """The same history with fewer inline commits, when there are too many of them."""
    if len(state.commits) <= INLINE_MAX:
        return state
    commits = list(state.commits.values())
    old, recent = commits[:-INLINE_KEEP], commits[-INLINE_KEEP:]
    extents = [*state.extents, _write(objects, old, level=0)]
    while len(tail := _last_of_same_level(extents)) >= FANOUT:
        merged = [commit for extent in tail for commit in read_extent(objects, extent)]
        extents = [*extents[: -len(tail)], _write(objects, merged, level=tail[0].level + 1)]
    return replace(state, commits={c.graph_commit_id: c for c in recent}, extents=tuple(extents))


def walk(objects: ObjectStore, state: ManifestState) -> Iterator[GraphCommit]:
    """Every commit of the branch, newest first; files are read only as far as the caller goes."""
    yield from reversed(list(state.commits.values()))
    for extent in reversed(state.extents):
        yield from reversed(read_extent(objects, extent))


def find(objects: ObjectStore, state: ManifestState, commit_id: str) -> GraphCommit | None:
    """One commit of the branch's lineage, or None."""
    inline = state.commits.get(commit_id)
    if inline is not None:
        return inline
    for extent in reversed(state.extents):
        if extent.first <= commit_id <= extent.last:
            for commit in read_extent(objects, extent):
                if commit.graph_commit_id == commit_id:
                    return commit
    return None


def find_request(objects: ObjectStore, state: ManifestState, idempotency_key: str) -> GraphCommit | None:
    """The commit that a request with this key became, or None. Looks through the whole history of the branch."""
    for commit in state.commits.values():
        if commit.idempotency_key == idempotency_key:
            return commit
    found = (_requests_of(objects, extent).get(idempotency_key) for extent in reversed(state.extents))
    return next((commit for commit in found if commit is not None), None)


def _requests_of(objects: ObjectStore, extent: HistoryExtent) -> dict[str, GraphCommit]:
    """The commits of a file that came with an idempotency key. Files never change: each is read once in a process."""
    known = _requests.get(extent.location)
    if known is None:
        commits = read_extent(objects, extent)
        known = {c.idempotency_key: c for c in commits if c.idempotency_key is not None}
        _requests.put(extent.location, known)
    return known


def read_extent(objects: ObjectStore, extent: HistoryExtent) -> list[GraphCommit]:
    """The commits of one file, oldest first."""
    body = objects.get(extent.location)
    if body is None:
        raise CorruptGraph(
            f"{extent.location} is missing: {extent.count} old commits cannot be listed",
            hint="restore the file from a copy of the store",
        )
    if extent.location != _location(extent.level, body):
        raise damaged_object(extent.location)
    with decoding(extent.location):
        listed = as_list(parse_json(_inflate(body)), "a list of commits")
        if len(listed) != extent.count:
            raise Malformed(f"it holds {len(listed)} commits, not {extent.count}")
        return [parse_commit(value) for value in listed]


def _inflate(body: bytes) -> bytes:
    """The text of a history file. A short file that unpacks to a very long text was not written by this program."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(body, _MAX_BYTES)
    if not unpacker.eof:
        raise Malformed("it is cut short, or too large for a list of commits")
    return text


def _write(objects: ObjectStore, commits: list[GraphCommit], *, level: int) -> HistoryExtent:
    body = zlib.compress(json.dumps([c.to_json() for c in commits], separators=(",", ":")).encode(), 6)
    # Named by content: a publisher that lost its slot writes the same file again and finds it present.
    location = _location(level, body)
    objects.put_new(location, body)
    hit(Point.HISTORY_WRITTEN)
    ids = [c.graph_commit_id for c in commits]
    return HistoryExtent(location, level, len(commits), min(ids), max(ids))


def _location(level: int, body: bytes) -> str:
    return f"{HISTORY}/{level}-{hashlib.sha256(body).hexdigest()[:32]}.json.z"


def _last_of_same_level(extents: list[HistoryExtent]) -> list[HistoryExtent]:
    run: list[HistoryExtent] = []
    for extent in reversed(extents):
        if run and extent.level != run[0].level:
            break
        run.insert(0, extent)
    return run
