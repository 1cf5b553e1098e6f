"""What the name of a file says about its format."""

from __future__ import annotations

import os

from omnigraph.errors import InvalidArgument
from omnigraph.write.inputs.tables import ARROW, CSV, JSON, JSONL, ORC, PARQUET

_FORMATS = {
    ".jsonl": JSONL, ".ndjson": JSONL, ".json": JSONL, ".csv": CSV, ".parquet": PARQUET, ".pq": PARQUET, ".orc": ORC,
    ".arrow": ARROW, ".ipc": ARROW, ".feather": ARROW, ".arrows": ARROW,
}  # fmt: skip
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")


def kind_of(path: str) -> str:
    """The format of a file, by its name; JSON lines where the name says nothing."""
    return _format_in(path) or JSONL


def require_suffix(path: str | os.PathLike[str], format: str) -> None:
    """Refuse a name that says that a file has another format. JSON and JSON lines share their names."""
    name = os.fspath(path)
    found = _format_in(name)
    if found is not None and found != (JSONL if format == JSON else format):
        raise InvalidArgument(
            f"{name} has the name of a {found} file, but the format is {format}",
            hint=f"choose the format {found}, or another name",
        )


def _format_in(path: str) -> str | None:
    stem, last = os.path.splitext(path.rstrip("/"))
    return _FORMATS.get((os.path.splitext(stem)[1] if last.lower() in _COMPRESSED else last).lower())
