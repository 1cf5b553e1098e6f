"""Upkeep rests after runs that met writers, and only then: a single call of `optimize` never waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.maintenance.optimize import Pace, optimize
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.maintenance.scenes import busy_graph
from tests.support.graphs import people


class Hours:
    """Time that passes only when it is told to, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rests: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.rests.append(round(seconds, 6))
        self.now += seconds

    def pace(self) -> Pace:
        return Pace(lambda: self.now, self.sleep)


def test_a_rest_is_four_times_the_run_and_at_most_two_seconds() -> None:
    hours = Hours()
    pace = hours.pace()
    for seconds in (0.25, 0.5, 30.0):
        pace.ran(seconds, beside_writers=True)
        pace.rest()
    assert hours.rests == [1.0, 2.0, 2.0]


def test_the_time_between_two_runs_counts_as_rest() -> None:
    hours = Hours()
    pace = hours.pace()
    pace.ran(0.25, beside_writers=True)
    hours.now += 0.75
    pace.rest()
    pace.ran(0.25, beside_writers=True)
    hours.now += 1.5
    pace.rest()
    assert hours.rests == [0.25]


def test_nobody_met_is_no_reason_to_rest() -> None:
    hours = Hours()
    pace = hours.pace()
    pace.rest()
    pace.ran(0.25, beside_writers=True)
    pace.ran(9.0, beside_writers=False)
    pace.rest()
    assert hours.rests == []


@pytest.mark.parametrize(("length", "rest"), [(0.25, 1.0), (9.0, 2.0)])
def test_only_a_run_that_follows_one_that_met_writers_rests(tmp_path: Path, length: float, rest: float) -> None:
    graph = busy_graph(tmp_path)
    rival = Graph.open(graph.uri)
    hours = Hours()
    pace = hours.pace()
    met: list[str] = []

    def write() -> None:
        if not met:
            met.append("late")
            hours.now += length
            rival.load({"Person": people("late")})

    failpoints.arm({Point.OPTIMIZE_STAGED: write})
    assert optimize(graph.repository, pace=pace).commit is not None
    assert (met, hours.rests) == (["late"], []), "the first run of a handle never rests, whoever it meets"

    def work() -> None:
        hours.now += length

    failpoints.arm({Point.OPTIMIZE_STAGED: work})
    assert optimize(graph.repository, pace=pace).commit is not None
    assert hours.rests == [rest]
    optimize(graph.repository, pace=pace)
    assert hours.rests == [rest], "the run before made a commit and took its time, but met nobody"


def test_every_handle_has_a_pace_of_its_own(tmp_path: Path) -> None:
    """A process that opens the graph, optimizes it once and ends must not wait for what others did."""
    graph = busy_graph(tmp_path)
    assert graph.local.pace is not Graph.open(graph.uri).local.pace
    assert graph.local.pace is graph.local.pace
