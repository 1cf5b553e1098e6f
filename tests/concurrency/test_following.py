"""A consumer of the change feed that is killed anywhere, again and again, misses nothing."""

from __future__ import annotations

import time
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.graphs import SMALL, people
from tests.support.workers import KILLED, Worker, read_acks, workers

pytestmark = pytest.mark.processes

COMMITS = 40
HALTS = (3, 6, 8, 16)
"""After how many notes each consumer is killed: a commit makes six, five rows and its end."""


def test_a_consumer_that_is_killed_anywhere_sees_every_commit_in_order(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", age=1)})
    seen, cursor, acks = (tmp_path / name for name in ("seen", "cursor", "acks"))
    rows = {"Person": [{"name": f"*-{i}"} for i in range(5)]}
    with workers(1) as [writer]:
        writer.send("commits", graph.uri, worker="w", count=COMMITS, data=rows, ack=str(acks))
        for halt in HALTS:
            consumer = Worker()
            grown = len(read_acks(seen)) + halt
            consumer.send("follow", graph.uri, seen=str(seen), cursor=str(cursor), halt_after=halt)
            wait_until(lambda grown=grown: len(read_acks(seen)) == grown)
            assert consumer.kill() == KILLED
        assert writer.receive()["ok"] == COMMITS
    last = Worker()
    last.send("follow", graph.uri, seen=str(seen), cursor=str(cursor))
    wait_until(lambda: caught_up(graph, seen))
    last.kill()
    check(graph, seen)


def check(graph: Graph, seen: Path) -> None:
    notes = read_acks(seen)
    history = [c.graph_commit_id for c in reversed(graph.commits.list())]
    runs = [commit for commit, _ in groupby(note["commit"] for note in notes)]
    assert list(dict.fromkeys(runs)) == history, "every commit, first seen in order"
    # After a kill the feed goes on with the block that was not finished, or with blocks whose cursor was not kept yet.
    steps = [history.index(b) - history.index(a) for a, b in pairwise(runs)]
    assert max(steps) == 1, "no commit was skipped, not even for a while"
    whole = {note["commit"]: note["whole"] for note in notes if "whole" in note}
    assert whole.keys() == set(history)
    for commit, count in whole.items():
        assert len({note["id"] for note in notes if note["commit"] == commit and "id" in note}) == count, commit
    told = sum("whole" in note for note in notes)
    assert told > len(history), "a commit whose cursor was not kept is told again"
    assert sum("id" in note for note in notes) > sum(whole.values()), "so are the rows of a block that was cut short"


def caught_up(graph: Graph, seen: Path) -> bool:
    head = graph.commits.head().graph_commit_id
    return any(note.get("commit") == head and "whole" in note for note in read_acks(seen))


def wait_until(happened: object) -> None:
    deadline = time.monotonic() + 120
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)
