"""`fsck` and `stats`: check and measure a graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from omnigraph.cli import completion, options
from omnigraph.cli.output import count_text, print_json, print_line, print_table, size_text

Garbage = Annotated[bool, typer.Option("--garbage", help="Say what a cleanup would free: reads every version.")]
Deep = Annotated[bool, typer.Option("--deep", help="Read every file and compare it with its recorded checksum.")]
OfType = Annotated[
    str | None,
    typer.Option("--type", help="Check the tables of this type only.", metavar="TYPE", autocompletion=completion.types),
]


def fsck(
    uri: options.Uri = None,
    *,
    deep: Deep = False,
    type_name: OfType = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Read the whole graph and report whatever does not fit. Changes nothing; exit code 1 when something is wrong."""
    graph = options.open_to_read(uri, store)
    report = graph.maintenance.fsck(deep=deep, type_name=type_name)
    if json:
        print_json({"uri": graph.uri, "clean": report.is_clean, **asdict(report)})
    else:
        if report.problems:
            print_table(["check", "where", "problem"], [(p.check, p.where, p.message) for p in report.problems])
            for remedy in dict.fromkeys(p.remedy for p in report.problems if p.remedy):
                print_line(f"hint: {remedy}")
        numbers = {"branch": report.branches, "version": report.versions, "table version": report.pins,
                   "file": report.files, "row": report.rows}  # fmt: skip
        print_line(f"looked at {', '.join(count_text(number, noun) for noun, number in numbers.items())}")
        if deep:
            print_line(f"compared the checksums of {size_text(report.bytes_read)}")
            if report.unrecorded:
                print_line(f"{count_text(report.unrecorded, 'file')} without a recorded checksum")
        if report.pending_intents:
            print_line(f"{count_text(report.pending_intents, 'unfinished write')}: see `omnigraph recovery list`")
        print_line("clean" if report.is_clean else count_text(len(report.problems), "problem"))
    if not report.is_clean:
        raise typer.Exit(1)


def stats(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    garbage: Garbage = False,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show sizes, fragments, index coverage and history."""
    graph = options.open_to_read(uri, store)
    found = graph.maintenance.stats(branch or "main", garbage=garbage)
    if json:
        print_json({"uri": graph.uri, **asdict(found)})
        return
    head = ["table", "rows", "deleted", "fragments", "indexed", "versions", "size"]
    rows = [
        (t.table_key, t.rows, t.deleted_rows, t.fragments, f"{t.index_coverage:.0%}", t.versions, size_text(t.bytes))
        for t in found.tables
    ]
    print_table(head, rows)
    print_line(f"branches {found.branches}, tags {found.tags}, commits {found.history_depth}")
    print_line(f"manifest versions {found.manifest_versions}, {size_text(found.manifest_bytes)}")
    freed = f" and a cleanup frees {size_text(found.garbage_bytes)}" if found.garbage_bytes is not None else ""
    print_line(f"all {size_text(found.bytes)}, of which this branch's head needs {size_text(found.live_bytes)}{freed}")
