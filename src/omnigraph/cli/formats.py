"""Query results as text: table, kv, csv, jsonl, json, and Arrow for machines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import clean, counted, print_json, print_line
from omnigraph.json_values import json_value

if TYPE_CHECKING:
    from omnigraph.api.query_result import Result, ResultStream

MAX_CELL = 80


def envelope(result: Result) -> dict[str, Any]:
    """The whole result as one JSON object."""
    from omnigraph.api.query_result import printed_rows

    rows = [{k: json_value(v) for k, v in row.items()} for row in printed_rows(result.table)]
    return {
        **_heading(result),
        "columns": result.columns,
        "rows": rows,
        "graph_commit_id": result.graph_commit_id,
    }


def _heading(result: Result | ResultStream) -> dict[str, Any]:
    return {
        "query_name": result.query_name,
        "target": {"branch": result.branch, "snapshot": None if result.branch else result.snapshot},
        "row_count": result.row_count,
    }


def cell_text(value: Any) -> str:
    """A value as people read it."""
    shown = json_value(value)
    if shown is None:
        return "null"
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return json.dumps(shown, ensure_ascii=False) if isinstance(shown, (list, dict)) else str(shown)


def print_as_table(result: Result) -> None:
    """A heading, then aligned columns; long cells are cut."""
    from omnigraph.api.query_result import printed_rows

    where = f"branch {result.branch}" if result.branch else f"snapshot {result.snapshot}"
    print_line(f"{counted(result.row_count, 'row')} from {where} via {result.query_name}")
    rows = [[_cut(clean(cell_text(v))) for v in row.values()] for row in printed_rows(result.table)]
    if not rows:
        print_line("(no rows)")
        return
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(result.columns)]
    print_line(" | ".join(name.ljust(w) for name, w in zip(result.columns, widths, strict=True)).rstrip())
    print_line("-+-".join("-" * w for w in widths))
    for row in rows:
        print_line(" | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


def print_as_kv(result: Result) -> None:
    """A block per row."""
    from omnigraph.api.query_result import printed_rows

    for number, row in enumerate(printed_rows(result.table), start=1):
        print_line(f"row {number}")
        for name, value in row.items():
            print_line(f"  {name}: {clean(cell_text(value))}")


def print_as_csv(result: Result | ResultStream) -> None:
    """A header and quoted cells; null is `null`, nested values are JSON."""
    from omnigraph.api.query_result import printed_rows

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    for batch in result.to_batches():
        writer.writerows([cell_text(v) for v in row.values()] for row in printed_rows(batch))


def print_as_jsonl(result: Result | ResultStream) -> None:
    """A line of metadata, then a line per row."""
    from omnigraph.api.query_result import printed_rows

    print_line(json.dumps({"kind": "metadata", **_heading(result)}, ensure_ascii=False))
    for batch in result.to_batches():
        for row in printed_rows(batch):
            print_line(json.dumps({k: json_value(v) for k, v in row.items()}, ensure_ascii=False))


def print_as_json(result: Result) -> None:
    """The envelope."""
    print_json(envelope(result))


def write_arrow(result: Result | ResultStream) -> None:
    """An Arrow IPC stream, with its schema also for no rows."""
    import pyarrow as pa

    with pa.ipc.new_stream(sys.stdout.buffer, result.schema) as writer:
        for batch in result.to_batches():
            writer.write_batch(batch)
    sys.stdout.buffer.flush()


STREAMED: dict[str, Callable[[Result | ResultStream], None]] = {
    "csv": print_as_csv,
    "jsonl": print_as_jsonl,
    "arrow": write_arrow,
}
"""Formats that need only a few rows at a time."""

FORMATS: dict[str, Callable[[Result], None]] = {
    "table": print_as_table,
    "kv": print_as_kv,
    "json": print_as_json,
    **STREAMED,
}
