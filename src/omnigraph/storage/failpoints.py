"""Named places after (and, where it matters, before) each durable step, at which a test can stop a process.

`OMNIGRAPH_FAILPOINT` is read once, at import, and is never set outside tests: unset, `hit` is one comparison.
It holds one or more of these, separated by `;`:

- `NAME:kill` or `NAME:kill:N`: the process dies as by `kill -9`, at the N-th hit (the first by default);
- `NAME:pause:SECONDS`: the first hit waits, as a stopped or very slow process does;
- `NAME:interrupt` or `NAME:interrupt:N`: the process gets a SIGINT, as from Ctrl-C, at the N-th hit;
- `NAME:error` or `NAME:error:N`: a `StorageError`, at every hit or at the N-th only.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from omnigraph.errors import InvalidArgument, StorageError

VARIABLE = "OMNIGRAPH_FAILPOINT"


class Point(StrEnum):
    """Every failpoint. `before` means that the step has not begun; `after`, that it is done and nothing follows yet."""

    TABLE_CREATED = "table.after_create"
    CONTRACT_WRITTEN = "schema.after_contract"
    INIT_MANIFEST = "init.after_manifest"

    ROWS_WRITTEN = "stage.after_rows"
    TABLE_STAGED = "stage.after_table"
    CHANGES_WRITTEN = "stage.after_change_list"

    INTENT_BEFORE_BEGIN = "intent.before_begin"
    INTENT_BEGUN = "intent.after_begin"
    INTENT_BEFORE_COMPLETE = "intent.before_complete"
    INTENT_COMPLETED = "intent.after_complete"
    INTENT_BEFORE_REMOVE = "intent.before_remove"
    INTENT_REMOVED = "intent.after_remove"
    INTENT_ABORTED = "intent.after_abort"
    INTENT_BEFORE_LIST = "intent.before_list"
    OBJECT_BEFORE_PROBE = "object.before_probe"
    OBJECT_BEFORE_READ = "object.before_read"
    OBJECT_REMOVED = "object.after_remove"

    HISTORY_WRITTEN = "history.after_extent"
    MANIFEST_WRITTEN = "publish.after_manifest_data"
    BEFORE_SWAP = "publish.before_swap"
    SWAPPED = "publish.after_swap"
    BEFORE_ACK = "publish.before_ack"

    BRANCH_MANIFEST = "branch_create.after_manifest"
    BRANCH_CLAIMED = "branch_create.after_claim"
    BRANCH_BEFORE_CLOSE = "branch_delete.before_close"
    BRANCH_CLOSED = "branch_delete.after_close"
    BRANCH_UNCLAIMED = "branch_delete.after_unclaim"
    TAG_WRITTEN = "tag_create.after_put"

    FOLD_COMPACTED = "fold.after_compact"
    FOLD_INDEXED = "fold.after_index"
    FOLD_PUBLISHED = "fold.after_publish"

    GC_CONDEMNED = "cleanup.after_list"
    GC_SWEPT = "cleanup.after_batch"
    OPTIMIZE_STAGED = "optimize.after_stage"

    RECOVERY_TAKEN = "recovery.after_take_over"
    RECOVERY_PUBLISHED = "recovery.after_publish"
    RECOVERY_BEFORE_AUDIT = "recovery.before_audit"
    RECOVERY_AUDITED = "recovery.after_audit"


NAMES = frozenset(Point)
Action = Callable[[], None]

_armed: Mapping[str, Action] | None = None


def hit(point: Point) -> None:
    """Run the action that is armed for this place; almost always none."""
    if _armed is not None:
        action = _armed.get(point)
        if action is not None:
            action()


def arm(actions: Mapping[str, Action] | None) -> None:
    """Replace all armed actions; None disarms."""
    global _armed
    _armed = actions


def parse(text: str) -> dict[str, Action]:
    """The actions that the text of the variable describes."""
    actions: dict[str, Action] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, _, what = item.partition(":")
        if name not in NAMES:
            raise InvalidArgument(f"{VARIABLE}: there is no failpoint {name!r}", hint=", ".join(sorted(NAMES)))
        actions[name] = _action(name, *what.split(":"))
    return actions


def _action(name: str, verb: str, argument: str | None = None) -> Action:
    match verb:
        case "kill":
            return _at_hit(int(argument or 1), lambda: os.kill(os.getpid(), signal.SIGKILL))
        case "interrupt":
            return _at_hit(int(argument or 1), lambda: os.kill(os.getpid(), signal.SIGINT))
        case "pause" if argument is not None:
            return _at_hit(1, lambda: time.sleep(float(argument)))
        case "error":
            return _at_hit(int(argument), _raiser(name)) if argument else _raiser(name)
        case _:
            hint = "kill, kill:N, interrupt, interrupt:N, pause:SECONDS, error"
            raise InvalidArgument(f"{VARIABLE}: {verb!r} is no action", hint=hint)


def _at_hit(wanted: int, action: Action) -> Action:
    seen = 0

    def counted() -> None:
        nonlocal seen
        seen += 1
        if seen == wanted:
            action()

    return counted


def _raiser(name: str) -> Action:
    def fail() -> None:
        raise StorageError(f"failpoint {name}")

    return fail


if os.environ.get(VARIABLE):
    arm(parse(os.environ[VARIABLE]))
