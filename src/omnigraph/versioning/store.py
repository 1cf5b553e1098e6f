"""Services of a graph root for the layers above: tables, control objects, manifests, ids, clocks and settings."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ulid import ULID

from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.errors import CorruptGraph, InvalidArgument, ReadOnlyGraph, StoreUnavailable
from omnigraph.errors.base import show_value
from omnigraph.schema.catalog import Catalog
from omnigraph.storage import fork_guard
from omnigraph.storage.bounded_cache import CacheBudget
from omnigraph.storage.caches import cache_bytes
from omnigraph.storage.calls import CountedPool
from omnigraph.storage.derived import DerivedStore
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import CLOCKS, MANIFEST, SCHEMAS, GraphRoot
from omnigraph.storage.manifest_table import ManifestStore
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.options import s3_options, seconds, switch, whole_number, with_client_timeout
from omnigraph.storage.tables import TableStore
from omnigraph.versioning.contracts import load_catalog

_QUERY_VARIABLES = {
    "query_max_rows": "OMNIGRAPH_QUERY_MAX_ROWS",
    "query_max_memory": "OMNIGRAPH_QUERY_MAX_MEMORY",
    "query_max_seconds": "OMNIGRAPH_QUERY_TIMEOUT",
}
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Settings:
    """Times, in seconds, and sizes that tests and operators may change."""

    lease: float = 60.0
    lease_margin: float = 5.0
    publish_deadline: float = 30.0
    stale_base: float = 10.0
    sweep_interval: float = 60.0
    staging_grace: float = 7 * 86_400.0
    superseded_grace: float = 3_600.0
    derived: bool = True
    derived_min_rows: int = 50_000
    load_concurrency: int = 8
    load_block_bytes: int = 8 << 20
    load_spill_bytes: int = 64 << 20
    analytics_few_rows: int = 250_000
    analytics_block_edges: int = 2 << 20
    group_wait: float = 0.005
    group_near: float = 0.01
    prepare_wait: float = 0.02
    diff_few_rows: int | None = None
    query_max_rows: int = 50_000_000
    query_max_memory: int = 4 * 2**30
    query_max_seconds: float | None = None
    query_expansion: str = "auto"
    cache_bytes: int | None = None

    @classmethod
    def from_env(cls) -> Settings:
        """The defaults, overridden by environment variables that are set."""
        fixed = cls(derived=switch("OMNIGRAPH_DERIVED"), load_concurrency=whole_number("OMNIGRAPH_LOAD_CONCURRENCY", 8))
        settings = replace(fixed, **_query_settings())
        lease = seconds("OMNIGRAPH_INTENT_LEASE")
        if lease is not None:
            settings = replace(settings, lease=lease, lease_margin=min(settings.lease_margin, lease))
        deadline = seconds("OMNIGRAPH_PUBLISH_DEADLINE")
        return settings if deadline is None else replace(settings, publish_deadline=deadline)


def _query_settings() -> dict[str, Any]:
    """Limits of queries: whole numbers, bytes, and seconds; 0 seconds means no limit of time."""
    found: dict[str, Any] = {}
    for name, variable in _QUERY_VARIABLES.items():
        text = os.environ.get(variable, "").strip()
        if not text:
            continue
        try:
            value = float(text) if name == "query_max_seconds" else int(text)
        except ValueError:
            value = -1
        if not 0 <= value < math.inf:
            raise InvalidArgument(
                f"{variable}={show_value(text)} is not a limit", hint="write a number that is not negative"
            )
        found[name] = value or None if name == "query_max_seconds" else value
    return found


def mint() -> str:
    """A fresh ULID: sorts by time, never reused."""
    return str(ULID())


def ticks() -> float:
    """Seconds for measuring durations, including the time of a suspended machine, in which leases run out too."""
    return time.clock_gettime(_CLOCK)


def now_us() -> int:
    """The wall clock of this machine in microseconds. For display and ordering hints, never for correctness."""
    return time.time_ns() // 1000


class GraphStore:
    """One graph root, opened."""

    def __init__(self, root: GraphRoot, *, read_only: bool = False, settings: Settings | None = None) -> None:
        self.root = root
        self.read_only = read_only
        self.settings = settings or Settings.from_env()
        options = {} if root.is_local else with_client_timeout(s3_options(), self.settings.publish_deadline)
        self.durability = Durability(root)
        self.objects = ObjectStore(root, options, self.durability)
        self.tables = TableStore(root, options, self.durability)
        self.derived = DerivedStore(self.objects, enabled=self.settings.derived, writable=not read_only)
        self.manifests = ManifestStore(
            root, options, self.objects, self.durability, self.tables.session, self.tables.files, self.tables.digester
        )
        self._catalogs: dict[str, Catalog] = {}
        self._lock = threading.Lock()
        self._due: dict[str, Future[None]] = {}
        kept = self.settings.cache_bytes
        self.cache_budget = CacheBudget(cache_bytes() if kept is None else kept)
        self.preparing = threading.Lock()
        self.is_closed = False

    def catalog(self, schema_hash: str) -> Catalog:
        """The accepted schema of a hash. Schemas are immutable, so each is read once."""
        found = self._catalogs.get(schema_hash)
        if found is None:
            found = load_catalog(self.objects, schema_hash)
            with self._lock:
                self._catalogs[schema_hash] = found
        return found

    def catalogs(self) -> Iterator[Catalog]:
        """Every schema that the graph has or had, except those that cannot be read."""
        for info in self.objects.list(SCHEMAS):
            with contextlib.suppress(CorruptGraph):
                yield self.catalog(info.path.rpartition("/")[2].removesuffix(".json"))

    def require_present(self) -> None:
        """Raise the error that opening the graph would raise, where a local store was moved or is not mounted.

        Called before answers that an empty directory would give as well: that something does not exist.
        """
        if self.root.is_local and not self.objects.holds_any(f"{MANIFEST}/"):
            self.manifests.latest(MANIFEST)

    def require_writable(self) -> None:
        """Refuse to write through a read-only handle."""
        if self.read_only:
            raise ReadOnlyGraph(f"{self.root.uri} was opened read-only", hint="open it for writing, in the mode rw")

    def store_clock(self) -> dt.datetime:
        """Now, by the clock that stamps the store's objects: the only clock by which ages of objects are measured."""
        if self.read_only:  # it may not write a probe, and deletes nothing however old it looks
            return dt.datetime.now(dt.UTC)
        path = f"{CLOCKS}{mint()}"
        self.objects.put_new(path, b"", flush=False)
        stamped = self.objects.modified(path)
        self.objects.delete([path])
        if stamped is None:
            raise StoreUnavailable(f"{path} was put and is not there", hint="check that the store is still mounted")
        return stamped

    def later(self, name: str, task: Callable[[], None]) -> None:
        """Run maintenance after the call that made it due, unless maintenance of that name is waiting or running.

        The interpreter waits for it before it ends.
        """
        with self._lock:
            self._due = {key: each for key, each in self._due.items() if not each.done()}
            if name not in self._due:
                with contextlib.suppress(RuntimeError):  # the interpreter ends: the next writer finds it due
                    self._due[name] = self._upkeep.submit(task)

    def wait_for_background_work(self, progress: Listener | None = None, *, quietly: bool = False) -> None:
        """Return when no background work is left. `progress` gets an event for each table, if there is work.

        Raises the errors of that work, unless they are to be left to the next writer `quietly`.
        """
        with self._lock:
            due = list(self._due.values())
        is_over = all(each.done() for each in due)
        with PhaseProgress(None if is_over else progress, "index", len(due), "tables") as phase:
            for each in as_completed(due):
                if not quietly:
                    each.result()
                phase.advance(1)

    def close(self) -> None:
        """Finish the maintenance that is due, end the threads and drop the caches. Closing again does nothing."""
        if not self.is_closed and not fork_guard.is_forked:
            self.wait_for_background_work()
        self.is_closed = True
        pools = [vars(self).get(name) for name in ("_upkeep", "writers", "workers")]
        for pool in (*pools, self.durability):
            if pool is not None:
                pool.shutdown()
        self.cache_budget.clear()

    @cached_property
    def _upkeep(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix="omnigraph-upkeep")

    @cached_property
    def writers(self) -> ThreadPoolExecutor:
        """Threads that write the data files of loads. Only the caller commits them."""
        return CountedPool(max_workers=self.settings.load_concurrency, thread_name_prefix="omnigraph-load")

    @cached_property
    def workers(self) -> ThreadPoolExecutor:
        """Threads for work on several tables at once."""
        return CountedPool(max_workers=8, thread_name_prefix="omnigraph")
