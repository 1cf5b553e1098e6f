"""The result of a query: Arrow data, with conversions to other forms."""

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
    import networkx
    import pandas
    import polars


@dataclass(frozen=True, repr=False)
class Result:
    """The rows of one query on one snapshot. `graph_commit_id` is the head of the snapshot that was read."""

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
        """Return the number of rows."""
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self.table

    def to_batches(self, max_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """Return the rows as Arrow batches of at most the given number of rows, without a copy."""
        if max_rows < 1:
            raise InvalidArgument(f"a batch has at least one row, got max_rows={max_rows}")
        yield from self.table.to_batches(max_chunksize=max_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream that other Arrow libraries can import."""
        return pa.RecordBatchReader.from_batches(self.table.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; a whole node is a dict of its id and its non-null properties."""
        return rows_of(self.table)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas frame; needs pandas."""
        with _needed("pandas"):
            return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a polars frame; needs polars."""
        with _needed("polars"):
            import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_networkx(self, source: str | None = None, target: str | None = None) -> networkx.MultiDiGraph:
        """Return the rows as edges of a networkx graph, from the values of one column to those of another.

        Without names these are the first two columns. Whole nodes are named by their id and keep their properties; the
        other columns become attributes of the edges. A null end makes a node and no edge. Needs networkx.
        """
        with _needed("networkx"):
            import networkx
        if len(self.columns) < 2 and (source is None or target is None):
            raise InvalidArgument("edges need two columns", hint="return both ends: { $a, $b }")
        ends = (source or self.columns[0], target or self.columns[1])
        for name in ends:
            if name not in self.columns:
                raise InvalidArgument(f"there is no column {name!r}", hint=f"columns: {', '.join(self.columns)}")
        found = networkx.MultiDiGraph()
        for row in self:
            named = [_named_node(row.pop(name)) if name in row else None for name in dict.fromkeys(ends)]
            first, last = named[0], named[-1]
            for end in (first, last):
                if end is not None:
                    found.add_node(end[0], **end[1])
            if first is not None and last is not None:
                found.add_edge(first[0], last[0], **row)
        return found

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.to_batches():
            yield from rows_of(pa.Table.from_batches([batch]))

    def __repr__(self) -> str:
        at = self.branch or self.snapshot
        return f"<Result of {self.query_name} at {at}: {self.row_count} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        shown = self.to_pylist()[:50]
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(row[name]))}</td>" for name in self.columns) + "</tr>"
            for row in shown
        )
        more = f"<p>{self.row_count - 50} more rows</p>" if self.row_count > 50 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _named_node(value: Any) -> tuple[Any, dict[str, Any]] | None:
    if isinstance(value, dict):
        return value["@id"], {name: each for name, each in value.items() if name != "@id"}
    return None if value is None else (value, {})


@contextmanager
def _needed(library: str) -> Iterator[None]:
    """Report a missing library as `Unsupported`, with its name."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Unsupported(f"{error.name} is not installed", hint=f"pip install {library}") from error


class ResultStream:
    """The rows of one query on one snapshot, in batches that are computed on demand. They can be read once.

    The matched bindings are held until the last batch is read or the stream is closed; property values are not. An
    expression that fails for a row raises when the batch of that row is read.
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
        """Yield the batches that were not read yet."""
        return self._batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream that other Arrow libraries can import."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Release everything that is held; no more batches follow."""
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _handed_on(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    yield from batches


def printed_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts for printing; F32 values have their own digits."""
    return rows_of(in_own_widths(pa.table(rows)))


def rows_of(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts; a whole node is a dict of its id and its non-null properties."""
    objects = {f.name for f in rows.schema if pa.types.is_struct(f.type)}
    found: list[dict[str, Any]] = rows.to_pylist()
    if not objects:
        return found
    return [{k: _compact(v) if k in objects else v for k, v in row.items()} for row in found]


def _compact(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {k.partition("#")[0]: v for k, v in value.items() if v is not None}
