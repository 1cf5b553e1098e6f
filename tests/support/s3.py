"""Starting the S3 server of the tests and reading what it counted."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINE = re.compile(r"(GET|HEAD|PUT|POST|DELETE) (/\S*) (\d{3}) (\d+)")


@dataclass(frozen=True, slots=True)
class Request:
    """One request that reached the server, and the bytes that it answered with."""

    method: str
    path: str
    status: int
    size: int

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "list-type=2" in self.path

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


class S3Server:
    """A running server and its request log."""

    def __init__(self, endpoint: str, log: Path) -> None:
        self.endpoint = endpoint
        self._log = log

    def requests(self) -> list[Request]:
        """Every request so far. A line that does not parse is an error: nothing may escape the count."""
        found = []
        for line in self._log.read_text().splitlines():
            match = _LINE.fullmatch(line)
            assert match, f"uncountable request line: {line!r}"
            found.append(Request(match[1], match[2], int(match[3]), int(match[4])))
        return found

    def create_bucket(self, name: str) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")).close()

    def environment(self) -> dict[str, str]:
        """The variables under which a process uses this server."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_FORCE_PATH_STYLE": "true",
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """Run a server as a process of its own for the duration of the block."""
    port, log = _free_port(), directory / "requests.log"
    log.touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.s3_process", str(port), str(log)], cwd=ROOT, env=os.environ.copy()
    )
    try:
        _wait_for(port, process)
        yield S3Server(f"http://127.0.0.1:{port}", log)
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the S3 server exited with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the S3 server did not start")
