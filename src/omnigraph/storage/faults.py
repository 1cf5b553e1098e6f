"""Lance, obstore and OS errors become typed errors here, and nowhere else.

An error is classified by its class, its errno, its HTTP status, or the variant that Lance or obstore writes in front of
its message. Lance has classes for few of its errors and prints the others as `wrapper: wrapper: variant: details`,
where details hold paths and answers of servers. Wrappers are removed from the front, the variant is compared as a
whole, and details are never searched: a graph may be called `team-404`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import obstore.exceptions as ob
from lance.commit import CommitConflictError

from omnigraph.errors import (
    CommitLost,
    CorruptGraph,
    MissingData,
    OmnigraphError,
    StorageError,
    StoreFull,
    StoreUnavailable,
)

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_NO_CREDENTIALS = frozenset({401, 403})

# Lance ends its messages with the position in its own source, obstore with a dump of the error.
_SOURCE_POSITION = re.compile(r"(,? /?[\w./~-]+\.rs:\d+:\d+)+$")
_DUMP = "\n\nDebug source:"
_WRAPPER = re.compile(
    r"(?:External error|Wrapped error|LanceError\(\w+\)|Encountered internal error[^:]*|Generic [\w/]+ error): "
)
_REQUEST = re.compile(r"(?:Error performing list request: )?Error performing [A-Z]+ \S+ in [^\n]*? - ", re.DOTALL)
_STATUS = re.compile(r"Server returned non-2xx status code: (\d{3})\b")
# Directly after the name the system gives to the error, or at the very end: not inside a path or an answer.
_OS_ERROR = re.compile(r"^[^/\"\n]*\(os error (\d+)\)|\(os error (\d+)\)$")
_PRIVILEGES = re.compile(r"The operation lacked (?:the necessary privileges|valid authentication credentials)")
_NOT_FOUND = re.compile(r"Not found: |Dataset at path .* was not found|Object at location .* not found: ", re.DOTALL)
_CORRUPT = re.compile(
    r"Invalid range \d+\.\.\d+ for object of size"
    r"|(?:Invalid user input: )?(?:file does not appear to be a Lance file|Invalid direct ColumnEncoding)"
    r"|(?:Invalid user input: )?(?:Invalid format|Attempt to (?:read|decode)|failed to (?:fill|decode))"
    r"|file (?:footer|size|is too small)|failed to decode Protobuf|[Ii]nvalid protobuf|task \d+ panicked"
    r"|Invalid (?:argument error: First offset|argument error: Max offset)|.{0,80}(?:magic number|buffer is too short)"
    r"|Encountered corrupt file"
)
# The S3 client tries this last; when a request to it fails, all earlier sources had no credentials either.
_METADATA_SERVICE = re.compile(r"Error performing [A-Z]+ http://169\.254\.169\.254/")


_NO_BUCKET = re.compile(r"NoSuchBucket")
_BUCKET_NAME = re.compile(r"<BucketName>([^<]{1,63})</BucketName>")


def _message_of(error: BaseException) -> str:
    """The text of an error without the library's own source positions and dumps."""
    return _SOURCE_POSITION.sub("", str(error).strip().split(_DUMP, 1)[0].rstrip())


def _variant_of(message: str) -> str:
    """The message without its wrappers: it begins with the variant."""
    while (wrapper := _WRAPPER.match(message)) is not None:
        message = message[wrapper.end() :]
    return message


def _status_of(variant: str) -> int | None:
    """The HTTP status that ended a request; 0 when the request had no answer; None where there was no request."""
    request = _REQUEST.match(variant)
    if request is None:
        if variant.startswith("HTTP error: "):
            return 0
        inner = _PRIVILEGES.match(variant)
        return 403 if inner is not None else None
    found = _STATUS.match(variant, request.end())
    return int(found[1]) if found is not None else 0


def _errno_of(error: BaseException, variant: str) -> int | None:
    code = getattr(error, "errno", None)
    if isinstance(code, int):
        return code
    found = _OS_ERROR.search(variant)
    return int(found[1] or found[2]) if found is not None else None


def translate(error: BaseException, doing: str) -> OmnigraphError:
    """The typed error for a substrate failure raised while `doing` something."""
    full = _message_of(error)
    message = f"{doing} failed: {full.split(chr(10), 1)[0][:400]}"
    if isinstance(error, CommitConflictError):
        return CommitLost(message)
    variant = _variant_of(full)
    if _NO_BUCKET.search(str(error)) is not None:
        named = _BUCKET_NAME.search(str(error))
        what = f"there is no bucket {named[1]!r}" if named is not None else "the bucket does not exist"
        return StoreUnavailable(f"{doing} failed: {what}", hint="create the bucket, or correct its name")
    if _METADATA_SERVICE.search(variant[:200]) is not None:
        return StoreUnavailable(
            f"{doing} failed: there are no credentials for S3",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_REGION, AWS_ENDPOINT_URL where needed)",
        )
    code, status = _errno_of(error, variant), _status_of(variant)
    if code in _NO_ROOM or status == 507:
        return StoreFull(
            message, hint="free some space and repeat it; what was not acknowledged did not happen, the rest is safe"
        )
    if status in _NO_CREDENTIALS or isinstance(
        error, (ob.PermissionDeniedError, ob.UnauthenticatedError, PermissionError)
    ):
        return StoreUnavailable(message, hint="check the permissions of the directory or the credentials of the bucket")
    if (
        isinstance(error, (FileNotFoundError, ob.NotFoundError))
        or code in _ABSENT
        or status == 404
        or _NOT_FOUND.match(variant) is not None
    ):
        return MissingData(
            message, hint="a file that this graph needs is gone; `omnigraph snapshot` of older commits may still work"
        )
    if code is not None or status is not None:
        return StoreUnavailable(message, hint="check that the store is there, reachable and writable by you")
    if _CORRUPT.match(variant) is not None:
        return CorruptGraph(
            message, hint="the file is damaged; nothing was changed. Restore it from a copy of the store"
        )
    return StorageError(message)


@contextmanager
def translate_faults(doing: str) -> Iterator[None]:
    """Run a block of substrate calls; their errors are raised as an `OmnigraphError` with the original as cause."""
    try:
        yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, ob.BaseError) as error:
        raise translate(error, doing) from error
    except BaseException as error:
        # Lance panics on some damaged files, and the class of a panic cannot be imported.
        if type(error).__name__ == "PanicException":
            raise CorruptGraph(
                f"{doing} failed: the file is damaged ({_message_of(error)[:400]})",
                hint="restore it from a copy of the store",
            ) from error
        raise
