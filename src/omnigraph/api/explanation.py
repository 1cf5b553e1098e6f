"""The plan of a query and, after a run, the measurements of its operators: as text and as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Operator:
    """One operator of a plan. `rows`, `ms` and `notes` are known only after a run; `ms` includes inner operators."""

    name: str
    detail: str
    depth: int
    estimated_rows: int
    rows: int | None = None
    ms: float | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = {
            "operator": self.name,
            "detail": self.detail,
            "depth": self.depth,
            "estimated_rows": self.estimated_rows,
        }
        if self.rows is not None and self.ms is not None:
            found |= {"rows": self.rows, "ms": round(self.ms, 3), "notes": list(self.notes)}
        return found


@dataclass(frozen=True)
class Explanation:
    """The typed meaning of a query (`ir`) and its plan; `analyzed` when measured on a real run."""

    query_name: str
    ir: str
    operators: tuple[Operator, ...] = ()
    analyzed: bool = False
    row_count: int | None = None
    ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = {"query_name": self.query_name, "ir": self.ir.splitlines()}
        found["plan"] = [each.to_json() for each in self.operators]
        if self.analyzed and self.ms is not None:
            found |= {"row_count": self.row_count, "ms": round(self.ms, 3)}
        return found

    def __str__(self) -> str:
        lines = [self.ir.rstrip("\n")]
        if self.operators:
            lines += ["plan", *self._table()]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        head = ["rows", "found", "ms"] if self.analyzed else ["rows"]
        lines = ["  " + " ".join(f"{word:>10}" for word in head) + "  operator"]
        for each in self.operators:
            cells = [f"{each.estimated_rows:,}"]
            if self.analyzed:
                cells += ["-" if each.rows is None else f"{each.rows:,}", "-" if each.ms is None else f"{each.ms:.2f}"]
            notes = f"  [{'; '.join(each.notes)}]" if each.notes else ""
            words = f"{'  ' * each.depth}{each.name} {each.detail}".rstrip()
            lines.append("  " + " ".join(f"{cell:>10}" for cell in cells) + f"  {words}{notes}")
        if self.analyzed and self.ms is not None:
            lines.append(f"  {self.row_count:,} rows in {self.ms:.2f} ms")
        return lines
