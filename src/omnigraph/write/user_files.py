"""Whole files that users name, on this machine and on object stores: read as text, written so that they appear whole.

`inputs/locations.py` resolves their location, for reading and for writing.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.fs as pafs

from omnigraph.errors import InvalidArgument, OmnigraphError, StoreUnavailable
from omnigraph.write.inputs.locations import Location, first_line, is_uri, locate, readable
from omnigraph.write.inputs.s3_access import S3Access

UserPath = str | os.PathLike[str]
_COPY_BYTES = 8 << 20


def read_text(path: UserPath, *, missing: OmnigraphError | None = None) -> str:
    """The text of a UTF-8 file. `missing` is raised where there is no such file."""
    name = os.fspath(path)
    place = locate(name)
    with readable(name):
        try:
            if _is_local(place):
                with open(place.path, "rb") as file:
                    body = file.read()
            else:
                with place.filesystem.open_input_stream(place.path, compression=None) as stream:
                    body = stream.read()
        except FileNotFoundError:
            if missing is None:
                raise
            raise missing from None
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{name} is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}") from error


def exists(path: UserPath) -> bool:
    """Whether there is a file or directory of that name."""
    name = os.fspath(path)
    place = locate(name)
    with readable(name):
        return bool(place.filesystem.get_file_info(place.path).type != pafs.FileType.NotFound)


def join_path(directory: UserPath, *names: str) -> str:
    """A path below a directory, which may be a URI."""
    root = os.fspath(directory)
    return "/".join((root.rstrip("/"), *names)) if is_uri(root) else os.path.join(root, *names)


def require_writable(path: UserPath) -> None:
    """Refuse a place where no file can be written, as far as that is known without a request."""
    name = os.fspath(path)
    place = locate(name)
    if _is_local(place):
        if os.path.isdir(place.path):
            raise _unwritable(name, "Is a directory")
        folder = os.path.dirname(os.path.abspath(place.path))
        if not os.path.isdir(folder):
            raise _unwritable(name, f"there is no directory {folder}")
    else:
        _require_key(name, place)


@contextmanager
def replacing(path: UserPath, access: S3Access | None = None, *, with_folders: bool = False) -> Iterator[str]:
    """The path of a local file to write, which replaces `path` when it is complete.

    With `with_folders`, directories that are missing are made. A device is written as it is.
    """
    name = os.fspath(path)
    place = locate(name, access)
    if not _is_local(place):
        _require_key(name, place)
        with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
            part = os.path.join(folder, "part")
            yield part
            _upload(part, name, place)
        return
    try:
        if with_folders:
            os.makedirs(os.path.dirname(place.path) or ".", exist_ok=True)
        if _is_device(place.path):
            yield place.path
            return
        with _beside(place.path) as part:
            yield part
    except OSError as error:
        raise _unwritable(name, error.strerror or str(error)) from error


def write_file(path: UserPath, body: bytes, access: S3Access | None = None) -> None:
    """Write a file whole, or not at all."""
    with replacing(path, access) as part, open(part, "wb") as file:
        file.write(body)


@contextmanager
def _beside(path: str) -> Iterator[str]:
    part = f"{path}.part"
    try:
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _upload(part: str, name: str, place: Location) -> None:
    try:
        with open(part, "rb") as source, place.filesystem.open_output_stream(place.path, compression=None) as out:
            shutil.copyfileobj(source, out, _COPY_BYTES)
    except (OSError, pa.ArrowException) as error:
        if "NO_SUCH_BUCKET" in str(error) or "NoSuchBucket" in str(error):
            bucket = name.partition("://")[2].partition("/")[0]
            raise InvalidArgument(
                f"{name} cannot be written: there is no bucket {bucket!r}",
                hint="create the bucket, or correct its name",
            ) from error
        raise StoreUnavailable(f"{name} cannot be written: {first_line(error)}") from error


def _require_key(name: str, place: Location) -> None:
    if not place.uri(place.path).removeprefix(place.root).strip("/"):
        raise InvalidArgument(f"{name} names no file", hint="write the path of a file behind it")


def _is_local(place: Location) -> bool:
    return isinstance(place.filesystem, pafs.LocalFileSystem)


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _unwritable(name: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{name} cannot be written: {reason}", hint="name a file in a directory that exists")
