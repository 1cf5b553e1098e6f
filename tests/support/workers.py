"""Real processes that write to a graph. Each takes one job after the other and answers each.

`Worker` is the parent's end. The processes are forked from one that has imported everything and done nothing yet: a
start takes milliseconds, and hundreds are started. A job may name a `failpoint` to arm, or a place to `hold`: there the
process says so and waits for a word, which makes races exact without any clock. A process that acknowledges writes
appends them to a file, one flushed line each, before it goes on.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from omnigraph import Graph
from omnigraph.errors import ConflictError, MissingEndpoint, OmnigraphError, OutcomeUnknown
from omnigraph.storage import failpoints
from omnigraph.versioning.store import Settings, mint
from tests.support import writers
from tests.support.graphs import knows, people, twins

ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.support.workers"])
_one_asks = threading.Lock()
"""How a process ended can be read once, and starting one asks about all others: threads take turns."""


class Worker:
    """One worker process, as its parent sees it."""

    def __init__(self, **environment: str) -> None:
        self._complaints = tempfile.NamedTemporaryFile("r")  # noqa: SIM115 - closed by `close`
        self._line, theirs = _processes.Pipe()
        env = {**os.environ, **environment}
        self.process = _processes.Process(target=serve, args=(theirs, env, self._complaints.name), daemon=True)
        with _one_asks:
            self.process.start()
        theirs.close()

    def send(self, do: str, uri: str | os.PathLike[str], **job: Any) -> None:
        """Give it a job; `receive` tells how it went."""
        self.say({"do": do, "uri": os.fspath(uri), **job})

    def say(self, word: object = "go") -> None:
        """One message; releases a held worker."""
        self._line.send(word)

    def receive(self) -> dict[str, Any]:
        """Its next answer: `ok`, `error`, `held`, or `dead` with the return code."""
        try:
            return dict(self._line.recv())
        except (EOFError, ConnectionResetError):
            return {"dead": self._ended(), "stderr": self._complaints.read()}

    def call(self, do: str, uri: str | os.PathLike[str], **job: Any) -> dict[str, Any]:
        """A job and its answer."""
        self.send(do, uri, **job)
        return self.receive()

    def kill(self) -> int | None:
        """SIGKILL, now."""
        if self.is_alive():
            self.process.kill()
        return self.close()

    def close(self) -> int | None:
        """Let it end; how it did."""
        self._line.close()
        if not wait([self.process.sentinel], 60):
            self.process.kill()
        self._complaints.close()
        return self._ended()

    def is_alive(self) -> bool:
        """Whether it runs."""
        with _one_asks:
            return self.process.is_alive()

    def _ended(self) -> int | None:
        wait([self.process.sentinel])
        with _one_asks:
            self.process.join()
            return self.process.exitcode


@contextmanager
def workers(count: int, **environment: str) -> Iterator[list[Worker]]:
    """Some workers, started together."""
    started = [Worker(**environment) for _ in range(count)]
    try:
        yield started
    finally:
        for worker in started:
            worker.kill()


def read_acks(path: Path) -> list[dict[str, Any]]:
    """Acknowledged writes; a last line that a kill cut short was not acknowledged."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


# --- inside the process -------------------------------------------------------------------------------------------

_graphs: dict[str, Graph] = {}
_parent: Connection


def do_run(uri: str, kind: str) -> None:
    """One writer of the crash matrix."""
    writers.WRITERS[kind].run(uri)


def do_open(uri: str, **settings: float) -> int:
    """Open for writing, which also recovers."""
    _graphs[uri] = Graph.open(uri, settings=Settings(**settings) if settings else None)
    return _graphs[uri].snapshot().version


def do_recover(uri: str, **settings: float) -> list[str]:
    """Open and recover with the given settings; what was done, by operation."""
    graph = Graph.open(uri, settings=Settings(**settings) if settings else None)
    graph.recovery.run()
    return [row["recovery_kind"] for row in graph.recovery.audit().to_pylist()]


