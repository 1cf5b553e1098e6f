"""One process on a store that has no room, or takes away what it allowed: does something, then tells what became of it.

`python -m tests.maintenance.no_room TROUBLE ACTION FOLDER MEASURE...` has a round per measure and prints one JSON line
for each: the error's class and its message. It raises when the graph shows anything but the state before or after.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, OutcomeUnknown, StoreUnavailable
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.store import Settings
from tests.maintenance.scenes import busy_graph, contents
from tests.support.graphs import EXPIRED, knows, people
from tests.support.invariants import check_every_version

NOBODY = 65534
WIDE = 2_000


def load(graph: Graph) -> None:
    names = pa.array([f"new-{i:05d}-" + "x" * 60 for i in range(WIDE)])
    graph.load({"Person": pa.table({"name": names})})


def mutate(graph: Graph) -> None:
    graph.load({"Person": people("ann", "zoe", age=9), "Knows": knows(("zoe", "ann"))}, "merge")


def optimize(graph: Graph) -> None:
    graph.maintenance.optimize()


def cleanup(graph: Graph) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = graph.maintenance.cleanup(1, confirm=True, grace=0, force=True)
    problems = [table.error for table in report.tables if table.error]
    if problems:
        raise StoreUnavailable("; ".join(problems))


ACTIONS: dict[str, Callable[[Graph], None]] = {
    "load": load, "mutate": mutate, "optimize": optimize, "cleanup": cleanup,
}  # fmt: skip
CHANGES_ROWS = ("load", "mutate")


@contextmanager
def full_disk(folder: Path, spare: int) -> Iterator[None]:
    """Leave so many bytes on the file system of a folder."""
    filler = folder / "filler"
    status = os.statvfs(folder)
    with filler.open("wb") as out:
        out.write(b"\0" * max(0, status.f_bavail * status.f_frsize - spare))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def small_files(folder: Path, spare: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(spare, 1), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


POINTS = (None, Point.ROWS_WRITTEN, Point.TABLE_STAGED, Point.BEFORE_SWAP, Point.OPTIMIZE_STAGED)


@contextmanager
def lost_permission(folder: Path, step: int) -> Iterator[None]:
    """From a step on, directories take no new names. What one may do as root is given up meanwhile."""
    point = POINTS[step]
    folders = [path for path in (folder / "graph").rglob("*") if path.is_dir()]
    is_root = os.geteuid() == 0
    for path in (folder, folder / "graph", *(folder / "graph").rglob("*")):
        if is_root:
            os.chown(path, NOBODY, NOBODY)

    def lock() -> None:
        for path in folders:
            path.chmod(0o555)

    if is_root:
        os.seteuid(NOBODY)
    try:
        if point is None:
            lock()
        else:
            failpoints.arm({point: lock})
        yield
    finally:
        failpoints.arm(None)
        if is_root:
            os.seteuid(0)
        for path in folders:
            if path.is_dir():
                path.chmod(0o755)


TROUBLES = {"full disk": full_disk, "small files": small_files, "lost permission": lost_permission}


def one_round(trouble: str, action: str, folder: Path, measure: int) -> dict[str, str | None]:
    """Prepare a graph, meet the trouble, look, and do it again without."""
    graph = busy_graph(folder)
    before = contents(graph)
    error: OmnigraphError | None = None
    with TROUBLES[trouble](folder, measure):
        try:
            ACTIONS[action](Graph.open(graph.uri, settings=Settings(publish_deadline=2.0)))
        except OmnigraphError as caught:
            error = caught
        seen = contents(graph)
    is_done = seen != before
    if error is None and action in CHANGES_ROWS:
        assert is_done, "acknowledged, and not there"
    if error is not None:
        assert isinstance(error, (StoreUnavailable, OutcomeUnknown)), repr(error)
        assert not is_done or isinstance(error, OutcomeUnknown), "reported as failed, and there"
    healed = Graph.open(graph.uri, settings=EXPIRED)
    healed.recovery.run()
    after = contents(graph)
    if after == before:
        ACTIONS[action](healed)
    assert (contents(graph) != before) == (action in CHANGES_ROWS)
    healed.maintenance.optimize()
    cleanup(healed)
    check_every_version(graph.uri)
    problems = healed.maintenance.fsck().problems
    assert not problems, problems
    return {"error": type(error).__name__ if error else None, "message": str(error) if error else ""}


def main(trouble: str, action: str, folder: str, *measures: str) -> None:
    for measure in measures:
        place = Path(folder) / f"round{measure}"
        place.mkdir()
        print(json.dumps(one_round(trouble, action, place, int(measure))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
