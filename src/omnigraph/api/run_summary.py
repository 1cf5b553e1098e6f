"""The numbers of one run of a job, for monitoring programs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """The rows of one source by outcome. `read` are those that pass its condition.

    `dropped` and `warned` count rows by the name of the expectation that they do not meet. `rejected` are bad rows, and
    those that the rules between rows left out. A source or a step that no type loads directly has no type: its `loaded`
    are the rows that it passed on.
    """

    name: str
    type_name: str | None
    read: int
    loaded: int
    rejected: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    warned: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "source": self.name, "type": self.type_name, "read": self.read, "loaded": self.loaded,
            "rejected": self.rejected, "dropped": dict(self.dropped), "warned": dict(self.warned),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TypeSummary:
    """The rows of one type: read from its sources, written, left out, and the bytes of the data files written."""

    name: str
    kind: str
    read: int
    written: int
    rejected: int
    dropped: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "type": self.name, "kind": self.kind, "read": self.read, "written": self.written,
            "rejected": self.rejected, "dropped": self.dropped, "bytes": self.bytes,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of a job. `phases` are seconds by phase; `lineage_error` is the reason why an event was not delivered."""

    run_id: str
    job: str
    started_at: dt.datetime
    seconds: float
    types: tuple[TypeSummary, ...]
    phases: Mapping[str, float]
    lineage_error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "run_id": self.run_id, "job": self.job, "started_at": self.started_at.isoformat(),
            "seconds": round(self.seconds, 3), "types": [each.as_dict() for each in self.types],
            "phases": {name: round(seconds, 3) for name, seconds in self.phases.items()},
            "lineage_error": self.lineage_error,
        }  # fmt: skip
