"""Embed text as vectors, by a service or by an offline mock.              (texts -> EmbeddingProvider -> unit vectors)

Every returned vector has the requested dimension, finite components and length one. Providers hold no state between
calls and may be shared between threads. Nothing is sent anywhere unless the environment names a service or holds its
key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np

from omnigraph.errors import InvalidArgument, InvalidValue, Unsupported
from omnigraph.execution.embedding_http import DEFAULT_POLICY, CallPolicy, EmbeddingFailed, Endpoint, post_json

Vectors = np.ndarray[Any, np.dtype[np.float32]]

OPENROUTER_URL = "https://openrouter.ai/api/v1"
OPENAI_URL = "https://api.openai.com/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
KINDS = ("openai-compatible", "openai", "gemini", "mock")
_DEFAULT_MODELS = {
    "openai-compatible": "openai/text-embedding-3-large",
    "openai": "text-embedding-3-large",
    "gemini": "gemini-embedding-2",
    "mock": "mock",
}
_BATCH = 100  # texts in one request: the least that any of the services allows
_MAX_MILLISECONDS = 24 * 60 * 60 * 1000


class EmbeddingProvider(Protocol):
    """Embeds texts, always by the same model."""

    @property
    def model(self) -> str:
        """Return the name of the model, as `@embed(..., model="...")` records it."""

    def embed(self, texts: Sequence[str], dimension: int) -> Vectors:
        """Return one unit vector per text, as an array of shape (texts, dimension)."""


@dataclass(frozen=True, slots=True)
class MockProvider:
    """Vectors from a hash of the text: offline, the same on every machine, equal for equal texts, without meaning."""

    model: str = "mock"

    def embed(self, texts: Sequence[str], dimension: int) -> Vectors:
        """Return one unit vector per text."""
        _check_dimension(dimension)
        digests = (hashlib.shake_256(t.encode("utf-8", "surrogatepass")).digest(4 * dimension) for t in texts)
        rows = [(np.frombuffer(digest, "<u4") + 0.5) / 2.0**31 - 1.0 for digest in digests]  # between -1 and 1, never 0
        return unit_vectors(rows, len(texts), dimension)


@dataclass(frozen=True, slots=True)
class OpenAICompatibleProvider:
    """A service that speaks the OpenAI embeddings protocol: `POST <base>/embeddings`."""

    api_key: str = field(repr=False)
    model: str = _DEFAULT_MODELS["openai-compatible"]
    base_url: str = OPENROUTER_URL
    policy: CallPolicy = DEFAULT_POLICY

    def embed(self, texts: Sequence[str], dimension: int) -> Vectors:
        """Return one unit vector per text."""
        endpoint = Endpoint(self.base_url, "Authorization", "Bearer ", self.api_key)

        def batch(part: Sequence[str]) -> list[Any]:
            body = {"model": self.model, "input": list(part), "dimensions": dimension, "encoding_format": "float"}
            items = _listed(post_json(endpoint, "embeddings", body, self.policy), "data", len(part))
            places = [item.get("index", place) for place, item in enumerate(items)]
            if not all(type(place) is int for place in places) or sorted(places) != list(range(len(part))):
                raise EmbeddingFailed(f"{endpoint.host} numbered its embeddings in a way that fits no text")
            return [items[places.index(place)].get("embedding") for place in range(len(part))]

        return _in_batches(texts, dimension, batch)


@dataclass(frozen=True, slots=True)
class GeminiProvider:
    """The Gemini API: `POST <base>/models/<model>:batchEmbedContents`."""

    api_key: str = field(repr=False)
    model: str = _DEFAULT_MODELS["gemini"]
    base_url: str = GEMINI_URL
    policy: CallPolicy = DEFAULT_POLICY

    def embed(self, texts: Sequence[str], dimension: int) -> Vectors:
        """Return one unit vector per text."""
        endpoint = Endpoint(self.base_url, "x-goog-api-key", "", self.api_key)
        name = quote(f"models/{self.model.removeprefix('models/')}")

        def batch(part: Sequence[str]) -> list[Any]:
            requests = [
                {"model": name, "content": {"parts": [{"text": text}]}, "outputDimensionality": dimension}
                for text in part
            ]
            answer = post_json(endpoint, f"{name}:batchEmbedContents", {"requests": requests}, self.policy)
            return [item.get("values") for item in _listed(answer, "embeddings", len(part))]

        return _in_batches(texts, dimension, batch)


def embed_query(provider: EmbeddingProvider | None, text: str, dimension: int, recorded: str | None = None) -> Vectors:
    """Embed one query text for a property whose vectors the `recorded` model made (None: not recorded)."""
    if provider is None:
        raise _no_credentials("nearest() with a text needs an embedding provider, and none is configured")
    if recorded is not None and recorded != provider.model:
        raise Unsupported(
            f"the vectors were made by the model {recorded!r}, the query would be embedded by {provider.model!r}",
            hint=f"set OMNIGRAPH_EMBED_MODEL={recorded}, or pass a vector",
        )
    vector: Vectors = provider.embed([text], dimension)[0]
    return vector


def unit_vectors(rows: Sequence[Any], count: int, dimension: int) -> Vectors:
    """Normalise rows of numbers to unit vectors; refuse rows that cannot be one."""
    if len(rows) != count:
        raise InvalidValue(f"{count} texts were embedded, {len(rows)} vectors came back")
    checked = np.empty((count, dimension), np.float64)
    for number, row in enumerate(rows):
        checked[number] = _checked_row(row, dimension)
    largest = np.abs(checked).max(axis=1, keepdims=True, initial=0.0)
    if not np.isfinite(largest).all() or not (largest > 0).all():
        raise InvalidValue("an embedding is zero or holds NaN or infinity; it has no direction")
    scaled = checked / largest  # first, so that the squares neither overflow nor vanish
    units: Vectors = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return units


def _checked_row(row: Any, dimension: int) -> Any:
    if isinstance(row, list) and not all(type(value) in (int, float) for value in row):
        raise InvalidValue("an embedding holds something that is no number")
    if not isinstance(row, (list, np.ndarray)):
        raise InvalidValue("an embedding is no list of numbers")
    if len(row) != dimension:
        raise InvalidValue(f"an embedding has {len(row)} dimensions, the property has {dimension}")
    try:
        return np.asarray(row, np.float64)
    except OverflowError:
        raise InvalidValue("an embedding holds a number that is too large") from None


def _in_batches(texts: Sequence[str], dimension: int, batch: Callable[[Sequence[str]], list[Any]]) -> Vectors:
    _check_dimension(dimension)
    parts = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
    done = [unit_vectors(batch(part), len(part), dimension) for part in parts]
    return np.concatenate(done) if done else np.empty((0, dimension), np.float32)


def _listed(answer: Any, key: str, count: int) -> list[dict[str, Any]]:
    items = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbeddingFailed(f"the embedding service's answer has no list `{key}` of embeddings")
    if len(items) != count:
        raise EmbeddingFailed(f"the embedding service was given {count} texts and answered with {len(items)} vectors")
    return items


def _check_dimension(dimension: int) -> None:
    if dimension < 1:
        raise InvalidArgument(f"a vector has at least one dimension, not {dimension}")


# --- from the environment ---------------------------------------------------------------------------------------------


def provider_from_env(env: Mapping[str, str]) -> EmbeddingProvider | None:
    """Return the provider that the environment configures; None when it configures none."""
    set_ = {name: value.strip() for name, value in env.items() if value.strip()}
    kind = "mock" if _flag(set_, "OMNIGRAPH_EMBEDDINGS_MOCK") else set_.get("OMNIGRAPH_EMBED_PROVIDER")
    if kind is None:
        kind = _implied_kind(set_)
    if kind is None:
        return None
    if kind not in KINDS:
        raise InvalidArgument(f"OMNIGRAPH_EMBED_PROVIDER={kind!r} is unknown", hint=f"use one of {', '.join(KINDS)}")
    model = set_.get("OMNIGRAPH_EMBED_MODEL", _DEFAULT_MODELS[kind])
    url = set_.get("OMNIGRAPH_EMBED_BASE_URL")
    if kind == "mock":
        return MockProvider(model)
    policy = _policy(set_)
    if kind == "gemini":
        return GeminiProvider(_key(set_, "GEMINI_API_KEY"), model, url or GEMINI_URL, policy)
    if kind == "openai":
        return OpenAICompatibleProvider(_key(set_, "OPENAI_API_KEY"), model, url or OPENAI_URL, policy)
    # A key is sent only to its own service, or to an explicitly configured address.
    names = ("OPENROUTER_API_KEY", "OPENAI_API_KEY") if url else ("OPENROUTER_API_KEY",)
    return OpenAICompatibleProvider(_key(set_, *names), model, url or OPENROUTER_URL, policy)


def _implied_kind(env: Mapping[str, str]) -> str | None:
    if "OPENROUTER_API_KEY" in env or "OMNIGRAPH_EMBED_BASE_URL" in env:
        return "openai-compatible"
    return "openai" if "OPENAI_API_KEY" in env else None


def _key(env: Mapping[str, str], *names: str) -> str:
    for name in names:
        if name in env:
            return env[name]
    if names == ("GEMINI_API_KEY",):
        raise Unsupported("embedding with Gemini needs a key", hint="set GEMINI_API_KEY")
    raise _no_credentials("the embedding provider needs a key")


def _no_credentials(message: str) -> Unsupported:
    return Unsupported(
        f"{message}: set OPENROUTER_API_KEY or OPENAI_API_KEY",
        hint="OMNIGRAPH_EMBED_PROVIDER=openai uses OPENAI_API_KEY, gemini GEMINI_API_KEY, mock none; "
        "a vector needs no provider",
    )


def _policy(env: Mapping[str, str]) -> CallPolicy:
    default = DEFAULT_POLICY
    return CallPolicy(
        timeout=_number(env, "OMNIGRAPH_EMBED_TIMEOUT_MS", default.timeout * 1000) / 1000,
        deadline=_number(env, "OMNIGRAPH_EMBED_DEADLINE_MS", default.deadline * 1000) / 1000,
        attempts=int(_number(env, "OMNIGRAPH_EMBED_RETRY_ATTEMPTS", default.attempts)),
        backoff=_number(env, "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", default.backoff * 1000) / 1000,
    )


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= _MAX_MILLISECONDS):
        raise InvalidArgument(f"{name} is a whole number from 1 to {_MAX_MILLISECONDS}, not {text!r}")
    return int(text)


def _flag(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "0").lower()
    if text not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise InvalidArgument(f"{name} is 1 or 0, not {text!r}")
    return text in ("1", "true", "yes", "on")


__all__ = [
    "KINDS",
    "CallPolicy",
    "EmbeddingFailed",
    "EmbeddingProvider",
    "GeminiProvider",
    "MockProvider",
    "OpenAICompatibleProvider",
    "embed_query",
    "provider_from_env",
    "unit_vectors",
]
