"""Embedding providers: the mock, the services (a real server on loopback), and what the environment chooses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from omnigraph.errors import InvalidArgument, InvalidValue, OmnigraphError, Unsupported
from omnigraph.execution.embedding import (
    CallPolicy,
    EmbeddingFailed,
    EmbeddingProvider,
    GeminiProvider,
    MockProvider,
    OpenAICompatibleProvider,
    embed_query,
    provider_from_env,
    unit_vectors,
)

KEY = "sk-very-secret-0123456789"
QUICK = CallPolicy(timeout=2.0, deadline=5.0, attempts=3, backoff=0.01)
Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Service:
    """A server that answers with the replies it was given, the last one for ever, and remembers what it was asked."""

    def __init__(self) -> None:
        self.replies: list[Reply | Callable[[Any], Reply]] = []
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.delay = 0.0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                time.sleep(service.delay)
                reply = service.replies.pop(0) if len(service.replies) > 1 else service.replies[0]
                status, answer, *rest = reply(body) if callable(reply) else reply
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in (rest[0] if rest else {}).items():
                    self.send_header(name, value)
                if not rest or "Content-Length" not in rest[0]:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

            do_GET = do_POST

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # a client that gave up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield service
    service.server.shutdown()
    service.server.server_close()
    thread.join()


def openai(service: Service, policy: CallPolicy = QUICK) -> OpenAICompatibleProvider:
    return OpenAICompatibleProvider(KEY, "small", service.url, policy)


def gemini(service: Service) -> GeminiProvider:
    return GeminiProvider(KEY, "gem", service.url, QUICK)


def answer(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)]}


def failure(call: Callable[[], object], kind: type[OmnigraphError]) -> str:
    """The message of the error; the key is neither in it nor in anything that hangs on it."""
    with pytest.raises(kind) as caught:
        call()
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in str(error)
        assert KEY not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return str(caught.value)


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_mock_vectors_are_stable_unit_vectors() -> None:
    vectors = MockProvider().embed(["a", "b", "a", ""], 8)
    assert vectors.shape == (4, 8)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0] * 4)
    assert (vectors[0] == vectors[2]).all()
    assert not np.allclose(vectors[0], vectors[1])
    assert MockProvider("other").embed(["a"], 3)[0] == pytest.approx([0.293831, 0.561248, -0.773734], abs=1e-5)
    assert MockProvider().embed([], 5).shape == (0, 5)
    with pytest.raises(InvalidArgument):
        MockProvider().embed(["a"], 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1.0, 2.0], "2 dimensions"),
        ([1.0, 2.0, 3.0, 4.0], "4 dimensions"),
        ([], "0 dimensions"),
        ([0.0, 0.0, 0.0], "zero"),
        ([1.0, float("nan"), 0.0], "NaN"),
        ([1.0, float("inf"), 0.0], "infinity"),
        ([1.0, "2", 0.0], "no number"),
        ([1.0, None, 0.0], "no number"),
        ([1.0, True, 0.0], "no number"),
        ([10**400, 1, 1], "too large"),
        (None, "no list"),
        ("abc", "no list"),
    ],
)
def test_what_is_no_vector_is_refused(row: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        unit_vectors([row], 1, 3)


def test_extreme_vectors_are_scaled_safely() -> None:
    vectors = unit_vectors([[1e300, 1e300], [5e-324, 0.0], [3, 4]], 3, 2)
    assert vectors == pytest.approx(np.array([[0.5**0.5, 0.5**0.5], [1, 0], [0.6, 0.8]]))


# --- the services -----------------------------------------------------------------------------------------------------


def test_openai_protocol(service: Service) -> None:
    service.replies = [(200, {"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]})]
    vectors = openai(service).embed(["first", "second"], 2)
    assert vectors == pytest.approx(np.array([[0.6, 0.8], [0, 1]]))
    ((path, headers, body),) = service.requests
    assert path == "/v1/embeddings"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {"model": "small", "input": ["first", "second"], "dimensions": 2, "encoding_format": "float"}


def test_gemini_protocol(service: Service) -> None:
    service.replies = [(200, {"embeddings": [{"values": [3, 4]}]})]
    assert gemini(service).embed(["text"], 2) == pytest.approx(np.array([[0.6, 0.8]]))
    ((path, headers, body),) = service.requests
    assert path == "/v1/models/gem:batchEmbedContents"
    assert headers["x-goog-api-key"] == KEY
    (request,) = body["requests"]
    assert request == {"model": "models/gem", "content": {"parts": [{"text": "text"}]}, "outputDimensionality": 2}


def test_many_texts_go_in_batches_and_none_in_no_request(service: Service) -> None:
    service.replies = [lambda body: (200, answer(*([1, float(text)] for text in body["input"])))]
    vectors = openai(service).embed([str(n) for n in range(205)], 2)
    assert [len(body["input"]) for _, _, body in service.requests] == [100, 100, 5]
    assert (vectors[:, 1] / vectors[:, 0]) == pytest.approx(np.arange(205.0), rel=1e-5)
    assert openai(service).embed([], 2).shape == (0, 2)
    assert len(service.requests) == 3


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(service: Service, status: int) -> None:
    service.replies = [(status, {}), (200, answer([1, 0]))]
    assert openai(service).embed(["x"], 2).tolist() == [[1, 0]]
    assert len(service.requests) == 2


def test_the_service_may_ask_for_patience(service: Service) -> None:
    service.replies = [(429, {}, {"Retry-After": "0"}), (200, answer([1, 0]))]
    openai(service).embed(["x"], 2)
    assert len(service.requests) == 2
    service.replies = [(429, {}, {"Retry-After": "3600"})]
    assert "HTTP 429" in failure(lambda: openai(service).embed(["x"], 2), EmbeddingFailed)
    assert len(service.requests) == 3, "no wait beyond the deadline"


def test_tries_end(service: Service) -> None:
    service.replies = [(500, {"error": {"message": "out of order"}})]
    message = failure(lambda: openai(service).embed(["x"], 2), EmbeddingFailed)
    assert "3 tries" in message
    assert "out of order" in message
    assert len(service.requests) == 3


def test_a_refusal_is_final_and_quoted_without_the_key(service: Service) -> None:
    service.replies = [(401, {"error": {"message": f"bad key {KEY}, sorry"}})]
    message = failure(lambda: openai(service).embed(["x"], 2), EmbeddingFailed)
    assert "HTTP 401: bad key [key], sorry" in message
    assert len(service.requests) == 1
    service.replies = [(400, (KEY * 100).encode())]
    assert "[key]" in failure(lambda: gemini(service).embed(["x"], 2), EmbeddingFailed)


def test_a_silent_service_is_left(service: Service) -> None:
    service.replies, service.delay = [(200, answer([1, 0]))], 1.0
    policy = CallPolicy(timeout=0.1, deadline=5, attempts=2, backoff=0.01)
    message = failure(lambda: openai(service, policy).embed(["x"], 2), EmbeddingFailed)
    assert "2 tries: no answer within 0.1 seconds" in message
    assert len(service.requests) == 2


def test_the_deadline_covers_all_tries(service: Service) -> None:
    service.replies = [(500, {})]
    policy = CallPolicy(timeout=5, deadline=0.3, attempts=1000, backoff=0.05)
    failure(lambda: openai(service, policy).embed(["x"], 2), EmbeddingFailed)
    assert len(service.requests) < 10, "of a thousand tries"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        ([], "no list `data`"),
        ({}, "no list `data`"),
        ({"data": "x"}, "no list `data`"),
        ({"data": ["x"]}, "no list `data`"),
        (answer(), "answered with 0"),
        (answer([1, 0], [1, 0]), "answered with 2"),
        ({"data": [{"index": 7, "embedding": [1, 0]}]}, "numbered"),
        ({"data": [{"index": [0], "embedding": [1, 0]}]}, "numbered"),
    ],
)
def test_malformed_answers_are_refused(service: Service, body: Any, message: str) -> None:
    service.replies = [(200, body)]
    assert message in failure(lambda: openai(service).embed(["x"], 2), EmbeddingFailed)
    assert len(service.requests) == 1


@pytest.mark.parametrize("vector", [[1, 0, 0], [0, 0], [1, float("nan")], None, "text"])
def test_wrong_vectors_are_refused(service: Service, vector: Any) -> None:
    service.replies = [(200, answer(vector))]
    failure(lambda: openai(service).embed(["x"], 2), InvalidValue)
    service.replies = [(200, {"embeddings": [{"values": vector}]})]
    failure(lambda: gemini(service).embed(["x"], 2), InvalidValue)


def test_a_body_cut_short_is_tried_again(service: Service) -> None:
    service.replies = [(200, b'{"data"', {"Content-Length": "100"}), (200, answer([1, 0]))]
    assert openai(service).embed(["x"], 2).tolist() == [[1, 0]]


def test_redirects_are_not_followed(service: Service) -> None:
    service.replies = [(302, {}, {"Location": f"{service.url}/elsewhere"})]
    assert "HTTP 302" in failure(lambda: openai(service).embed(["x"], 2), EmbeddingFailed)
    assert len(service.requests) == 1


def test_nobody_listens(service: Service) -> None:
    provider = OpenAICompatibleProvider(KEY, "small", "http://127.0.0.1:1/v1", QUICK)
    assert "127.0.0.1 gave no embeddings after 3 tries" in failure(lambda: provider.embed(["x"], 2), EmbeddingFailed)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://h/", "localhost:80", "", "http://", "http://[::1", "http://h:port/", "http://h/ x",
     "http://user:pw@h/v1", "http://h/v1?key=1", "http://hé/"],
)  # fmt: skip
def test_base_urls_are_plain(url: str) -> None:
    failure(lambda: OpenAICompatibleProvider(KEY, "m", url, QUICK).embed(["x"], 2), InvalidArgument)


def test_keys_stay_hidden(service: Service) -> None:
    assert KEY not in repr(openai(service))
    assert KEY not in repr(gemini(service))
    for bad in (f"{KEY}\n{KEY}", f"{KEY} ", f"{KEY}é", ""):
        provider = OpenAICompatibleProvider(bad, "m", service.url, QUICK)
        failure(lambda p=provider: p.embed(["x"], 2), InvalidArgument)  # type: ignore[misc]
    assert not service.requests


# --- the environment --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"OPENAI_API_KEY": " ", "OMNIGRAPH_EMBED_PROVIDER": ""}, None),
        ({"GEMINI_API_KEY": KEY}, None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "0"}, None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OPENAI_API_KEY": KEY}, MockProvider("mock")),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "true", "OMNIGRAPH_EMBED_MODEL": "m"}, MockProvider("m")),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, MockProvider("mock")),
        (
            {"OPENROUTER_API_KEY": KEY, "OPENAI_API_KEY": "other"},
            OpenAICompatibleProvider(KEY, "openai/text-embedding-3-large", "https://openrouter.ai/api/v1"),
        ),
        (
            {"OPENAI_API_KEY": f" {KEY}\n"},
            OpenAICompatibleProvider(KEY, "text-embedding-3-large", "https://api.openai.com/v1"),
        ),
        (
            {"OPENAI_API_KEY": KEY, "OMNIGRAPH_EMBED_BASE_URL": "http://localhost:1/v1", "OMNIGRAPH_EMBED_MODEL": "m"},
            OpenAICompatibleProvider(KEY, "m", "http://localhost:1/v1"),
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "gemini", "GEMINI_API_KEY": KEY},
            GeminiProvider(KEY, "gemini-embedding-2", "https://generativelanguage.googleapis.com/v1beta"),
        ),
        (
            {
                "OMNIGRAPH_EMBED_PROVIDER": "openai",
                "OPENAI_API_KEY": KEY,
                "OMNIGRAPH_EMBED_TIMEOUT_MS": "1500",
                "OMNIGRAPH_EMBED_DEADLINE_MS": "9000",
                "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "2",
                "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "50",
            },
            OpenAICompatibleProvider(
                KEY, "text-embedding-3-large", "https://api.openai.com/v1", CallPolicy(1.5, 9.0, 2, 0.05)
            ),
        ),
    ],
)
def test_the_environment_chooses(env: dict[str, str], expected: EmbeddingProvider | None) -> None:
    assert provider_from_env(env) == expected


def test_defaults() -> None:
    assert CallPolicy() == CallPolicy(timeout=30, deadline=60, attempts=4, backoff=0.2)


@pytest.mark.parametrize(
    "env",
    [
        {"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible"},
        {"OMNIGRAPH_EMBED_PROVIDER": "openai"},
        {"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENROUTER_API_KEY": KEY},
        {"OMNIGRAPH_EMBED_BASE_URL": "http://localhost:1"},
        # OpenAI's key is not for OpenRouter.
        {"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible", "OPENAI_API_KEY": KEY},
    ],
)
def test_missing_keys_are_named(env: dict[str, str]) -> None:
    message = failure(lambda: provider_from_env(env), Unsupported)
    assert "OPENROUTER_API_KEY or OPENAI_API_KEY" in message


def test_a_missing_gemini_key_is_named() -> None:
    message = failure(lambda: provider_from_env({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}), Unsupported)
    assert "GEMINI_API_KEY" in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_EMBED_PROVIDER", "openia"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "soon"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "0"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "-1"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "9" * 5000),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "0"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "1.5"),
        ("OMNIGRAPH_EMBEDDINGS_MOCK", "maybe"),
    ],
)
def test_bad_settings_are_named(name: str, value: str) -> None:
    env = {"OPENAI_API_KEY": KEY, name: value}
    assert name in failure(lambda: provider_from_env(env), InvalidArgument)


# --- query texts ------------------------------------------------------------------------------------------------------


def test_a_query_text_becomes_one_vector() -> None:
    vector = embed_query(MockProvider("m"), "text", 4, "m")
    assert vector.shape == (4,)
    assert (vector == MockProvider().embed(["text"], 4)[0]).all()


def test_a_query_text_needs_a_provider() -> None:
    assert "OPENROUTER_API_KEY or OPENAI_API_KEY" in failure(lambda: embed_query(None, "text", 4), Unsupported)


def test_models_do_not_mix() -> None:
    message = failure(lambda: embed_query(MockProvider("mine"), "text", 4, "yours"), Unsupported)
    assert "'mine'" in message
    assert "'yours'" in message