def do_init(uri: str, schema: str, actor: str) -> str:
    """Create a graph."""
    return Graph.init(uri, schema, actor=actor).commits.head().graph_commit_id


def do_load(
    uri: str, data: dict[str, Any], mode: str = "append", branch: str = "main", actor: str | None = None
) -> str:
    """One load; the commit id."""
    commit = _graph(uri).load(data, mode, branch, actor=actor).commit
    assert commit is not None
    return commit.graph_commit_id


def do_request(uri: str, text: str, key: str) -> str | None:
    """A mutation under an idempotency key; the commit that holds it."""
    commit = _graph(uri).mutate(text, idempotency_key=key).commit
    return commit.graph_commit_id if commit is not None else None


def do_mutate(uri: str, text: str, params: dict[str, Any] | None = None) -> list[int]:
    """Run a mutation; gives the affected counts."""
    result = _graph(uri).mutate(text, params=params)
    return [result.affected_nodes, result.affected_edges]


def do_delete(uri: str, type_name: str, ids: list[str], branch: str = "main") -> list[int]:
    """One delete; how many nodes and edges went."""
    result = _graph(uri).delete(type_name, ids, branch)
    return [result.affected_nodes, result.affected_edges]


def do_branch(uri: str, name: str, from_: str = "main") -> str | None:
    """Create a branch."""
    return _graph(uri).branches.create(name, from_).native_branch


def do_merges(uri: str, source: str, count: int, into: str = "main") -> list[int]:
    """Write to a branch and merge it, over and over; how many merges there were, and how often one was repeated."""
    repeated = 0
    for number in range(count):
        _graph(uri).load({"Person": people(f"{source}-{number}")}, branch=source)
        while True:
            try:
                _graph(uri).branches.merge(source, into)
                break
            except ConflictError as error:
                if not error.retryable:
                    raise
                repeated += 1
    return [count, repeated]


def do_schemas(uri: str, texts: list[str], branch: str = "main") -> int:
    """Apply one schema after the other."""
    return sum(_graph(uri).schema.apply(text, branch=branch).applied for text in texts)


def do_schema(uri: str, text: str, **options: Any) -> list[str]:
    """Apply one schema; the steps that were taken."""
    return [str(step) for step in _graph(uri).schema.apply(text, **options).steps]


def do_optimizes(uri: str, until: str) -> list[str]:
    """Optimize again and again until a file appears; the error codes of runs that failed."""
    failed = []
    while not Path(until).exists():
        try:
            _graph(uri).maintenance.optimize()
        except OmnigraphError as error:
            failed.append(error.code)
    return failed


def do_follow(uri: str, seen: str, cursor: str, halt_after: int = 0) -> None:
    """Follow the changes of main for ever: note every commit, row by row, and then keep the cursor.

    `halt_after`: do no more after so many notes, and wait to be killed there.
    """
    notes = itertools.count(1)

    def note(value: dict[str, Any]) -> None:
        _acknowledge(seen, value)
        if next(notes) == halt_after:
            time.sleep(3600)

    while True:
        at = Path(cursor).read_text() if Path(cursor).exists() else None
        for block in _graph(uri).changes(at, "beginning", limit=2):
            for change in block.changes:
                note({"commit": block.commit.graph_commit_id, "id": change.entity_id})
            note({"commit": block.commit.graph_commit_id, "whole": len(block.changes)})
            fresh = Path(f"{cursor}.new")
            fresh.write_text(block.cursor)
            fresh.rename(cursor)


def do_unbranch(uri: str, name: str) -> None:
    """Delete a branch."""
    _graph(uri).branches.delete(name)


def do_commits(uri: str, worker: str, count: int, data: dict[str, Any], ack: str) -> int:
    """Many commits in a row; `*` in the rows stands for a key nobody else uses."""
    for number in range(count):
        rows = json.loads(json.dumps(data).replace("*", f"{worker}-{number}"))
        commit = _graph(uri).load(rows).commit
        assert commit is not None
        keys = {f"node:{name}": [row.get("name") or row["txn"] for row in each] for name, each in rows.items()}
        _acknowledge(ack, {"commit": commit.graph_commit_id, "branch": "main", "keys": keys})
    return count


