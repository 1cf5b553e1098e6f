"""The newest known state of each branch, and how it is kept fresh.

A state that was the newest a few seconds ago is still the newest when the file of the next version is absent and its
own file is present and unchanged: two probes then replace an open and a scan. An older state is read again, because an
absent next version proves nothing once cleanup may have removed it. A store that does not contain what this process has
seen is another store, and nothing is read from it or written to it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa

from omnigraph.errors import BranchGone, BranchNotFound, StorageError, StoreReplaced, VersionNotFound
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.storage.layout import manifest_path
from omnigraph.storage.locks import LockFile, advisory_lock, read_lock_file
from omnigraph.storage.manifest_table import ManifestVersion
from omnigraph.versioning import history
from omnigraph.versioning.group_commit import CommitQueue
from omnigraph.versioning.manifest import ManifestState, RowWriter, read_state
from omnigraph.versioning.published_rows import PublishedRows
from omnigraph.versioning.store import GraphStore, ticks

_MAX_STEPS = 64
_MAX_RECENT = 16


class FairLock:
    """A lock that serves its waiters in the order they came."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._held = False

    @property
    def is_held(self) -> bool:
        """Whether a thread holds the lock now."""
        return self._held

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, then hold the lock."""
        event: threading.Event | None = None
        with self._mutex:
            if self._held:
                event = threading.Event()
                self._waiting.append(event)
            else:
                self._held = True
        try:
            if event is not None:
                event.wait()
            yield
        finally:
            self._leave(event)

    def _leave(self, event: threading.Event | None) -> None:
        """Pass the lock on; a waiter that was interrupted before its turn only gives up its place."""
        with self._mutex:
            if event is not None and not event.is_set():
                self._waiting.remove(event)
            elif self._waiting:
                self._waiting.popleft().set()
            else:
                self._held = False


class BranchHead:
    """The head of one branch incarnation, as last seen by this process."""

    def __init__(self, store: GraphStore, branch: str, native_branch: str | None) -> None:
        self.branch = branch
        self.native_branch = native_branch
        self.location = manifest_path(native_branch)
        self.rows = RowWriter()
        self._store = store
        self.commit_queue = CommitQueue(store.settings.group_wait, store.settings.group_near)
        self._queue = FairLock()
        self._lock = threading.Lock()
        self._known: tuple[ManifestState, ManifestVersion] | None = None
        self._recent: BoundedCache[int, ManifestState] = BoundedCache(_MAX_RECENT)
        self._verified_at = 0.0
        self._identity: str | None = None
        """The identity of the known version's file, once it has been looked up."""
        self._published = 0
        self._made: tuple[ManifestVersion, pa.Table] | None = None
        """The last version that was published in this turn, and its rows."""

    @property
    def is_busy(self) -> bool:
        """Whether a thread is publishing: a small write that arrives now can be published with the next group."""
        return self._queue.is_held

    @contextmanager
    def turn(self, meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
        """Queue in front of the swap: in strict order in this process, best effort among processes on a local disk."""
        with self.turn_here(), self.turn_among_processes(meanwhile):
            yield

    def turn_here(self) -> AbstractContextManager[None]:
        """Queue in this process only."""
        return self._queue.turn()

    @contextmanager
    def turn_among_processes(self, meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
        """Queue with other processes. `meanwhile` runs if another process has the turn."""
        with advisory_lock(self._store.root, self.location, meanwhile) as lock_file:
            before, self._made = self._published, None
            yield
            if (
                lock_file is not None and self._made is not None and self._published > before + 1
            ):  # other processes publish on this branch too
                _leave_rows(lock_file, *self._made)

    @property
    def known(self) -> ManifestState | None:
        """The newest state this process has seen, without asking the store."""
        return self._known[0] if self._known is not None else None

    def state(self) -> ManifestState:
        """The newest state, at the cost of one probe when it is already known."""
        return self._fresh()[0]

    def recent(self) -> ManifestState:
        """A state that was the newest seconds ago: fit for writes that are checked again when they publish."""
        return self.swap_base()[0]

    def swap_base(self) -> tuple[ManifestState, ManifestVersion]:
        """A state to swap on: it was the newest a moment ago."""
        with self._lock:
            known, verified = self._known, self._verified_at
        # On an object store the swap itself is the probe; on a disk a probe first is cheaper than a lost swap.
        age = ticks() - verified
        if known is not None and age <= self._store.settings.stale_base and not self._store.root.is_local:
            return known
        return self._fresh()

    def reload(self) -> tuple[ManifestState, ManifestVersion]:
        """Open the newest version and read it, whatever was known."""
        asked, before = ticks(), self._known
        return self._read(self._store.manifests.latest(self.location), asked, before)

    def _follow(self, version: int) -> tuple[ManifestState, ManifestVersion]:
        """The newest version, found by probing upwards from one that is known to exist and was new a moment ago.

        On a disk a probe is cheaper than listing a directory of all versions; if many versions are to be passed, the
        directory is listed. Rows that the publisher of the newest version left beside the lock are used instead of
        reading it.
        """
        asked, before = ticks(), self._known
        manifests = self._store.manifests
        left = PublishedRows.from_bytes(read_lock_file(self._store.root, self.location), version)
        start = newest = version if left is None else left.version
        while newest < start + _MAX_STEPS and manifests.has_version(self.location, newest + 1):
            newest += 1
        if newest == start + _MAX_STEPS:
            return self.reload()
        try:
            opened = manifests.at(self.location, newest)
            # Another file of the same version number comes from a store that was at this place before.
            rows = left.rows if left is not None and (newest, opened.file) == (left.version, left.file) else None
        except (StorageError, VersionNotFound):  # cut short, or just collected: the full reload decides
            return self.reload()
        return self._read(opened, asked, before, rows)

    def _read(
        self,
        opened: ManifestVersion,
        asked: float,
        before: tuple[ManifestState, ManifestVersion] | None,
        rows: pa.Table | None = None,
    ) -> tuple[ManifestState, ManifestVersion]:
        """The state of a version that was the newest at the time `asked`; `before` is what was known then."""
        identity = self._identify(opened.version) if self._store.root.is_local else None
        with self._lock:
            known = self._known
            if known is not None and known is not before and known[1].version > opened.version:
                return known  # another thread has published or read a newer state since: the store is still the same
            if known is None or known[1].version != opened.version:
                earlier = known[0] if known is not None else None
                read = read_state(opened, self.branch, self.native_branch, earlier, rows)
                self._require_successor(earlier, read)
                known = (read, opened)
                if rows is not None:
                    self.rows.learn(known[0], rows)
            elif known[1].file != opened.file:
                raise self._replaced(known[0])
            self._known = known
            self._verified_at = asked
            self._identity = identity
            self._remember(known[0])
        return known

    def _require_successor(self, earlier: ManifestState | None, read: ManifestState) -> None:
        """Refuse a history that does not contain what this process has seen: the store was replaced by another one."""
        if earlier is None:
            return
        goes_on = read.version > earlier.version and history.find(self._store.objects, read, earlier.head) is not None
        if not goes_on:
            raise self._replaced(earlier)

    def _replaced(self, known: ManifestState) -> StoreReplaced:
        return StoreReplaced(
            f"version {known.version} of {self.branch!r} is not in {self._store.root.uri} any more: the store was "
            "moved, unmounted or replaced by a copy while this handle was open",
            hint="check the location, then open the graph again; what this handle has not acknowledged did not happen",
        )

    def require_same_store(self, base: ManifestVersion, floor: int) -> None:
        """After a swap, require that the version it was built on and the version it made are still there, or are below
        a collector's floor. Raises `StoreReplaced`.

        On an object store a probe costs a request and nothing is replaced within seconds, so the claim alone is the
        proof.
        """
        if not self._store.root.is_local:
            return
        identity = self._identify(base.version)
        is_gone = identity is None and floor <= base.version
        if is_gone or (self._identify(base.version + 1) is None and floor <= base.version + 1):
            raise self._replaced(self._known[0] if self._known is not None else self.state())
        with self._lock:
            known, seen = self._known, self._identity
        if identity is None or known is None or known[1].version != base.version or seen in (None, identity):
            return
        if self._store.manifests.at(self.location, base.version).file != base.file:
            raise self._replaced(known[0])

    def _identify(self, version: int) -> str | None:
        return self._store.manifests.identity(self.location, version)

    def _remember(self, state: ManifestState) -> None:
        self._recent.put(state.version, state)

    def remembered(self, version: int) -> ManifestState | None:
        """One of the last states this process has read or made, though its version may have been reclaimed since."""
        return self._recent.get(version)

    def advance(
        self, state: ManifestState, opened: ManifestVersion, verified_at: float, rows: pa.Table | None = None
    ) -> None:
        """Remember the state that this process has just published, and its `rows` for the next process in the queue."""
        self._published, self._made = state.version, (opened, rows) if rows is not None else None
        identity = self._identify(opened.version) if self._store.root.is_local else None
        with self._lock:
            if self._known is None or self._known[0].version < state.version:
                self._known = (state, opened)
                self._verified_at = verified_at
                self._identity = identity
                self._remember(state)

    def _fresh(self) -> tuple[ManifestState, ManifestVersion]:
        with self._lock:
            known, verified = self._known, self._verified_at
        asked = ticks()
        if known is None or asked - verified > self._store.settings.stale_base:
            return self.reload()
        if self._store.manifests.has_version(self.location, known[0].version + 1):
            return self._follow(known[0].version + 1) if self._store.root.is_local else self.reload()
        identity = self._identify(known[0].version)
        with self._lock:
            seen, self._identity = self._identity, self._identity or identity
            is_same = identity is not None and seen in (None, identity)
            if self._known is known and is_same:
                self._verified_at = asked
        # Gone or another file: reclaimed behind a newer version, or the store is not the one that was opened.
        return known if is_same else self.reload()


def _leave_rows(lock_file: LockFile, opened: ManifestVersion, rows: pa.Table) -> None:
    """Leave the rows of a version that was just published for the next holder of the lock."""
    file = opened.file
    if file is not None:
        lock_file.write(PublishedRows(opened.version, file, rows).to_bytes())


class BranchHeads:
    """The branch heads of one open graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._tips: dict[str | None, BranchHead] = {}
        self._lock = threading.Lock()

    def of(self, branch: str, native_branch: str | None) -> BranchHead:
        """The head of one incarnation."""
        with self._lock:
            tip = self._tips.get(native_branch)
            if tip is None:
                tip = self._tips[native_branch] = BranchHead(self._store, branch, native_branch)
            return tip

    def forget(self, native_branch: str | None) -> None:
        """Drop the cached head of an incarnation."""
        with self._lock:
            self._tips.pop(native_branch, None)


def require_open(state: ManifestState) -> ManifestState:
    """Raise if the branch is closed: it takes no writes, also not from handles that hold its old incarnation."""
    if state.closed:
        raise BranchGone(
            f"branch {state.branch!r} was deleted after this write was prepared",
            hint="open the branch again; if it was recreated, repeat the write on the new one",
        )
    return state


def require_readable(state: ManifestState) -> ManifestState:
    """Raise if the branch is closed: readers see it as absent."""
    if state.closed:
        raise BranchNotFound(f"branch {state.branch!r} was deleted")
    return state
