"""Progress of reading a file, in bytes as stored: of a compressed file, compressed bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

_CODECS = {".bz2": "bz2", ".gz": "gzip", ".lz4": "lz4", ".zst": "zstd"}


class _CountedStream(io.RawIOBase):
    """A stream that has no position of its own, with the number of bytes that were read from it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._count = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as many as requested unless it ends."""
        data: bytes = self._stream.read(None if size < 0 else size)
        self._count += len(data)
        return data

    def tell(self) -> int:
        """The number of bytes read so far."""
        return self._count

    def readable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Close the wrapped stream."""
        self._stream.close()
        super().close()


class Meter:
    """The position in a file after the rows that its reader has returned. Readers set it, a load reads it."""

    def __init__(self) -> None:
        self._tell: Callable[[], int] | None = None
        self._position = 0
        self._share: tuple[int, int] | None = None

    def begin(self) -> None:
        """Begin another file."""
        self._tell, self._position, self._share = None, 0, None

    def opened(self, filesystem: Any, path: str) -> Any:
        """A stream of the bytes of a file, decompressed by its name, whose position is followed."""
        raw = _CountedStream(filesystem.open_input_stream(path, compression=None))
        self._tell = raw.tell
        codec = next((codec for suffix, codec in _CODECS.items() if path.endswith(suffix)), None)
        return raw if codec is None else pa.CompressedInputStream(raw, codec)

    def stand_at(self, position: int) -> None:
        """Set the reader's position, if it has read further than the rows it has returned."""
        self._tell, self._position = None, position

    def passed(self, done: int, total: int) -> None:
        """Set how many rows or batches of how many are returned, of a file that is not read in its order."""
        self._share = (done, total)

    @property
    def stream_position(self) -> int:
        """The position of the stream that is read."""
        if self._tell is not None:
            self._position = self._tell()
        return self._position

    def position(self, size: int) -> int:
        """The bytes before the next row to return, of a file with so many."""
        if self._share is None:
            return self.stream_position
        done, total = self._share
        return size * done // total if total else size
