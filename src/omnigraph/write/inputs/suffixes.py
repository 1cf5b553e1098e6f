"""The format of a file by its name."""

from __future__ import annotations

import os

from omnigraph.errors import InvalidArgument
from omnigraph.write.inputs.tables import ARROW, CSV, JSON, JSONL, ORC, PARQUET

_FORMATS = {
    ".tsv": CSV, ".tab": CSV,
    ".jsonl": JSONL, ".ndjson": JSONL, ".json": JSONL, ".csv": CSV, ".parquet": PARQUET, ".pq": PARQUET, ".orc": ORC,
    ".arrow": ARROW, ".ipc": ARROW, ".feather": ARROW, ".arrows": ARROW,
}  # fmt: skip
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_SPREADSHEET = "save the sheet as CSV, or load the table of pandas.read_excel(...)"
_REFUSED = {
    ".xlsx": ("a spreadsheet", _SPREADSHEET), ".xls": ("a spreadsheet", _SPREADSHEET),
    ".xlsm": ("a spreadsheet", _SPREADSHEET), ".ods": ("a spreadsheet", _SPREADSHEET),
    ".zip": ("an archive", "unpack it; a single file may be compressed as .gz or .zst"),
    ".tar": ("an archive", "unpack it; a single file may be compressed as .gz or .zst"),
    ".xml": ("XML", "convert it to JSON lines or CSV"),
    ".avro": ("Avro", "read it with Spark and load the DataFrame, or convert it to Parquet"),
}  # fmt: skip


def kind_of(path: str) -> str:
    """The format of a file, by its name; JSON lines where the name has no known suffix. Refuses unreadable formats."""
    found = _REFUSED.get(_last_suffix(path))
    if found is not None:
        raise InvalidArgument(f"{path} is {found[0]}, which cannot be loaded", hint=found[1])
    return _format_in(path) or JSONL


def require_suffix(path: str | os.PathLike[str], format: str) -> None:
    """Refuse a name whose suffix is that of another format. JSON and JSON lines share their suffixes."""
    name = os.fspath(path)
    found = _format_in(name)
    if found is not None and found != (JSONL if format == JSON else format):
        raise InvalidArgument(
            f"{name} has the name of a {found} file, but the format is {format}",
            hint=f"choose the format {found}, or another name",
        )


def _format_in(path: str) -> str | None:
    return _FORMATS.get(_last_suffix(path))


def _last_suffix(path: str) -> str:
    """The suffix of a name, before that of its compression."""
    stem, last = os.path.splitext(path.rstrip("/"))
    return (os.path.splitext(stem)[1] if last.lower() in _COMPRESSED else last).lower()
