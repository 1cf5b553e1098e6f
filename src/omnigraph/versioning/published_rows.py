"""The rows of a version that its publisher leaves beside the lock for other processes of the same disk.

Processes that take turns on a branch would each read the newest version from storage while the others wait. The rows
beside the lock are a copy of it. If they are missing, or are not those of the version that exists, the version itself
is read.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.versioning.manifest import MANIFEST_SCHEMA

_VERSION, _FILE = b"version", b"file"


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """The rows of a version, and the name of the data file that holds them, which no other rows ever have."""

    version: int
    file: str
    rows: pa.Table

    def to_bytes(self) -> bytes:
        """The stored form."""
        sink = pa.BufferOutputStream()
        labels = {_VERSION: str(self.version), _FILE: self.file}
        with pa.ipc.new_stream(sink, MANIFEST_SCHEMA.with_metadata(labels)) as stream:
            stream.write_table(self.rows)
        content: bytes = sink.getvalue().to_pybytes()
        return content

    @classmethod
    def from_bytes(cls, content: bytes | None, version: int) -> PublishedRows | None:
        """The rows that were left, if they are of this format and of `version` or a later one."""
        if content is None:
            return None
        with contextlib.suppress(pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            stream = pa.ipc.open_stream(content)
            labels = stream.schema.metadata
            if stream.schema.equals(MANIFEST_SCHEMA) and int(labels[_VERSION]) >= version:
                return cls(int(labels[_VERSION]), labels[_FILE].decode(), stream.read_all())
        return None
