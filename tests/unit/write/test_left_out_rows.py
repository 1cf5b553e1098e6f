"""Rows that break a rule beside others are left out of what was read: nothing is read again for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.api.results import LoadResult
from omnigraph.errors import DataError
from omnigraph.versioning.store import Settings
from omnigraph.write.load import LoadRequest, load_rows
from omnigraph.write.rows import Batch
from omnigraph.write.sources import Reading, inputs_of

SCHEMA = """
node P { name: String @key  email: String? @unique  age: I32? }
node Free { note: String? }
edge E: P -> P { w: F64? }
edge K: P -> P @card(0..2)
"""
SPILLED = Settings(load_block_bytes=2_000, load_spill_bytes=1)
COUNT = 200


def good_rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i in range(COUNT):
        found.append({"type": "P", "data": {"name": f"p{i}", "email": f"e{i}", "age": i}})
        found.append({"edge": "E", "from": f"p{i}", "to": f"p{(i + 1) % COUNT}", "data": {"w": i / 8}})
        found.append({"type": "Free", "data": {"note": f"n{i}"}})
    found.append({"edge": "K", "from": "p0", "to": "p1"})
    return found


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"type": "P", "data": {"name": "p3", "email": "other"}}, "key"),
    ({"type": "P", "data": {"name": "fresh", "email": "e7"}}, "unique"),
    ({"type": "P", "data": {"name": "lost", "age": "old"}}, "type"),
    ({"edge": "E", "from": "lost", "to": "p1"}, "endpoint"),
    ({"edge": "E", "from": "p1", "to": "fresh"}, "endpoint"),
)


class Counted:
    """Inputs of a load that count how often they are read."""

    def __init__(self, data: Any) -> None:
        self._inputs = inputs_of(data)
        self.reads = 0

    def read(self, reading: Reading) -> Iterator[Batch]:
        self.reads += 1
        for each in self._inputs:
            yield from each.read(reading)


def load(graph: Graph, data: Any, **options: Any) -> tuple[LoadResult, int]:
    counted = Counted(data)
    request = LoadRequest(inputs=[counted], branch="main", **{"mode": "append", **options})
    return load_rows(graph.repository, request), counted.reads


def contents(graph: Graph) -> list[Any]:
    people = sorted(map(tuple, (row.values() for row in graph.rows("node:P").to_pylist())))
    edges = sorted((r["src"], r["dst"], r["w"]) for r in graph.rows("edge:E").to_pylist())
    notes = sorted(graph.rows("node:Free")["note"].to_pylist())
    return [people, edges, notes, graph.rows("edge:K").num_rows]


def write_lines(path: Path) -> list[tuple[int, str]]:
    """Good rows with wrong ones between them; the line and the rule of each wrong one."""
    lines, wrong = [json.dumps(row) for row in good_rows()], []
    for number, (row, rule) in enumerate(WRONG):
        at = 100 * (number + 1)
        lines.insert(at, json.dumps(row))
        wrong.append((at + 1, rule))
    path.write_text("".join(f"{line}\n" for line in lines))
    return wrong


@pytest.mark.parametrize("settings", [Settings(), SPILLED], ids=["held", "spilled"])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_the_input_is_read_once(tmp_path: Path, settings: Settings, mode: str) -> None:
    wrong = write_lines(tmp_path / "rows.jsonl")
    plain = Graph.init(tmp_path / "plain", SCHEMA)
    plain.load(good_rows())
    graph = Graph.open(Graph.init(tmp_path / "g", SCHEMA).uri, settings=settings)
    result, reads = load(graph, tmp_path / "rows.jsonl", mode=mode, max_errors=len(wrong))
    assert reads == 1
    assert sorted((each.row, each.rule) for each in result.rejected) == wrong
    assert result.nodes == {"Free": COUNT, "P": COUNT}
    assert result.edges == {"E": COUNT, "K": 1}
    assert contents(graph) == contents(plain)
    assert graph.maintenance.fsck().is_clean
    with pytest.raises(DataError, match="and 4 more"):
        load(graph, tmp_path / "rows.jsonl", mode="overwrite", max_errors=len(wrong) - 1)


@pytest.mark.parametrize("settings", [Settings(), SPILLED], ids=["held", "spilled"])
def test_all_rows_of_a_type_are_left_out(tmp_path: Path, settings: Settings) -> None:
    graph = Graph.open(Graph.init(tmp_path / "g", SCHEMA).uri, settings=settings)
    edges = [{"from": "nobody", "to": "a"}] * 3
    result, reads = load(graph, {"P": [{"name": "a"}], "E": edges}, max_errors=3)
    assert (result.nodes, result.edges, len(result.rejected), reads) == ({"P": 1}, {"E": 0}, 3, 1)
    result, _ = load(graph, {"E": edges}, max_errors=3, mode="overwrite")
    assert (graph.rows("edge:E").num_rows, len(result.rejected)) == (0, 3)


@pytest.mark.parametrize("settings", [Settings(), SPILLED], ids=["held", "spilled"])
def test_the_last_edge_of_an_id_wins(tmp_path: Path, settings: Settings) -> None:
    graph = Graph.open(Graph.init(tmp_path / "g", SCHEMA).uri, settings=settings)
    graph.load({"P": [{"name": "a"}, {"name": "b"}]})
    edges = [{"id": "x", "from": "a", "to": "b", "w": float(i)} for i in range(5)]
    result, reads = load(graph, {"E": edges}, mode="merge")
    assert (graph.rows("edge:E")["w"].to_pylist(), result.edges, reads) == ([4.0], {"E": 1}, 1)


def test_equal_edges_behind_one_that_is_left_out_are_looked_at_again(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    edges = [{"from": "a", "to": "gone"}, {"from": "a", "to": "gone"}, {"from": "a", "to": "a"}]
    result, reads = load(graph, {"P": [{"name": "a"}], "E": edges}, max_errors=2, dedupe_edges=True)
    assert ([each.row for each in result.rejected], dict(result.duplicates)) == ([1, 2], {"E": 0})
    assert (result.edges, reads) == ({"E": 1}, 3)
