"""Merges and schema changes among processes that write to the same branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.graphs import SMALL, people
from tests.support.invariants import check_acknowledged, check_every_version
from tests.support.workers import read_acks, workers

pytestmark = pytest.mark.processes


@pytest.fixture
def uri(tmp_path: Path) -> str:
    Graph.init(tmp_path / "g", SMALL).load({"Person": people("ann", "bob", age=1)})
    return str(tmp_path / "g")


def test_merges_beside_writers_lose_nothing(uri: str, tmp_path: Path) -> None:
    graph = Graph.open(uri)
    for branch in ("x", "y"):
        graph.branches.create(branch)
    with workers(3) as [x, y, writer]:
        x.send("merges", uri, source="x", count=8)
        y.send("merges", uri, source="y", count=8)
        writer.send("commits", uri, worker="w", count=30, data={"Person": [{"name": "*"}]}, ack=str(tmp_path / "acks"))
        answers = [worker.receive() for worker in (x, y, writer)]
    assert [answers[0]["ok"][0], answers[1]["ok"][0], answers[2]["ok"]] == [8, 8, 30], answers
    graph = Graph.open(uri)
    wanted = {"ann", "bob", *(f"{b}-{n}" for b in "xy" for n in range(8)), *(f"w-{n}" for n in range(30))}
    assert set(graph.rows("node:Person")["id"].to_pylist()) == wanted
    assert sum(c.merged_parent_commit_id is not None for c in graph.commits.list()) == 16
    assert check_acknowledged(uri, read_acks(tmp_path / "acks")) == 30
    check_every_version(uri)


def test_schema_changes_beside_writers_and_optimize_lose_nothing(uri: str, tmp_path: Path) -> None:
    texts = []
    text = SMALL
    for number in range(6):
        text = text.replace("age: I32?", f"age: I32?  p{number}: I64 @default({number})")
        texts.append(text)
    texts.append(text.replace("age: I32?", "age: I64?"))
    with workers(3) as [changer, writer, keeper]:
        keeper.send("optimizes", uri, until=str(tmp_path / "done"))
        writer.send("commits", uri, worker="w", count=40, data={"Person": [{"name": "*"}]}, ack=str(tmp_path / "acks"))
        changer.send("schemas", uri, texts=texts)
        answers = [worker.receive() for worker in (changer, writer)]
        (tmp_path / "done").touch()
        answers.append(keeper.receive())
    assert [answer.get("ok") for answer in answers] == [7, 40, []], answers
    rows = Graph.open(uri).rows("node:Person").to_pylist()
    assert {r["name"] for r in rows} == {"ann", "bob", *(f"w-{n}" for n in range(40))}
    assert all([r[f"p{n}"] for n in range(6)] == list(range(6)) for r in rows)
    assert check_acknowledged(uri, read_acks(tmp_path / "acks")) == 40
    assert any(c.kind == "optimize" for c in Graph.open(uri).commits.list()), "the three met"
    check_every_version(uri)
