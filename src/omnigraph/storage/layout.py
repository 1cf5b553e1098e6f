"""Where things lie below a graph's root, and what a root may be.

::

    __manifest/                     the state of main; __manifest/tree/<native>/ the state of each other branch
    nodes/<fnv1a64(type)>-<ulid>/   one Lance table per node type
    edges/<fnv1a64(type)>-<ulid>/   one per edge type
    __refs/<branch>/<n>.json        n-th claim of a branch name      __tags/<tag>.json    a tag
    __schema/<hash>.json            an accepted schema               __history/...        settled commits
    __recovery/<ulid>.*             publish intents                  __gc/<ulid>.json     what a collector condemned
    __changes/<commit>/<table>.json long change lists                __quarantine/        damaged files, moved by repair
    __staging/<commit>/...          scratch of a running load
    __derived/...                   what can be computed again: kept to start faster, may be deleted at any time
    _graph_commit_recoveries.lance/<operation>.json                  what recovery did
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from omnigraph.errors import InvalidArgument

MANIFEST = "__manifest"
REFS = "__refs"
TAGS = "__tags"
SCHEMAS = "__schema"
HISTORY = "__history"
RECOVERY = "__recovery"
CONDEMNED = "__gc"
CHANGES = "__changes"
AUDIT = "_graph_commit_recoveries.lance"
LOCKS = "__locks"
QUARANTINE = "__quarantine"
STAGING = "__staging"
DERIVED = "__derived"

FOREIGN = (
    "_schema.pg",
    "_schema.ir.json",
    "__schema_state.json",
    "_graph_commits.lance",
    "_graph_commit_actors.lance",
    "_graph_runs.lance",
    "_refs",
)
"""Names below the root of a graph that another omnigraph has written in a layout of its own."""

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


@dataclass(frozen=True, slots=True)
class GraphRoot:
    """A graph's absolute location, either a local directory or an `s3://bucket/prefix`."""

    uri: str
    is_local: bool

    @classmethod
    def parse(cls, location: str | os.PathLike[str]) -> GraphRoot:
        """Accept a path, `file://` or `s3://`; make local paths absolute; refuse everything else."""
        text = os.fspath(location)
        if not text.strip():
            raise InvalidArgument("the graph location is empty", hint="pass a path, a file:// or an s3:// URI")
        parts = urlsplit(text)
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost"):
                raise InvalidArgument(
                    f"{text!r} names a host; file:// URIs are local", hint="use file:///absolute/path"
                )
            return cls(str(Path(unquote(parts.path)).absolute()), is_local=True)
        if parts.scheme == "s3":
            if not parts.netloc or not parts.path.strip("/"):
                raise InvalidArgument(f"{text!r} needs a bucket and a path", hint="use s3://bucket/path/to/graph")
            return cls(text.rstrip("/"), is_local=False)
        if "://" in text:
            raise InvalidArgument(
                f"{parts.scheme}:// is not a storage location",
                hint="graphs live on a local path, file:// or s3://; http(s) URLs are servers, not stores",
            )
        return cls(str(Path(text).expanduser().absolute()), is_local=True)

    def join(self, path: str) -> str:
        """The URI of `path` below the root."""
        return f"{self.uri}/{path}"


@lru_cache(maxsize=1024)  # names of branches and tables, asked for at each write
def fnv1a64(text: str) -> str:
    """The 64-bit FNV-1a hash of a name, as 16 hex digits."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def table_path(table_key: str, ulid: str) -> str:
    """Where a new table lies. The ulid makes two attempts to add one type use two directories."""
    kind, _, name = table_key.partition(":")
    return f"{kind}s/{fnv1a64(name)}-{ulid.lower()}"


def manifest_path(native_branch: str | None) -> str:
    """Where the state of a branch lies; None is main."""
    return MANIFEST if native_branch is None else f"{MANIFEST}/tree/{quote(native_branch, safe='.')}"


def quoted(name: str) -> str:
    """A branch or tag name as one path segment."""
    return quote(name, safe="")


def unquoted(segment: str) -> str:
    """The inverse of `quoted`."""
    return unquote(segment)


def tag_path(tag: str) -> str:
    """The object of a tag."""
    return f"{TAGS}/{quoted(tag)}.json"


def tag_name(path: str) -> str:
    """The inverse of `tag_path`."""
    return unquoted(path.rsplit("/", 1)[-1].removesuffix(".json"))


def version_file(version: int) -> str:
    """The file of an attached version, relative to its dataset (names sort newest first)."""
    return f"_versions/{2**64 - 1 - version:020d}.manifest"


def detached_file(version: int) -> str:
    """The file of a detached version, relative to its dataset."""
    return f"_versions/d{version}.manifest"


_FIRST_DETACHED = 2**63


def pin_file(version: int) -> str:
    """The file of a pinned version, relative to its dataset: detached, or the empty one that a table is born with."""
    return detached_file(version) if version >= _FIRST_DETACHED else version_file(version)
