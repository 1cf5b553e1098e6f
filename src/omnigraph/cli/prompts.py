"""Read lines typed into the interactive shell, with prompts, history and completion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from omnigraph.cli.output import note
from omnigraph.cli.statements import StatementReader


class Session(Protocol):
    """The state of the shell that the prompts show."""

    @property
    def place(self) -> str:
        """The graph and the state that is read."""

    def words(self) -> list[str]:
        """Return the words for completion."""


def typed_statements(session: Session, history: str) -> Iterator[str]:
    """Yield statements as they are typed. Ctrl-C drops an unfinished one, Ctrl-D ends."""
    ask = _line_editor(session, history)
    reader = StatementReader()
    while True:
        try:
            line = ask(prompt_text(session.place, unfinished=reader.is_unfinished))
        except EOFError:
            return
        except KeyboardInterrupt:
            reader.forget()
            continue
        found = reader.feed(line)
        if found is not None:
            yield found


def prompt_text(place: str, *, unfinished: bool) -> str:
    """`people.omni:main> `, and under it `...> ` as long as a statement is unfinished."""
    return "...> ".rjust(len(place) + 2) if unfinished else f"{place}> "


def _line_editor(session: Session, history: str) -> Callable[[str], str]:
    """Return a function that reads a line. With prompt_toolkit lines can be edited, completed and recalled."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory
    except ImportError:
        note("install `omnigraph[shell]` for history and completion")
        return input
    remembered: Any = FileHistory(str(Path(history).expanduser())) if history else InMemoryHistory()
    completer = WordCompleter(session.words, WORD=False)
    editor: Any = PromptSession(history=remembered, completer=completer, complete_while_typing=False)
    return lambda prompt: str(editor.prompt(prompt))


def is_confirmed(question: str) -> bool:
    """Ask on the terminal; only `y` and `yes` confirm."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
