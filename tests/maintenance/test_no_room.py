"""A disk that is full, files that may not grow, permissions that are gone half-way: stop safely, say so, converge."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from omnigraph.storage.failpoints import Point
from tests.maintenance.no_room import ACTIONS, POINTS

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[2]
DISK = "48m"
SPARE = (0, 6_000, 12_000, 24_000, 40_000, 60_000, 90_000, 150_000, 300_000)
"""Bytes that are left: enough for nothing, for the first file, for a few, for nearly all."""
EVERY_ACTION = pytest.mark.parametrize("action", ACTIONS)


def run(
    trouble: str, action: str, folder: Path, measures: Sequence[int], prefix: Sequence[str] = ()
) -> list[dict[str, str | None]]:
    command = [sys.executable, "-m", "tests.maintenance.no_room", trouble, action, str(folder), *map(str, measures)]
    done = subprocess.run(
        [*prefix, *command],
        cwd=ROOT, capture_output=True, text=True, timeout=400,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == len(measures)
    return rounds


def small_disk(folder: Path) -> list[str]:
    """The beginning of a command that runs with a small disk of its own at a folder; it goes with the process."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no `unshare` here, so no small disk can be mounted")
    prefix = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size={DISK} none "{folder}" && exec "$@"', "sh"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode:
        pytest.skip(f"this machine does not let us mount a small disk: {tried.stderr.strip()}")
    return prefix


def check_full_disk(folder: Path, action: str, measures: Sequence[int]) -> None:
    rounds = run("full disk", action, folder, measures, small_disk(folder))
    assert rounds[0]["error"] in ("StoreFull", "OutcomeUnknown"), rounds
    assert {each["error"] for each in rounds} <= {"StoreFull", "OutcomeUnknown", None}, rounds


def check_lost_permission(action: str, measures: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-no-room-") as folder:
        Path(folder).chmod(0o755)  # root gives up its rights in there, and has to get there without
        rounds = run("lost permission", action, Path(folder), measures)
    assert rounds[0]["error"] in ("StoreUnavailable", "OutcomeUnknown"), rounds


@EVERY_ACTION
def test_a_full_disk_stops_it_safely_and_a_second_run_does_it(tmp_path: Path, action: str) -> None:
    check_full_disk(tmp_path, action, (0, 40_000))


@EVERY_ACTION
def test_permissions_lost_half_way_stop_it_safely(action: str) -> None:
    check_lost_permission(action, (0, POINTS.index(Point.TABLE_STAGED)))


def test_a_limit_on_file_sizes_stops_it_safely(tmp_path: Path) -> None:
    rounds = run("small files", "load", tmp_path, (6_000,))
    assert rounds[0]["error"] in ("StoreFull", "OutcomeUnknown"), rounds


@pytest.mark.slow
@pytest.mark.timeout(900)
@EVERY_ACTION
def test_room_for_some_files_is_room_for_all_or_none(tmp_path: Path, action: str) -> None:
    check_full_disk(tmp_path, action, SPARE)


@pytest.mark.slow
@pytest.mark.timeout(900)
@EVERY_ACTION
def test_permissions_lost_at_any_step_stop_it_safely(action: str) -> None:
    check_lost_permission(action, range(len(POINTS)))
