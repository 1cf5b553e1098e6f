"""The log of operations: one line when an operation is invoked and one when it has ended, from every process.

A process writes each line with one call and goes on; what it wrote survives its death. An operation that was invoked
and has no second line is `pending`: its process died, and it may have happened or not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.versioning.store import ticks

OK, FAIL, UNKNOWN, PENDING = "ok", "fail", "unknown", "pending"


class OperationLog:
    """The log of one process."""

    def __init__(self, folder: Path, process: str) -> None:
        self._descriptor = os.open(folder / f"{process}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def invoke(self, op: str, **arguments: Any) -> None:
        """Say that an operation begins."""
        self._write({"op": op, "phase": "invoke", "at": ticks(), "arguments": arguments})

    def end(self, op: str, outcome: str, **result: Any) -> None:
        """Say how it ended."""
        self._write({"op": op, "phase": outcome, "at": ticks(), "result": result})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._descriptor, (json.dumps(line) + "\n").encode())


@dataclass
class Operation:
    """One operation as the log tells it. Times are of the machine's own clock, which no process sets."""

    op: str
    arguments: dict[str, Any]
    invoked: float
    ended: float = float("inf")
    outcome: str = PENDING
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def do(self) -> str:
        return str(self.arguments["do"])

    @property
    def commit(self) -> str | None:
        """The commit that holds it, or may hold it."""
        return self.result.get("commit")

    @property
    def may_have_happened(self) -> bool:
        return self.outcome != FAIL

    def __str__(self) -> str:
        return f"{self.op} {self.outcome} {self.arguments} -> {self.result}"


def read_log(folder: Path) -> list[Operation]:
    """Every operation of every process, by the time it was invoked; a last line that a kill cut short is none."""
    lines = (line for path in sorted(folder.glob("*.log")) for line in path.read_text().split("\n")[:-1])
    return collect(json.loads(line) for line in lines)


def collect(lines: Iterable[dict[str, Any]]) -> list[Operation]:
    """Operations from their lines."""
    found: dict[str, Operation] = {}
    for line in lines:
        if line["phase"] == "invoke":
            assert line["op"] not in found, f"{line['op']} is invoked twice"
            found[line["op"]] = Operation(line["op"], line["arguments"], line["at"])
        else:
            operation = found[line["op"]]
            operation.outcome, operation.result, operation.ended = line["phase"], line["result"], line["at"]
    return sorted(found.values(), key=lambda each: each.invoked)
