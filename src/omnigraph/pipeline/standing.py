"""Tasks that stay: one Spark job whose tasks take one piece of work after the other from the driver.

    driver: `do(step, items)` -> a socket for each task -> task: `serve(step, item)` -> the answer, back on the socket

A job of Spark's costs more than many steps of an algorithm do. Here a step costs a message to each task and one back;
arrays go through files. Items go to whichever tasks are there, and to the one that had an item before if it is free,
so fewer slots than tasks make a step slower and nothing else. A task that dies is started again by Spark, and its item
goes to another meanwhile. Where no task can reach the driver, each step is a job of its own.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from typing import TYPE_CHECKING, Any

from omnigraph.execution.spark.tasks import accepted, answered
from omnigraph.pipeline.driving import as_refusal, done_by_tasks, failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Serve = Callable[[Any, Any], Any]
"""Does one item of a step. It may remember what it likes: it lasts as long as its task."""

Progress = Callable[[int, int], None]
"""Hears how many of how many items are done."""

_REACH_SECONDS = 10
_GREET_SECONDS = 5
_ANSWER_SECONDS = 600
"""How long a task waits to be let in: the driver looks for tasks only when it has work."""
_LOOK_SECONDS = 0.5
_LEAVE_SECONDS = 5.0
_TASKS_ON_A_CLUSTER = 256
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_GONE = (EOFError, OSError)
_Greeting = Callable[[Connection, bytes], None]


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Where tasks find the driver, and how both know each other."""

    host: str
    port: int
    secret: bytes


class StandingTasks:
    """The driver's side. The job begins with the first step and ends with `close`.

    `begin` makes, in each task, what does the work there; `purpose` says in an error what the tasks were for.
    """

    def __init__(self, spark: SparkSession, begin: Callable[[], Serve], purpose: str) -> None:
        self._spark = spark
        self._begin = begin
        self._purpose = purpose
        self._name = f"omnigraph-standing-{secrets.token_hex(8)}"
        self._secret = secrets.token_bytes(32)
        self._door: socket.socket | None = None
        self._job: threading.Thread | None = None
        self._failure: Exception | None = None
        self._expected = 0
        self._busy: dict[Connection, int] = {}
        self._idle: list[Connection] = []
        self._had: dict[int, Connection] = {}
        self._told: dict[Connection, bytes] = {}
        self._is_out_of_reach = False

    def do(self, step: Any, items: Sequence[Any], progress: Progress | None = None) -> list[Any]:
        """One step: every item is served, and the answers are in their order."""
        if not self._is_out_of_reach:
            found = self._stepped(step, items, progress or _nobody)
            if found is not None:
                return found
            self._is_out_of_reach = True
        begin = self._begin
        return done_by_tasks(self._spark, lambda item: begin()(step, item), items, self._purpose)

    def _stepped(self, step: Any, items: Sequence[Any], progress: Progress) -> list[Any] | None:
        """The answers of tasks that stay; None where none can reach this process."""
        door = self._opened(len(items))
        waiting = set(range(len(items)))
        answers: dict[int, Any] = {}
        said = pickle.dumps(step)
        while len(answers) < len(items):
            self._hand_out(said, items, waiting)
            progress(len(answers), len(items))
            is_over = self._job is None or not self._job.is_alive()  # asked first: what it sent before is still heard
            for ready in wait([door, *self._busy, *self._idle], _LOOK_SECONDS):
                if isinstance(ready, Connection):
                    self._hear(ready, answers, waiting)
                else:
                    self._admit(door)
            if is_over and not self._busy and not self._idle and waiting:
                self.close()
                if self._failure is not None:
                    raise as_refusal(self._failure, self._purpose) from self._failure
                return None
        progress(len(items), len(items))
        return accepted([answers[number] for number in range(len(items))])

    def _hand_out(self, step: bytes, items: Sequence[Any], waiting: set[int]) -> None:
        """An item to each task that is free: one that it had before, else one that nobody has had, else any.

        A task is told the step once.
        """
        while waiting and self._idle:
            task = self._idle.pop(0)
            number = min(waiting, key=lambda n: (self._had.get(n) is not task, n in self._had, n))
            try:
                task.send((None if self._told.get(task) is step else step, items[number]))
            except _GONE:
                self._drop(task)
                continue
            waiting.remove(number)
            self._busy[task], self._had[number], self._told[task] = number, task, step

    def _hear(self, task: Connection, answers: dict[int, Any], waiting: set[int]) -> None:
        number = self._busy.pop(task, None)
        try:
            answer = task.recv()
        except _GONE:  # it died, or Spark ended it: another takes its item
            self._drop(task)
            waiting |= set() if number is None else {number}
            return
        assert number is not None, "a task that was asked nothing said something"
        answers[number] = answer
        self._idle.append(task)

    def _drop(self, task: Connection) -> None:
        task.close()
        self._told.pop(task, None)
        self._idle = [each for each in self._idle if each is not task]
        self._had = {number: each for number, each in self._had.items() if each is not task}

    def _admit(self, door: socket.socket) -> None:
        """Let in a task that knows the secret."""
        with contextlib.suppress(*_GONE, AuthenticationError):
            caller, _ = door.accept()
            self._idle.append(_greeted(caller, (deliver_challenge, answer_challenge), self._secret, _GREET_SECONDS))

    def _opened(self, count: int) -> socket.socket:
        """Where tasks knock. The job starts when it is asked for first."""
        if self._door is None:
            context = self._spark.sparkContext
            host = str(self._spark.conf.get("spark.driver.host"))
            self._door = socket.create_server((str(self._spark.conf.get("spark.driver.bindAddress", host)), 0))
            self._door.settimeout(_GREET_SECONDS)
            # Here the slots are known. A cluster may grow; those that find no slot are called off in the end.
            is_local = context.master.partition("[")[0] == "local"
            slots = context.defaultParallelism if is_local else max(context.defaultParallelism, _TASKS_ON_A_CLUSTER)
            self._expected, self._failure = min(count, slots), None
            self._start(_Meeting(host, self._door.getsockname()[1], self._secret), self._expected)
        return self._door

    def _start(self, meeting: _Meeting, count: int) -> None:
        from pyspark import InheritableThread

        context, begin, name = self._spark.sparkContext, self._begin, self._name

        def stay() -> None:
            try:
                context.addJobTag(name)
                context.parallelize(range(count), count).foreach(lambda _: stand(meeting, begin))
            except failures() as error:  # raised by the step that waits for an answer
                self._failure = error

        self._job = InheritableThread(target=stay, name=name, daemon=True)
        self._job.start()

    def close(self) -> None:
        """End the job: tasks see that nobody is there any more. Another step starts another job."""
        all_came = len(self._busy) + len(self._idle) == self._expected
        for task in (*self._busy, *self._idle):
            task.close()
        self._busy, self._idle, self._had, self._told = {}, [], {}, {}
        if self._door is not None:
            self._door.close()
        if self._job is not None:
            self._job.join(_LEAVE_SECONDS if all_came else _LEAVE_SECONDS / 5)
            if self._job.is_alive():
                self._spark.sparkContext.cancelJobsWithTag(self._name)
                self._job.join()
        self._door = self._job = None


