"""What a query returns: Arrow first, and the forms people want of it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
        yield from self.table.to_batches(max_chunksize=max_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream that other Arrow libraries can pull."""
        return pa.RecordBatchReader.from_batches(self.table.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts; a whole node is a dict of its id and its non-null properties."""
        objects = {f.name for f in self.table.schema if pa.types.is_struct(f.type)}
        rows: list[dict[str, Any]] = self.table.to_pylist()
        if not objects:
            return rows
        return [{k: _compact(v) if k in objects else v for k, v in row.items()} for row in rows]

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame; needs pandas."""
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars frame; needs polars."""
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


def _compact(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {k.partition("#")[0]: v for k, v in value.items() if v is not None}
