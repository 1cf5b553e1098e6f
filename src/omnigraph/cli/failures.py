"""Error output and exit codes. Tracebacks are shown only on request.

====  ===========================================================================
0     done
1     any failure: bad data, a conflict, a store that does not answer, a lint error
2     the command line itself is wrong
4     a precondition was lost: the branch head is not the commit of `--if-commit`
130   interrupted
====  ===========================================================================
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import typer

from omnigraph.cli.output import count_text, note, print_json
from omnigraph.errors import ArgumentRefused, InvalidArgument, OmnigraphError, PreconditionFailed, Violation

TRACEBACK_VARIABLE = "OMNIGRAPH_TRACEBACK"
FAILED, MISUSED, INTERRUPTED = 1, 2, 130
MAX_SHOWN = 20
"""The default number of invalid rows listed."""
EXIT_CODES: tuple[tuple[type[OmnigraphError], int], ...] = ((PreconditionFailed, 4), (OmnigraphError, FAILED))

# Typer 0.15 raises the errors of click, later ones their own copies: the ancestors of a name that both export are
# right either way.
MISUSES = cast("tuple[type[Exception], ...]", typer.BadParameter.__mro__[:3])
UsageError = MISUSES[1]


class _Misuse(Protocol):
    exit_code: int
    ctx: Any

    def format_message(self) -> str: ...


OPTIONS = {
    "kinds": "--kind", "types": "--type", "ops": "--op", "expect_head": "--if-commit", "from_branch": "--from",
    "actor": "--as", "type_name": "--type", "at": "--at", "snapshot": "--at",
}  # fmt: skip
"""Arguments of the facade with another name on the command line."""


def report(error: OmnigraphError, *, json: bool, max_shown: int = MAX_SHOWN) -> int:
    """Show an error of the library, with further violations; return the exit code."""
    if isinstance(error, ArgumentRefused):
        option = OPTIONS.get(error.argument, f"--{error.argument.replace('_', '-')}")
        error = InvalidArgument(f"{option} {error.says}", hint=error.hint)
    if json:
        print_json(error.as_dict())
    else:
        note(f"error: {error}")
        _list_others(getattr(error, "violations", ()), max_shown)
    _trace(error)
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))


def _list_others(violations: Sequence[Violation], max_shown: int) -> None:
    """List the violations after the first, which is in the error itself."""
    shown = violations[1:max_shown]
    for each in shown:
        note(f"  {each.text}")
    rest = len(violations) - 1 - len(shown)
    if rest > 0:
        note(f"  ... {count_text(rest, 'more problem')}")


@contextmanager
def listing(max_shown: int, *, json: bool) -> Iterator[None]:
    """Show an error raised in the block with at most the given number of violations, and end the command."""
    try:
        yield
    except OmnigraphError as error:
        raise typer.Exit(report(error, json=json, max_shown=max_shown)) from error


def report_misuse(error: Exception, *, json: bool) -> int:
    """Show an error of the command line."""
    misuse = cast("_Misuse", error)
    message = _in_plain_words(misuse.format_message())
    context = getattr(misuse, "ctx", None)
    if json:
        print_json({"error": message, "code": "usage", "retryable": False})
    else:
        note(f"error: {message}")
        if context is not None:
            note(f"  hint: `{context.command_path} --help` shows what it takes")
    return misuse.exit_code


def _in_plain_words(message: str) -> str:
    """Return a message without the terms of the library that parses the values."""
    for said, plain in _PHRASES:
        message = message.replace(said, plain)
    return message


_PHRASES = (
    ("Value error, ", ""),
    ("Input should be a valid integer, unable to parse string as an integer", "a whole number is expected"),
    ("Input should be a valid number, unable to parse string as a number", "a number is expected"),
    ("Input should be ", "it should be "),
)


def report_unexpected(error: Exception, *, json: bool) -> int:
    """Show an unexpected error in one line."""
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    if json:
        print_json({"error": message, "code": "internal", "retryable": False})
    else:
        note(f"error: {message}")
        note(f"  hint: set {TRACEBACK_VARIABLE}=1 for details")
    _trace(error)
    return FAILED


def _trace(error: Exception) -> None:
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error, file=sys.stderr)