def stand(meeting: _Meeting, begin: Callable[[], Serve]) -> None:
    """The task's side: serve until the driver has gone. A driver that cannot be reached does without this task."""
    try:
        caller = socket.create_connection((meeting.host, meeting.port), _REACH_SECONDS)
        driver = _greeted(caller, (answer_challenge, deliver_challenge), meeting.secret, _ANSWER_SECONDS)
    except (*_GONE, AuthenticationError):
        return
    serve = begin()
    step: Any = None
    with driver:
        while True:
            try:
                said, item = driver.recv()
            except _GONE:
                return
            step = step if said is None else pickle.loads(said)
            answer = answered(partial(serve, step, item))
            with contextlib.suppress(*_GONE):
                driver.send(answer)


def _greeted(caller: socket.socket, words: Sequence[_Greeting], secret: bytes, seconds: int) -> Connection:
    """A connection to somebody who knows the secret. Whoever says nothing is not waited for."""
    caller.settimeout(None)
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a machine that dies says nothing either
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            caller.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    patience = socket.SOL_SOCKET, socket.SO_RCVTIMEO
    caller.setsockopt(*patience, struct.pack("ll", seconds, 0))
    met = Connection(os.dup(caller.fileno()))
    with caller, contextlib.ExitStack() as otherwise:
        otherwise.callback(met.close)
        for word in words:
            word(met, secret)
        caller.setsockopt(*patience, struct.pack("ll", 0, 0))
        otherwise.pop_all()
    return met


def _nobody(_done: int, _total: int) -> None:
    """Nobody listens."""
