"""A real Spark Connect server on this machine, as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from omnigraph.pipeline.java import provide_java
from tests.spark.cluster import HOST, ROOT, descendants, free_port, kill_all

REMOTE = "OMNIGRAPH_TEST_CONNECT"
"""The URL of the server that the Spark tests of a process use; a classic session where it is not set."""

_START_SECONDS = 240
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path, master: str = "local[2,4]") -> Iterator[str]:
    """A server for as long as the block runs; its URL."""
    provide_java()
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port), "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2", "spark.driver.host": HOST, "spark.driver.bindAddress": HOST,
    }  # fmt: skip
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    command = [program, "--class", _CLASS, "--name", "connect", "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    log = folder / "connect.log"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "OMNIGRAPH_FSYNC": "off"}
    with log.open("wb") as out:
        server = subprocess.Popen([*command, "spark-internal"], stdout=out, stderr=out, env=env, cwd=folder)
    try:
        _wait_until_listening(port, server, log)
        yield f"sc://{HOST}:{port}"
    finally:
        tree = descendants(server.pid)
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        kill_all(tree)


def _wait_until_listening(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        if time.monotonic() > deadline or server.poll() is not None:
            raise AssertionError(log.read_text()[-3000:])
        time.sleep(0.2)
