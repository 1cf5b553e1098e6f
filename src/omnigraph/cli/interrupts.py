"""Report in one line what an interrupted command has written; and run the maintenance that ends a command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.failures import INTERRUPTED
from omnigraph.cli.output import clean, note
from omnigraph.cli.progress import shown_progress
from omnigraph.errors import NotFound, OmnigraphError

if TYPE_CHECKING:
    from omnigraph.api.commits import GraphCommit
    from omnigraph.graph import Graph

NOTHING = "nothing was published; staged files are removed by `omnigraph cleanup`"
_SECONDS_BEFORE_BAR = 0.2


@dataclass(slots=True)
class _Command:
    """The state of the running command."""

    graph: Graph | None = None
    otherwise: str | None = None
    forked: str | None = None
    quiet: bool = False


_command = _Command()


def begin_write(otherwise: str = NOTHING, *, quiet: bool = False) -> None:
    """Begin a command that writes. `otherwise` is the report for it when it has published no commit."""
    global _command
    _command = _Command(otherwise=otherwise, quiet=quiet)


def watch(graph: Graph, *, forked: str | None = None) -> None:
    """Record the graph that the command changes, and the branch that it creates if there is none."""
    _command.graph, _command.forked = graph, forked


def forget() -> None:
    """Reset the state for the next command."""
    global _command
    _command = _Command()


def wait_for_indexes() -> None:
    """Wait for the index maintenance that writes of the command started, as the process does at exit, and show it."""
    graph = _command.graph
    if graph is not None:
        with shown_progress(show=not _command.quiet, after=_SECONDS_BEFORE_BAR) as progress:
            graph.repository.store.wait_for_background_work(progress, quietly=True)


def ignore_late_interrupt() -> None:
    """Ignore Ctrl-C from here on: the command is done, and the end of the interpreter must not change its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def report_interrupt(*, leave: bool) -> int:
    """Report what was and was not written. `leave` ends the process, whatever its threads are doing."""
    if leave:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the answer takes a request or two, and may be interrupted
    told = _outcome()
    if told is not None:
        note(f"interrupted: {told}")
    if leave:
        _leave()
    return INTERRUPTED


def _outcome() -> str | None:
    """Return the outcome of every plan that the command passed to the publisher, read from the branches."""
    graph = _command.graph
    if graph is None:
        return _command.otherwise
    published: list[GraphCommit] = []
    for each in graph.repository.publisher.attempted:
        try:
            found = graph.repository.find_commit(each.branch, each.commit_id)
        except OmnigraphError as error:
            return f"whether commit {each.commit_id} was published is not known: {error.message}"
        if found is not None:
            published.append(found)
    told = [c for c in published if c.op_class == "logical"] or published
    if told:
        commits = ", ".join(f"commit {c.graph_commit_id} was published on {clean(c.manifest_branch)}" for c in told)
        return f"{commits}; what the command does after that was not finished"
    return f"{_command.otherwise or NOTHING}{_missing_branch(graph)}"


def _missing_branch(graph: Graph) -> str:
    """Return the note that the branch which the command would have created does not exist."""
    if _command.forked is not None:
        try:
            graph.repository.refs.get(_command.forked)
        except NotFound:
            return f"; there is no branch {clean(_command.forked)}"
        except OmnigraphError:
            return ""
    return ""


def _leave() -> None:
    """End at once: an ordinary exit waits for threads whose writes are not needed."""
    files = sys.modules.get("omnigraph.write.files")
    if files is not None:
        files.remove_spooled()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)
