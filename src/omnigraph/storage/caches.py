"""How much of storage is kept in memory: one session for everything that a process has open of one graph.

Every version that is opened or written leaves some 15 kilobytes of metadata in the session, and every index page that
is read leaves its values. Both are bounded: the least recently used goes first, and is read again when it is needed.
The columns and topologies that queries keep are bounded by `bounded_cache.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import lance

from omnigraph.errors import InvalidArgument

CACHE_VARIABLE = "OMNIGRAPH_CACHE_BYTES"
METADATA_VARIABLE = "OMNIGRAPH_METADATA_CACHE_BYTES"
INDEX_VARIABLE = "OMNIGRAPH_INDEX_CACHE_BYTES"
METADATA_BYTES = 128 << 20
INDEX_BYTES = 1 << 30


def open_session(env: Mapping[str, str] | None = None) -> lance.Session:
    """A session with caches of the sizes that the environment names, or of the default ones."""
    env = os.environ if env is None else env
    return lance.Session(
        metadata_cache_size_bytes=_size(env, METADATA_VARIABLE, METADATA_BYTES),
        index_cache_size_bytes=_size(env, INDEX_VARIABLE, INDEX_BYTES),
    )


def cache_bytes(env: Mapping[str, str] | None = None) -> int:
    """How many bytes of columns and topologies a graph keeps: from the environment, or a quarter of the memory."""
    return _size(os.environ if env is None else env, CACHE_VARIABLE, _physical_memory() // 4)


def _physical_memory() -> int:
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()  # the limit of a container
    except OSError:
        return found
    return min(found, int(limit)) if limit.isdecimal() else found


def _size(env: Mapping[str, str], variable: str, default: int) -> int:
    text = env.get(variable, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 2**63:
        raise InvalidArgument(f"{variable} is {text!r}", hint="use a whole number of bytes above 0")
    return int(text)
