"""`optimize` and `cleanup`: maintenance beside writers, without and with deletion of old versions."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.json_shapes import cleanup_json, tables_json
from omnigraph.cli import interrupts, options
from omnigraph.cli.output import count_text, print_json, print_line, print_table, size_text
from omnigraph.cli.progress import shown_progress
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.api.reports import CleanupReport, PendingIndex, TableOptimizeStats

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")

Keep = Annotated[
    int | None,
    typer.Option("--keep", min=1, metavar="N", help="Keep the newest N versions of each branch. 10 without a policy."),
]
OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="DURATION", help="Keep all that is younger: 12h, 7d, 2w.", show_default=False),
]
Grace = Annotated[
    str | None,
    typer.Option(
        "--grace", metavar="DURATION", help="Instead of 1h for replaced versions and 7d for unpublished files.",
        show_default=False,
    ),
]  # fmt: skip
Force = Annotated[bool, typer.Option("--force", help="Accept a grace below one minute beside a live writer.")]
Auto = Annotated[bool, typer.Option("--auto", help="Only tables that are worth it; cheap when none is.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say which tables would be worked on, and why.")]
Confirm = Annotated[bool, typer.Option("--confirm", help="Delete. Without it, only say what would go.")]


def optimize(
    uri: options.Uri = None,
    *,
    auto: Auto = False,
    dry_run: DryRun = False,
    branch: options.Branch = None,
    engine: options.Workers = options.Engine.arrow,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Merge small fragments, drop deleted rows and extend indexes, in one commit that changes no answer."""
    if dry_run:
        graph = options.open_to_read(options.location(uri, store))
    else:
        graph = options.open_to_write("optimize", uri, store, quiet=quiet)
    with shown_progress(show=not quiet) as progress:
        report = graph.maintenance.optimize(
            branch or "main", actor, auto=auto, dry_run=dry_run, engine=engine.value, progress=progress
        )
    commit = report.commit.graph_commit_id if report.commit is not None else None
    if json:
        print_json(
            {"uri": graph.uri, "branch": report.branch, "commit": commit, "datasets": tables_json(report.tables)}
        )
        return
    if dry_run:
        print_table(["table", "due"], [(t.table_key, ", ".join(t.due) or "-") for t in report.tables])
        print_line("nothing was changed" if any(t.due for t in report.tables) else "nothing to optimize")
        return
    head = ["table", "fragments", "outcome", "pending indexes"]
    rows = [
        (
            t.table_key,
            f"{t.fragments_removed} -> {t.fragments_added}" if t.committed and t.fragments_removed else "-",
            _outcome(t),
            _pending(t.pending_indexes),
        )
        for t in report.tables
    ]
    print_table(head, rows)
    print_line(f"commit {commit}" if commit else "nothing to optimize")


def _pending(indexes: tuple[PendingIndex, ...]) -> str:
    """Indexes that lack rows, by the reason why."""
    reasons = dict.fromkeys(index.reason for index in indexes)
    names = {reason: ", ".join(i.property for i in indexes if i.reason == reason) for reason in reasons}
    return "; ".join(f"{listed}: {reason}" for reason, listed in names.items()) or "-"


def _outcome(table: TableOptimizeStats) -> str:
    if table.skipped is not None:
        return f"skipped: {table.skipped}"
    if not table.committed:
        return "nothing to do"
    return "compacted" if table.fragments_removed else "indexed"


def cleanup(
    uri: options.Uri = None,
    *,
    keep: Keep = None,
    older_than: OlderThan = None,
    grace: Grace = None,
    force: Force = False,
    confirm: Confirm = False,
    yes: options.Yes = False,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Show, or with --confirm delete, old versions and abandoned files that nothing kept needs."""
    where = options.location(uri, store)
    age, patience = duration_of(older_than), duration_of(grace)
    if keep is None and age is None:
        keep = 10
    if confirm:
        options.require_consent(where, "cleanup", yes=yes, json=json)
    graph = options.open_to_write("cleanup", where, quiet=quiet) if confirm else options.open_to_read(where)
    if confirm:
        interrupts.begin_write("what was deleted is gone, and the next cleanup goes on with the rest", quiet=quiet)
    with shown_progress(show=not quiet) as progress:
        report = graph.maintenance.cleanup(keep, age, confirm, patience, force=force, progress=progress)
    if json:
        policy = {"keep_versions": keep, "older_than_secs": _seconds(age), "grace_secs": _seconds(patience)}
        print_json({"uri": graph.uri, **policy, **cleanup_json(report)})
    else:
        _print(report)
    if any(table.error for table in report.tables):
        raise typer.Exit(1)


def duration_of(text: str | None) -> dt.timedelta | None:
    """A DURATION: a number and one of the units s, m, h, d and w."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"{text!r} is not a duration", hint="write a number and a unit: 30s, 10m, 12h, 7d, 2w")
    return dt.timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _seconds(value: dt.timedelta | None) -> int | None:
    return None if value is None else int(value.total_seconds())


def _print(report: CleanupReport) -> None:
    if not report.tables:
        print_line("nothing to remove")
        return
    rows = [
        (t.table_key, t.old_versions_removed, t.objects_removed, t.error or size_text(t.bytes_removed))
        for t in report.tables
    ]
    print_table(["table", "versions", "objects", "size"], rows)
    did = "removed" if report.confirmed else "would remove (nothing was deleted; --confirm deletes)"
    print_line(f"{did}: {count_text(report.objects_removed, 'object')}, {size_text(report.bytes_removed)}")
