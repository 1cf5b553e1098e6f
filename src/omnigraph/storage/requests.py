"""Counting the requests that this process sends to object stores.

Two clients send them. Lance counts its own in metrics of the process; those for control objects are counted where they
are made (`objects.py`). An attempt that a client repeats by itself counts, as `repeated`, where Lance makes it, and not
where it is for a control object.
"""

from __future__ import annotations

import contextvars
import threading
from collections import Counter

from lance.otel import register_lance_metrics_recorder, snapshot_lance_metrics

_SENT = "lance_object_store_requests_total"
_REPEATED = "lance_object_store_retryable_responses_total"
_LOCAL = ("file", "file-object-store", "memory")
_own: Counter[str] = Counter()
_before_write: contextvars.ContextVar[int | None] = contextvars.ContextVar("requests_before_write", default=None)
_lock = threading.Lock()


def watch() -> None:
    """Make Lance count. Called before the first request; a second call does nothing."""
    register_lance_metrics_recorder()


def sent(kind: str, count: int = 1) -> None:
    """Count requests for control objects."""
    with _lock:
        _own[kind] += count


def so_far() -> Counter[str]:
    """Requests of this process by kind: `get`, `put`, `head`, `list`, `delete`, and `repeated` ones of Lance."""
    with _lock:
        found = Counter(_own)
    for point in snapshot_lance_metrics():
        if point.name in (_SENT, _REPEATED) and point.attributes.get("base") not in _LOCAL:
            found[point.attributes["operation"] if point.name == _SENT else "repeated"] += int(point.value or 0)
    return found


def begin_write() -> None:
    """Begin counting for a write of this thread."""
    _before_write.set(so_far().total())


def since_write_began() -> int:
    """The requests of the process since then, for this write and for concurrent work."""
    before = _before_write.get()
    return 0 if before is None else so_far().total() - before
