"""A real standalone cluster on this machine: a master and two workers of one core each, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from omnigraph.pipeline.java import provide_java

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
_START_SECONDS = 180
_DRIVER_SECONDS = 300


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """The environment of processes of Spark: every one of them finds this checkout."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": paths, "SPARK_LOCAL_IP": HOST, "OMNIGRAPH_FSYNC": "off", **more}


class Cluster:
    """A running cluster."""

    def __init__(self, folder: Path, python_path: str | None = None, variables: dict[str, str] | None = None) -> None:
        """`python_path` is that of the cluster's processes: this checkout where it is None."""
        self._folder = folder
        self._python_path = python_path
        self._variables = variables or {}
        self._port, self._page = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        """The URL that drivers connect to."""
        return f"spark://{HOST}:{self._port}"

    def start(self, workers: int = 2) -> None:
        """Start the master, then the workers, and wait until all have met."""
        provide_java()
        self._run("master.Master", "--host", HOST, "--port", str(self._port), "--webui-port", str(self._page))
        self._await(lambda state: True)
        for number in range(1, workers + 1):
            # Hosts of their own, by name: Spark starts no double of a task on the host that runs it.
            self._run(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--host", f"127.0.0.{number}", "--webui-port", "0",
                "--work-dir", str(self._folder / f"work{number}"), self.master, host=f"127.0.0.{number}",
            )  # fmt: skip
        self._await(lambda state: state["aliveworkers"] == workers)

    def _run(self, name: str, *arguments: str, host: str = HOST) -> None:
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        env = self.environment() | {"SPARK_DAEMON_MEMORY": "512m", "SPARK_LOCAL_IP": host}
        if self._python_path is not None:
            env["PYTHONPATH"] = self._python_path
        with (self._folder / "cluster.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [program, f"org.apache.spark.deploy.{name}", *arguments],
                    stdout=log, stderr=log, env=env, cwd=self._folder,
                )
            )  # fmt: skip

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of the cluster's processes."""
        return environment(**self._variables, **more)

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=10) as answer:
            return dict(json.load(answer))

    def _await(self, wanted: Any) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                if wanted(self.state()):
                    return
            except (OSError, ValueError):  # nobody listens yet, or the page is there before what it tells
                pass
            if time.monotonic() > deadline or any(p.poll() is not None for p in self._processes):
                raise AssertionError((self._folder / "cluster.log").read_text()[-3000:])
            time.sleep(0.2)

    def executors(self) -> list[int]:
        """Processes of executors: the JVMs that workers started."""
        return [pid for worker in self._processes[1:] for pid in children(worker.pid)]

    def stop(self) -> None:
        """End every process."""
        tree = [pid for process in self._processes for pid in descendants(process.pid)]
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        kill_all(tree)


@contextmanager
def cluster(folder: Path, python_path: str | None = None, variables: dict[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster for as long as the block runs."""
    made = Cluster(folder, python_path, variables)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Driver:
    """A driver program in a process of its own. It says lines of JSON and may be killed."""

    def __init__(self, master: Cluster | str, name: str, *arguments: str, **more: str) -> None:
        env = environment(SPARK_MASTER=master if isinstance(master, str) else master.master, **more)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", name, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env,
        )  # fmt: skip

    def kill(self) -> None:
        """SIGKILL to the driver and to the JVM that it started."""
        tree = descendants(self.process.pid)
        self.process.kill()
        kill_all(tree)
        self.process.communicate(timeout=60)

    def result(self) -> dict[str, Any]:
        """What it said last."""
        try:
            said, complaints = self.process.communicate(timeout=_DRIVER_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert self.process.returncode == 0, complaints[-3000:]
        return dict(json.loads(said.strip().splitlines()[-1]))


def children(pid: int) -> list[int]:
    """Processes that a process started and that still run."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return [child for child in found if is_running(child)]


def is_running(pid: int) -> bool:
    """Whether a process has not ended. The shell that becomes a worker may leave it a dead child that nobody buries."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def descendants(pid: int) -> list[int]:
    """Processes below a process."""
    mine = children(pid)
    return [*mine, *(each for child in mine for each in descendants(child))]


def kill_all(pids: list[int]) -> None:
    """SIGKILL to each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
