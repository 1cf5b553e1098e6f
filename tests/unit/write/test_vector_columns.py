"""Vectors from columns of lists, as other programs write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from omnigraph import Graph

SCHEMA = "node Doc { name: String @key  place: Vector(2)? }"
CHILD = """
import sys
import pyarrow.ipc as ipc
from omnigraph import Graph

with open(sys.argv[1], "rb") as stream:
    print(Graph.open(sys.argv[2]).load({"Doc": ipc.open_stream(stream).read_all()}).total_entities)
"""


@pytest.mark.parametrize("places", [[None, None], [], [None, [1.0, 2.0]]], ids=["all null", "no row", "some null"])
def test_lists_that_come_through_ipc_may_all_be_null(tmp_path: Path, places: list[list[float] | None]) -> None:
    """In a process of its own: what went wrong here once ended the process."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    names = [f"d{number}" for number in range(len(places))]
    table = pa.table({"name": pa.array(names, pa.string()), "place": pa.array(places, pa.list_(pa.float32()))})
    with ipc.new_stream(str(tmp_path / "rows.arrows"), table.schema) as writer:
        writer.write_table(table)
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "rows.arrows"), graph.uri], capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, str(len(places))), ran.stderr
    assert sorted(map(str, graph.rows("node:Doc")["place"].to_pylist())) == sorted(map(str, places))
