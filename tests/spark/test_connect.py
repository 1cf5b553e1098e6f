"""Everything that runs on a classic session runs on Spark Connect: the same tests, against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster import ROOT
from tests.spark.connect import REMOTE, connect_server

HERE = "tests/spark"
FEW = [
    "test_load.py::test_parquet_of_every_type_in_one_commit",
    "test_load.py::test_rejected_rows_are_left_out_and_listed",
    "test_load.py::test_dataframes_with_joins_and_casts",
    "test_steps.py::test_rows_left_out_on_the_way_are_counted_and_described",
    "test_task_runner.py::test_answers_come_in_the_order_of_the_items",
    "test_task_runner.py::test_items_that_cannot_be_done",
    "test_datasource.py::test_analytics_are_those_of_one_process",
    "test_datasource.py::test_what_is_exported_can_be_loaded[parquet]",
    "test_datasource.py::test_writing_is_one_commit",
    "test_upkeep.py",
]
ALL = [
    "test_load.py", "test_task_runner.py", "test_datasource.py", "test_merge.py", "test_upkeep.py", "test_queries.py",
    "test_search.py", "test_filters.py", "test_jobs.py", "test_selection.py", "test_restaging.py", "test_replays.py",
    "test_screening.py", "test_partition_folders.py", "test_input_options.py", "test_steps.py",
]  # fmt: skip
MAY_BE_SKIPPED = 4
"""Tests of what only a classic session has say so and are skipped."""

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


def run_on(url: str, tests: list[str], seconds: int) -> str:
    """What pytest says of some tests in a process of its own, whose Spark session is one of the server."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not processes"]
    ran = subprocess.run(
        [*command, *(f"{HERE}/{test}" for test in tests)], capture_output=True, text=True, timeout=seconds,
        cwd=ROOT, env={**os.environ, REMOTE: url}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    return ran.stdout


def skipped(text: str) -> int:
    found = re.search(r"(\d+) skipped", text)
    return int(found[1]) if found else 0


def test_loads_writes_exports_analytics_and_upkeep(server: str) -> None:
    said = run_on(server, FEW, 800)
    assert " passed" in said
    assert skipped(said) == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_suite(server: str, tmp_path: Path) -> None:
    said = run_on(server, ALL, 3500)
    assert " passed" in said
    assert skipped(said) <= MAY_BE_SKIPPED
