"""Damage as disks make it: flipped bits, cut ends, zeroed blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK = 4096


@contextmanager
def replaced(file: Path, body: bytes) -> Iterator[None]:
    """A file with another content for a while. It is replaced, not changed: others may have it mapped into memory."""
    original = file.read_bytes()
    _put(file, body)
    try:
        yield
    finally:
        _put(file, original)


def _put(file: Path, body: bytes) -> None:
    file.unlink()
    file.write_bytes(body)


def flipped(body: bytes, bit: int) -> bytes:
    """A content with one bit inverted."""
    changed = bytearray(body)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def some_damage(body: bytes, rng: random.Random) -> bytes:
    """A content that differs in one bit, lacks its end, or has a block of zeroes where there was something else."""
    kind = rng.randrange(4)
    if kind == 0:
        return body[: rng.randrange(len(body))]
    start = rng.randrange(len(body)) // BLOCK * BLOCK
    zeroed = body[:start] + bytes(len(body[start : start + BLOCK])) + body[start + BLOCK :]
    if kind == 1 and zeroed != body:
        return zeroed
    return flipped(body, rng.randrange(8 * len(body)))
