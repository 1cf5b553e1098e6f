"""Refusing to use storage in a forked process: it lacks the threads of Lance and obstore, and would wait forever.

A process that has opened no graph yet may fork: that is how forkserver and the workers of Spark start.
"""

from __future__ import annotations

import os
from typing import NoReturn

from omnigraph.errors import ForkUnsupported

is_forked = False
"""Whether this process was forked from one in which storage was in use."""
_is_in_use = False


def begin() -> None:
    """Record that storage is used from now on."""
    global _is_in_use
    if is_forked:
        refuse()
    _is_in_use = True


def refuse() -> NoReturn:
    """Raise an error that says why a forked process cannot go on, and what to do instead."""
    raise ForkUnsupported(
        "this process was forked from one that had a graph open, and the threads of storage do not survive a fork",
        hint='start processes with multiprocessing.get_context("spawn"), and open the graph in the new process',
    )


def _after_fork() -> None:
    global is_forked
    is_forked = is_forked or _is_in_use


os.register_at_fork(after_in_child=_after_fork)
