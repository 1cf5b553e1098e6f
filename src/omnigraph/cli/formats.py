"""Query results as text: table, kv, csv, jsonl, json, and Arrow for machines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import clean, count_text, print_heading, print_json, print_line
from omnigraph.json_values import json_value

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.api.query_result import Result, ResultStream

TERMINAL_ROWS = 50
"""Rows of a table on a terminal, unless the command line says otherwise."""


@dataclass(frozen=True, slots=True)
class Part:
    """The number of rows to show, None for all, and the hint for seeing more."""

    limit: int | None = None
    remedy: str = "--all shows them"


WHOLE = Part()


def part_shown(limit: int | None, remedy: str, *, all_rows: bool = False) -> Part:
    """Return the part of a table to show: without a limit all of it, except on a terminal."""
    if all_rows:
        return WHOLE
    return Part(TERMINAL_ROWS if limit is None and sys.stdout.isatty() else limit, remedy)


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
    """Return the printed form of a value."""
    shown = json_value(value)
    if shown is None:
        return "null"
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return json.dumps(shown, ensure_ascii=False) if isinstance(shown, (list, dict)) else str(shown)


def print_as_table(result: Result, part: Part = WHOLE) -> None:
    """A heading, then aligned columns. On a terminal they fit its width, and long tables are shown in part."""
    from omnigraph.api.query_result import printed_rows
    from omnigraph.cli.layout import Table, screen

    _print_origin(result)
    terminal = screen()
    rows = [[clean(cell_text(v)) for v in row.values()] for row in printed_rows(_shown(result, part.limit))]
    if not rows:
        print_line("(no rows)")
        return
    table = Table(result.columns, rows, gap=" | ")
    widths = table.widths(terminal.columns if terminal else None)
    print_heading(table.line(result.columns, widths))
    print_line("-+-".join("-" * w for w in widths))
    for row in rows:
        print_line(table.line(row, widths))
    _print_rest(result, part)


def print_as_kv(result: Result, part: Part = WHOLE) -> None:
    """A block per row, with all of every value."""
    from omnigraph.api.query_result import printed_rows

    for number, row in enumerate(printed_rows(_shown(result, part.limit)), start=1):
        print_line(f"row {number}")
        for name, value in row.items():
            print_line(f"  {name}: {clean(cell_text(value))}")
    _print_rest(result, part)


def _print_origin(result: Result) -> None:
    where = f"branch {result.branch}" if result.branch else f"snapshot {result.snapshot}"
    print_line(f"{count_text(result.row_count, 'row')} from {where} via {result.query_name}")


def _shown(result: Result, limit: int | None) -> pa.Table:
    """Return the rows to show: all, or the first `limit`."""
    return result.table if limit is None else result.table.slice(0, limit)


def _print_rest(result: Result, part: Part) -> None:
    if part.limit is not None and result.row_count > part.limit:
        print_line(f"... {count_text(result.row_count - part.limit, 'more row')}: {part.remedy}")


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

CUT: dict[str, Callable[[Result, Part], None]] = {"table": print_as_table, "kv": print_as_kv}
"""Formats for people: they can show the first rows only."""

FORMATS = (*CUT, "json", *STREAMED)
"""The names of all formats."""


def print_result(result: Result, format: str, part: Part = WHOLE) -> None:
    """Print a result in a format. Machine-readable formats have all rows, whatever the limit."""
    if format in CUT:
        CUT[format](result, part)
    elif format == "json":
        print_as_json(result)
    else:
        STREAMED[format](result)
