"""The interactive shell: statements and its own commands, one after another, on an open graph.

The graph is open for reading; the first mutation opens it for writing too.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli import options
from omnigraph.cli.failures import FAILED, report
from omnigraph.cli.formats import FORMATS, TERMINAL_ROWS, Part, print_result
from omnigraph.cli.output import clean, note, print_line, print_table
from omnigraph.cli.pager import page_output
from omnigraph.cli.prompts import is_confirmed
from omnigraph.cli.statements import as_query, has_head
from omnigraph.errors import InvalidArgument, LanguageError, OmnigraphError
from omnigraph.errors.language import Span

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.query import ast

WORDS = (
    "query", "match", "return", "optional", "not", "distinct", "order", "limit", "offset", "having", "shortest",
    "insert", "update", "set", "delete", "where", "count", "sum", "avg", "min", "max", "collect", "nearest", "bm25",
    "search", "match_text", "fuzzy", "rrf",
)  # fmt: skip
HELP = r"""a statement is `query ... { ... }`, or only its inside: match { ... } return { ... }
a blank line or a ; ends it

\branch NAME     read and change a branch             \at TARGET       read a tag, commit, moment ...; alone: main
\params JSON     parameters of the next queries       \format FORMAT   table, kv, csv, jsonl, json
\use PATH        run stored queries by name           \run NAME        run a stored query
\explain         show plans instead of results        \analyze         run, and show what each operator did
\timing          show how long answers take           \confirm         ask before mutations, or do not
\limit N         show N rows of a table; alone: all   \types           types and how many rows they have
\schema          the schema of the graph              \branches        all branches
\tags            all tags                             \queries         the queries of \use
\help            this                                 \quit            leave"""


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """The actor of commits, and whether a session confirms mutations and pages its answers."""

    actor: str | None = None
    confirms: bool = False
    pages: bool = False


class Repl:
    """The state of one session."""

    def __init__(
        self, graph: Graph, *, branch: str | None = None, at: str | None = None, format: str = "table",
        settings: ShellSettings | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.branch = branch
        self.at = at
        self.format = format
        self._settings = settings or ShellSettings()
        self._confirms = self._settings.confirms
        self._limit = TERMINAL_ROWS if sys.stdout.isatty() else None
        self._writable: Graph | None = None
        self._params: dict[str, Any] = {}
        self._mode = "rows"
        self._timing = False
        self._stored: str | None = None
        self._failed = False
        self._commands: dict[str, Callable[[str], None]] = {
            "branch": self._set_branch,
            "at": self._set_at,
            "params": self._set_params,
            "format": self._set_format,
            "limit": self._set_limit,
            "use": self._set_stored,
            "run": lambda name: self._answer(options.named_file(self._need_stored()), name),
            "explain": lambda _: self._set_mode("explain"),
            "analyze": lambda _: self._set_mode("analyze"),
            "timing": lambda _: self._toggle_timing(),
            "confirm": lambda _: self._toggle_confirmation(),
            "schema": lambda _: print_line(self.graph.schema.show().rstrip("\n")),
            "types": lambda _: self._show_types(),
            "branches": lambda _: self._show_names(branch.name for branch in self.graph.branches.list()),
            "tags": lambda _: self._show_tags(),
            "queries": lambda _: self._show_queries(),
            "help": lambda _: print_line(HELP),
        }

    @property
    def place(self) -> str:
        """Return the graph and the state that is read: `people.omni:main`, `people.omni@v1`."""
        name = clean(self.graph.uri.rstrip("/").rpartition("/")[2])
        return f"{name}@{clean(self.at)}" if self.at is not None else f"{name}:{clean(self.branch or 'main')}"

    def run(self, statements: Iterator[str]) -> int:
        """Execute statement after statement; the exit code is whether the last one of a script failed."""
        for statement in statements:
            if statement.strip() in ("\\quit", "\\q", "exit", "quit"):
                break
            self._failed = False
            try:
                self._do(statement)
            except OmnigraphError as error:
                self._failed = True
                report(error, json=False)
            except KeyboardInterrupt:
                note("interrupted")
            except typer.Exit:  # the pager was left
                pass
            sys.stdout.flush()
        return FAILED if self._failed else 0

    def words(self) -> list[str]:
        """Return the words for completion: the language, the shell's commands, and the names of the schema."""
        catalog = self.graph.catalog()
        names = {*catalog.nodes, *catalog.interfaces, *(name[:1].lower() + name[1:] for name in catalog.edges)}
        names.update(p.name for node in catalog.nodes.values() for p in node.properties)
        names.update(p.name for edge in catalog.edges.values() for p in edge.properties)
        return sorted({*WORDS, *names, *(f"\\{name}" for name in (*self._commands, "quit"))})

    def _do(self, statement: str) -> None:
        with page_output() if self._settings.pages else nullcontext():
            if not statement.startswith("\\"):
                self._answer_text(statement)
                return
            name, _, rest = statement[1:].partition(" ")
            command = self._commands.get(name)
            if command is None:
                raise InvalidArgument(f"the shell has no command \\{name}", hint="\\help shows them all")
            command(rest.strip())

    def _answer_text(self, statement: str) -> None:
        """Execute a typed text. Places in errors refer to that text."""
        try:
            self._answer(as_query(statement), None)
        except LanguageError as error:
            if error.span is not None and not has_head(statement):
                error.span = Span(max(1, error.span.line - 1), error.span.column, error.span.width)
            raise

    def _answer(self, text: str | Path, name: str | None) -> None:
        begun = time.perf_counter()
        query = self._parsed(text, name)
        given = {k: v for k, v in self._params.items() if query is None or k in {p.name.text for p in query.params}}
        if query is not None and any(_steps(query)) and self._mode == "rows":
            self._mutate(text, name, given, query)
        else:
            self._read(text, name, given)
        if self._timing:
            print_line(f"{(time.perf_counter() - begun) * 1000:.1f} ms")

    def _read(self, text: str | Path, name: str | None, given: dict[str, Any]) -> None:
        target = None if self.at is None else self.graph.snapshot(self.at).commit_id
        if self._mode == "rows":
            result = self.graph.query(text, name, given, branch=self.branch, snapshot=target)
            print_result(result, self.format, Part(self._limit, "\\limit N shows N, \\limit alone all"))
            return
        analyze = self._mode == "analyze"
        print_line(str(self.graph.explain(text, name, given, self.branch, target, analyze=analyze)))

    def _mutate(self, text: str | Path, name: str | None, given: dict[str, Any], query: ast.Query) -> None:
        """Run a mutation as one commit of the branch, after confirmation on a terminal."""
        from omnigraph.cli.changes_text import print_mutation
        from omnigraph.graph import Graph

        if self.at is not None:
            raise InvalidArgument(
                f"{self.place} is read as it was: nothing there can change", hint="choose a branch: \\branch NAME"
            )
        branch = self.branch or "main"
        if self._confirms and not is_confirmed(f"{', '.join(_steps(query))} on {self.place}?"):
            print_line("nothing was changed")
            return
        if self._writable is None:
            self._writable = Graph.open(self.graph.uri)
        actor = self._settings.actor
        print_mutation(self._writable.mutate(text, name, given, branch=branch, actor=actor), actor)

    def _parsed(self, text: str | Path, name: str | None) -> ast.Query | None:
        """Return the query that a text or file holds under a name; None when the choice is ambiguous or empty."""
        from omnigraph.handles.texts import source_of
        from omnigraph.query import parse_queries

        source, path = source_of(text, name)
        found = [q for q in parse_queries(source, path).queries if name is None or q.name.text == name]
        return found[0] if len(found) == 1 else None

    # --- commands -------------------------------------------------------------------------------------------------

    def _set_branch(self, name: str) -> None:
        self.graph.branches.get(name or "main")
        self.branch, self.at = name or None, None

    def _set_at(self, target: str) -> None:
        if target:
            self.graph.snapshot(target)
        self.at, self.branch = target or None, None

    def _set_params(self, text: str) -> None:
        try:
            value = json.loads(text or "{}")
        except ValueError as error:
            raise InvalidArgument(f"the parameters are not JSON: {error}", hint='write {"name": "Ada"}') from None
        if not isinstance(value, dict):
            raise InvalidArgument("the parameters must be one JSON object", hint='write {"name": "Ada"}')
        self._params = value

    def _set_format(self, name: str) -> None:
        if name not in FORMATS:
            raise InvalidArgument(f"there is no format {name!r}", hint=f"use {', '.join(FORMATS)}")
        self.format = name

    def _set_limit(self, text: str) -> None:
        if text and not (text.isdecimal() and int(text) > 0):
            raise InvalidArgument(f"{text!r} is no number of rows", hint="\\limit N, or \\limit alone for all")
        self._limit = int(text) if text else None

    def _set_stored(self, path: str) -> None:
        from omnigraph.write.user_files import exists

        try:
            words = shlex.split(path)
        except ValueError as error:
            raise InvalidArgument(f"{path!r} has an open quote", hint="close it") from error
        if not words or not exists(words[0]):
            raise InvalidArgument(f"{path!r} does not exist", hint="name a .gq file or a directory of them")
        self._stored = words[0]

    def _need_stored(self) -> str:
        if self._stored is None:
            raise InvalidArgument("no stored queries are in use", hint="\\use PATH names them")
        return self._stored

    def _set_mode(self, mode: str) -> None:
        self._mode = "rows" if self._mode == mode else mode
        print_line(f"showing {'results' if self._mode == 'rows' else 'plans'}")

    def _toggle_timing(self) -> None:
        self._timing = not self._timing
        print_line(f"timing {'on' if self._timing else 'off'}")

    def _toggle_confirmation(self) -> None:
        self._confirms = not self._confirms
        print_line(f"asking before mutations {'on' if self._confirms else 'off'}")

    def _show_tags(self) -> None:
        graph = self.graph
        self._show_names(tag.name for tag in graph.tags.list())

    def _show_names(self, names: Iterable[str]) -> None:
        for name in names:
            print_line(clean(name))

    def _show_queries(self) -> None:
        from omnigraph.handles.texts import stored_queries

        self._show_names(stored_queries(self._need_stored()))

    def _show_types(self) -> None:
        snapshot = options.snapshot_of(self.graph, self.branch, self.at)
        rows = [(*key.split(":", 1), entry.row_count) for key, entry in sorted(snapshot.tables.items())]
        print_table(["kind", "type", "entities"], rows)


def _steps(query: ast.Query) -> Iterator[str]:
    """Return the steps of a mutation, statement by statement: `delete Person`."""
    from omnigraph.query.ast import Mutation

    if isinstance(query.body, Mutation):
        for statement in query.body.statements:
            yield f"{type(statement).__name__.lower()} {statement.type.text}"
