"""Typed access to the nodes of a YAML text. Every error names the line and the column of the file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml

from omnigraph.errors import InvalidArgument, JobError, Span
from omnigraph.pipeline.job_model import Origin, Sql

MAX_DEPTH = 16


class YamlReader:
    """Typed access to YAML nodes, with the place of each."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path

    def error(self, message: str, line: int, column: int, hint: str | None = None) -> JobError:
        """Return an error at a place, counted from 0."""
        hint = hint or "`omnigraph pipeline init` writes a job file to compare it with"
        return JobError(message, source=self._text, path=self._path, span=Span(line + 1, column + 1), hint=hint)

    def at(self, node: Any, message: str, hint: str | None = None) -> JobError:
        """Return an error at a node."""
        return self.error(message, node.start_mark.line, node.start_mark.column, hint)

    def mapping(self, node: Any, what: str, allowed: tuple[str, ...] | None = None) -> dict[str, Any]:
        """Return the values of a mapping by name; refuse unknown and duplicate names."""
        if not isinstance(node, yaml.MappingNode):
            raise self.at(node, f"{what} must be a mapping of names to values")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self.text(key)
            if allowed is not None and name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(allowed)}"
                raise self.at(key, f"{name!r} is unknown in {what}", hint)
            if name in found:
                raise self.at(key, f"{name!r} appears twice in {what}")
            found[name] = value
        return found

    def text(self, node: Any) -> str:
        """Return a text as written, also where YAML would read a number."""
        if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
            hint = "inside { } a text with commas or colons needs quotes" if isinstance(node, yaml.ScalarNode) else None
            raise self.at(node, "a text is expected here", hint)
        if not node.value.isprintable() and "\0" in node.value:
            raise self.at(node, "a text cannot hold NUL")
        return str(node.value)

    def count(self, node: Any) -> int:
        """Return a whole number that is not negative."""
        text = self.text(node)
        if not text.isdecimal() or len(text) > 18:
            raise self.at(node, f"a whole number is expected here, not {text!r}")
        return int(text)

    def optional(self, root: Mapping[str, Any], name: str, read: Callable[[Any], Any]) -> Any:
        """Return a value if it is present."""
        return read(root[name]) if name in root else None

    def choice(self, root: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
        """Return one of some words."""
        if name not in root:
            return default
        value = self.text(root[name])
        if value not in allowed:
            raise self.at(root[name], f"{name} {value!r} is unknown", f"use {' or '.join(allowed)}")
        return value

    def origin(self, node: Any) -> Origin:
        """Return the place of a node."""
        return Origin(self._path, node.start_mark.line + 1, node.start_mark.column + 1, self._text)

    def sql(self, node: Any) -> Sql:
        """Return a query, with the place of its first character where its text is that of the file."""
        text, origin = self.text(node), self.origin(node)
        if node.style == "|":
            lines = self._text.split("\n")[node.start_mark.line + 1 : node.end_mark.line + 1]
            indent = next((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), 0)
            return Sql(text, Origin(self._path, origin.line + 1, indent + 1, self._text), indent)
        if node.style == ">" or node.start_mark.line != node.end_mark.line:
            return Sql(text, origin)
        quotes = 1 if node.style in ("'", '"') else 0
        is_verbatim = node.end_mark.column - node.start_mark.column == len(text) + 2 * quotes
        first = Origin(self._path, origin.line, origin.column + quotes, self._text)
        return Sql(text, first, 0) if is_verbatim else Sql(text, origin)

    def require_shallow(self) -> None:
        """Refuse nesting that no job has. The check runs while events are read, so deeper input costs nothing."""
        depth = 0
        for event in yaml.parse(self._text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                mark = event.start_mark
                raise self.error("this is nested too deeply", mark.line, mark.column, hint="a job has few levels")

    @contextmanager
    def refusing(self, node: Any) -> Iterator[None]:
        """Add the place of a node to refusals of its value."""
        try:
            yield
        except InvalidArgument as error:
            raise self.at(node, error.message, error.hint) from error

    def switch(self, node: Any) -> bool:
        """Return true or false."""
        text = self.text(node).lower()
        if text not in ("true", "false"):
            raise self.at(node, f"true or false is expected here, not {text!r}")
        return text == "true"

    def texts(self, node: Any) -> tuple[str, ...]:
        """Return one text or a list of them."""
        return tuple(self.text(each) for each in (node.value if isinstance(node, yaml.SequenceNode) else [node]))

    def words(self, node: Any) -> tuple[str, ...]:
        """Return texts as written: `NULL` is a word here, which it is nowhere else in YAML."""
        found = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(each.value if isinstance(each, yaml.ScalarNode) else self.text(each) for each in found)

    def names(self, given: Mapping[str, Any], name: str) -> dict[str, str]:
        """Return a mapping of names to texts; empty where it is left out."""
        if name not in given:
            return {}
        return {key: self.text(value) for key, value in self.mapping(given[name], name).items()}
