"""A virtual environment for each version of Spark: its own pyspark, and everything else from the one that runs this."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

VERSIONS = ("4.0", "4.1", "4.2", "4.3")
HERE = Path(__file__).parents[2]
LEFT_OPEN = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Spark 4.0 leaves sockets to the garbage collector."""
FOLDER = "OMNIGRAPH_TEST_VENVS"
"""The variable that names the directory of the environments. They are kept for the next run."""


class NotInstallable(Exception):
    """A version cannot be installed here."""


def python_of(version: str) -> Path:
    """The interpreter of the environment with a version of Spark, made when it is not there."""
    folder = _folder() / f"spark-{version}"
    done = folder / "complete"
    python = folder / "bin" / "python"
    if not done.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], version)
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", f"pyspark=={version}.*"], version)
        [packages] = (folder / "lib").glob("python*/site-packages")
        # Read after the packages of the environment, so its pyspark comes first.
        (packages / "zz-shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        done.touch()
    return python


def environment() -> dict[str, str]:
    """The variables of a process that runs this checkout in another environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "COV_", "PYTEST_"))}
    quiet = " ".join(f"-W {each}" for each in LEFT_OPEN)  # also for the runs that tests start themselves
    return {**kept, "PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE}", "PYTEST_ADDOPTS": quiet}


def _folder() -> Path:
    named = os.environ.get(FOLDER)
    return Path(named) if named else Path(sys.prefix) / "spark-versions"


def _run(command: list[str], version: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstallable(f"pyspark {version} cannot be installed here: {error}") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise NotInstallable(f"pyspark {version} cannot be installed here: {reason}")
