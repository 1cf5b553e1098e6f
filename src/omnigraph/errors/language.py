"""Errors of a text: a schema, a query, a job file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.errors.base import OmnigraphError
from omnigraph.errors.codec import error_part

_WIDEST = 500
"""How many characters of a line an error quotes, and how many of them stand before the place."""
_AROUND = 100


@error_part
@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source text: 1-based line and column, width in characters (at least 1)."""

    line: int
    column: int
    width: int = 1


class LanguageError(OmnigraphError):
    """A schema or query text is wrong. Renders as `file:line:column` with the line and a caret."""

    code = "language_error"

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        source: str | None = None,
        path: str | None = None,
        hint: str | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.span = span
        self.path = path
        self.rule = rule
        self.excerpt = None if span is None or source is None else _excerpt(span, source)
        """Keep the line of the span with a caret under it. The whole text may be long, and is not kept."""

    def __str__(self) -> str:
        where = self.path or "<text>"
        head = (
            f"{where}:{self.span.line}:{self.span.column}: {self.message}" if self.span else f"{where}: {self.message}"
        )
        parts = [head]
        if self.excerpt:
            parts.extend(f"  {line}" for line in self.excerpt.split("\n"))
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)

    def details(self) -> dict[str, Any]:
        """Position, rule and excerpt."""
        found: dict[str, Any] = {}
        if self.path:
            found["path"] = self.path
        if self.span:
            found |= {"line": self.span.line, "column": self.span.column, "width": self.span.width}
        if self.rule:
            found["rule"] = self.rule
        return found


def _excerpt(span: Span, source: str) -> str:
    lines = source.split("\n")
    line = lines[min(span.line, len(lines)) - 1].rstrip("\r")
    begin = max(0, span.column - 1 - _AROUND) if len(line) > _WIDEST else 0
    # One character for each, so that the caret stays under its place.
    line = line[begin : begin + _WIDEST].encode(errors="replace").decode()
    # Tabs are kept in the padding so that the caret lands under the right character in any terminal.
    pad = "".join(c if c == "\t" else " " for c in line[: span.column - 1 - begin])
    return f"{line}\n{pad}{'^' * max(1, min(span.width, _WIDEST - len(pad)))}"


class ParseError(LanguageError):
    """The text does not follow the grammar."""

    code = "parse_error"


class SchemaError(LanguageError):
    """The schema parses but its meaning is invalid."""

    code = "schema_error"


class TypeCheckError(LanguageError):
    """The query parses but does not match the schema."""

    code = "type_error"


class JobError(LanguageError):
    """A job file of the pipeline is invalid."""

    code = "job_error"
