"""Result tables: what was measured, and the ratios that have a target."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
PEERS = ("pylance", "pyarrow", "deltalake", "doltlite", "obstore", "kuzu", "ladybug", "duckdb", "polars", "lancedb")


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


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def render(tables: list[Table], command: str) -> str:
    """The whole page."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PEERS)
    lines = [
        "# Results", "",
        f"Made by `{command}` on {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()};",
        f"{versions}.",
        "Absolute times belong to one machine and one moment; the ratios, taken in one run, are what counts.", "",
    ]  # fmt: skip
    for table in tables:
        lines += [f"## {table.title}", "", *_markdown(table.head, list(table.rows)), ""]
        judged = [
            (r.what, f"{r.value:.2f}", f"{'>=' if r.at_least else '<='} {r.target:g}", "met" if r.met else "**missed**")
            for r in table.targets
        ]
        lines += [*_markdown(("ratio", "measured", "target", ""), judged), ""]
    notes = HERE / "NOTES.md"
    if notes.exists():
        lines += [notes.read_text().strip(), ""]
    return "\n".join(lines)


def write(tables: list[Table], command: str) -> None:
    """RESULTS.md for people, results.json for machines."""
    (HERE / "RESULTS.md").write_text(render(tables, command))
    (HERE / "results.json").write_text(json.dumps([asdict(t) for t in tables], indent=1) + "\n")
