"""A job as data: its sources, its steps, the types that they load, and the terms of the load.

    sources (files, tables, functions) -> steps (SQL, functions) -> node and edge types -> one commit

A job file and the decorators of `Pipeline` make the same `Job`, and run in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import InvalidArgument, JobError, Span
from omnigraph.write.inputs.expectations import Expectation
from omnigraph.write.inputs.locations import is_absolute
from omnigraph.write.user_files import join_path

Function = str | Callable[..., Any]
"""A function that makes a DataFrame: a Python function, or `module:function` of a job file."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a part of a job: line and column are counted from 1, `text` is the whole file if it is known."""

    path: str
    line: int = 1
    column: int = 1
    text: str | None = field(default=None, repr=False)

    def error(self, message: str, hint: str | None = None) -> JobError:
        """Return an error at this place."""
        span = Span(self.line, self.column)
        return JobError(message, source=self.text, path=self.path, span=span, hint=hint or "correct the job here")


@dataclass(frozen=True, slots=True)
class Sql:
    """A query. `first` is the place of its first character and `indent` the prefix of its other lines in the file.

    `indent` None: the text of the query is not that of the file, so that no place inside it is known.
    """

    text: str
    first: Origin
    indent: int | None = None

    def place(self, line: int, column: int) -> Origin:
        """Return the place of a character of the query: its line from 1, its column from 0."""
        first = self.first
        if self.indent is None:
            return first
        before = first.column - 1 if line == 1 else self.indent
        return Origin(first.path, first.line + line - 1, before + column + 1, first.text)

    def place_at(self, offset: int) -> Origin:
        """Return the place of a character by its number in the text."""
        before = self.text[:offset]
        return self.place(before.count("\n") + 1, offset - (before.rfind("\n") + 1))


@dataclass(frozen=True, slots=True)
class JobSource:
    """The rows of one type: files, or the rows of a named source or a step (`input`).

    `options` are those of `Files`, and of `Rows` for an input, by name.
    """

    type_name: str
    paths: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    input: str | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSource:
    """Rows that steps and types read by name: files, a table of Spark, a reader of Spark, or a function of a session.

    `options` are `columns`, `where`, `cast` and `expect`, and for files how they are written.
    """

    name: str
    origin: Origin
    paths: tuple[str, ...] = ()
    format: str | None = None
    table: str | None = None
    reader: str | None = None
    reader_options: Mapping[str, str] = field(default_factory=dict)
    function: Function | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that a step or a type reads, and its place in the text."""

    name: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Rows computed from sources and other steps, by SQL or by a function that is given their DataFrames in order."""

    name: str
    origin: Origin
    inputs: tuple[Reference, ...]
    sql: Sql | None = None
    function: Function | None = None
    expect: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """The target of OpenLineage events of a job: an HTTP endpoint, or a file to which each is appended as a line."""

    url: str | None = None
    file: str | None = None
    namespace: str = "default"

    def __post_init__(self) -> None:
        if (self.url is None) == (self.file is None):
            raise InvalidArgument("lineage needs a url or a file, one of them")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise InvalidArgument(f"{self.url!r} is no URL of HTTP", hint="write http://host:5000/api/v1/lineage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A load, as written. Paths are relative to the job file's directory.

    `incremental`: only files that the job, known by its `name`, has not loaded on its branch.
    """

    graph: str | None
    branch: str = "main"
    from_branch: str | None = None
    mode: str = "append"
    actor: str | None = None
    message: str | None = None
    on_error: str = "fail"
    max_errors: int | None = None
    rejects: str | None = None
    nodes: tuple[JobSource, ...] = ()
    edges: tuple[JobSource, ...] = ()
    directory: str
    dry_run: bool = False
    expect_head: str | None = None
    idempotency_key: str | None = None
    ignore_unknown: bool = False
    dedupe_edges: bool = False
    name: str = "pipeline"
    incremental: bool = False
    sources: tuple[NamedSource, ...] = ()
    steps: tuple[Step, ...] = ()
    lineage: Lineage | None = None

    def located(self, path: str) -> str:
        """Return a path of the job file, or a URI, independent of the working directory."""
        return path if is_absolute(path) else join_path(self.directory, path)
