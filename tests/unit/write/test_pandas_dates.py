"""Columns of moments for properties of days: pandas has no other dates."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pandas as pd
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValue

DAYS = [dt.date(1999, 12, 31), None, dt.date(2024, 2, 29)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_midnights_are_days(tmp_path: Path, unit: str, zone: str | None) -> None:
    graph = Graph.init(tmp_path / "g", "node P { name: String @key  born: Date? }")
    born = pd.Series(pd.to_datetime([str(day) if day else None for day in DAYS])).astype(f"datetime64[{unit}]")
    frame = pd.DataFrame({"name": list("abc"), "born": born if zone is None else born.dt.tz_localize(zone)})
    graph.load({"P": frame})
    assert graph.rows("node:P").sort_by("name")["born"].to_pylist() == DAYS
    frame.loc[2, "born"] += pd.Timedelta(seconds=1)
    with pytest.raises(
        InvalidValue, match=r"row 3: P\.born expects a Date, and 2024-02-29 00:00:01\S* is not midnight"
    ):
        graph.load({"P": frame}, "overwrite")
    result = graph.load({"P": frame}, "overwrite", max_errors=1)
    assert [each.row for each in result.rejected] == [3]
    assert graph.rows("node:P").sort_by("name")["born"].to_pylist() == DAYS[:2]
