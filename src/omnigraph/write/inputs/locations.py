"""Locations of users' files: paths, directories, patterns and URIs, on this machine and on object stores."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from omnigraph.errors import DataError, InvalidArgument, OmnigraphError, StoreUnavailable, Unsupported
from omnigraph.storage.layout import require_whole_uri
from omnigraph.write.inputs.s3_access import S3Access, s3_filesystem

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_S3 = ("s3", "s3a", "s3n")
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<authority>[^/]*)/?(?P<path>.*)", re.DOTALL)
_MAGIC = re.compile(r"[*?\[]")
_SCHEMES = "use a path, file:///, s3://, hdfs://, gs:// or abfs://"
_HDFS = (
    "set HADOOP_HOME, JAVA_HOME, ARROW_LIBHDFS_DIR and CLASSPATH (`hadoop classpath --glob`) on every machine, or load "
    "the DataFrame that spark.read gives"
)


@dataclass(frozen=True, slots=True)
class Location:
    """A path inside a filesystem; `root` in front of it (after `base` is taken away) gives the URI back."""

    filesystem: Any
    path: str
    root: str = ""
    base: str = ""

    def uri(self, path: str) -> str:
        """The URI or path by which users name a path of the same filesystem."""
        if not self.root:
            return os.path.abspath(path)
        return f"{self.root}/{path.removeprefix(self.base).lstrip('/')}"


def locate(item: str, access: S3Access | None = None) -> Location:
    """The filesystem of a path or URI. Nothing in it is decoded: `%20` is three characters of a name."""
    require_path(item)
    found = _URI.fullmatch(item)
    if item.startswith("file:") or found is None:
        return Location(pafs.LocalFileSystem(), _local(item))
    scheme, authority, path = found["scheme"].lower(), found["authority"], found["path"]
    root = f"{found['scheme']}://{authority}"
    with _reaching(scheme, root):
        if scheme in _S3:
            return Location(s3_filesystem(authority, access), f"{authority}/{path}".rstrip("/"), root, authority)
        filesystem, base = pafs.FileSystem.from_uri(f"{root}/")
    base = base.rstrip("/")
    return Location(filesystem, f"{base}/{path}".rstrip("/") or "/", root, base)


def require_path(item: str) -> None:
    """Refuse a text that is neither a path nor a URI."""
    if not item.strip() or "\0" in item:
        raise InvalidArgument(f"{item!r} is no path", hint=_SCHEMES)
    require_whole_uri(item)


def is_absolute(item: str) -> bool:
    """Whether a path means the same in every working directory."""
    return is_uri(item) or os.path.isabs(item)


def is_uri(item: str) -> bool:
    """Whether a text names its scheme: `file:/path`, `s3://bucket/key`."""
    return item.startswith("file:") or _URI.fullmatch(item) is not None


def is_on_s3(item: str) -> bool:
    """Whether a text is a URI of S3."""
    return item.partition("://")[0].lower() in _S3 and "://" in item


def is_pattern(item: str) -> bool:
    """Whether a path has wildcards or alternatives."""
    return _MAGIC.search(item) is not None or len(expand_braces(item)) > 1


def _local(item: str) -> str:
    path = re.sub(r"^file:(//(localhost)?(?=/))?", "", item)
    if item.startswith("file:") and path.startswith("//"):
        raise InvalidArgument(f"{item} names a file of another machine", hint="write file:///path or file:/path")
    return path


@contextmanager
def _reaching(scheme: str, root: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{root}: there is no filesystem for {scheme!r}", hint=_SCHEMES) from error
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = first_line(error)
        if scheme in ("hdfs", "viewfs") and ("libhdfs" in reason or "libjvm" in reason):
            raise Unsupported(f"{root}: hdfs needs libhdfs, which is not on this machine", hint=_HDFS) from error
        raise StoreUnavailable(f"{root} cannot be reached: {reason}") from error


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raise errors of reading a file as errors about that file. Network errors are marked as worth a retry."""
    try:
        yield
    except OmnigraphError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError, NotADirectoryError) as error:
        raise InvalidArgument(f"{path} cannot be read: {reason_of(error)}", hint="check the path") from error
    except (pa.ArrowException, OSError, EOFError, ValueError, OverflowError) as error:
        reason = first_line(error)
        if "AWS Error" in reason:
            raise StoreUnavailable(f"{path} cannot be read: {reason}") from error
        raise DataError(
            f"{path}: the file is damaged or not what its name says: {reason}", path=path,
            hint="compare it with its source; the name of a file says its format",
        ) from error  # fmt: skip


