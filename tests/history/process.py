"""One process of the history test: threads that share a handle, run random operations for ever and log each of them.

The driver asks all processes to rest by a file named `gate`; a thread that rests says so by a file of its own.
"""

from __future__ import annotations

import os
import random
import threading
import time
import traceback
import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import time_machine

from omnigraph import Graph
from omnigraph.errors import GraphNotFound, OmnigraphError, OutcomeUnknown, StorageError, StoreReplaced
from omnigraph.versioning.store import Settings
from tests.history import operations
from tests.history.log import FAIL, OK, UNKNOWN, OperationLog

COMMITS = frozenset({"load", "mutate", "delete", "merge", "schema"})
"""What ends as a commit: its failure is certain unless it is called unknown. Names are put and removed without one."""
RESENT = 3
PATIENCE = 0.1
"""Before the next operation where the store was not there."""


@dataclass(frozen=True)
class Role:
    """What one process is told when it starts. `shift`: how far its clock is from the machine's, in seconds."""

    name: str
    uri: str
    folder: Path
    seed: int
    threads: int
    settings: Settings
    environment: dict[str, str]
    shift: float = 0.0


class Runner:
    """The operations of one process."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.log = OperationLog(role.folder, role.name)
        self._graph: Graph | None = None
        self._lock = threading.Lock()

    def graph(self) -> Graph:
        """The handle that the threads share, opened when it is needed."""
        with self._lock:
            if self._graph is None:
                self._graph = Graph.open(self.role.uri, settings=self.role.settings)
            return self._graph

    def reopen(self, stale: Graph) -> None:
        with self._lock:
            if self._graph is stale:
                self._graph = None

    def run(self, thread: int) -> None:
        chooser = operations.Chooser(random.Random(f"{self.role.seed} {thread}"))
        number = 0
        while True:
            self.rest(thread)
            number += 1
            try:
                self.step(f"{self.role.name}-{thread}-{number}", chooser)
            except OmnigraphError:  # of opening it or of looking at its schema: no operation has begun
                time.sleep(0.1)

    def step(self, op: str, chooser: operations.Chooser) -> None:
        graph = self.graph()
        arguments = chooser.choose(op, graph)
        self.log.invoke(op, **arguments)
        try:
            result = self._send(graph, arguments)
        except OmnigraphError as error:
            self.log.end(op, self._outcome(arguments, error), **_told(error))
            if isinstance(error, (StorageError, GraphNotFound)):
                time.sleep(PATIENCE)
            if isinstance(error, StoreReplaced) and chooser.chance.random() < 0.4:
                self.reopen(graph)
            return
        self.log.end(op, OK, **result)
        seen = result.get("commit") or result.get("head")
        if seen:
            chooser.seen = [*chooser.seen[-30:], seen]

    def _send(self, graph: Graph, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run it; a request with an idempotency key is sent again where its answer was lost."""
        try:
            return operations.run(graph, arguments)
        except OutcomeUnknown as unknown:
            for _ in range(RESENT if "idempotency_key" in arguments else 0):
                with suppress(OmnigraphError):  # the first one may still have been applied
                    return operations.run(graph, arguments)
            raise unknown from None

    def _outcome(self, arguments: dict[str, Any], error: OmnigraphError) -> str:
        if isinstance(error, OutcomeUnknown):
            return UNKNOWN
        return UNKNOWN if isinstance(error, StorageError) and arguments["do"] not in COMMITS else FAIL

    def rest(self, thread: int) -> None:
        gate = self.role.folder / "gate"
        if not gate.exists():
            return
        if self._graph is not None:
            self._graph.repository.store.wait_for_background_work()
        resting = self.role.folder / f"{self.role.name}-{thread}.resting"
        resting.touch()
        while gate.exists():
            time.sleep(0.02)
        resting.unlink(missing_ok=True)


def _told(error: OmnigraphError) -> dict[str, Any]:
    told: dict[str, Any] = {"error": error.code, "message": error.message[:300]}
    if isinstance(error, OutcomeUnknown):
        told["commit"] = error.commit_id
    return told


def serve(role: Role) -> None:
    """Run until killed. What no operation may raise is written to a file of crashes."""
    os.environ.clear()
    os.environ.update(role.environment)
    warnings.simplefilter("ignore")
    runner = Runner(role)

    def loop(thread: int) -> None:
        try:
            runner.run(thread)
        except BaseException:
            with (role.folder / "crashes").open("a") as out:
                out.write(f"{role.name}-{thread}\n{traceback.format_exc()}\n")
            raise

    with _clock(role.shift):
        threads = [threading.Thread(target=loop, args=(number,), daemon=True) for number in range(role.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _clock(shift: float) -> AbstractContextManager[object]:
    return time_machine.travel(time.time() + shift, tick=True) if shift else nullcontext()
