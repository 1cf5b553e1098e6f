"""Counting the calls that reach storage, for people who want to know what a command costs. Off, it is one comparison.

One call may be several requests: opening a Lance version on an object store reads its manifest and what that names.
"""

from __future__ import annotations

import threading
from collections import Counter

from omnigraph.storage import forking

_counts: Counter[str] | None = None
_lock = threading.Lock()


def record(kind: str) -> None:
    """One more call of a kind, if anybody counts. Refused in a process that cannot make any."""
    if forking.is_forked:
        forking.refuse()
    if _counts is not None:
        with _lock:
            _counts[kind] += 1


def start() -> Counter[str]:
    """Count from now on; the counter fills as calls are made."""
    global _counts
    _counts = Counter()
    return _counts


def stop() -> None:
    """Count no more."""
    global _counts
    _counts = None
