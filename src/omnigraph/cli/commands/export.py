"""`export`: the rows of a snapshot as files that `load` and other tools read."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from omnigraph.cli import completion, interrupts, options
from omnigraph.cli.output import clean, count_text, note, print_json
from omnigraph.cli.progress import shown_progress


class Format(StrEnum):
    """The output formats."""

    jsonl = "jsonl"
    parquet = "parquet"
    csv = "csv"


def export(
    uri: options.Uri = None,
    *,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="PATH", help="A file (jsonl) or directory, or its URI; stdout by default."),
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="jsonl: one file. parquet, csv: a file per type.")] = (
        Format.jsonl
    ),
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only this type; may be repeated.", autocompletion=completion.types
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="FILE", help="Also every commit and its changes, as JSON lines."),
    ] = None,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Write the rows of a branch or target, in an order that does not change."""
    if out is None and (json or format is not Format.jsonl):
        options.usage("--json and --format parquet or csv need --out")
    graph = options.open_to_read(uri, store)
    target = options.snapshot_of(graph, branch, at).commit_id
    sys.stdout.flush()
    interrupts.begin_write(_unfinished(out, is_one_file=format is Format.jsonl))
    with shown_progress(show=out is not None) as progress:
        result = graph.export(
            sys.stdout.buffer if out is None else out, format=format.value, snapshot=target, types=types or None,
            progress=progress,
        )  # fmt: skip
    told = graph.commits.export(history, branch or "main") if history is not None else None
    if json:
        print_json(
            {"uri": graph.uri, "graph_commit_id": result.graph_commit_id, "files": list(result.files),
             "types": [{"type_key": key, "rows": count} for key, count in result.rows.items()],
             "history": None if told is None else asdict(told)}
        )  # fmt: skip
    elif out is not None:
        note(f"exported {count_text(sum(result.rows.values()), 'entity')} to {out}")
    if told is not None and not json:
        note(f"exported {count_text(told.commits, 'commit')} to {told.path}; {told.reclaimed} have been reclaimed")


def _unfinished(out: str | None, *, is_one_file: bool) -> str:
    """Return the note on an interrupted export: a file gets its name only when it is complete."""
    if out is None:
        return "the export is not complete"
    if is_one_file:
        return f"{clean(out)} was not written"
    return f"the export to {clean(out)} is not complete; each file that is there is whole"
