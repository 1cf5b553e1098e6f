"""The tail of a table: fragments that no index covers yet, with the hashes of their keys.

It is part of a table's pin: it shows a lookup which of those fragments it has to read, usually none.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from omnigraph.storage.decode import as_integer, as_object, as_text

_HASH_BYTES = 8
# Base64 of hashes of eight bytes each: three of them are 32 digits, one or two are padded.
_PACKED = re.compile(r"(?:[A-Za-z0-9+/]{32})*(?:[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{22}==)?")
MAX_TAIL_HASHES = 4096
"""A tail larger than this is not worth its bytes in every publish; its fragments are read instead."""


def key_hash(text: str) -> int:
    """A stable 64-bit hash of an id."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Tail:
    """Packed key hashes of uncovered fragments. A fragment that is missing here is unknown and has to be read."""

    packed: Mapping[int, str] = field(default_factory=dict)

    def extended(self, fragment: int, packed: str | None) -> Tail:
        """The tail with the packed hashes of one new fragment (None: unknown)."""
        return self if packed is None else Tail({**self.packed, fragment: packed})

    @property
    def size(self) -> int:
        """How many hashes it carries."""
        return sum(map(len, self.packed.values())) * 3 // 4 // _HASH_BYTES

    def restricted(self, fragments: Iterable[int]) -> Tail:
        """The tail of live uncovered fragments only; empty once that is too large."""
        tail = Tail({i: self.packed[i] for i in fragments if i in self.packed})
        return tail if tail.size <= MAX_TAIL_HASHES else EMPTY_TAIL

    def suspects(self, fragments: Iterable[int], wanted: frozenset[int]) -> list[int]:
        """The fragments that may hold one of the wanted keys."""
        packed = self.packed
        return [i for i in fragments if i not in packed or not unpack_hashes(packed[i]).isdisjoint(wanted)]

    def to_json(self) -> dict[str, str]:
        """Compact text form for the manifest row."""
        return {str(i): text for i, text in self.packed.items()}

    @classmethod
    def from_json(cls, value: Any) -> Tail:
        """The inverse of `to_json`, each value checked; runs inside `decoding`."""
        packed = as_object(value, "a tail")
        return cls({as_integer(i, "a fragment"): as_text(text, "packed hashes", _PACKED) for i, text in packed.items()})


EMPTY_TAIL = Tail()


def pack_hashes(ids: Iterable[str]) -> str:
    """The key hashes of some ids as short text."""
    values = sorted(map(key_hash, ids))
    return base64.b64encode(struct.pack(f"<{len(values)}Q", *values)).decode()


@lru_cache(maxsize=4096)
def unpack_hashes(text: str) -> frozenset[int]:
    """The inverse of `pack_hashes`."""
    raw = base64.b64decode(text)
    return frozenset(struct.unpack(f"<{len(raw) // _HASH_BYTES}Q", raw))
