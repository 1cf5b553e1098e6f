"""Lance, obstore and OS errors become ours here, and nowhere else.

Substrate errors are typed only in part, so this module may look at message text; nobody else does.
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

_MISSING = ("not found", "no such file", "was not found", "does not exist", "404")
_CORRUPT = (
    "magic",
    "invalid protobuf",
    "failed to decode",
    "file is too small",
    "corrupt",
    "truncat",
    "too short",
    "eof",
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL = ("no space left", "storagefull", "quota exceeded", "file too large", "filetoolarge")
_UNREACHABLE = (
    "permission denied",
    "read-only file system",
    "connect",
    "timed out",
    "credential",
    "forbidden",
    "access denied",
    "401",
    "403",
    "imds",
    "region",
)


# Lance ends its messages with the place in its own source.
_SOURCE_POSITION = re.compile(r",? /?[\w./~-]+\.rs:\d+:\d+")
# Where the S3 client looks last; when it is named in an error, everything before it had no credentials either.
_METADATA_SERVICE = "169.254.169.254"


def _first_line(error: BaseException) -> str:
    line = str(error).strip().split("\n", 1)[0]
    return _SOURCE_POSITION.sub("", line)[:400]


def translate(error: BaseException, doing: str) -> OmnigraphError:
    """The typed error for a substrate failure met while `doing` something."""
    text = str(error).lower()
    message = f"{doing} failed: {_first_line(error)}"
    if isinstance(error, CommitConflictError):
        return CommitLost(message)
    if _METADATA_SERVICE in text:
        return StoreUnavailable(
            f"{doing} failed: there are no credentials for S3",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_REGION, AWS_ENDPOINT_URL where needed)",
        )
    if getattr(error, "errno", None) in _NO_ROOM or any(word in text for word in _FULL):
        return StoreFull(
            message, hint="free some space and repeat it; what was not acknowledged did not happen, the rest is safe"
        )
    if isinstance(error, (ob.PermissionDeniedError, ob.UnauthenticatedError, PermissionError)):
        return StoreUnavailable(message, hint="check the permissions of the directory or the credentials of the bucket")
    if isinstance(error, (FileNotFoundError, ob.NotFoundError)) or any(word in text for word in _MISSING):
        return MissingData(
            message, hint="a file that this graph needs is gone; `omnigraph snapshot` of older commits may still work"
        )
    if any(word in text for word in _CORRUPT):
        return CorruptGraph(
            message, hint="the file is damaged; nothing was changed. Restore it from a copy of the store"
        )
    if any(word in text for word in _UNREACHABLE):
        return StoreUnavailable(message, hint="check that the store is there, reachable and writable by you")
    return StorageError(message)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Run a block of substrate calls; what they raise leaves as an `OmnigraphError` from its cause."""
    try:
        yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, ob.BaseError) as error:
        raise translate(error, doing) from error
    except BaseException as error:
        # Lance panics on some damaged files, and a panic has no class that could be named here.
        if type(error).__name__ == "PanicException":
            raise CorruptGraph(
                f"{doing} failed: the file is damaged ({_first_line(error)})",
                hint="restore it from a copy of the store",
            ) from error
        raise
