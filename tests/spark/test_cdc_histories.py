"""Random histories of many keys: shuffled, repeated and split over loads, they come to what they come to in order.

OMNIGRAPH_CDC_HISTORIES=2000 runs as many of the slow ones.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline

SCHEMA = """
node Item { slug: String @key  color: String?  size: I32?  note: String?  version: I64? }
"""
HISTORIES = 200
KEYS_AT_ONCE = 200
"""Histories of different keys do not meet: many of them make one sequence of loads."""
LOADS = 3


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a key."""

    slug: str
    version: int
    op: str
    color: str | None = None
    size: int | None = None


State = dict[str, tuple[Any, ...]]


def history(rng: random.Random, slug: str) -> list[Event]:
    """Changes of one key in their order."""
    found: list[Event] = []
    version = 0
    for _ in range(rng.randint(1, 8)):
        version += rng.randint(1, 5)
        if rng.random() < 0.3:
            found.append(Event(slug, version, "D"))
        else:
            found.append(Event(slug, version, "U", rng.choice(["red", "blue", None]), rng.choice([1, 2, None])))
    return found


def split_over_loads(rng: random.Random, events: list[Event]) -> list[list[Event]]:
    """The same events, later than they should be and several times, but none after a later delete in an earlier load.

    A graph keeps nothing of a row that is deleted, so such an event could not be told from a new one.
    """
    cuts = sorted(rng.choices(range(LOADS), k=len(events)))
    loads: list[list[Event]] = [[] for _ in range(LOADS)]
    for place, event in enumerate(events):
        deletes = [cuts[i] for i in range(place + 1, len(events)) if events[i].op == "D"]
        last = min(deletes, default=LOADS - 1)
        in_time = rng.randint(cuts[place], last) if event.op == "U" else cuts[place]
        for number in {in_time, *(rng.randint(in_time, last) for _ in range(rng.randint(0, 2)))}:
            loads[number].append(event)
    return loads


def in_order(before: State, events: list[Event], *, partial: bool) -> State:
    """What the events come to, one after the other."""
    state = dict(before)
    for event in events:
        if event.op == "D":
            state.pop(event.slug, None)
        else:
            kept = state.get(event.slug, (None,) * 4)[2] if partial else None
            state[event.slug] = (event.color, event.size, kept, event.version)
    return state


def run_histories(spark: Any, folder: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    partial = rng.random() < 0.5
    cdc = pipeline.Cdc("op", "version", delete=("D",), partial=partial)
    graph = Graph.init(folder / f"g{seed}", SCHEMA)
    slugs = [f"k{number:05}" for number in range(count)]
    there = [slug for slug in slugs if rng.random() < 0.5]
    graph.load({"Item": [{"slug": slug, "note": "kept", "version": 0} for slug in there]})
    histories = [history(rng, slug) for slug in slugs]
    loads: list[list[Event]] = [[] for _ in range(LOADS)]
    for events in histories:
        for number, mine in enumerate(split_over_loads(rng, events)):
            loads[number] += mine
    for mine in loads:
        rng.shuffle(mine)
        names = ("slug", "version", "op", "color", "size")
        kinds = (pa.string(), pa.int64(), pa.string(), pa.string(), pa.int32())
        columns = [pa.array([getattr(e, n) for e in mine], k) for n, k in zip(names, kinds, strict=True)]
        if mine:
            feed = pipeline.Changes(pa.table(columns, list(names)), cdc)
            before = len(graph.commits.list())
            pipeline.load(spark, graph, {"Item": feed}, mode="merge")
            assert len(graph.commits.list()) <= before + 1
    expected: State = dict.fromkeys(there, (None, None, "kept", 0))
    for events in histories:
        expected = in_order(expected, events, partial=partial)
    rows = graph.rows("node:Item").to_pylist()
    assert {r["slug"]: (r["color"], r["size"], r["note"], r["version"]) for r in rows} == expected, f"seed {seed}"
    assert len(rows) == len(expected)


def test_histories_in_any_order_come_to_the_same(spark: Any, tmp_path: Path, few_tasks: Any) -> None:
    run_histories(spark, tmp_path, 1, HISTORIES // 2)
    run_histories(spark, tmp_path, 2, HISTORIES // 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_histories_in_any_order_come_to_the_same(spark: Any, tmp_path: Path, few_tasks: Any) -> None:
    count = int(os.environ.get("OMNIGRAPH_CDC_HISTORIES", "2000"))
    for seed, first in enumerate(range(0, count, KEYS_AT_ONCE), start=100):
        run_histories(spark, tmp_path, seed, min(KEYS_AT_ONCE, count - first))
