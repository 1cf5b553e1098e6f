"""What the pages say about reading tables with Lance, and results with Arrow's C stream interface."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import polars
import pyarrow as pa
import pytest

from omnigraph import Graph

ROOT = Path(__file__).resolve().parents[2]
OLD = "node Person { name: String @key  age: I32? }"
NEW = 'node Person { name: String @key  years: I32? @rename_from("age")  mail: String? }'


def run_section(page: str, heading: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the Python blocks of a section in the current directory; the names that they leave."""
    section = (ROOT / "docs/user" / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for body in blocks:
        exec(compile(body, page, "exec"), names)
    return names


def test_the_example_of_lance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = Graph.init("people.omni", OLD)
    graph.load({"Person": [{"name": "Ada", "age": 36}]})
    graph.schema.apply(NEW)
    names = run_section("export.md", "Reading tables with Lance", {})
    columns = names["rows"].column_names
    assert columns[:3] == ["id", "name", "age"], "the column keeps the name it was born with"
    assert re.fullmatch(r"mail__[0-9a-hjkmnp-tv-z]{26}", columns[3])
    assert names["named"].equals(graph.rows("node:Person").cast(names["named"].schema))
    assert names["named"].column_names == ["id", "name", "years", "mail"]
    assert lance.dataset(names["uri"]).count_rows() == 0, (
        "the newest version that Lance finds is the birth of the table"
    )


def test_results_are_streams_of_arrow(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", OLD)
    graph.load({"Person": [{"name": f"p{i}", "age": i} for i in range(1000)]})
    text = (ROOT / "docs/user/queries.md").read_text()
    [body] = re.findall(r"^```python\n(import pyarrow as pa\n.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"g": graph}
    exec(compile(body, "queries.md", "exec"), names)
    expected = names["found"].to_arrow()
    assert expected.num_rows == 1000
    assert names["table"].equals(expected)
    assert names["reader"].read_all().equals(expected)
    address = expected["p.age"].chunk(0).buffers()[1].address
    assert names["table"]["p.age"].chunk(0).buffers()[1].address == address, "values are shared, not copied"
    assert polars.DataFrame(names["found"]).height == 1000
    query = "query people() { match { $p: Person } return { $p.name, $p.age } }"
    with graph.stream(query, max_rows=100) as stream:
        reader = pa.RecordBatchReader.from_stream(stream)
        assert reader.schema == expected.schema
        batches = list(reader)
    assert len(batches) == 10
    assert pa.Table.from_batches(batches).equals(expected.combine_chunks())


def test_lance_says_nothing_when_it_was_imported_first(tmp_path: Path) -> None:
    program = f"""
import lance
from omnigraph import Graph
g = Graph.init({str(tmp_path / "g")!r}, {OLD!r})
g.load({{"Person": [{{"name": "Ada"}}]}})
g.branches.create("b")
g.schema.apply({NEW!r}, branch="b")
g.branches.merge("b")
assert g.rows("node:Person").num_rows == 1
"""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LANCE_", "OMNIGRAPH_"))}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=kept,
        text=True,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
