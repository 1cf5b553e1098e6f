"""The benchmark of a messy CSV file in small: every wrong row is reported by its line, and no other row is."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from benchmarks import messy_csv

from omnigraph import Graph
from omnigraph.errors import DataError

KINDS = (
    "the row has 3 values", "the row has 8 values", "a quoted value is not closed", "text follows its closing quote",
    "byte 0xff is no UTF-8", "expects an integer", "outside the I32 range", "1990-02-30", "enum", "@range",
)  # fmt: skip


def test_the_report_is_exact(tmp_path: Path) -> None:
    clean, messy, wrong = messy_csv.write_files(tmp_path, 4000)
    _, result = messy_csv.timed_load(tmp_path / "g", messy, len(wrong))
    messy_csv.check_report(result, 4000, wrong)
    lines = messy.read_bytes().split(b"\n")
    for number, each in enumerate(result.rejected):
        assert lines[(each.row or 0) - 1].startswith(b"bad%d," % number)
        assert any(word in f"{each.message} {each.rule}" for word in KINDS[number % 10].split("|")), each
    _, whole = messy_csv.timed_load(tmp_path / "h", clean, 0)
    assert (whole.total_entities, whole.rejected) == (4000, ())
    good = Graph.open(tmp_path / "g").rows("node:Person")
    both = Graph.open(tmp_path / "h").rows("node:Person")
    assert both.filter(pc.is_in(both["name"], good["name"])).sort_by("name").equals(good.sort_by("name"))
    with pytest.raises(DataError, match=f"p?{wrong[0]}"):
        messy_csv.timed_load(tmp_path / "i", messy, len(wrong) - 1)
