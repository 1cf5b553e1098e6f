"""A disk that is full, files that may not grow, permissions that are gone half-way: stop safely, say so, converge."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.maintenance.no_room import ACTIONS, TROUBLES

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[2]
DISK = "48m"


def run(trouble: str, action: str, folder: Path, *prefix: str) -> list[dict[str, str | None]]:
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "tests.maintenance.no_room", trouble, action, str(folder)],
        cwd=ROOT, env={**os.environ, "OMNIGRAPH_FSYNC": "off"}, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == len(TROUBLES[trouble][1])
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


@pytest.mark.parametrize("action", ACTIONS)
def test_a_full_disk_stops_it_safely_and_a_second_run_does_it(tmp_path: Path, action: str) -> None:
    rounds = run("full disk", action, tmp_path, *small_disk(tmp_path))
    assert rounds[0]["error"] in ("StoreFull", "OutcomeUnknown"), rounds
    assert "No space left" in (rounds[0]["message"] or "") or rounds[0]["error"] == "OutcomeUnknown"


@pytest.mark.parametrize("action", ["load"])
def test_a_limit_on_file_sizes_stops_it_safely(tmp_path: Path, action: str) -> None:
    rounds = run("small files", action, tmp_path)
    assert rounds[0]["error"] in ("StoreFull", "OutcomeUnknown"), rounds


@pytest.mark.parametrize("action", ACTIONS)
def test_permissions_lost_half_way_stop_it_safely(action: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-no-room-") as folder:
        Path(folder).chmod(0o755)  # root gives up its rights in there, and has to get there without
        rounds = run("lost permission", action, Path(folder))
    assert rounds[0]["error"] in ("StoreUnavailable", "OutcomeUnknown"), rounds
