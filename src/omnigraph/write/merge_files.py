"""Conflicts as a file: a merge writes its conflicts, a person fills in the winning sides, the next merge reads it.

Each line is one conflict as JSON, with the values of both sides and `"resolution": null`. A decision counts for the
values about which it was made: where a side has moved on, the conflict is open again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from omnigraph.api.conflicts import OURS, RESOLVABLE, THEIRS, Conflict
from omnigraph.errors import InvalidArgument
from omnigraph.write.merge_conflicts import Resolution
from omnigraph.write.user_files import read_text, write_file

_NAMES = ("entity_kind", "type_name", "entity_id")
Resolutions = str | os.PathLike[str] | Sequence[Conflict]


def write_conflicts(path: str | os.PathLike[str], conflicts: Iterable[Conflict]) -> int:
    """Write conflicts, one line each; how many there were."""
    lines = [json.dumps(conflict.as_dict(), ensure_ascii=False) for conflict in conflicts]
    write_file(path, "".join(f"{line}\n" for line in lines).encode())
    return len(lines)


def resolutions_of(given: Resolutions | None) -> tuple[Resolution, ...]:
    """Decisions from a file of conflicts, or from conflicts whose `resolution` was set. Open ones decide nothing."""
    if given is None:
        return ()
    if isinstance(given, str | os.PathLike):
        return _read(given)
    found = (_resolution(each.as_dict(), "a conflict") for each in given)
    return tuple(each for each in found if each is not None)


def _read(path: str | os.PathLike[str]) -> tuple[Resolution, ...]:
    name = os.fspath(path)
    missing = InvalidArgument(f"there is no file {name!r}", hint="`omnigraph branch merge --conflicts FILE` writes one")
    found: dict[tuple[str, str, str], Resolution] = {}
    for number, line in enumerate(read_text(path, missing=missing).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidArgument(f"{where}: this is not JSON: {error}", hint="each line is one conflict") from None
        each = _resolution(value, where)
        if each is None:
            continue
        if each.place in found:
            raise InvalidArgument(f"{where}: this conflict is decided twice", hint="leave one of the lines out")
        found[each.place] = each
    return tuple(found.values())


def _resolution(value: Any, where: str) -> Resolution | None:
    if not isinstance(value, dict) or "kind" not in value:
        raise InvalidArgument(f"{where}: this is no conflict", hint="a line is one that the merge wrote")
    side = value.get("resolution")
    if side is None:
        return None
    if side not in (OURS, THEIRS):
        raise InvalidArgument(f"{where}: resolution {side!r} is unknown", hint='use "ours", "theirs" or null')
    if value["kind"] not in RESOLVABLE:
        raise InvalidArgument(
            f"{where}: a {value['kind']} has no side to choose",
            hint="change one of the branches so that it does not arise",
        )
    if not all(isinstance(value.get(name), str) for name in _NAMES):
        raise InvalidArgument(
            f"{where}: this conflict has no {' and '.join(_NAMES)}", hint="change the resolution only"
        )
    return Resolution(
        kind=value["kind"], table_key=f"{value['entity_kind']}:{value['type_name']}", entity_id=value["entity_id"],
        side=side, ours=value.get("ours"), theirs=value.get("theirs"),
    )  # fmt: skip
