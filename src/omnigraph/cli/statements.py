"""Assemble lines of the interactive shell to statements: a command of the shell, or query text with balanced braces."""

from __future__ import annotations

from collections.abc import Iterator

HEAD = "query it() {\n"
"""Prepended to a statement without a head, on a line of its own so that the columns of errors stay right."""


class StatementReader:
    """Collects lines until they are a statement.

    A statement ends at a blank line, at a semicolon, or where another one can only begin: after the braces of a
    `query` closed. A command of the shell is one line.
    """

    def __init__(self) -> None:
        self._held: list[str] = []

    @property
    def is_unfinished(self) -> bool:
        """Return whether the lines so far are an incomplete statement."""
        return bool(self._held)

    def feed(self, line: str) -> str | None:
        """Add one line; return the statement that it completes, or None."""
        bare = line.strip()
        if not self._held and (bare.startswith("\\") or bare in ("exit", "quit")):
            return bare
        if bare:
            self._held.append(line.rstrip().removesuffix(";"))
        text = "\n".join(self._held)
        ends = not bare or bare.endswith(";") or text.lstrip().startswith("query")
        return self.rest() if self._held and ends and depth_of(text) <= 0 else None

    def rest(self) -> str | None:
        """Return the held lines, at the end of the input."""
        text = "\n".join(self._held)
        self._held = []
        return text or None

    def forget(self) -> None:
        """Drop the held lines."""
        self._held = []


def statements(lines: Iterator[str]) -> Iterator[str]:
    """Yield the statements of a script. A statement cut short by the end of the script is the last."""
    reader = StatementReader()
    for line in lines:
        found = reader.feed(line)
        if found is not None:
            yield found
    last = reader.rest()
    if last is not None:
        yield last


def has_head(statement: str) -> bool:
    """Return whether a statement is a whole `query ... { ... }`."""
    return statement.lstrip().startswith("query")


def as_query(statement: str) -> str:
    """Return a statement as query text, with a head if it lacks one. It ends a line, so it is never a file name."""
    return f"{statement}\n" if has_head(statement) else f"{HEAD}{statement}\n}}"


def depth_of(text: str) -> int:
    """Return the number of open braces, without those in texts and comments."""
    depth, in_text, escaped = 0, False, False
    at = 0
    while at < len(text):
        mark = text[at]
        if in_text:
            in_text = escaped or mark != '"'
            escaped = mark == "\\" and not escaped
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif mark == '"':
            in_text = True
        else:
            depth += (mark == "{") - (mark == "}")
        at += 1
    return depth
