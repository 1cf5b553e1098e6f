"""`repair`: what is wrong with a graph's files, and moving away what is provably damaged."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from omnigraph.cli import options
from omnigraph.cli.output import print_json, print_line, print_table

Confirm = Annotated[bool, typer.Option("--confirm", help="Act on what is provable. Without it, only look.")]


def repair(
    uri: options.Uri = None,
    *,
    store: options.Store = None,
    confirm: Confirm = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Report damaged manifests and foreign commits on tables; with --confirm, move damaged manifest files away."""
    where = options.location(uri, store)
    graph = options.open_to_write("repair", where, quiet=quiet) if confirm else options.open_to_read(where)
    report = graph.maintenance.repair(confirm=confirm)
    if json:
        print_json({"uri": graph.uri, "confirm": confirm, "clean": report.is_clean, **asdict(report)})
        return
    print_table(
        ["type", "classification", "head"], [(t.table_key, t.classification, t.head_version) for t in report.tables]
    )
    for path in report.damaged_manifests:
        done = "moved to __quarantine" if path in report.quarantined else "would be moved with --confirm"
        print_line(f"cut short: {path}: {done}")
    if report.is_clean:
        print_line("clean")
