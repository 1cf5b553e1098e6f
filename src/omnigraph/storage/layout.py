"""Where things lie below a graph's root, and what a root may be.

::

    __manifest/                     the state of main; __manifest/tree/<native>/ the state of each other branch
    nodes/<fnv1a64(type)>-<ulid>/   one Lance table per node type
    edges/<fnv1a64(type)>-<ulid>/   one per edge type
    __refs/<branch>/<n>.*           n-th claim of a branch name, its end and its floors
    __tags/<tag>.json               a tag; __refs/~tags/<tag>.json is its second record
    __schema/<hash>.json            an accepted schema               __history/...        archived commits
    __recovery/<ulid>.*             publish intents                  __gc/<ulid>.json     what a collector condemned
    __changes/<commit>/<table>.json long change lists                __quarantine/        damaged files, moved by repair
    __loads/<commit>.json           files that a load of a job took
    __digests/<table>/<version>.json checksums of the older files of a table
    __staging/<commit>/...          scratch of a running load
    __derived/...                   what can be computed again: kept to start faster, may be deleted at any time
    _graph_commit_recoveries.lance/<operation>.json                  what recovery did
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from omnigraph.errors import InvalidArgument

MANIFEST = "__manifest"
REFS = "__refs"
TAGS = "__tags"
TAG_COPIES = f"{REFS}/~tags"
_CUT_URI = re.compile(r"(s3a?|s3n|gs|gcs|hdfs|viewfs|abfss?|https?):/(?!/)", re.IGNORECASE)
SCHEMAS = "__schema"
HISTORY = "__history"
RECOVERY = "__recovery"
CONDEMNED = "__gc"
CHANGES = "__changes"
LEDGERS = "__digests"
LOADS = "__loads"
AUDIT = "_graph_commit_recoveries.lance"
LOCKS = "__locks"
QUARANTINE = "__quarantine"
STAGING = "__staging"
CLOCKS = f"{STAGING}/clock-"
"""Probes of the store's clock: put, read for their time, removed."""
DERIVED = "__derived"

# Patterns for names in a store. A name read from one has to match before it is used as a path.
_SEGMENT = r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,199}"
_TABLE = r"(?:node|edge)s/[0-9a-f]{16}-[0-9a-z]{26}"
_CHANGE_LIST = rf"{CHANGES}/[0-9A-Za-z]{{1,64}}/[0-9a-f]{{16}}-[0-9]{{1,20}}\.json"
DATA_FILE = re.compile(_SEGMENT)
DATA_FILE_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{1,3}}")
COMMIT_ID = re.compile(r"[0-9A-Za-z]{1,64}")
INCARNATION = re.compile(r"[0-9A-Za-z-]{1,64}")
SCHEMA_HASH = re.compile(r"[0-9a-f]{64}")
TABLE_KEY = re.compile(r"(?:node|edge):[A-Z][A-Za-z0-9_]*")
TABLE_LOCATION = re.compile(_TABLE)
PIN = re.compile(rf"{_TABLE}@[0-9]{{1,20}}")
HISTORY_FILE = re.compile(rf"{HISTORY}/[0-9]{{1,3}}-[0-9a-f]{{32}}\.json\.z")
CHANGE_LIST = re.compile(_CHANGE_LIST)
LEDGER = re.compile(rf"{LEDGERS}/{_TABLE.replace('/', '-')}/[0-9]{{1,20}}\.json")
DATA_OBJECT = re.compile(rf"{_TABLE}(?:/{_SEGMENT}){{1,4}}|{_CHANGE_LIST}")
_BRANCH_STATE = re.compile(rf"{MANIFEST}/tree/(.+?\.[0-9]{{6}}-[0-9A-Za-z]{{26}})/(.+)")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._/-]*[A-Za-z0-9_-])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_S3_SEGMENT = re.compile(r"[A-Za-z0-9._=+@,:-]+")
MAX_NAME_BYTES = 200
"""Of a branch or tag as one path segment, where `/` takes three bytes: file systems allow 255, and a suffix follows."""
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
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgument("the graph location is empty", hint="pass a path, a file:// or an s3:// URI")
        if text.startswith("file:/"):
            return cls(_local_path(_path_of_file_uri(text)), is_local=True)
        require_whole_uri(text)
        scheme, separator, rest = text.partition("://")
        if separator and scheme.lower() == "s3":
            return cls(_s3_uri(text, rest), is_local=False)
        if separator and scheme.isalnum():
            raise InvalidArgument(
                f"{scheme}:// is not a storage location",
                hint="graphs live on a local path, file:// or s3://; http(s) URLs are servers, not stores",
            )
        return cls(_local_path(text), is_local=True)

    def parents(self) -> Iterator[GraphRoot]:
        """The places that this one lies in, nearest first; in a bucket those below its root."""
        if self.is_local:
            yield from (GraphRoot(str(parent), is_local=True) for parent in Path(self.uri).parents)
            return
        bucket, *segments = self.uri.removeprefix("s3://").split("/")
        for end in range(len(segments) - 1, 0, -1):
            yield GraphRoot(f"s3://{'/'.join((bucket, *segments[:end]))}", is_local=False)

    def join(self, path: str) -> str:
        """The URI of `path` below the root."""
        return f"{self.uri}/{path}"


