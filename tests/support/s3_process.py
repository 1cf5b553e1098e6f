"""A real S3 server for tests: moto behind a counter that writes one line per request.

Run as a process: `python -m tests.support.s3_process PORT LOGFILE`. The log is the truth for cost tests: every line is
`METHOD SP PATH?QUERY SP STATUS SP BYTES` (of the response), written after the response is known.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

HIDDEN_PREFIX = "/moto-api"


CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")


class CountingApp:
    """WSGI middleware: passes every request on and logs its request line and status.

    S3 decides conditional writes one after another. Moto looks first and writes then, in as many threads as there are
    requests, so two writers of the same new object may both be told that they won: here they come one by one.
    """

    def __init__(self, app: Any, log_path: str) -> None:
        self._app = app
        self._log = open(log_path, "a", buffering=1)  # noqa: SIM115 - lives as long as the process
        self._lock = threading.Lock()
        self._deciding = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def record(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            path = environ.get("RAW_URI") or environ["PATH_INFO"]
            if not path.startswith(HIDDEN_PREFIX):
                sent = next((value for name, value in headers if name.lower() == "content-length"), "0")
                with self._lock:
                    self._log.write(f"{environ['REQUEST_METHOD']} {path} {status.split()[0]} {sent}\n")
            return start_response(status, headers, *rest)

        is_decision = environ["REQUEST_METHOD"] != "GET" and any(name in environ for name in CONDITIONS)
        with self._deciding if is_decision else contextlib.nullcontext():
            return self._app(environ, record)  # type: ignore[no-any-return]


class QuietHandler(WSGIRequestHandler):
    """HTTP/1.1 with keep-alive, no access log: the counter has its own."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: requests are logged by the counter."""


def main(port: int, log_path: str) -> None:
    """Serve until killed."""
    app = CountingApp(DomainDispatcherApplication(create_backend_app), log_path)
    make_server("127.0.0.1", port, app, threaded=True, request_handler=QuietHandler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
