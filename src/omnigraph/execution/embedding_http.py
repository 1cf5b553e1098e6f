"""Send one JSON request to an embedding service, with retries within a deadline.

A service's message may appear in an error, the key never: it is cut out of everything that is quoted, redirects are
refused because they would carry it elsewhere, and no cause is chained that could hold it.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from omnigraph.errors import EmbeddingFailed, InvalidArgument

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MAX_BODY = 256 * 1024 * 1024
_MAX_QUOTE = 200
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """The number and the durations of tries, in seconds. The deadline covers one request with all its tries."""

    timeout: float = 30.0
    deadline: float = 60.0
    attempts: int = 4
    backoff: float = 0.2


DEFAULT_POLICY = CallPolicy()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of requests, and the header that holds the key (not shown in `repr`)."""

    base_url: str
    key_header: str
    key_prefix: str
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _is_plain_url(self.base_url):
            raise InvalidArgument(
                "an embedding base URL is http(s)://host[:port][/path], without credentials or a query",
                hint="look at OMNIGRAPH_EMBED_BASE_URL",
            )
        if not _is_printable(self.key):
            raise InvalidArgument("the API key for embeddings holds characters that no key can have")

    @property
    def host(self) -> str:
        """Return the host, for messages."""
        return urlsplit(self.base_url).hostname or ""

    def redacted(self, text: str) -> str:
        """Return the text, short and without the key."""
        clean = " ".join(text.replace(self.key, "[key]").split())
        return clean if len(clean) <= _MAX_QUOTE else f"{clean[:_MAX_QUOTE]}..."


def _is_printable(text: str) -> bool:
    return bool(text) and all("!" <= char <= "~" for char in text)


def _is_plain_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_web and _is_printable(url) and "@" not in parts.netloc and not (parts.query or parts.fragment)


class _Again(Exception):
    """A try failed in a way that may pass; `wait` is the delay that the service requested, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow no redirect: its status is reported like any other."""
        return


_OPENER = urllib.request.build_opener(_NoRedirects)


def post_json(endpoint: Endpoint, path: str, body: Mapping[str, Any], policy: CallPolicy) -> Any:
    """Send a JSON request and return the decoded answer."""
    content = json.dumps(body).encode()
    end = time.monotonic() + policy.deadline
    pause = policy.backoff
    for attempt in range(1, policy.attempts + 1):
        try:
            return _decoded(endpoint, _one_try(endpoint, path, content, _slice(policy, end)))
        except _Again as failure:
            wait = max(pause, failure.wait)
            if attempt == policy.attempts or time.monotonic() + wait >= end:
                tries = "1 try" if attempt == 1 else f"{attempt} tries"
                raise EmbeddingFailed(f"{endpoint.host} gave no embeddings after {tries}: {failure}") from None
        time.sleep(wait)
        pause *= 2
    raise AssertionError("a policy has at least one attempt")


def _slice(policy: CallPolicy, end: float) -> float:
    """Return the time that one try may take."""
    return max(0.001, min(policy.timeout, end - time.monotonic()))


def _one_try(endpoint: Endpoint, path: str, content: bytes, timeout: float) -> bytes:
    headers = {"Content-Type": "application/json", endpoint.key_header: f"{endpoint.key_prefix}{endpoint.key}"}
    url = f"{endpoint.base_url.rstrip('/')}/{path}"
    request = urllib.request.Request(url, data=content, headers=headers, method="POST")
    end = time.monotonic() + timeout
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            return _read(endpoint, response, end)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(endpoint, error) from None
    except TimeoutError:
        raise _Again(f"no answer within {timeout:.3g} seconds") from None
    except urllib.error.URLError as error:
        late = isinstance(error.reason, TimeoutError)
        reason = f"no answer within {timeout:.3g} seconds" if late else endpoint.redacted(str(error.reason))
        raise _Again(reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Again(f"the connection broke ({type(error).__name__})") from None


def _read(endpoint: Endpoint, response: http.client.HTTPResponse, end: float) -> bytes:
    """Read the whole body; the time limit holds for all of it, not only for each packet."""
    body = bytearray()
    while chunk := response.read1(_CHUNK):
        body += chunk
        if len(body) > _MAX_BODY:
            raise EmbeddingFailed(f"{endpoint.host} answered with more than {_MAX_BODY} bytes")
        if time.monotonic() > end:
            raise TimeoutError
    if response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    return bytes(body)


def _refusal(endpoint: Endpoint, error: urllib.error.HTTPError) -> Exception:
    """Return the error for a status: a retry, or a final failure with the service's message."""
    try:
        said = error.read(_CHUNK).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        said = ""
    reason = f"HTTP {error.code}"
    if quote := endpoint.redacted(_message(said)):
        reason += f": {quote}"
    if error.code in _RETRIED:
        asked = error.headers.get("Retry-After", "")
        return _Again(reason, float(asked) if asked.isascii() and asked.isdigit() else 0.0)
    hint = "check the API key" if error.code in (401, 403) else None
    return EmbeddingFailed(f"{endpoint.host} refused to embed: {reason}", hint=hint)


def _message(said: str) -> str:
    """Return the message inside the JSON error object that all services use, or the text itself."""
    try:
        found = json.loads(said)["error"]["message"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return said
    return found if isinstance(found, str) else said


def _decoded(endpoint: Endpoint, body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise EmbeddingFailed(f"{endpoint.host} answered with something that is no JSON") from None


__all__ = ["DEFAULT_POLICY", "CallPolicy", "EmbeddingFailed", "Endpoint", "post_json"]