def require_whole_uri(text: str) -> None:
    """Refuse a URI that went through `pathlib.Path`: it would name a directory `s3:` of this machine."""
    if _CUT_URI.match(text):
        scheme, _, rest = text.partition(":/")
        raise InvalidArgument(f"{text} is no path and no URI", hint=f"pass a text, not a Path: {scheme}://{rest}")


def _path_of_file_uri(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is not a URI: {error}", hint="use file:///absolute/path") from error
    if parts.netloc not in ("", "localhost"):
        raise InvalidArgument(f"{text!r} names a host; file:// URIs are local", hint="use file:///absolute/path")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise InvalidArgument(
            f"{text!r} has a query or a fragment", hint="write `?` as %3F and `#` as %23, or pass the plain path"
        )
    try:
        return unquote(parts.path, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{text!r} is not UTF-8", hint="percent-encode the path as UTF-8") from error


def _local_path(text: str) -> str:
    """An absolute path without `..`. Lance reads paths as URLs and has no way to name control characters in them."""
    try:
        text.encode()
        path = Path(text).expanduser()
    except (UnicodeEncodeError, RuntimeError) as error:
        raise InvalidArgument(
            f"{text!r} is not a path that a graph can have", hint="use a name in UTF-8 and an existing home directory"
        ) from error
    if _CONTROL.search(text) is not None:
        raise InvalidArgument(
            f"{text!r} holds a control character", hint="choose a location without line ends, tabs and the like"
        )
    if ".." in path.parts:
        path = path.resolve()
    return str(path.absolute())


def _s3_uri(text: str, rest: str) -> str:
    """A bucket and a key prefix. Keys that have to be escaped in a URL are refused: they would be spelt in two ways."""
    bucket, _, key = rest.rstrip("/").partition("/")
    if not bucket or not key:
        raise InvalidArgument(f"{text!r} needs a bucket and a path", hint="use s3://bucket/path/to/graph")
    segments = (bucket, *key.split("/"))
    if any(_S3_SEGMENT.fullmatch(each) is None or each in (".", "..") for each in segments):
        raise InvalidArgument(
            f"{text!r} holds characters that a graph's location on S3 cannot have",
            hint="use letters, digits and . _ - = + @ , : between single slashes",
        )
    return "s3://" + "/".join(segments)


@lru_cache(maxsize=1024)  # names of branches and tables, which each write uses
def fnv1a64(text: str) -> str:
    """The 64-bit FNV-1a hash of a name, as 16 hex digits."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def table_path(table_key: str, ulid: str) -> str:
    """The location of a new table. The ulid makes two attempts to add one type use two directories."""
    kind, _, name = table_key.partition(":")
    return f"{kind}s/{fnv1a64(name)}-{ulid.lower()}"


def manifest_path(native_branch: str | None) -> str:
    """The location of a branch's state; None is main."""
    return MANIFEST if native_branch is None else f"{MANIFEST}/tree/{quote(native_branch, safe='.')}"


def moved_path(path: str, source: GraphRoot, target: GraphRoot) -> str:
    """The path of an object in another store. On object stores Lance does not quote a `/` in the name of a branch."""
    found = _BRANCH_STATE.fullmatch(path)
    if found is None or source.is_local == target.is_local:
        return path
    native = unquote(found[1])
    return f"{MANIFEST}/tree/{quote(native, safe='.') if target.is_local else native}/{found[2]}"


def is_name(name: str) -> bool:
    """Whether a text can name a branch or a tag: a file, a URL segment and a flag value at once."""
    is_short = len(name) + 2 * name.count("/") <= MAX_NAME_BYTES
    return is_short and _NAME.fullmatch(name) is not None and ".." not in name and "//" not in name


def quote_path(name: str) -> str:
    """A branch or tag name as one path segment."""
    return quote(name, safe="")


def unquote_path(segment: str) -> str:
    """The inverse of `quote_path`."""
    return unquote(segment)


def tag_path(tag: str, prefix: str = TAGS) -> str:
    """The object of a tag; below `TAG_COPIES`, its second record."""
    return f"{prefix}/{quote_path(tag)}.json"


def tag_name(path: str) -> str:
    """The inverse of `tag_path`."""
    return unquote_path(path.rsplit("/", 1)[-1].removesuffix(".json"))


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
