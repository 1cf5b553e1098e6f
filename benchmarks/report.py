"""Result tables: what was measured, and the ratios that have a target."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).parent
IS_QUICK = bool(os.environ.get("OMNIGRAPH_BENCH_QUICK"))
"""A look at every scenario at small sizes: shows that it runs, measures nothing worth keeping, writes no report."""
N = TypeVar("N")
PEERS = ("pylance", "pyarrow", "deltalake", "doltlite", "obstore", "kuzu", "ladybug", "duckdb", "polars", "lancedb")


def sized(full: N, *, quick: N) -> N:
    """A size, a count or a duration of a scenario: the one it is about, or the one of a quick look."""
    return quick if IS_QUICK else full


@dataclass(frozen=True)
class Row:
    """A figure with a target: at most, or at least, so much."""

    what: str
    value: float
    target: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target


@dataclass(frozen=True)
class Table:
    """One scenario."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    targets: tuple[Row, ...]
    made: str = ""


def noise(first: float, second: float) -> Row:
    """The same measured twice in one run. Ratios that are closer to 1 than this say nothing."""
    return Row("noise floor: the same measurement twice, higher / lower", max(first, second) / min(first, second), 1.25)


def repeated(first: list[Table], second: list[Table]) -> list[str]:
    """The noise floor of a scenario that was run twice: each of its ratios, both times, and how far apart they are."""
    lines = []
    for before, after in zip(first, second, strict=True):
        for a, b in zip(before.targets, after.targets, strict=True):
            apart = max(a.value, b.value) / min(a.value, b.value) if min(a.value, b.value) > 0 else 1.0
            lines.append(f"A/A {apart:5.2f}x  {a.what}: {a.value:.2f}, {b.value:.2f}")
    return lines


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def render(tables: list[Table]) -> str:
    """The whole page."""
    lines = [
        "# Results", "",
        "Absolute times belong to one machine and one moment; the ratios, taken in one run, are what counts.",
        "`make bench` runs every scenario, `python -m benchmarks.run NAME` one of them.", "",
    ]  # fmt: skip
    for table in tables:
        lines += [f"## {table.title}", "", *_markdown(table.head, list(table.rows)), ""]
        judged = [
            (r.what, f"{r.value:.2f}", f"{'>=' if r.at_least else '<='} {r.target:g}", "met" if r.met else "**missed**")
            for r in table.targets
        ]
        lines += [*_markdown(("ratio", "measured", "target", ""), judged), "", table.made, ""]
    notes = HERE / "NOTES.md"
    if notes.exists():
        lines += [notes.read_text().strip(), ""]
    return "\n".join(lines)


def signed(table: Table, scenario: str) -> Table:
    """The table with a line that says what made it, on what."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PEERS)
    made = (
        f"Made by `python -m benchmarks.run '{scenario}'` on {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}; {versions}."
    )
    return replace(table, made=made)


def write(tables: list[Table]) -> None:
    """RESULTS.md for people, results.json for machines. Tables that were not measured now stay as they were."""
    known = {table.title: table for table in _read()}
    known |= {table.title: table for table in tables}
    (HERE / "RESULTS.md").write_text(render(list(known.values())))
    (HERE / "results.json").write_text(json.dumps([asdict(t) for t in known.values()], indent=1) + "\n")


def _read() -> list[Table]:
    file = HERE / "results.json"
    if not file.exists():
        return []
    found = []
    for value in json.loads(file.read_text()):
        targets = tuple(Row(**row) for row in value["targets"])
        rows = tuple(tuple(row) for row in value["rows"])
        found.append(Table(value["title"], tuple(value["head"]), rows, targets, value.get("made", "")))
    return found
