"""A load, a read, a query and a merge on the versions of Spark before the one that all other tests run on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.versions.environments import HERE, VERSIONS, NotInstallable, environment, python_of


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_graph_works_on_a_version_of_spark(version: str, tmp_path: Path) -> None:
    try:
        python = python_of(version)
    except NotInstallable as error:
        pytest.skip(str(error))
    ran = subprocess.run(
        [str(python), "-m", "tests.versions.smoke", str(tmp_path)], env=environment(), cwd=HERE, capture_output=True,
        text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.strip().splitlines()[-1])
    assert found.pop("version").startswith(f"{version}.")
    people = ["b", "f2", "f3", "m", "s", "w"]
    assert found == {
        "rejected": ["", "f0"], "read": 9, "sql": 1, "query": people, "degrees": 9, "unchanged": True,
    }  # fmt: skip
