"""`repair`: find damage to a graph's files and names, and restore what is provable."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli import options
from omnigraph.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from omnigraph.api.reports import LostName

Confirm = Annotated[bool, typer.Option("--confirm", help="Act on what is provable. Without it, only look.")]
Force = Annotated[
    bool, typer.Option("--force", help="Also claim branches of one version, whose creation was not acknowledged.")
]


def repair(
    uri: options.Uri = None,
    *,
    store: options.Store = None,
    confirm: Confirm = False,
    force: Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Report damage, lost names and foreign commits on tables; with --confirm, restore what is provable.

    Lost claims and records of tags are put back; manifest files that were cut short are moved away.
    """
    where = options.location(uri, store)
    graph = options.open_to_write("repair", where, quiet=quiet) if confirm or force else options.open_to_read(where)
    report = graph.maintenance.repair(confirm, force=force)
    if json:
        print_json({"uri": graph.uri, "confirm": confirm, "force": force, "clean": report.is_clean, **asdict(report)})
        return
    print_table(
        ["type", "classification", "head"],
        [(t.table_key, t.classification, t.head_version or "-") for t in report.tables],
    )
    for path in report.damaged_manifests:
        done = "moved to __quarantine" if path in report.quarantined else "would be moved with --confirm"
        print_line(f"cut short: {path}: {done}")
    for lost in report.lost_names:
        print_line(f"lost: {lost.message}: {_outcome(lost, report.restored)}")
    for problem in report.problems:
        print_line(f"{problem.check}: {problem.where}: {problem.message}")
        if problem.remedy:
            print_line(f"  {problem.remedy}")
    if report.is_clean:
        print_line("clean")


def _outcome(lost: LostName, restored: tuple[str, ...]) -> str:
    if lost.path in restored:
        return "restored"
    if lost.problem is not None:
        return lost.problem
    return "would be restored with --confirm" if lost.is_provable else "would be claimed with --force"
