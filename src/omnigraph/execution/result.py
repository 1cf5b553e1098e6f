"""What a query returns: Arrow first, and the forms people want of it."""

from __future__ import annotations

import html
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from omnigraph.datatypes import in_own_widths
from omnigraph.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True)
class Result:
    """Rows of one query on one snapshot. `graph_commit_id` is the head of the very snapshot that was read."""

    table: pa.Table
    query_name: str
    graph_commit_id: str
    branch: str | None = None
    snapshot: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.table.schema

    @property
    def columns(self) -> list[str]:
        """Column names in the order of the query's `return`."""
        return list(self.table.column_names)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def to_batches(self, max_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches of at most so many rows, without a copy."""
        if max_rows < 1:
            raise InvalidArgument(f"a batch has at least one row, got max_rows={max_rows}")
        yield from self.table.to_batches(max_chunksize=max_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream that other Arrow libraries can pull."""
        return pa.RecordBatchReader.from_batches(self.table.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts; a whole node is a dict of its id and its non-null properties."""
        return rows_of(self.table)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame; needs pandas."""
        with _needed("pandas"):
            return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars frame; needs polars."""
        with _needed("polars"):
            import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __len__(self) -> int:
        return self.row_count

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        shown = self.to_pylist()[:50]
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(row[name]))}</td>" for name in self.columns) + "</tr>"
            for row in shown
        )
        more = f"<p>{self.row_count - 50} more rows</p>" if self.row_count > 50 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


@contextmanager
def _needed(library: str) -> Iterator[None]:
    """Name the library that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Unsupported(f"{error.name} is not installed", hint=f"pip install {library}") from error


class ResultStream:
    """Rows of one query on one snapshot, in batches that are made when they are asked for. They can be read once.

    What was matched is held until the last batch was read or the stream is closed; values of properties are not. An
    expression that fails for some row fails when the batch of that row is asked for.
    """

    def __init__(
        self, schema: pa.Schema, row_count: int, batches: Iterator[pa.RecordBatch], query_name: str,
        graph_commit_id: str, branch: str | None = None,
    ) -> None:  # fmt: skip
        self.schema = schema
        self.row_count = row_count
        self.query_name = query_name
        self.graph_commit_id = graph_commit_id
        self.branch = branch
        self.snapshot = graph_commit_id
        self._batches = _handed_on(batches)

    @property
    def columns(self) -> list[str]:
        """Column names in the order of the query's `return`."""
        return list(self.schema.names)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The batches that were not read yet."""
        return self._batches

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as a stream that other Arrow libraries can pull."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Let go of everything; there are no more batches."""
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _handed_on(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    yield from batches


def printed_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts for printing: F32 values have their own digits."""
    return rows_of(in_own_widths(pa.table(rows)))


def rows_of(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts; a whole node is a dict of its id and its non-null properties."""
    objects = {f.name for f in rows.schema if pa.types.is_struct(f.type)}
    found: list[dict[str, Any]] = rows.to_pylist()
    if not objects:
        return found
    return [{k: _compact(v) if k in objects else v for k, v in row.items()} for row in found]


def _compact(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {k.partition("#")[0]: v for k, v in value.items() if v is not None}
