"""Runs processes on one graph, disturbs them, and has the checker look at what they did.

A disturbance is one of: a process is killed, or stopped for longer than its leases; the store is moved away and back
under running processes; a copy of the store, taken while all rest, is put back later while all rest with their handles
open; requests to S3 meet faults. All follow from one seed; how processes interleave does not.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

from omnigraph import Graph
from omnigraph.api.commits import GraphCommit
from omnigraph.errors import HistoricalVersionReclaimed, MissingData, NotFound
from omnigraph.local.reads import rows_of_state
from omnigraph.versioning.store import Settings, ticks
from tests.history import model, process
from tests.history.checker import Away, Checker, Report, Store
from tests.history.log import read_log
from tests.history.operations import HOT, NAMES
from tests.support import s3_faults
from tests.support.graphs import EXPIRED
from tests.support.invariants import check_every_version
from tests.support.s3_faults import FaultProxy

SETTINGS = Settings(lease=2.0, lease_margin=0.5, staging_grace=30.0, superseded_grace=8.0, stale_base=2.0)
PAUSES = (2.5, 5.0)
SHIFTS = (0.0, 0.0, 3600.0, -3600.0)

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.support.workers", "tests.history.process"])


@dataclass
class Plan:
    """How much is done. A run ends when both numbers are reached, or the time is up."""

    operations: int
    kills: int
    seconds: float
    seed: int
    processes: int = 4
    threads: int = 2
    moves: bool = False
    interval: tuple[float, float] = (0.5, 3.0)


@dataclass
class Driver:
    """One run."""

    uri: str
    folder: Path
    plan: Plan
    proxy: FaultProxy | None = None
    running: dict[str, BaseProcess] = field(default_factory=dict)
    stopped: dict[str, float] = field(default_factory=dict)
    aways: list[Away] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    copied: float | None = None
    started: int = 0
    _offsets: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def run(self) -> Report:
        """Make the graph, let the processes work, and check."""
        self.chance = random.Random(self.plan.seed)
        graph = Graph.init(self.uri, model.SCHEMA)
        self._prepare(graph)
        try:
            self._disturb()
        finally:
            self._end()
        return self.check()

    def _prepare(self, graph: Graph) -> None:
        """Something to begin with, logged like everything else."""
        log = process.OperationLog(self.folder, "first")
        rows = {
            "Person": [{"name": name, "age": 0, "op": "first-1"} for name in NAMES[:6]],
            "Left": [{"txn": key, "value": 0, "op": "first-1"} for key in HOT],
            "Right": [{"txn": key, "value": 0, "op": "first-1"} for key in HOT],
        }
        arguments = {"do": "load", "mode": "append", "rows": rows, "message": "first-1", "branch": "main"}
        for op, each in (("first-1", arguments), ("first-2", {"do": "branch", "name": "dev", "from": "main"})):
            log.invoke(op, **each)
            log.end(op, "ok", **process.operations.run(graph, each))

    # --- processes ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.started += 1
        name = f"w{self.started}"
        role = process.Role(
            name, self.uri, self.folder, self.chance.randrange(1 << 30), self.plan.threads, SETTINGS,
            {**os.environ, "OMNIGRAPH_FSYNC": "off"}, self.chance.choice(SHIFTS),
        )  # fmt: skip
        started = _processes.Process(target=process.serve, args=(role,), daemon=True)
        started.start()
        self.running[name] = started

    def _signal(self, name: str, number: int) -> None:
        pid = self.running[name].pid
        assert pid is not None, f"{name} was not started"
        os.kill(pid, number)

    def _kill(self, name: str) -> None:
        self._signal(name, signal.SIGKILL)
        self.running.pop(name).join()
        self.stopped.pop(name, None)
        for path in self.folder.glob(f"{name}-*.resting"):
            path.unlink(missing_ok=True)

    def _end(self) -> None:
        for name in list(self.running):
            self._kill(name)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _operations_so_far(self) -> int:
        for path in self.folder.glob("*.log"):
            at, count = self._offsets.get(path, (0, 0))
            with path.open("rb") as log:
                log.seek(at)
                fresh = log.read()
            self._offsets[path] = (at + len(fresh), count + fresh.count(b'"phase": "invoke"'))
        return sum(count for _, count in self._offsets.values())

    # --- disturbances ---------------------------------------------------------------------------------------------

    def _disturb(self) -> None:
        for _ in range(self.plan.processes):
            self._start()
        kinds: dict[Callable[[], None], int] = {self._kill_one: 5, self._stop_one: 3}
        if self.plan.moves:
            kinds |= {self._move: 1, self._copy: 1, self._restore: 1}
        if self.proxy is not None:
            kinds[self._add_faults] = 30  # a cleanup takes many requests, and some of them have to come to an end
        end = ticks() + self.plan.seconds
        while ticks() < end and not (self.folder / "crashes").exists():
            time.sleep(self.chance.uniform(*self.plan.interval))
            self._continue_stopped()
            if self._operations_so_far() >= self.plan.operations and self.counts.get("kills", 0) >= self.plan.kills:
                break
            [kind] = self.chance.choices(list(kinds), list(kinds.values()))
            kind()
        self._continue_stopped(everyone=True)
        if self.proxy is not None:
            self.proxy.clear()

    def _kill_one(self) -> None:
        self._kill(self.chance.choice(sorted(self.running)))
        self._count("kills")
        self._start()

    def _stop_one(self) -> None:
        going = sorted(self.running.keys() - self.stopped.keys())
        if len(going) > 1:
            name = self.chance.choice(going)
            self._signal(name, signal.SIGSTOP)
            self.stopped[name] = ticks() + self.chance.uniform(*PAUSES)
            self._count("pauses")

    def _continue_stopped(self, *, everyone: bool = False) -> None:
        for name, until in list(self.stopped.items()):
            if everyone or ticks() > until:
                self._signal(name, signal.SIGCONT)
                del self.stopped[name]

    def _move(self) -> None:
        """The store is gone for a moment, and then there again, under processes that go on."""
        elsewhere = self.folder / "elsewhere"
        begun = ticks()
        os.rename(self.uri, elsewhere)
        time.sleep(self.chance.uniform(0.1, 1.0))
        if os.path.exists(self.uri):  # what somebody wrote who had not noticed
            os.rename(self.uri, self.folder / f"debris-{self.started}-{len(self.aways)}")
        os.rename(elsewhere, self.uri)
        self._was_away(Away(begun, ticks()))
        self._count("moves")

    def _was_away(self, away: Away) -> None:
        self.aways.append(away)
        with (self.folder / "aways").open("a") as out:  # for whoever looks at a failed run
            out.write(f"{asdict(away)}\n")

    def _at_rest(self, action: Callable[[], None]) -> None:
        """Do something while every thread of every process rests."""
        self._continue_stopped(everyone=True)
        gate = self.folder / "gate"
        gate.touch()
        wanted = {f"{name}-{thread}.resting" for name in self.running for thread in range(self.plan.threads)}
        deadline = ticks() + 120
        while not wanted <= {path.name for path in self.folder.glob("*.resting")}:
            if (self.folder / "crashes").exists():
                return
            assert ticks() < deadline, "somebody does not come to rest"
            time.sleep(0.02)
        action()
        gate.unlink()

    def _copy(self) -> None:
        def copy() -> None:
            shutil.rmtree(self.folder / "copy", ignore_errors=True)
            self.copied = ticks()
            shutil.copytree(self.uri, self.folder / "copy")

        if self.copied is None:
            self._at_rest(copy)
            self._count("copies")

    def _restore(self) -> None:
        """The copy is put in place of the store; whoever has the store open has seen more than the copy holds."""

        def restore() -> None:
            begun = ticks()
            os.rename(self.uri, self.folder / f"replaced-{len(self.aways)}")
            os.rename(self.folder / "copy", self.uri)
            self._was_away(Away(begun, ticks(), self.copied))
            shutil.rmtree(self.folder / f"replaced-{len(self.aways) - 1}")
            self.copied = None

        if self.copied is not None:
            self._at_rest(restore)
            self._count("restores")

    def _add_faults(self) -> None:
        """Some requests of the next moments are lost, cut short, late or refused."""
        assert self.proxy is not None, "faults need a proxy"
        self.proxy.rules = [rule for rule in self.proxy.rules if rule.used < rule.times][-20:]
        for _ in range(self.chance.randrange(1, 5)):
            action = self.chance.choice(
                (s3_faults.LOSE_ANSWER, s3_faults.RESET, s3_faults.HANG, s3_faults.DELAY, s3_faults.REFUSE,
                 s3_faults.CLOSE_FIRST, s3_faults.TRUNCATE)
            )  # fmt: skip
            method = (
                "GET" if action == s3_faults.TRUNCATE else self.chance.choice(("PUT", "PUT", "PUT", "GET", "DELETE"))
            )
            path = self.chance.choice(
                ("_versions/", "/data/", "_transactions/", "__refs/", "__recovery/", "__tags", "")
            )
            self.proxy.add(
                action, method=method, path=path, times=self.chance.choice((1, 1, 2, 4)),
                skip=self.chance.randrange(4), seconds=self.chance.uniform(0.2, 2.0),
            )  # fmt: skip
            self._count("faults")

    # --- the end --------------------------------------------------------------------------------------------------

    def check(self) -> Report:
        """Recover what was left, then look at everything."""
        if self.proxy is not None:
            self.proxy.clear()
            time.sleep(
                1.1
            )  # the clock of the store counts whole seconds: an intent of this second is not older than it
        graph = Graph.open(self.uri, settings=replace(SETTINGS, lease=EXPIRED.lease, lease_margin=EXPIRED.lease_margin))
        graph.recovery.run()
        checker = Checker(read_log(self.folder), read_store(graph), self.aways, has_faults=self.proxy is not None)
        report = checker.run()
        report.counts.update(self.counts)
        crashes = self.folder / "crashes"
        if crashes.exists():
            report.find("an error that is no OmnigraphError", crashes.read_text())
        problems = graph.maintenance.fsck().problems
        if problems:
            report.find("fsck", problems)
        try:
            report.counts["versions with all invariants"] = check_every_version(self.uri).versions
        except AssertionError:
            shown = "".join(traceback.TracebackException(*sys.exc_info(), capture_locals=True).format())
            report.findings.append(f"an invariant of versions: {shown[-6000:]}")
        return report


def read_store(graph: Graph) -> Store:
    """Everything that the checker wants to know of a graph."""
    branches = graph.branches.list()
    lineages = {b.native_branch: {c.graph_commit_id: c for c in graph.commits.walk(b.name)} for b in branches}
    commits = {commit_id: commit for each in lineages.values() for commit_id, commit in each.items()}
    cache: dict[tuple[str, str, int], tuple[model.Rows, list[str]]] = {}

    def read(commit: GraphCommit) -> tuple[model.State, list[str]] | None:
        gone = (HistoricalVersionReclaimed,) if commit.native_branch in lineages else (NotFound, MissingData)
        try:
            state = graph.repository.at(commit)
            assert state.head == commit.graph_commit_id, f"version {state.version} is not of {commit}"
            found, doubles = {}, []
            for key, entry in state.tables.items():
                pin = (entry.location, state.schema_hash, entry.staged_version)
                if pin not in cache:
                    cache[pin] = model.canonical(key, rows_of_state(graph.local, state, key).to_pylist())
                found[key] = cache[pin][0]
                doubles += [f"{key} {each}" for each in cache[pin][1]]
        except gone:
            return None
        return found, doubles

    return Store(
        commits=commits,
        lineages={native: set(each) for native, each in lineages.items()},
        names={b.name: b.native_branch for b in branches},
        tags={tag.name: tag.tag_id for tag in graph.tags.list()},
        read=read,
    )
