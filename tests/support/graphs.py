"""Small graphs that crash and concurrency tests write to, and what they hold as plain values."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omnigraph import Graph
from omnigraph.errors import NotFound
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.plan import PublishPlan
from omnigraph.versioning.store import Settings, mint

SMALL = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company
"""

# Every commit writes the same txn ids to Left and to Right: at no version may they differ.
TWIN = """
node Left { txn: String @key  value: I32? }
node Right { txn: String @key  value: I32? }
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""

EXPIRED = Settings(lease=0.0, lease_margin=0.0)
"""Every intent counts as abandoned."""


class Crash(BaseException):
    """Raised by a failpoint inside the test's own process: no handler of ours catches it, as none survives a kill."""


def people(*names: str, age: int | None = None) -> list[dict[str, Any]]:
    """Rows of `Person`."""
    return [{"name": name, "age": age} for name in names]


def knows(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    """Rows of `Knows` whose ids follow from their ends."""
    return [{"id": f"{a}-{b}", "from": a, "to": b} for a, b in pairs]


def twins(*txns: str, value: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The same transactions for both twin tables."""
    rows = [{"txn": txn, "value": value} for txn in txns]
    return {"Left": rows, "Right": rows}


def publish_nothing(graph: Graph) -> None:
    """A commit that changes no table: the cheapest way to a long history."""
    repository = graph.repository
    state, _ = repository.refs.tip("main").swap_base()
    repository.publisher.publish(
        PublishPlan(
            commit_id=mint(), branch="main", native_branch=None, base_version=state.version, base_head=state.head,
            kind="load", schema_hash=state.schema_hash, changes=(), pins={},
        )
    )  # fmt: skip


@contextmanager
def armed(text: str) -> Iterator[None]:
    """Failpoints armed inside this process, in the words of the variable."""
    failpoints.arm(failpoints.parse(text))
    try:
        yield
    finally:
        failpoints.arm(None)


@contextmanager
def while_armed(actions: Mapping[str, Callable[[], None]]) -> Iterator[None]:
    """Failpoints that do something inside this process; an action may disarm them itself."""
    failpoints.arm(actions)
    try:
        yield
    finally:
        failpoints.arm(None)


@contextmanager
def crash_at(point: Point) -> Iterator[None]:
    """The block is left at the failpoint and nothing of ours runs after it."""

    def crash() -> None:
        raise Crash(point)

    failpoints.arm({point: crash})
    try:
        yield
    except Crash:
        return
    finally:
        failpoints.arm(None)
    raise AssertionError(f"{point} was not hit")


def logical_state(uri: str | os.PathLike[str]) -> dict[str, Any]:
    """What a user can see: rows of every type on every branch, and tags. No versions, no commits, no minted ids."""
    graph = Graph.open(uri, mode="ro")
    state: dict[str, Any] = {"tags": sorted(tag.name for tag in graph.tags.list())}
    for branch in graph.branches.list():
        try:
            tables = graph.snapshot(branch.name).tables
        except NotFound:  # closed, and its claim not yet removed
            continue
        for key in tables:
            rows = graph.rows(key, branch.name).to_pylist()
            state[f"{branch.name} {key}"] = sorted(str(sorted(row.items())) for row in rows)
    return state


def recovery_files(uri: str | os.PathLike[str]) -> list[str]:
    """Objects below `__recovery/`. A name with `#` is a put that was killed half-way: no object, but litter."""
    folder = Path(uri) / "__recovery"
    return sorted(p.name for p in folder.iterdir() if "#" not in p.name) if folder.is_dir() else []


def expire_intents(uri: str | os.PathLike[str]) -> None:
    """Date every intent back, so that its lease has run out by the store's clock."""
    long_ago = time.time() - 3600
    for path in (Path(uri) / "__recovery").iterdir():
        os.utime(path, (long_ago, long_ago))
