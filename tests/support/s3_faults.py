"""A proxy in front of the S3 server of the tests that loses answers, resets connections, hangs and cuts bodies short.

The server behind it is real; the proxy only decides which requests reach it and which answers come back, by rules that
a test adds. A rule is used a given number of times and counts how often it was.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

LOSE_ANSWER = "lose answer"
"""The request is applied and answered with 500."""
RESET = "reset"
"""The request is applied and the connection is closed without an answer."""
REFUSE = "refuse"
"""The request is not applied and answered with `status`."""
HANG = "hang"
"""Nothing is applied and nothing is answered for `seconds`."""
DELAY = "delay"
"""The request is applied after `seconds`."""
TRUNCATE = "truncate"
"""The connection is closed in the middle of the body."""
CLOSE_FIRST = "close first"
"""The connection is closed before anything is applied."""


@dataclass
class Rule:
    """Which requests meet which fault. `used` counts."""

    action: str
    method: str = "PUT"
    path: str = ""
    times: int = 1
    skip: int = 0
    status: int = 503
    seconds: float = 1.0
    used: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def takes(self, method: str, path: str) -> bool:
        """Whether this request meets the fault; counts it if so."""
        if method != self.method or not re.search(self.path, path):
            return False
        with self._lock:
            if self.skip > 0:
                self.skip -= 1
                return False
            if self.used >= self.times:
                return False
            self.used += 1
            return True


class FaultProxy:
    """A running proxy and its rules."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.rules: list[Rule] = []
        self.endpoint = ""

    def add(self, action: str, **options: Any) -> Rule:
        """A new rule; later rules are asked after earlier ones."""
        rule = Rule(action, **options)
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Pass everything on from now on."""
        self.rules = []

    def rule_for(self, method: str, path: str) -> Rule | None:
        return next((rule for rule in list(self.rules) if rule.takes(method, path)), None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        rule = self.proxy.rule_for(self.command, self.path)
        action = rule.action if rule is not None else None
        if rule is not None and action == REFUSE:
            self._answer(rule.status, {}, b"<Error><Code>Injected</Code></Error>")
            return
        if action == CLOSE_FIRST:
            self._close()
            return
        if rule is not None and action in (HANG, DELAY):
            time.sleep(rule.seconds)
            if action == HANG:
                self._close()
                return
        status, headers, content = self._forward(body)
        if action == LOSE_ANSWER:
            self._answer(500, {}, b"<Error><Code>InternalError</Code></Error>")
        elif action == RESET:
            self._close()
        elif action == TRUNCATE:
            self._answer(status, headers, content, cut=True)
            self._close()
        else:
            self._answer(status, headers, content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = self.proxy.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            content = answer.read()
            dropped = {"connection", "transfer-encoding", "date", "server"}
            return answer.status, {k: v for k, v in answer.getheaders() if k.lower() not in dropped}, content
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            length = headers.get("Content-Length", headers.get("content-length", str(len(content))))
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if cut else content)

    def _close(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *args: Any) -> None:
        """Nothing: the server behind it has the log."""


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Run a proxy for the duration of the block."""
    proxy = FaultProxy(upstream)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
