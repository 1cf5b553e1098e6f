"""What wrong rows of a CSV file cost, in calls of Python functions: a row that is right costs none."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from benchmarks import messy_csv

from omnigraph import Graph

CALLS_OF_A_WRONG_ROW = 60
"""Less than the 99 right rows beside it: one call for each of those would be seen."""


def counted(work: Callable[[], Any]) -> tuple[Counter[str], Any]:
    """The calls that some work makes, by the name of the function, in this thread and in those that it starts."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call":
            calls[called.__name__] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls, result


def test_wrong_rows_cost_themselves(tmp_path: Path) -> None:
    calls: list[int] = []
    wrong_rows: list[int] = []
    for rows in (5_000, 50_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        _, messy, wrong = messy_csv.write_files(folder, rows)
        counts, (_, result) = counted(lambda: messy_csv.timed_load(folder / "g", messy, len(wrong)))  # noqa: B023
        messy_csv.check_report(result, rows, wrong)
        calls.append(counts.total())
        wrong_rows.append(len(wrong))
        assert 0 < counts["read_text"] <= len(wrong), "cells that were read one by one"
    assert calls[1] - calls[0] < CALLS_OF_A_WRONG_ROW * (wrong_rows[1] - wrong_rows[0])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("Bool", "true", "yes"), ("I32", "-5", "x"), ("U64", "5", "-5"), ("F64", "1.5", "nan"), ("F32", "1.5", "1e39"),
        ("Date", "2020-01-02", "2020-02-30"), ("DateTime", "2020-01-02T03:04:05", "2020-01-02T03:04:61"),
        ("DateTime", "2020-01-02 03:04:05.678Z", "soon"),
    ],
)  # fmt: skip
def test_one_wrong_cell_does_not_slow_its_column(tmp_path: Path, kind: str, good: str, bad: str) -> None:
    graph = Graph.init(tmp_path / "g", f"node T {{ v: {kind}? }}")
    count = 20_000
    (tmp_path / "t.csv").write_text("v\n" + f"{good}\n" * count + f"{bad}\n" + f"{good}\n" * count)
    counts, result = counted(lambda: graph.load({"T": tmp_path / "t.csv"}, max_errors=1))
    assert [each.row for each in result.rejected] == [count + 2]
    assert result.nodes == {"T": 2 * count}
    assert counts["read_text"] == 1
