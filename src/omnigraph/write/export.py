"""Export: the rows of one snapshot as JSON lines, Parquet or CSV, in an order that depends only on the rows.

JSON lines are the envelopes that `load` reads. Parquet and CSV are a directory with one file per type,
`nodes/T.parquet` and `edges/T.parquet`, which `load` reads too. Rows are ordered by id and read a bounded piece at a
time.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from omnigraph.api.options import Format
from omnigraph.api.progress import Listener, PhaseProgress
from omnigraph.api.results import ExportResult
from omnigraph.datatypes import Scalar, in_own_width
from omnigraph.errors import InvalidArgument, TypeNotFound
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType, Property
from omnigraph.storage.tables import Table
from omnigraph.versioning.manifest import ManifestState
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import GraphStore
from omnigraph.write.inputs.suffixes import require_suffix
from omnigraph.write.user_files import join_path, replacing

FORMATS: tuple[Format, ...] = get_args(Format)
PIECE_ROWS = 65_536


def export_rows(
    store: GraphStore, state: ManifestState, target: str | os.PathLike[str] | IO[bytes], *, format: str,
    types: Sequence[str] | None = None, progress: Listener | None = None,
) -> ExportResult:  # fmt: skip
    """Write the rows of a state: JSON lines to a file or stream, other formats to a directory."""
    if format not in FORMATS:
        raise InvalidArgument(f"format {format!r} is unknown", hint=f"use one of {', '.join(FORMATS)}")
    if isinstance(target, (str, os.PathLike)):
        require_suffix(target, format)
    catalog = store.catalog(state.schema_hash)
    chosen = _chosen(catalog, types)
    total = sum(state.snapshot.table(entity.table_key).row_count for entity in chosen)
    with PhaseProgress(progress, "write", total, "rows") as phase:
        rows, files = _write(_Source(store, state, phase), chosen, target, format)
    return ExportResult(rows, files, state.head)


def _write(
    source: _Source, chosen: Sequence[EntityType], target: str | os.PathLike[str] | IO[bytes], format: str
) -> tuple[dict[str, int], tuple[str, ...]]:
    """The rows written of each type, and the files that hold them."""
    if format == "jsonl":
        with _jsonl_target(target) as (stream, files):
            rows = {e.table_key: _write_lines(e, source.pieces(e), stream.write) for e in chosen}
        return rows, files
    if not isinstance(target, (str, os.PathLike)):
        raise InvalidArgument(f"{format} is a directory of files, not a stream", hint="name a directory")
    rows = {}
    written: list[str] = []
    for entity in chosen:
        path = join_path(target, f"{entity.kind}s", f"{entity.name}.{format}")
        with replacing(path, with_folders=True) as part:
            rows[entity.table_key] = _FILES[format](entity, source.pieces(entity), part)
        written.append(path)
    return rows, tuple(written)


def _chosen(catalog: Catalog, names: Sequence[str] | None) -> list[EntityType]:
    """Types by table key, so edges come first. A name that a node and an edge type share means both."""
    every = {entity.table_key: entity for entity in catalog.entity_types}
    if names is None:
        return [every[key] for key in sorted(every)]
    wanted: set[str] = set()
    for name in names:
        found = [key for key, entity in every.items() if name in (key, entity.name)]
        if not found:
            raise TypeNotFound(f"there is no node or edge type `{name}`", hint=f"known: {', '.join(sorted(every))}")
        wanted.update(found)
    return [every[key] for key in sorted(wanted)]


class _Source:
    """Rows of a state by id, with public column names. A request for a piece means the previous one is written."""

    def __init__(self, store: GraphStore, state: ManifestState, phase: PhaseProgress) -> None:
        self._store = store
        self._state = state
        self._phase = phase

    def pieces(self, entity: EntityType) -> Iterator[pa.Table]:
        table = open_table(self._store, self._state.snapshot.table(entity.table_key))
        physical = [f.name for f in entity.arrow_schema]
        names = {p.column: p.name for p in entity.properties}
        ends = {"src": "from", "dst": "to"} if isinstance(entity, EdgeType) else {}
        public = [ends.get(c) or names.get(c, c) for c in physical]
        for piece in _in_order(table, physical):
            yield piece.rename_columns(public)
            self._phase.advance(piece.num_rows, piece.num_rows)


def _in_order(table: Table, columns: list[str]) -> Iterator[pa.Table]:
    """Rows by id. Only the ids of a large table are held at once."""
    if table.row_count <= PIECE_ROWS:
        yield table.scan(columns).sort_by("id")
        return
    order = pc.sort_indices(table.scan(["id"])["id"]).to_numpy()
    for first in range(0, len(order), PIECE_ROWS):
        yield table.take(order[first : first + PIECE_ROWS].astype(np.int64).tolist(), columns)


# --- JSON lines -------------------------------------------------------------------------------------------------


@contextmanager
def _jsonl_target(target: str | os.PathLike[str] | IO[bytes]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    if not isinstance(target, (str, os.PathLike)):
        yield target, ()
        return
    path = os.fspath(target)
    compression = {".gz": "gzip", ".zst": "zstd"}.get(os.path.splitext(path)[1])
    with replacing(path) as part, pa.output_stream(part, compression=compression) as stream:
        yield stream, (path,)


def _write_lines(entity: EntityType, pieces: Iterable[pa.Table], write: Callable[[bytes], Any]) -> int:
    count = 0
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    for piece in pieces:
        columns = {name: _plain(entity, name, piece[name]) for name in piece.column_names}
        names = ["id", *(p.name for p in entity.properties)]
        data = [dict(zip(names, row, strict=True)) for row in zip(*(columns[n] for n in names), strict=True)]
        if isinstance(entity, EdgeType):
            ends = zip(columns["from"], columns["to"], data, strict=True)
            rows = [{"edge": entity.name, "from": a, "to": b, "data": d} for a, b, d in ends]
        else:
            rows = [{"type": entity.name, "data": d} for d in data]
        if rows:
            write(("\n".join(map(encode, rows)) + "\n").encode())
        count += len(rows)
    return count


def _plain(entity: EntityType, name: str, column: pa.ChunkedArray) -> list[Any]:
    """A column as JSON values: dates as day numbers, moments as milliseconds, blobs as base64 text."""
    prop = next((p for p in entity.properties if p.name == name), None)
    if prop is None or prop.type.is_vector:
        return list(in_own_width(column).to_pylist())
    if prop.type.scalar is Scalar.BLOB:
        return [None if v is None else blob_text(v) for v in column.to_pylist()]
    number = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(prop.type.scalar)
    if number is None:
        return list(in_own_width(column).to_pylist())
    return list(column.cast(pa.list_(number) if prop.type.is_list else number).to_pylist())


def blob_text(value: bytes) -> str:
    """A blob in the text form that `load` reads."""
    return f"base64:{base64.b64encode(value).decode()}"


# --- Parquet and CSV --------------------------------------------------------------------------------------------


def _write_parquet(entity: EntityType, pieces: Iterable[pa.Table], path: str) -> int:
    count = 0
    writer: pq.ParquetWriter | None = None
    try:
        for piece in pieces:
            writer = writer or pq.ParquetWriter(path, piece.schema, compression="zstd")
            writer.write_table(piece)
            count += piece.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def _write_csv(entity: EntityType, pieces: Iterable[pa.Table], path: str) -> int:
    count = 0
    writer: pcsv.CSVWriter | None = None
    options = pcsv.WriteOptions(quoting_style="all_valid")
    try:
        for piece in pieces:
            texts = _texts(entity, piece)
            writer = writer or pcsv.CSVWriter(path, texts.schema, write_options=options)
            writer.write_table(texts)
            count += piece.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def _texts(entity: EntityType, piece: pa.Table) -> pa.Table:
    """All columns as text; null stays null, which distinguishes it from empty text."""
    by_name: dict[str, Property] = {p.name: p for p in entity.properties}
    columns = {}
    for name in piece.column_names:
        prop = by_name.get(name)
        if prop is not None and (not prop.type.is_plain_scalar):
            values = _plain(entity, name, piece[name])
            shown = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
            columns[name] = pa.chunked_array([pa.array(shown, pa.string())])
        else:
            columns[name] = piece[name].cast(pa.string())
    return pa.table(columns)


_FILES: dict[str, Callable[[EntityType, Iterable[pa.Table], str], int]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
}
