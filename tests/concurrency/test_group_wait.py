"""Whoever publishes waits for small writes that are on their way and could share its commit, and for no others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.group_commit import Authorship, CommitQueue, Member
from omnigraph.versioning.store import Settings
from omnigraph.write import retries
from tests.attacks.test_attacks import plan_of
from tests.support.graphs import SMALL, knows, people

LONG = 60.0


PATIENT = Settings(group_wait=LONG, group_near=LONG)
"""So patient that a wait which should end by itself is told from one that ran out."""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.open(Graph.init(tmp_path / "g", SMALL).uri, settings=PATIENT)


@pytest.fixture
def member(graph: Graph) -> Member:
    return Member(plan_of(graph, "mine"))


class Comer:
    """A write of another thread that is being prepared until it is told how to go on."""

    def __init__(self, commit_queue: CommitQueue, authorship: Authorship) -> None:
        self._gathering, self._authorship = commit_queue, authorship
        self._act: Callable[[], object] = lambda: None
        self._told, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._begun.wait()

    def _run(self) -> None:
        with self._gathering.announce_write(self._authorship):
            self._begun.set()
            self._told.wait()
            self._act()
            if self._act == self._gathering.withdraw_announcement:
                self._told.clear()
                self._told.wait()  # still busy, but nobody waits for it

    def go_on(self, act: Callable[[], object] = lambda: None) -> None:
        self._act = act
        self._told.set()

    def end(self) -> None:
        while self._thread.is_alive():
            self._told.set()
            self._thread.join(0.01)


def lingering(commit_queue: CommitQueue, member: Member) -> threading.Thread:
    thread = threading.Thread(target=commit_queue.wait_for_members, args=(member,))
    thread.start()
    return thread


@pytest.mark.parametrize("how", ["joins", "passes by", "ends"])
def test_it_waits_until_the_other_joins_passes_by_or_ends(graph: Graph, member: Member, how: str) -> None:
    commit_queue = CommitQueue(LONG, LONG)
    theirs = plan_of(graph, "theirs")
    with ExitStack() as stack:
        comer = Comer(commit_queue, member.authorship)
        stack.callback(comer.end)
        waiting = lingering(commit_queue, member)
        waiting.join(0.05)
        assert waiting.is_alive(), "somebody is on the way"
        comer.go_on(
            {"joins": lambda: commit_queue.enqueue(theirs), "passes by": commit_queue.withdraw_announcement}.get(
                how, lambda: None
            )
        )
        waiting.join(LONG / 2)
        assert not waiting.is_alive()
    assert [each.plan for each in commit_queue.take_group(member)[1:]] == ([theirs] if how == "joins" else [])


@pytest.mark.parametrize("why", ["of another author", "takes long", "for a while only"])
def test_it_does_not_wait_until_everybody_is_there(member: Member, why: str) -> None:
    wait = 0.01 if why == "for a while only" else LONG
    commit_queue = CommitQueue(wait, near=0.0 if why == "takes long" else LONG)
    author = "somebody else" if why == "of another author" else member.authorship[0]
    comer = Comer(commit_queue, (author, *member.authorship[1:]))
    waiting = lingering(commit_queue, member)
    waiting.join(LONG / 2)
    assert not waiting.is_alive()
    comer.end()


def test_a_write_alone_waits_for_nobody_and_leaves_no_trace(graph: Graph) -> None:
    graph.load({"Person": people("ann", "bob")})  # would take a minute otherwise
    graph.load({"Person": people("cyd"), "Knows": knows(("ann", "bob"))})
    graph.mutate('query q() { insert Person { name: "dan" } }')
    with pytest.raises(Exception, match="ann"):
        graph.load({"Person": people("ann")})
    assert graph.repository.tips.of("main", None).commit_queue._announced == {}


def test_writes_of_several_tables_keep_nobody_waiting(graph: Graph) -> None:
    """They cannot share a commit: a write beside them ends although they are not done yet."""
    commit_queue = graph.repository.tips.of("main", None).commit_queue
    arrived, release = threading.Event(), threading.Event()

    def hold() -> None:
        arrived.set()
        release.wait()

    graph.load({"Person": people("ann", "bob")})
    failpoints.arm({Point.INTENT_BEGUN: hold})
    other = threading.Thread(target=graph.load, args=({"Person": people("cyd"), "Knows": knows(("ann", "bob"))},))
    other.start()
    arrived.wait()
    assert commit_queue._announced == {}
    graph.load({"Person": people("eve")})
    release.set()
    other.join()
    failpoints.arm(None)
    assert graph.rows("node:Person").num_rows == 4


def test_preparing_one_by_one_is_no_lock(tmp_path: Path) -> None:
    store = Graph.open(Graph.init(tmp_path / "g", SMALL).uri, settings=Settings(prepare_wait=0.01)).repository.store
    patient = Graph.open(store.root.uri, settings=Settings(prepare_wait=LONG)).repository.store
    patient.preparing = store.preparing
    passed = threading.Event()

    def second() -> None:
        with retries.serialize_preparation(store, is_small=True):
            passed.set()

    with retries.serialize_preparation(patient, is_small=True):
        thread = threading.Thread(target=second)
        thread.start()
        assert passed.wait(LONG), "who has waited for a while goes on"
        thread.join()
        with retries.serialize_preparation(patient, is_small=False):
            assert store.preparing.locked(), "a large write leaves it alone"
    assert not store.preparing.locked()


def test_writes_wait_for_the_preparation_of_others_on_a_local_disk_only(root: str) -> None:
    """On S3 preparing is waiting for requests, which are made side by side."""
    graph = Graph.open(Graph.init(root, SMALL).uri, settings=Settings(prepare_wait=LONG))
    done = threading.Event()

    def write() -> None:
        graph.load({"Person": people("ann")})
        graph.mutate('query q() { insert Person { name: "bob" } }')
        done.set()

    with graph.repository.store.preparing:
        thread = threading.Thread(target=write)
        thread.start()
        if root.startswith("s3://"):
            assert done.wait(LONG / 2)
        else:
            assert not done.wait(0.2), "it waits for this one"
    thread.join()
    assert graph.rows("node:Person").num_rows == 2
