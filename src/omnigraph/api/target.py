"""The texts that name a state of the graph.

main  v1  01KABC...      a branch, a tag, a commit id or the first characters of one
17  2026-01-31T12:00Z    a manifest version of main, main as it was at a moment
dev@17  dev@2026-01-31   the same of another branch
main~1  v1~3             so many commits before what stands in front (its first parents)
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from omnigraph.errors import InvalidArgument, VersionNotFound

FORMS = "a branch, tag, commit id or its beginning, version, time, NAME@VERSION, NAME@TIME or NAME~N"
MIN_PREFIX = 6
_MAX_DIGITS = 18
_BACK = re.compile(r"(.+)~(\d*)", re.DOTALL)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
_PREFIX = re.compile(rf"[0-9A-HJKMNP-TV-Z]{{{MIN_PREFIX},26}}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Back:
    """A number of commits before a target, along first parents."""

    target: str
    steps: int


@dataclass(frozen=True, slots=True)
class Place:
    """A version of a branch, or a branch as it was at a moment."""

    branch: str | None
    at: int | dt.datetime


Target = str | int | dt.datetime | Place | None
"""What names a state: a text, a version or moment of main, one of another branch, or nothing for main's head."""


def parse_target(text: str) -> Back | Place | None:
    """Parse a target that is not a plain name; None for a name, which may be that of a branch, a tag or a commit."""
    back = _BACK.fullmatch(text)
    if back is not None:
        return Back(back[1], _number(back[2]) if back[2] else 1)
    name, at, place = text.rpartition("@")
    branch = name if at else None
    if place.isdecimal():
        return Place(branch, _number(place))
    moment = parse_moment(place)
    return None if moment is None else Place(branch, moment)


def parse_moment(text: str) -> dt.datetime | None:
    """Parse a moment: an ISO date, or date and time, in UTC unless the text has an offset."""
    if not _MOMENT.match(text):
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is not a time: {error}", hint="write 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def commit_prefix(text: str) -> str | None:
    """Return the text in the spelling of commit ids if it may be the beginning of one."""
    return text.upper() if _PREFIX.fullmatch(text) else None


def _number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:  # more than the store can count to
        raise VersionNotFound(f"there is no version {digits[:_MAX_DIGITS]}...")
    return int(digits)