def do_churn(uri: str, seed: int, ack: str, branches: list[str]) -> None:
    """Write for ever, a bit of everything, on all the branches."""
    chance = random.Random(seed)
    graph = _graph(uri)
    mine: dict[str, list[str]] = {branch: [] for branch in branches}
    _parent.send({"ok": "churning"})
    while True:
        branch = chance.choice(branches)
        write = chance.choices(_CHURN, weights=(5, 3, 3, 2, 1))[0]
        try:
            for done in write(graph, branch, mine[branch], chance):
                _acknowledge(ack, {"branch": branch, **done})
        except MissingEndpoint:
            mine[branch].clear()
        except OutcomeUnknown:
            continue
        except ConflictError as error:
            if not error.retryable:
                raise


def _append_twins(graph: Graph, branch: str, mine: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    txn = mint()
    commit = graph.load(twins(txn), branch=branch, actor="churn").commit
    yield {"commit": commit.graph_commit_id, "keys": {"node:Left": [txn], "node:Right": [txn]}, "kept": txn}


def _upsert_twins(graph: Graph, branch: str, mine: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    txns = [f"hot-{chance.randrange(6)}", mint()]
    commit = graph.load(twins(*txns, value=chance.randrange(1000)), "merge", branch).commit
    yield {"commit": commit.graph_commit_id, "keys": {"node:Left": txns, "node:Right": txns}, "kept": txns[1]}


def _append_friend(graph: Graph, branch: str, mine: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    name = mint()
    data: dict[str, Any] = {"Person": people(name)}
    if mine:
        data["Knows"] = knows((name, chance.choice(mine)))
    commit = graph.load(data, branch=branch).commit
    mine.append(name)
    yield {"commit": commit.graph_commit_id, "keys": {"node:Person": [name]}}


def _delete_friend(graph: Graph, branch: str, mine: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    if mine:
        name = mine.pop(chance.randrange(len(mine)))
        result = graph.delete("Person", [name], branch)
        if result.commit is not None:
            yield {"commit": result.commit.graph_commit_id, "gone": {"node:Person": [name]}}


def _many_small(graph: Graph, branch: str, mine: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(12):
        name = mint()
        commit = graph.load({"Person": people(name)}, branch=branch).commit
        yield {"commit": commit.graph_commit_id, "keys": {"node:Person": [name]}}


_CHURN: tuple[Callable[..., Iterator[dict[str, Any]]], ...] = (
    _append_twins, _upsert_twins, _append_friend, _delete_friend, _many_small,
)  # fmt: skip


def _graph(uri: str) -> Graph:
    if uri not in _graphs:
        _graphs[uri] = Graph.open(uri)
    return _graphs[uri]


def _acknowledge(path: str, value: dict[str, Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, (json.dumps(value) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _holding(point: str) -> dict[str, Callable[[], None]]:
    once = threading.Lock()

    def hold() -> None:
        if once.acquire(blocking=False):
            _parent.send({"held": point})
            _parent.recv()

    return {point: hold}


def _perform(job: dict[str, Any]) -> dict[str, Any]:
    do = globals()[f"do_{job.pop('do')}"]
    armed, held = job.pop("failpoint", None), job.pop("hold", None)
    if armed or held:
        failpoints.arm(failpoints.parse(armed) if armed else _holding(held))
    try:
        return {"ok": do(**job)}
    except OmnigraphError as error:
        return {"error": error.code, "message": error.message, **error.details()}
    finally:
        if armed or held:
            failpoints.arm(None)


def serve(parent: Connection, environment: dict[str, str], complaints: str) -> None:
    """Do jobs until the parent closes its end."""
    global _parent
    _parent = parent
    os.environ.clear()
    os.environ.update(environment)
    with open(complaints, "w") as file:
        os.dup2(file.fileno(), 2)
    while True:
        try:
            job = parent.recv()
        except EOFError:
            return
        parent.send(_perform(job))