def reason_of(error: BaseException) -> str:
    """Why a file could not be read or written, in the system's words where the system refused."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) else first_line(error)


def first_line(error: BaseException) -> str:
    """The message of an error, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def expand_paths(paths: Paths, access: S3Access | None = None) -> tuple[str, ...]:
    """Files behind paths, directories and patterns: in the order given, those of one item by name."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[str] = []
    for item in [os.fspath(path) for path in given]:
        with readable(item):
            files = sorted(set(_files_of(item, access)))
        if not files:
            if os.path.isdir(item):
                raise InvalidArgument(f"{item} is a directory without files", hint="name the files to load")
            raise InvalidArgument(f"{item}: there is no such file", hint="check the path or the pattern")
        found.extend(files)
    return tuple(found)


def _files_of(item: str, access: S3Access | None) -> Iterator[str]:
    """The files of an item: a name that exists is taken literally; only others are patterns."""
    place = locate(item, access)
    if _kind(place.filesystem, place.path) != pafs.FileType.NotFound:
        yield from map(place.uri, _below(place.filesystem, place.path))
        return
    for pattern in expand_braces(place.path):
        fixed, segments = _split(pattern)
        for match in _matches(place.filesystem, fixed, segments):
            yield from map(place.uri, _below(place.filesystem, match))


def file_size(item: str) -> int:
    """The bytes of a file; 0 for one that does not exist, which reading it will report."""
    place = locate(item)
    with readable(item):
        return int(place.filesystem.get_file_info(place.path).size or 0)


def _kind(filesystem: Any, path: str) -> Any:
    return filesystem.get_file_info(path).type


def _below(filesystem: Any, path: str) -> Iterator[str]:
    """The file itself, or the data files below a directory."""
    kind = _kind(filesystem, path)
    if kind == pafs.FileType.File:
        yield path
    elif kind == pafs.FileType.Directory:
        for info in filesystem.get_file_info(pafs.FileSelector(path, recursive=True)):
            inside = info.path[len(path) :].strip("/").split("/")
            if info.type == pafs.FileType.File and not any(map(_is_hidden, inside)):
                yield info.path


def _is_hidden(name: str) -> bool:
    """Names of markers and unfinished files, as Hadoop has them: `_SUCCESS`, `_temporary`, `.crc`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def expand_braces(pattern: str) -> list[str]:
    """The alternatives of `{a,b}`, also nested ones."""
    begin = depth = -1
    cuts: list[int] = []
    for at, sign in enumerate(pattern):
        if sign == "{":
            depth += 1
            if depth == 0:
                begin = at
                cuts = []
        elif sign == "," and depth == 0:
            cuts.append(at)
        elif sign == "}" and depth >= 0:
            depth -= 1
            if depth < 0 and cuts:
                bounds = [begin, *cuts, at]
                parts = [pattern[a + 1 : b] for a, b in pairwise(bounds)]
                return [each for part in parts for each in expand_braces(pattern[:begin] + part + pattern[at + 1 :])]
    return [pattern]


def _split(pattern: str) -> tuple[str, list[str]]:
    """The folder before the first wildcard, and the segments from there on."""
    segments = pattern.split("/")
    first = next((i for i, each in enumerate(segments) if _MAGIC.search(each)), len(segments))
    return "/".join(segments[:first]) or ("/" if pattern.startswith("/") else ""), segments[first:]


def _matches(filesystem: Any, folder: str, segments: Sequence[str]) -> Iterator[str]:
    """Files and directories that match a pattern, found one level at a time, and at once below `**`."""
    if not segments:
        yield folder
        return
    head, rest = segments[0], segments[1:]
    if not _MAGIC.search(head):
        yield from _matches(filesystem, f"{folder}/{head}", rest)
        return
    is_deep = head == "**"
    wanted = re.compile(_expression(segments if is_deep else [head]), re.DOTALL)
    selector = pafs.FileSelector(folder or ".", recursive=is_deep, allow_not_found=True)
    for info in filesystem.get_file_info(selector):
        inside = info.path.removeprefix("./") if not folder else info.path[len(folder) :].lstrip("/")
        if not wanted.fullmatch(inside) or any(_is_hidden(n) for n in inside.split("/") if not _names(n, segments)):
            continue
        if is_deep or not rest:
            yield info.path
        elif info.type == pafs.FileType.Directory:
            yield from _matches(filesystem, info.path, rest)


def _names(name: str, segments: Sequence[str]) -> bool:
    """Whether a pattern matches hidden names that begin like this one."""
    return any(segment[:1] == name[:1] for segment in segments)


def _expression(segments: Sequence[str]) -> str:
    """A pattern as a regular expression: `*` stays inside a folder, `**` does not."""
    parts = []
    for number, segment in enumerate(segments):
        end = "" if number == len(segments) - 1 else "/"
        parts.append(("(?:.*/)?" if end else ".*") if segment == "**" else _segment(segment) + end)
    return "".join(parts)


def _segment(segment: str) -> str:
    found, at = "", 0
    while at < len(segment):
        sign = segment[at]
        end = segment.find("]", at + 2) if sign == "[" else -1
        if sign == "*":
            found += "[^/]*"
        elif sign == "?":
            found += "[^/]"
        elif end > 0:
            inside = segment[at + 1 : end].replace("\\", "\\\\")
            found += f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]"
            at = end
        else:
            found += re.escape(sign)
        at += 1
    return found
