"""The commands of `omnigraph`, and the group that imports the module of a command when the command is run.

Help and completion of the program need the name and one line of each command: they are listed here, so that neither
imports the modules. A test compares the lines with the help of the commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is defined: a function, or a `typer.Typer` of several commands, of a module in `commands`."""

    module: str
    attribute: str
    summary: str


ENTRIES = {
    "init": Entry("data", "init", "Create a graph from a schema."),
    "load": Entry("load", "load", "Write the nodes and edges of files in one commit."),
    "query": Entry("query", "query", "Answer a query from one snapshot of the graph."),
    "mutate": Entry("mutate", "mutate", "Run a mutation in one commit."),
    "export": Entry("export", "export", "Write the rows of a branch or target, in an order that does not change."),
    "blob": Entry("blob", "app", "Read blobs."),
    "lint": Entry("query", "lint", "Report all that is wrong or doubtful about a file of queries."),
    "explain": Entry("query", "explain", "Show what a query means, and the plan that answers it."),
    "analytics": Entry(
        "analytics",
        "analytics",
        "Compute a value of every node at the ends of some edge types, from one snapshot of the graph.",
    ),
    "shell": Entry(
        "shell", "shell", "Ask queries interactively; the shell's own commands begin with a backslash, help among them."
    ),
    "snapshot": Entry("data", "snapshot", "Show what the graph holds at the head of a branch, or at a target."),
    "branch": Entry("branch", "app", "Lines of history that do not disturb each other."),
    "tag": Entry("tag", "app", "Names for states of the graph that should last."),
    "commit": Entry("commit", "app", "What was published, when and by whom."),
    "log": Entry("log", "log", "Show the history, newest first, with branches and tags where they stand."),
    "diff": Entry("diff", "diff", "Show what would turn one target into another, with values before and after."),
    "revert": Entry(
        "undo", "revert", "Take back what a commit changed, as a new commit. What was changed since stays."
    ),
    "cherry-pick": Entry(
        "undo", "cherry_pick", "Make the changes of one commit of another branch on a branch, as a new commit."
    ),
    "restore": Entry(
        "undo", "restore", "Make a branch what it was at a target, or some types or entities of it, as a new commit."
    ),
    "changes": Entry("changes", "app", "What each commit of a branch changed, in order."),
    "schema": Entry("schema", "app", "The types that a graph has."),
    "index": Entry("index", "app", "Indexes: what there is, and building what is lacking."),
    "recovery": Entry("recovery", "app", "Writes whose writer died half-way."),
    "repair": Entry(
        "repair",
        "repair",
        "Report damage, lost names and foreign commits on tables; with --confirm, restore what is provable.",
    ),
    "optimize": Entry(
        "maintenance",
        "optimize",
        "Merge small fragments, drop deleted rows and extend indexes, in one commit that changes no answer.",
    ),
    "cleanup": Entry(
        "maintenance",
        "cleanup",
        "Show, or with --confirm delete, old versions and abandoned files that nothing kept needs.",
    ),
    "fsck": Entry(
        "inspect",
        "fsck",
        "Read the whole graph and report whatever does not fit. Changes nothing; exit code 1 when something is wrong.",
    ),
    "stats": Entry("inspect", "stats", "Show sizes, fragments, index coverage and history."),
    "pipeline": Entry("pipeline", "app", "Load jobs on Spark."),
    "spark-shell": Entry("pipeline", "spark_shell", "A Python shell with `spark`, `graph` and one SQL view per type."),
    "backup": Entry(
        "backup",
        "backup",
        "Copy the graph with all its branches, tags and kept versions, or what is new since the last copy there.",
    ),
    "clone": Entry(
        "backup", "clone", "Make a graph of its own from another one, with its branches, tags and kept versions."
    ),
    "version": Entry("version", "version", "Print the version of the program and of the storage format."),
}
"""In the order in which help shows them."""

PAGED = frozenset(
    """
    query lint explain analytics snapshot branch tag commit log diff changes schema index recovery fsck stats
""".split()  # noqa: SIM905
)
"""Commands whose long output goes through a pager on a terminal."""


class LazyGroup(TyperGroup):
    """The group of all commands. A command that is not run is listed by name and summary, without an import."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in ENTRIES.items():
            self.commands[name] = TyperCommand(name, help=entry.summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that a command line names, with its own options."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import the module of a command and build its parser."""
    entry = ENTRIES[name]
    found = getattr(import_module(f"omnigraph.cli.commands.{entry.module}"), entry.attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    command = get_command(found)
    command.name = name
    return command
