"""`revert`, `cherry-pick` and `restore`: new commits that take back, repeat or restore others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.json_shapes import pick_json, restore_json
from omnigraph.cli import completion, options
from omnigraph.cli.changes_text import conflict_count, print_conflicts
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import clean, note, print_json, print_line
from omnigraph.errors import MergeConflict

if TYPE_CHECKING:
    from omnigraph.api.results import MergeResult, RestoreResult

CommitId = Annotated[
    str,
    typer.Argument(
        metavar="COMMIT", help="The commit: its id or a TARGET.", show_default=False, autocompletion=completion.targets
    ),
]
Onto = Annotated[
    str,
    typer.Option(
        "--branch", metavar="BRANCH", help="The branch that gets the commit.", autocompletion=completion.branches
    ),
]
Side = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="SIDE", help="For entities that were changed since: ours keeps them, theirs does not."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")]


def revert(
    commit: CommitId,
    *,
    branch: Onto = "main",
    strategy: Side = None,
    dry_run: DryRun = False,
    message: options.Message = None,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Take back what a commit changed, as a new commit. What was changed since stays."""
    graph = options.open_to_write("revert", None, store, quiet=quiet)
    commit_id = graph.snapshot(commit).commit_id
    result = _with_conflicts(
        lambda: graph.revert(
            commit_id, branch, strategy=strategy, dry_run=dry_run, actor=actor, message=message
        ), json=json,
    )  # fmt: skip
    _print_merged(result, "revert", "reverted", dry_run=dry_run, json=json)


def cherry_pick(
    commit: CommitId,
    *,
    branch: Onto = "main",
    strategy: Side = None,
    dry_run: DryRun = False,
    message: options.Message = None,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make the changes of one commit of another branch on a branch, as a new commit."""
    graph = options.open_to_write("cherry-pick", None, store, quiet=quiet)
    commit_id = graph.snapshot(commit).commit_id
    result = _with_conflicts(
        lambda: graph.cherry_pick(
            commit_id, branch, strategy=strategy, dry_run=dry_run, actor=actor, message=message
        ), json=json,
    )  # fmt: skip
    _print_merged(result, "cherry-pick", "cherry-picked", dry_run=dry_run, json=json)


def restore(
    *,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TARGET",
            help="The state to go back to, as for --at of reads.",
            autocompletion=completion.targets,
        ),
    ],
    branch: Onto = "main",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only rows of this type. May be repeated.", autocompletion=completion.types
        ),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Only this entity of the one --type. May be repeated."),
    ] = None,
    dry_run: DryRun = False,
    message: options.Message = None,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make a branch what it was at a target, or some types or entities of it, as a new commit."""
    if ids and len(types or []) != 1:
        options.usage("--id needs exactly one --type")
    graph = options.open_to_write("restore", None, store, quiet=quiet)
    names = types or []
    result = graph.restore(
        at, branch, types=[] if ids else names, ids={names[0]: ids} if ids else None, dry_run=dry_run, actor=actor,
        message=message,
    )  # fmt: skip
    print_restored(result, f"{branch} to {at}", dry_run=dry_run, json=json)


def print_restored(result: RestoreResult, what: str, *, dry_run: bool, json: bool) -> None:
    """Print the number of rows of each type that were written and removed."""
    if json:
        print_json(restore_json(result))
        return
    for key in sorted({*result.written, *result.removed}):
        print_line(f"{clean(key):<24} {result.written.get(key, 0):>8} written {result.removed.get(key, 0):>8} removed")
    if result.outcome == "nothing_to_do":
        print_line(f"nothing to restore: {clean(what)} changes nothing")
    else:
        commit = f": commit {result.commit.graph_commit_id}" if result.commit else ""
        print_line(f"{'would restore' if dry_run else 'restored'} {clean(what)}{commit}")


def _with_conflicts(attempt: Callable[[], MergeResult], *, json: bool) -> MergeResult:
    try:
        return attempt()
    except MergeConflict as error:
        if json:
            raise
        print_conflicts(error.conflicts)
        note(f"error: {error}")
        raise typer.Exit(FAILED) from error


def _print_merged(result: MergeResult, verb: str, done: str, *, dry_run: bool, json: bool) -> None:
    if json:
        print_json(pick_json(result))
        return
    print_conflicts(result.conflicts)
    shown = f"{result.source} on {clean(result.target)}"
    if dry_run and result.open_conflicts:
        print_line(f"would meet {conflict_count(len(result.open_conflicts))}")
    elif result.outcome == "nothing_to_do":
        print_line(f"nothing to {verb}: the changes of {shown} are not there any more, or there already")
    else:
        commit = f": commit {result.commit.graph_commit_id}" if result.commit else ""
        print_line(f"{f'would {verb}' if dry_run else done} {shown}{commit}")
